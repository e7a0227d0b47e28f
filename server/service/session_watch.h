/* WatchSessions. */
#pragma once

#include "box/v1/session.box.h"

int box_watch_sessions(box_call *call, const Box__V1__WatchSessionsRequest *r, box_error *err);
