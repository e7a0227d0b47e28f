/* One box_mcp_server_start: what its steps share. */
#pragma once

#include <limits.h>

#include "box/mcp_server.h"
#include "box/stage.h"

typedef struct box_mcp {
    const box_mcp_server *server;
    box_channel *channel;
    box_client_options options; /* with the deadline of all */
    box_stage *stage;           /* NULL: no project; owned */
    bool staged;                /* by this call */
    char workspace[PATH_MAX];   /* in the session */
    char target[PATH_MAX];      /* the project inside; "": none */
    char *venv, *path;          /* the environment and PATH with it; NULL: none; owned */
    box_mcp_started out;
} box_mcp;

void box_mcp_note(const box_mcp *m, const char *fmt, ...) BOX_PRINTF(2, 3);
/* For BOX_AUTO and answers. */
void box_mcp_free_message(void *message);
/* What is left of the deadline as a message's field; points into *out. */
Google__Protobuf__Duration *box_mcp_left(const box_mcp *m, Google__Protobuf__Duration *out);

/* The steps, in order. */
int box_mcp_session(box_mcp *m, box_error *err) BOX_MUST_USE;     /* workspace */
int box_mcp_environment(box_mcp *m, box_error *err) BOX_MUST_USE; /* venv, path */
int box_mcp_process(box_mcp *m, box_error *err) BOX_MUST_USE;     /* out.started */
