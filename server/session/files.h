/* File calls in sessions, done by workers inside the sandbox (files/protocol.h). A box_file_call
 * lives on the loop of the call that made it; everything here is called on that loop. */
#pragma once

#include "files/wire.h"
#include "session/session.h"

typedef struct box_file_call box_file_call;

/* The most that one call's `data` gives, GET apart, and that its `info` and `line` give: a READ
 * goes on by a character, even where max_bytes has no room for one. */
enum {
    BOX_FILE_CHARACTER_BYTES = 4,
    BOX_FILE_DATA_BYTES = BOX_FILES_MAX_READ_BYTES + BOX_FILE_CHARACTER_BYTES,
    BOX_FILE_ITEM_BYTES = BOX_FILES_ANSWER_BYTES + BOX_FILES_WORKER_BYTES,
};

/* All borrowed for the callback; what a worker says is within limits, not true. */
typedef struct box_file_events {
    void (*info)(void *arg, const box_files_info *info);
    void (*line)(void *arg, const box_files_line *line);      /* GREP; else NULL */
    void (*data)(void *arg, const uint8_t *data, size_t len); /* READ, EDIT, GET; else NULL */
    /* GET: false stops the worker until box_file_resume. NULL: always. */
    bool (*writable)(void *arg);
    /* PUT: box_file_feed may go on. NULL: nothing is fed. */
    void (*room)(void *arg);
    /* Exactly once and last, never from inside box_file_start: the answer (its error's reason is
     * NONE) or why there is none. Not after box_file_cancel. */
    void (*done)(void *arg, const box_files_answer *answer, const box_error *err);
} box_file_events;

/* Borrowed for box_file_start. */
typedef struct box_file_request {
    const char *tenant;
    const char *session_id;
    /* Paths may be relative to the session's mount_path; an empty one is mount_path itself where
     * `empty_path` says so. head.time_ns 0: BOX_FILES_LOOK_SECONDS but for PUT and GET. */
    const box_files_ask *ask;
    bool empty_path;
    box_bytes content; /* PUT: all of it, unless content_open */
    bool content_open; /* PUT: it comes by box_file_feed, until box_file_end */
} box_file_request;

/* -1: nothing was made and no event follows. Errors of both: VALIDATION, SESSION_NOT_FOUND,
 * SESSION_NOT_RUNNING, SESSION_BROKEN, RATE_LIMIT {limit, max, used}, RUNTIME_UNAVAILABLE (the
 * worker was killed from inside), QUOTA {limit} (it had no memory), DEADLINE, what the worker said.
 */
int box_file_start(box_sessions *all, const box_file_request *r, const box_file_events *events,
                   void *arg, box_file_call **out, box_error *err) BOX_MUST_USE;

/* Length of the call's absolute path, without slashes at its end. */
size_t box_file_path_len(const box_file_call *c);

/* More content (copied). *room false: enough is waiting, feed no more until `room`. Harmless when
 * the call has been answered. -1 (MEMORY_BUDGET): cancel it. */
int box_file_feed(box_file_call *c, const void *data, size_t len, bool *room, box_error *err)
    BOX_MUST_USE;
/* The content is whole: the file takes its place. */
int box_file_end(box_file_call *c, box_error *err) BOX_MUST_USE;
/* The caller became writable again. */
void box_file_resume(box_file_call *c);

/* The caller went away: what is half done is taken back, no event follows. The handle is gone. */
void box_file_cancel(box_file_call *c);
/* After done. */
void box_file_free(box_file_call *c);
