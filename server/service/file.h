/* FileService: files of sandboxes as calls. */
#pragma once

#include "session/session.h"
#include "wire/service.h"

box_service box_file_service(box_sessions *sessions);
