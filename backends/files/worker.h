/* What the parts of box-files share: the call being done, and its way back to boxd. One thread, one
 * call at a time; everything blocks, and looks now and then whether boxd still waits. */
#pragma once

#include "base/clock.h"
#include "files/wire.h"

typedef struct box_files_worker {
    int socket;
    int root;     /* O_PATH of what "/" is */
    box_buf in;   /* frames from boxd that were read and not used yet */
    box_buf out;  /* frames for boxd */
    box_time end; /* until when the call may look for something */
    unsigned steps;
    size_t item_bytes; /* what files and lines sent so far count for, as boxd counts it */
    bool gone;         /* boxd has closed the socket */
    const box_files_ask *ask;
    char path[BOX_FILES_MAX_PATH + 1];   /* ask->path as text */
    char target[BOX_FILES_MAX_PATH + 1]; /* ask->target */
    uint8_t *room;                       /* BOX_FILES_ROOM_BYTES to work in */
    size_t content_left;                 /* PUT: of the DATA frame being read */
    bool content_ended;
} box_files_worker;

enum { BOX_FILES_ROOM_BYTES = 1024 * 1024 };

/* What one call gives back; 0, or -1 with the error it is answered with. */
typedef int box_files_doer(box_files_worker *w, box_files_answer *answer, box_error *err);

box_files_doer box_files_do_stat, box_files_do_read, box_files_do_put, box_files_do_edit,
    box_files_do_glob, box_files_do_grep, box_files_do_list, box_files_do_mkdir,
    box_files_do_remove, box_files_do_move, box_files_do_get;

/* --- serve.c ---------------------------------------------------------------------------------- */

/* Serves until boxd closes the socket (0), or does something that makes no sense (-1). */
int box_files_serve(int socket, int root, box_error *err) BOX_MUST_USE;

/* Between small steps: CANCELLED when boxd is gone, DEADLINE when the time is over. Cheap. */
int box_files_step(box_files_worker *w, box_error *err) BOX_MUST_USE;
/* The same for a call whose time is no error: its answer just ends there. */
bool box_files_is_late(box_files_worker *w);

/* Is there room in the answer for another file or line of such a size? */
bool box_files_has_room(const box_files_worker *w, size_t bytes);
/* Queue something; CANCELLED when boxd is gone. Waits while boxd does not read. */
int box_files_send_info(box_files_worker *w, const box_files_info *info, box_error *err)
    BOX_MUST_USE;
int box_files_send_line(box_files_worker *w, const box_files_line *line, box_error *err)
    BOX_MUST_USE;
/* In frames of at most BOX_FILES_CHUNK_BYTES. */
int box_files_send_data(box_files_worker *w, const void *data, size_t len, box_error *err)
    BOX_MUST_USE;

/* PUT: the next bytes of the content, in w->room. 0 at END; -1 CANCELLED. */
ssize_t box_files_content(box_files_worker *w, box_error *err) BOX_MUST_USE;
