/* Sessions: the table, their life, and commands in them. Knows nothing of protobuf, gRPC or HTTP/2:
 * service/ converts. All box_session_* calls are made on a loop thread and answer by a callback on
 * the same loop; a callback's arg may have gone stale only if the caller let it: cancel first. */
#pragma once

#include "base/buf.h"
#include "base/clock.h"
#include "base/id.h"
#include "base/map.h"
#include "loop/loop.h"
#include "policy/identity.h"

typedef struct box_sessions box_sessions;
