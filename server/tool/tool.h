/* Tools: functions with a JSON Schema that a model can call. One registry holds all of them; it
 * does not change once the server runs, so every thread may look at it.
 *
 * A tool is a name, a schema and a handler. What it needs of the caller is said here and checked by
 * service/; what it does is done by the session manager, as if the caller had made that call. */
#pragma once

#include <jansson.h>

#include "base/buf.h"
#include "session/exec.h"

/* --- a call ----------------------------------------------------------------------------------- */

typedef enum box_tool_status {
    BOX_TOOL_SUCCESS = 1,
    BOX_TOOL_ERROR,
    BOX_TOOL_TIMEOUT,
    BOX_TOOL_CANCELLED,
} box_tool_status;

/* Borrowed for `done`. */
typedef struct box_tool_result {
    box_tool_status status;
    json_t *json;       /* an object: what the tool's own callers expect */
    const char *output; /* for a model: UTF-8, at most BOX_EXCERPT_CHARS characters */
    bool output_truncated;
    const char *error; /* for a model: one line, "" unless it failed */
    const box_session_info *session;
    const box_verdict *verdict; /* of tools that run a command; else NULL */
} box_tool_result;

/* Exactly once and last, on the loop of the call, never from inside box_tool_start: result is NULL
 * exactly when err is not. An error means that the tool did not run. Not after box_tool_cancel. */
typedef void (*box_tool_done)(void *arg, const box_tool_result *result, const box_error *err);

/* Borrowed for box_tool_start. */
typedef struct box_tool_request {
    box_sessions *sessions;
    const char *tenant;
    const char *session_id; /* "" = a sandbox of its own that goes with the call */
    const box_spec *spec;   /* NULL = nothing asked */
    const json_t *arguments;
    uint64_t timeout_ns;         /* over what the arguments say; 0 = not given */
    uint64_t default_timeout_ns; /* where they say nothing; 0 = the session's */
    const char *idempotency_key; /* "" = none */
    const uint8_t *digest;       /* 32 bytes of the request, with idempotency_key */
} box_tool_request;

/* A call under way, first member of the handler's own struct. */
typedef struct box_tool_run {
    /* The caller went away: what runs ends, no `done` follows, the run is freed. */
    void (*cancel)(struct box_tool_run *run);
} box_tool_run;

/* --- a tool ----------------------------------------------------------------------------------- */

typedef enum box_tool_need {
    BOX_TOOL_RUNS,  /* commands */
    BOX_TOOL_READS, /* files */
    BOX_TOOL_WRITES,
} box_tool_need;

typedef struct box_tool {
    const char *name;        /* 1 to 64 of a-z, 0-9 and _ */
    const char *description; /* for a model */
    const char *parameters;  /* JSON Schema of an object, of the subset of schema.h */
    box_tool_need need;
    bool makes_session; /* a missing one; else the session must exist */
    /* arguments fit the schema. -1: nothing was begun and nothing follows; VALIDATION names fields
     * "arguments.NAME". */
    int (*start)(const box_tool_request *r, box_tool_done done, void *arg, box_tool_run **out,
                 box_error *err);
} box_tool;

/* --- the registry ----------------------------------------------------------------------------- */

typedef struct box_tools box_tools;

box_tools *box_tools_new(void);
void box_tools_free(box_tools *tools);
/* tool is borrowed for good. INTERNAL: a tool of that name is there already, its name, schema or
 * description is none, or there are BOX_MAX_TOOLS. */
int box_tools_add(box_tools *tools, const box_tool *tool, box_error *err) BOX_MUST_USE;
/* All that boxd has. */
int box_tools_add_own(box_tools *tools, box_error *err) BOX_MUST_USE;
/* Is it one of those? */
bool box_tool_is_own(const char *name);

size_t box_tools_count(const box_tools *tools);
/* By name; i below the count. */
const box_tool *box_tools_at(const box_tools *tools, size_t i);
/* NULL when there is none. */
const box_tool *box_tools_find(const box_tools *tools, const char *name);

/* The definition as OpenAI's function calling wants it, as text on the heap; description NULL: the
 * tool's own. */
char *box_tools_definition(const box_tools *tools, const box_tool *tool, const char *description);

/* Checks r->arguments against the tool's schema (all violations) and starts it. */
int box_tools_start(const box_tools *tools, const box_tool *tool, const box_tool_request *r,
                    box_tool_done done, void *arg, box_tool_run **out, box_error *err) BOX_MUST_USE;
void box_tool_cancel(box_tool_run *run); /* NULL is fine */
