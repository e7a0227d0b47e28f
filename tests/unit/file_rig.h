/* File calls in a session "s", and the worker's side of them, which the test plays. */
#pragma once

#include "session/files.h"
#include "session_rig.h"

typedef struct file_call {
    box_file_call *file; /* NULL: cancelled or freed */
    unsigned infos, lines, rooms, done;
    size_t data;
    bool closed;     /* the caller takes nothing now */
    box_error error; /* NONE: it was answered */
    box_files_answer answer;
} file_call;

/* Frames that are to be sent. */
typedef struct file_speech {
    box_buf out;
} file_speech;

/* CMocka's fixture: a rig with the session "s". */
int file_rig_set_up(void **state);
fake_sandbox *file_rig_sandbox(rig *r);

/* A call of 3 items or 10 bytes at most. */
box_files_ask file_rig_ask(uint32_t op);
int file_rig_try(rig *r, file_call *c, const box_files_ask *ask, box_error *err);
/* The same and settled. */
void file_rig_start(rig *r, file_call *c, uint32_t op);
void file_rig_cancel(rig *r, file_call *c);
void file_rig_answered(const file_call *c);
void file_rig_failed(const file_call *c, box_reason reason);

/* The worker that was started last. */
fake_worker *file_rig_newest(rig *r);
void file_rig_frame(file_speech *s, box_files_type type, const void *body, size_t len);
void file_rig_hello(file_speech *s);
void file_rig_info(file_speech *s);
void file_rig_line(file_speech *s);
void file_rig_data(file_speech *s, size_t len);
void file_rig_ends(file_speech *s, box_reason reason);
/* Sends it, as far as there is still a boxd that reads, in pieces (0: whole). */
void file_rig_say(rig *r, fake_worker *w, file_speech *s, size_t piece);
/* The same from letters: h HELLO, i INFO, l LINE, d 10 bytes, o one byte, e no bytes, a ANSWER, n
 * an answer that it is not there, x no frame. */
void file_rig_tell(rig *r, fake_worker *w, const char *says);
/* Reads what boxd said; how much. */
size_t file_rig_listen(const fake_worker *w);
void file_rig_answer_stat(rig *r, fake_worker *w, bool greet);
/* All workers have a call, and one more waits. */
void file_rig_start_all(rig *r, file_call calls[BOX_FILES_MAX_WORKERS + 1]);
