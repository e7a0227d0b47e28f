/* SessionService: ResolveSessionId. */
#pragma once

#include "box/v1/session.box.h"

int box_resolve_session_id(box_call *call, const Box__V1__ResolveSessionIdRequest *r,
                           box_error *err);
