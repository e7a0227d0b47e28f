/* ExecService: commands as calls. */
#pragma once

#include "session/session.h"
#include "wire/service.h"

box_service box_exec_service(box_sessions *sessions);
