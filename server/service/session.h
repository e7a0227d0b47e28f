/* SessionService: check, convert, ask the session manager, convert back. */
#pragma once

#include "session/session.h"
#include "wire/service.h"

/* AddMount and RemoveMount answer UNIMPLEMENTED. */
box_service box_session_service(box_sessions *sessions);
