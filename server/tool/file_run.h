/* A file call under way for a tool, and what it gathers. */
#pragma once

#include "base/clock.h"
#include "session/files.h"
#include "tool/tool.h"

typedef struct box_file_run box_file_run;

/* Makes result->json (an object, taken) and, in run->output, the text for a model; status is
 * SUCCESS before. */
typedef void box_file_finish(box_file_run *run, const box_files_answer *a, box_tool_result *result);

struct box_file_run {
    box_tool_run base; /* first */
    box_file_call *file;
    box_tool_done done;
    void *arg;
    box_time began;
    json_t *arguments; /* a reference */
    box_file_finish *finish;
    /* How a call that failed looks; NULL: {"ok":false,"error":TEXT}. */
    json_t *(*refuse)(const box_file_run *run, const char *error);
    /* Where a file that is not there is an answer too, as finish's; NULL: it is an error. */
    void (*absent)(box_file_run *run, box_tool_result *result);
    const char *operation;     /* file_operation's */
    const char *path_argument; /* what a violation of `path` is one of; NULL: "path" */
    json_t *infos;             /* array of {path, kind, size, modified}: what INFO said */
    json_t *lines;             /* array of {file, line, content}: what LINE said of matches */
    box_buf data;
    box_buf output;
};

/* Starts ask in the request's session. Violations of `path` and so on become those of arguments. */
int box_file_run_start(const box_tool_request *r, const box_files_ask *ask, box_file_run run,
                       box_bytes content, box_tool_done done, void *arg, box_tool_run **out,
                       box_error *err) BOX_MUST_USE;

/* "lines", "bytes", ...; NULL: nothing is missing. */
const char *box_file_cut_name(const box_files_answer *a);
/* {"ok":true,"truncated","truncated_by"} of an answer. */
json_t *box_file_success(const box_files_answer *a);
/* A text argument; empty when it is absent. */
box_bytes box_file_argument(const json_t *arguments, const char *name);
/* Adds a value that is taken. */
void box_tool_set(json_t *object, const char *key, json_t *value);
/* Adds text to run->output. */
void box_file_say(box_file_run *run, const char *format, ...) BOX_PRINTF(2, 3);
/* Adds a JSON string to it. */
void box_file_say_text(box_file_run *run, const json_t *text);
