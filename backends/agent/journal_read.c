#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/journal.h"
#include "base/limits.h"

static int misfit(box_error *err, const char *what)
{
    return box_fail(err, BOX_PROTOCOL, "journal: %s", what);
}

int box_journal_check(int fd, uint64_t *capacity, box_error *err)
{
    struct stat st;
    int seals = fcntl(fd, F_GET_SEALS);
    int wanted = F_SEAL_SHRINK | F_SEAL_GROW;
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || seals < 0 || (seals & wanted) != wanted)
        return misfit(err, "not a sealed file");
    uint64_t size = (uint64_t)st.st_size;
    if (size < BOX_JOURNAL_HEADER_BYTES + 4096 ||
        size > BOX_JOURNAL_HEADER_BYTES + BOX_MAX_JOURNAL_BYTES || size % 4096 != 0)
        return misfit(err, "of impossible size");
    *capacity = size - BOX_JOURNAL_HEADER_BYTES;
    return 0;
}

/* The writer may be between the two stores of a number. */
static int read_header(int fd, uint64_t out[4], box_error *err)
{
    enum { TRIES = 100 };
    for (int i = 0; i < TRIES; i++) {
        if (pread(fd, out, 4 * sizeof *out, 0) != (ssize_t)(4 * sizeof *out))
            return misfit(err, "cannot be read");
        if (out[0] == ~out[1] && out[2] == ~out[3])
            return 0;
    }
    return misfit(err, "its header makes no sense");
}

int box_journal_look(int fd, uint64_t capacity, box_journal_span *out, box_error *err)
{
    uint64_t h[4];
    if (read_header(fd, h, err) < 0)
        return -1;
    uint64_t claim = h[0];
    uint64_t end = h[2];
    /* Between the two reads of one header both may move on: only nonsense is refused. */
    if (end > INT64_MAX || claim > INT64_MAX)
        return misfit(err, "its numbers make no sense");
    if (claim < end)
        claim = end;
    out->end = end;
    out->first = claim > capacity ? claim - capacity : 0;
    if (out->first > end)
        out->first = end;
    return 0;
}

ssize_t box_journal_read(int fd, uint64_t capacity, uint64_t offset, void *out, size_t size,
                         box_error *err)
{
    box_journal_span span;
    uint64_t at = offset % capacity;
    size_t n = capacity - at < size ? (size_t)(capacity - at) : size;
    ssize_t got = pread(fd, out, n, (off_t)(BOX_JOURNAL_HEADER_BYTES + at));
    if (got <= 0)
        return misfit(err, "cannot be read");
    if (box_journal_look(fd, capacity, &span, err) < 0)
        return -1;
    return offset < span.first ? 0 : got;
}
