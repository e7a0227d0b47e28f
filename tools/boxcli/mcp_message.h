/* The Model Context Protocol on stdio as bytes in, bytes out: JSON-RPC 2.0, one message a line
 * (modelcontextprotocol.io, specification 2025-11-25, Transports and Tools). No sockets, no gRPC.
 */
#pragma once

#include <jansson.h>

#include "base/buf.h"
#include "base/error.h"

/* Codes of JSON-RPC 2.0, section 5.1. */
enum {
    MCP_PARSE_ERROR = -32700,
    MCP_INVALID_REQUEST = -32600,
    MCP_METHOD_NOT_FOUND = -32601,
    MCP_INVALID_PARAMS = -32602,
    MCP_INTERNAL_ERROR = -32603,
};

/* --- lines ------------------------------------------------------------------------------------ */

/* Cuts what comes into lines. Zero is the start. */
typedef struct mcp_lines {
    box_buf text;  /* of a line that is not whole */
    bool too_long; /* its rest is being dropped */
} mcp_lines;

/* line is NUL-ended and borrowed, without its end; NULL: one of more than BOX_MCP_LINE_BYTES came
 * and was dropped. */
typedef void mcp_on_line(void *arg, char *line, size_t len);

void mcp_lines_add(mcp_lines *l, const void *data, size_t len, mcp_on_line *on_line, void *arg);
void mcp_lines_done(mcp_lines *l);

/* --- messages that come ----------------------------------------------------------------------- */

typedef enum mcp_kind {
    MCP_REQUEST,
    MCP_NOTIFICATION,
    MCP_RESPONSE, /* to a request of ours: there are none */
    MCP_WRONG,    /* to be answered with code and why */
} mcp_kind;

/* Borrows from whole. */
typedef struct mcp_message {
    mcp_kind kind;
    json_t *whole;        /* owned; NULL for what is no JSON */
    const json_t *id;     /* a text or an integer; NULL where there is none */
    const char *method;   /* NULL: none */
    const json_t *params; /* an object; NULL where there is none */
    int code;
    const char *why;
} mcp_message;

void mcp_message_parse(const char *line, size_t len, mcp_message *out);
void mcp_message_done(mcp_message *m);

/* --- answers ---------------------------------------------------------------------------------- */

/* Each is a line with its newline, on the heap. id NULL: null. result is taken. */
char *mcp_answer(const json_t *id, json_t *result);
char *mcp_error(const json_t *id, int code, const char *text);

/* The version to answer a client that asked for `asked`: that, where we speak it, else our latest.
 */
const char *mcp_version(const char *asked);
/* May a result of that version carry structuredContent? */
bool mcp_version_is_structured(const char *version);
/* instructions "": none. */
json_t *mcp_initialize_result(const char *version, const char *server_version,
                              const char *instructions);
/* One entry of tools/list; parameters is the schema as text. NULL when that is no JSON. */
json_t *mcp_tool(const char *name, const char *description, const char *parameters, bool read_only);
/* What a tool said: its output, then what went wrong. structured: a JSON object as text, or NULL.
 */
json_t *mcp_tool_result(const char *output, const char *error, bool is_error,
                        const char *structured);
/* A call that did not run: the reason and all violations, for a model to do better. */
json_t *mcp_tool_refusal(const box_error *err);
