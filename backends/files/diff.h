/* Unified diff of two texts, by lines, with three lines of context. */
#pragma once

#include "base/buf.h"

/* Appends at most max_bytes; whole lines, and *cut when there was more. Where the texts differ too
 * much to be compared line by line in a bounded time, what differs is one piece. name: of the file,
 * for the two head lines, control characters as '?'. */
int box_diff(box_bytes from, box_bytes to, const char *name, size_t max_bytes, box_buf *out,
             bool *cut, box_error *err) BOX_MUST_USE;
