/* SessionService: check, convert, ask the session manager, convert back. */
#pragma once

#include "session/session.h"
#include "wire/service.h"

/* AddMount, RemoveMount, ResolveSessionId and PortForward answer UNIMPLEMENTED. */
box_service box_session_service(box_sessions *sessions);
