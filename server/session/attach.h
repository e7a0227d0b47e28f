/* Being attached to a managed process: reading its journals from any offset, perhaps writing to its
 * stdin. A box_attach lives on the loop of its call, and reads there: a reader that is slow, or
 * gone, keeps nobody else from anything. Nothing is kept for it but offsets. */
#pragma once

#include "session/process.h"

typedef struct box_attach box_attach;

typedef struct box_attach_request {
    const char *tenant;
    const char *session_id;
    const char *process_id;
    bool has_offset[2]; /* false: what comes from now on */
    uint64_t offset[2];
    bool skip_stderr;
    bool write;
    bool take_over;
    bool no_follow;
    bool stop_on_detach;
    uint64_t wait_ns; /* for a process that is not there yet */
} box_attach_request;

typedef struct box_attach_events {
    /* First. info with stderr preview; offset: where what follows begins. */
    void (*attached)(void *arg, const box_process_info *info, const uint64_t offset[2]);
    void (*output)(void *arg, int stream, uint64_t offset, const uint8_t *data, size_t len);
    /* bytes from offset on are not there any more */
    void (*dropped)(void *arg, int stream, uint64_t offset, uint64_t bytes);
    void (*restarted)(void *arg, const box_verdict *before, uint32_t restarts);
    void (*writer_lost)(void *arg);
    bool (*writable)(void *arg);
    void (*stdin_room)(void *arg);
    /* Last, once: it ended for good (verdict), or all there was is told (no_follow: both are NULL,
     * also where it had ended), or an error. */
    void (*done)(void *arg, const box_verdict *verdict, const box_error *err);
} box_attach_events;

/* Never calls back from inside. Errors come by done: SESSION_NOT_FOUND, PROCESS_NOT_FOUND,
 * STDIN_TAKEN, VALIDATION (an offset beyond the end), QUOTA. */
box_attach *box_attach_new(box_sessions *all, const box_attach_request *r,
                           const box_attach_events *events, void *arg);
/* The caller may take more. */
void box_attach_resume(box_attach *a);
/* As box_exec_feed. Bytes of one who may not write are VALIDATION; of one who lost stdin to
 * another, dropped. */
int box_attach_feed(box_attach *a, const void *data, size_t len, bool *room, box_error *err)
    BOX_MUST_USE;
/* The process's stdin ends after what was fed. */
int box_attach_close_stdin(box_attach *a, box_error *err) BOX_MUST_USE;
int box_attach_signal(box_attach *a, int signo, bool tree, box_error *err) BOX_MUST_USE;
int box_attach_resize(box_attach *a, uint16_t rows, uint16_t columns, box_error *err) BOX_MUST_USE;
/* Detaches; also after done. What was fed is still written as far as the process takes it at once.
 */
void box_attach_free(box_attach *a);
