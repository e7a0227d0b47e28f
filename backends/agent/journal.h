/* A journal: what one stream of a managed process wrote, in a ring of fixed size in a memfd. The
 * agent writes it through a mapping and hands boxd the descriptor, which boxd only reads with pread
 * (never mapped, so no agent can make boxd fault). The memfd cannot change its size (sealed), and
 * its pages belong to the session: the zygote allocates them (box_journal_fill).
 *
 * The first page is the header, then `capacity` bytes: byte number N of the stream is at
 * N % capacity. The writer raises `claim` before it overwrites and `end` after it wrote, so a
 * reader that reads, then finds its first byte still above claim - capacity, has what it wanted.
 * Each number is followed by its complement: a reader that meets a half-written one looks again. */
#pragma once

#include <stdatomic.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

enum { BOX_JOURNAL_HEADER_BYTES = 4096 };

typedef struct box_journal_header {
    _Atomic uint64_t claim; /* one past the last byte that may be being written */
    _Atomic uint64_t claim_not;
    _Atomic uint64_t end; /* one past the last byte that is there */
    _Atomic uint64_t end_not;
} box_journal_header;

/* --- writing (the agent) ---------------------------------------------------------------------- */

typedef struct box_journal {
    int fd; /* -1 = none */
    uint64_t capacity;
    uint64_t end;
    uint8_t *map; /* header and ring; NULL = not mapped */
} box_journal;

/* Makes the sealed memfd and maps it, no page of it yet; capacity is a multiple of 4096. */
int box_journal_make(box_journal *j, uint64_t capacity, box_error *err) BOX_MUST_USE;
/* Makes all its pages, charged to the caller. 0, or -1 with errno. */
int box_journal_fill(int fd) BOX_MUST_USE;
/* Writes the header of an empty one: once its pages are there. */
void box_journal_begin(box_journal *j);
void box_journal_close(box_journal *j);

/* Reads once from a non-blocking descriptor into the ring. >0: bytes; 0: its end; -1: errno
 * (EAGAIN: nothing is there). At most half the ring at once. */
ssize_t box_journal_take(box_journal *j, int from) BOX_MUST_USE;
/* Appends; only the last `capacity` bytes stay. */
void box_journal_add(box_journal *j, const void *data, size_t len);

/* Finds text (len >= 1, at most half the ring) in the stream from *at on; false: not there, and *at
 * is where it could still begin. */
bool box_journal_find(const box_journal *j, uint64_t *at, const char *text, size_t len);

/* --- reading (boxd) --------------------------------------------------------------------------- */

/* Is it a regular file that cannot change its size, header and a ring of 4 KiB to 16 MiB? */
int box_journal_check(int fd, uint64_t *capacity, box_error *err) BOX_MUST_USE;

typedef struct box_journal_span {
    uint64_t first; /* oldest byte that can be read */
    uint64_t end;   /* one past the newest */
} box_journal_span;

/* What is there now. PROTOCOL when the header makes no sense. */
int box_journal_look(int fd, uint64_t capacity, box_journal_span *out, box_error *err) BOX_MUST_USE;
/* Reads up to size bytes from byte `offset` on, which lay in the span that was seen. Returns how
 * many; 0: they were overwritten meanwhile. -1: PROTOCOL. */
ssize_t box_journal_read(int fd, uint64_t capacity, uint64_t offset, void *out, size_t size,
                         box_error *err) BOX_MUST_USE;
