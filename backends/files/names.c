#include "files/names.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/alloc.h"
#include "files/place.h"

enum { DIRENTS_BYTES = 32 * 1024, PER_NAME = 32 /* what a name costs besides its bytes */ };

/* linux_dirent64 of getdents64(2). */
typedef struct dirent_head {
    uint64_t ino;
    int64_t off;
    uint16_t reclen;
    uint8_t type;
} __attribute__((packed)) dirent_head;

box_name *box_name_new(const char *text, size_t len, uint8_t type, bool slash)
{
    box_name *n = box_alloc(sizeof *n + len + 1);
    n->type = type;
    n->slash = slash;
    n->len = (uint16_t)len;
    memcpy(n->text, text, len);
    return n;
}

/* The byte of a name at i, where "/" may follow its last; -1 behind the end. */
static int byte_at(const box_name *n, size_t i)
{
    if (i < n->len)
        return (unsigned char)n->text[i];
    return i == n->len && n->slash ? '/' : -1;
}

/* As the texts order, byte by byte. */
static int compare(const box_name *a, const box_name *b)
{
    size_t shared = a->len < b->len ? a->len : b->len;
    int rc = memcmp(a->text, b->text, shared);
    for (size_t i = shared; rc == 0; i++) {
        int x = byte_at(a, i);
        int y = byte_at(b, i);
        if (x < 0 && y < 0)
            return 0;
        rc = x - y;
    }
    return rc;
}

void box_names_init(box_names *n, int dir, bool tree, size_t max_bytes, const box_name *after)
{
    *n = (box_names){.dir = dir, .tree = tree, .max_bytes = max_bytes, .more = true};
    if (after != NULL)
        n->after = box_name_new(after->text, after->len, after->type, after->slash);
}

static void drop_all(box_names *n)
{
    for (size_t i = 0; i < n->count; i++)
        free(n->list[i]);
    n->count = n->next = n->bytes = 0;
}

void box_names_done(box_names *n)
{
    drop_all(n);
    free(n->list);
    free(n->after);
    *n = (box_names){.dir = -1};
}

/* --- the smallest ones ------------------------------------------------------------------------ */

static size_t cost(const box_name *n)
{
    return PER_NAME + n->len;
}

static void swap(box_names *n, size_t a, size_t b)
{
    box_name *keep = n->list[a];
    n->list[a] = n->list[b];
    n->list[b] = keep;
}

/* A heap whose first is the largest. */
static void sift_down(box_names *n, size_t i, size_t count)
{
    for (;;) {
        size_t big = i;
        for (size_t child = 2 * i + 1; child <= 2 * i + 2 && child < count; child++) {
            if (compare(n->list[child], n->list[big]) > 0)
                big = child;
        }
        if (big == i)
            return;
        swap(n, i, big);
        i = big;
    }
}

static void push(box_names *n, box_name *name)
{
    if (n->count == n->capacity) {
        size_t capacity = n->capacity != 0 ? 2 * n->capacity : 64;
        box_name **list = box_alloc_array(capacity, sizeof *list);
        if (n->count > 0)
            memcpy(list, n->list, n->count * sizeof *list);
        free(n->list);
        n->list = list;
        n->capacity = capacity;
    }
    size_t i = n->count++;
    n->list[i] = name;
    n->bytes += cost(name);
    while (i > 0 && compare(n->list[(i - 1) / 2], n->list[i]) < 0) {
        swap(n, i, (i - 1) / 2);
        i = (i - 1) / 2;
    }
}

static void pop_largest(box_names *n)
{
    n->bytes -= cost(n->list[0]);
    free(n->list[0]);
    n->list[0] = n->list[--n->count];
    sift_down(n, 0, n->count);
}

/* Keeps the name if it is among the smallest that fit; at least one is kept. */
static void consider(box_names *n, const char *text, uint8_t type, bool slash)
{
    size_t len = strlen(text);
    bool full = n->count > 0 && n->bytes + PER_NAME + len > n->max_bytes;
    BOX_AUTO(box_freep)
    box_name *name = box_name_new(text, len, type, slash);
    if (n->after != NULL && compare(name, n->after) <= 0)
        return;
    if (full) {
        n->more = true;
        if (compare(name, n->list[0]) >= 0)
            return;
    }
    push(n, box_take(name));
    while (n->count > 1 && n->bytes > n->max_bytes)
        pop_largest(n);
}

/* --- reading ---------------------------------------------------------------------------------- */

static uint8_t type_of(int dir, const char *name)
{
    struct stat st;
    return fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 ? (uint8_t)IFTODT(st.st_mode) : DT_REG;
}

static void consider_all(box_names *n, const uint8_t *data, size_t len)
{
    for (size_t at = 0; at + sizeof(dirent_head) < len;) {
        dirent_head head;
        memcpy(&head, data + at, sizeof head);
        const char *name = (const char *)data + at + sizeof head;
        bool self = strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
        at += head.reclen;
        if (self)
            continue;
        uint8_t type = head.type != DT_UNKNOWN ? head.type : type_of(n->dir, name);
        consider(n, name, type, false);
        if (n->tree && type == DT_DIR)
            consider(n, name, type, true);
    }
}

static int sort_order(const void *a, const void *b)
{
    return compare(*(box_name *const *)a, *(box_name *const *)b);
}

static int read_piece(box_files_worker *w, box_names *n, box_error *err)
{
    BOX_AUTO(box_freep) uint8_t *data = box_alloc(DIRENTS_BYTES);
    n->more = false;
    if (lseek(n->dir, 0, SEEK_SET) < 0)
        return box_fail_errno(err, "read a directory");
    for (;;) {
        long got = syscall(SYS_getdents64, n->dir, data, DIRENTS_BYTES);
        if (got == 0 || (got < 0 && errno == ENOENT)) /* removed meanwhile */
            break;
        if (got < 0)
            return box_fail_errno(err, "read a directory");
        consider_all(n, data, (size_t)got);
        w->steps = 0; /* a directory may be large: each look counts */
        if (box_files_step(w, err) < 0)
            return -1;
    }
    if (n->count > 0)
        qsort(n->list, n->count, sizeof *n->list, sort_order);
    return 0;
}

int box_names_next(box_files_worker *w, box_names *n, const box_name **out, box_error *err)
{
    if (n->next == n->count) {
        if (!n->more)
            return 0;
        if (n->count > 0) {
            free(n->after);
            n->after = n->list[n->count - 1];
            n->list[n->count - 1] = NULL;
            n->count--; /* freed with the others otherwise */
        }
        drop_all(n);
        if (read_piece(w, n, err) < 0)
            return -1;
        if (n->count == 0)
            return 0;
    }
    *out = n->list[n->next++];
    return 1;
}
