/* ProcessService: managed processes. */
#pragma once

#include "session/session.h"
#include "wire/service.h"

box_service box_process_service(box_sessions *sessions);
