#include "agent/journal.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/fd.h"

enum { CHUNK_BYTES = 64 * 1024 };

static box_journal_header *header_of(const box_journal *j)
{
    return (box_journal_header *)(void *)j->map; /* page-aligned */
}

static uint8_t *ring_of(const box_journal *j)
{
    return j->map + BOX_JOURNAL_HEADER_BYTES;
}

int box_journal_make(box_journal *j, uint64_t capacity, box_error *err)
{
    *j = (box_journal){.fd = -1, .capacity = capacity};
    BOX_AUTO(box_closep) int fd = memfd_create("box-journal", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0 || ftruncate(fd, (off_t)(BOX_JOURNAL_HEADER_BYTES + capacity)) < 0)
        return box_fail_errno(err, "make a journal");
    if (fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
        return box_fail_errno(err, "seal a journal");
    void *map =
        mmap(NULL, BOX_JOURNAL_HEADER_BYTES + capacity, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED)
        return box_fail_errno(err, "map a journal");
    j->map = map;
    j->fd = box_take_fd(&fd);
    return 0;
}

int box_journal_fill(int fd)
{
    off_t size = lseek(fd, 0, SEEK_END);
    return size < 0 ? -1 : fallocate(fd, 0, 0, size);
}

static void publish(_Atomic uint64_t *value, _Atomic uint64_t *complement, uint64_t to)
{
    atomic_store_explicit(value, to, memory_order_release);
    atomic_store_explicit(complement, ~to, memory_order_release);
}

static void publish_end(box_journal *j)
{
    publish(&header_of(j)->end, &header_of(j)->end_not, j->end);
}

static void publish_claim(box_journal *j, uint64_t to)
{
    publish(&header_of(j)->claim, &header_of(j)->claim_not, to);
    atomic_thread_fence(memory_order_seq_cst); /* before the ring's bytes change */
}

void box_journal_begin(box_journal *j)
{
    j->end = 0;
    publish_claim(j, 0);
    publish_end(j);
}

void box_journal_close(box_journal *j)
{
    if (j->map != NULL)
        (void)munmap(j->map, BOX_JOURNAL_HEADER_BYTES + j->capacity); /* ours, whole */
    j->map = NULL;
    box_closep(&j->fd);
}

ssize_t box_journal_take(box_journal *j, int from)
{
    uint64_t at = j->end % j->capacity;
    uint64_t room = j->capacity - at;
    uint64_t most = j->capacity / 2 < CHUNK_BYTES ? j->capacity / 2 : CHUNK_BYTES;
    size_t want = (size_t)(room < most ? room : most);
    publish_claim(j, j->end + want);
    ssize_t n;
    do {
        n = read(from, ring_of(j) + at, want);
    } while (n < 0 && errno == EINTR);
    int saved = errno;
    if (n > 0) {
        j->end += (uint64_t)n;
        publish_end(j);
    }
    publish_claim(j, j->end);
    errno = saved;
    return n;
}

void box_journal_add(box_journal *j, const void *data, size_t len)
{
    const uint8_t *from = data;
    while (len > 0) {
        uint64_t at = j->end % j->capacity;
        size_t n = (size_t)(j->capacity - at) < len ? (size_t)(j->capacity - at) : len;
        publish_claim(j, j->end + n);
        memcpy(ring_of(j) + at, from, n);
        j->end += n;
        publish_end(j);
        from += n;
        len -= n;
    }
}

static bool is_at(const box_journal *j, uint64_t at, const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (ring_of(j)[(at + i) % j->capacity] != (uint8_t)text[i])
            return false;
    }
    return true;
}

bool box_journal_find(const box_journal *j, uint64_t *at, const char *text, size_t len)
{
    assert(len > 0 && len <= j->capacity / 2);
    if (j->end > j->capacity && *at < j->end - j->capacity)
        *at = j->end - j->capacity;
    while (*at + len <= j->end) {
        uint64_t place = *at % j->capacity;
        uint64_t run = j->capacity - place; /* to the ring's edge */
        uint64_t last = j->end - len - *at + 1;
        const uint8_t *from = ring_of(j) + place;
        const uint8_t *hit = memchr(from, text[0], (size_t)(run < last ? run : last));
        if (hit == NULL) {
            *at += run < last ? run : last;
            continue;
        }
        *at += (uint64_t)(hit - from);
        if (is_at(j, *at, text, len))
            return true;
        *at += 1;
    }
    return false;
}
