/* boxcli mcp inside: the state of one client (mcp.c), and its requests (mcp_request.c). */
#pragma once

#include "base/clock.h"
#include "base/list.h"
#include "box/v1/session.client.h"
#include "cli.h"
#include "mcp_message.h"

typedef struct mcp {
    cli *c;
    char *session; /* its id */
    bool own;      /* made here: it goes at the end */
    bool used;     /* a tool was called in it */
    Box__V1__SessionSpec *spec;
    mcp_lines lines;
    const char *version; /* NULL before initialize */
    box_list requests;   /* under way */
    size_t n;
    bool eof;
    box_time end_at;    /* eof: when what is under way is given up */
    box_time extend_at; /* own: when the session's idle end is put off again */
    box_client_call *extending;
    int output_errno;
} mcp;

/* A request under way. A tool's may take three calls: the tool, the session it needs, the tool. */
typedef struct mcp_request {
    box_list link;
    mcp *m;
    mcp_message message; /* owned */
    box_client_call *call;
    json_t *result; /* owned; came with the call's message */
    bool retried;
} mcp_request;

/* Writes a line, which is taken. A client that does not read is waited for: it is the one that is
 * served. */
void mcp_put(mcp *m, char *line);
/* Under way, or NULL. */
mcp_request *mcp_request_find(const mcp *m, const json_t *id);
/* A request came; the message is taken. Its answer is put sooner or later. */
void mcp_request_add(mcp *m, mcp_message *message);
/* It is not answered any more. */
void mcp_request_free(mcp_request *r);
