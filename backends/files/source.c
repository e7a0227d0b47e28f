#include "files/source.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

static ssize_t read_file(const box_source *s, void *out, size_t len, int64_t offset, box_error *err)
{
    ssize_t n;
    do {
        n = pread(s->fd, out, len, offset);
    } while (n < 0 && errno == EINTR);
    return n < 0 ? box_place_fail(err, "read", s->path) : n;
}

int box_source_init(box_source *s, int fd, const struct stat *st, const char *path, box_error *err)
{
    s->fd = fd;
    s->path = path;
    s->end = st->st_size > 0 ? st->st_size : INT64_MAX;
    s->head_len = 0;
    ssize_t n = read_file(s, s->head, box_source_left(s, 0, sizeof s->head), 0, err);
    if (n < 0)
        return -1;
    s->head_len = (size_t)n;
    return 0;
}

ssize_t box_source_read(const box_source *s, void *out, size_t len, int64_t offset, box_error *err)
{
    size_t left = box_source_left(s, offset, len);
    if (left == 0)
        return 0;
    if (offset >= (int64_t)s->head_len)
        return read_file(s, out, left, offset, err);
    size_t at = (size_t)offset;
    size_t n = left < s->head_len - at ? left : s->head_len - at;
    memcpy(out, s->head + at, n);
    return (ssize_t)n;
}

size_t box_source_left(const box_source *s, int64_t offset, size_t most)
{
    if (offset >= s->end)
        return 0;
    uint64_t left = (uint64_t)(s->end - offset);
    return left < most ? (size_t)left : most;
}
