/* Frames and messages of box-files (files/protocol.h): building and checking them, for both ends.
 * Bytes in, structs out; no state, no sockets. */
#pragma once

#include "files/protocol.h"

/* Which end sent it: each may send only some types. */
typedef enum box_files_sender { BOX_FILES_FROM_BOXD, BOX_FILES_FROM_WORKER } box_files_sender;

/* Most bytes behind a frame: an edit or the content of a whole message of the API, and some. */
enum { BOX_FILES_ASK_BYTES = BOX_MAX_MESSAGE_BYTES + 1024 * 1024 };

/* Largest frame of a worker, with its head. */
enum { BOX_FILES_WORKER_BYTES = BOX_FILES_CHUNK_BYTES + 16 * 1024 };

/* Looks at the first `len` bytes of what came: 1 when they begin with a frame's head that makes
 * sense (*out; its body need not be there yet), 0 when more is needed, -1 PROTOCOL. */
int box_files_frame_look(const uint8_t *data, size_t len, box_files_sender from,
                         box_files_frame *out, box_error *err) BOX_MUST_USE;

/* Each reads the whole body of its frame; PROTOCOL when anything does not fit. What is borrowed is
 * borrowed from data. */
int box_files_hello_parse(box_bytes body, box_error *err) BOX_MUST_USE; /* or VERSION_MISMATCH */
int box_files_ask_parse(box_bytes body, box_files_ask *out, box_error *err) BOX_MUST_USE;
int box_files_info_parse(box_bytes body, box_files_info *out, box_error *err) BOX_MUST_USE;
/* text is valid UTF-8. */
int box_files_line_parse(box_bytes body, box_files_line *out, box_error *err) BOX_MUST_USE;
/* Its error is sanitized. */
int box_files_answer_parse(box_bytes body, box_files_answer *out, box_error *err) BOX_MUST_USE;

/* Append a whole frame. MEMORY_BUDGET when *out has no room; then nothing is added. */
int box_files_put_frame(box_buf *out, box_files_type type, const void *body, size_t size,
                        box_error *err) BOX_MUST_USE;
int box_files_put_ask(box_buf *out, const box_files_ask *ask, box_error *err) BOX_MUST_USE;
int box_files_put_info(box_buf *out, const box_files_info *info, box_error *err) BOX_MUST_USE;
int box_files_put_line(box_buf *out, const box_files_line *line, box_error *err) BOX_MUST_USE;
int box_files_put_answer(box_buf *out, const box_files_answer *answer, box_error *err) BOX_MUST_USE;
