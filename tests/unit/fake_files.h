/* A FileService of a few methods over a folder, in this process: what callers of the client library
 * leave behind in a session can be looked at. Absolute paths of requests are below the folder. */
#pragma once

#include "box/channel.h"
#include "box/v1/file.box.h"

typedef struct fake_files {
    char root[96];        /* the session's "/" */
    int uploads;          /* begun */
    int fail_upload_at;   /* the n-th fails with QUOTA; 0: none */
    bool taken_meanwhile; /* MoveFile finds its target made by somebody else */
} fake_files;

extern const box_v1_file_service_handlers fake_files_handlers;

/* Removes a folder with all that is in it. */
void fake_files_remove_tree(const char *path);
