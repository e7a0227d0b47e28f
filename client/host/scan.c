#include "stage.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "base/id.h"

enum { READ_STEP = 256 * 1024 };

/* --- what is left out ------------------------------------------------------------------------- */

static bool is_any(const char *name, const char *const *names, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (strcmp(name, names[i]) == 0)
            return true;
    }
    return false;
}

static bool is_skipped(int dir, const char *name)
{
    static const char *const skipped[] = {
        ".git",        ".hg",           ".svn",   ".bzr", "CVS",  "__pycache__", ".mypy_cache",
        ".ruff_cache", ".pytest_cache", ".cache", ".tmp", ".tox", ".nox"};
    static const char *const environments[] = {".venv", "venv", "env", ".env"};
    char mark[NAME_MAX + sizeof "/pyvenv.cfg"];
    if (is_any(name, skipped, BOX_COUNT(skipped)))
        return true;
    if (!is_any(name, environments, BOX_COUNT(environments)))
        return false;
    (void)snprintf(mark, sizeof mark, "%s/pyvenv.cfg", name);
    return faccessat(dir, mark, F_OK, 0) == 0;
}

static void leave_out(box_stage *s, const char *path)
{
    if (s->left_out++ == 0)
        s->example = box_strdup(path);
}

/* --- entries ---------------------------------------------------------------------------------- */

static int add(box_stage *s, const char *path, box_stage_entry **out, box_error *err)
{
    if (s->n_entries == BOX_STAGE_MAX_ENTRIES)
        return box_fail(err, BOX_QUOTA, "%s holds more than %d files and folders", s->root,
                        BOX_STAGE_MAX_ENTRIES);
    if (s->n_entries == s->capacity) {
        s->capacity = s->capacity == 0 ? 64 : 2 * s->capacity;
        box_stage_entry *grown = box_alloc_array(s->capacity, sizeof *grown);
        if (s->n_entries > 0)
            memcpy(grown, s->entries, s->n_entries * sizeof *grown);
        free(s->entries);
        s->entries = grown;
    }
    *out = &s->entries[s->n_entries++];
    **out = (box_stage_entry){.path = box_strdup(path)};
    return 0;
}

static void context_freep(EVP_MD_CTX **md)
{
    EVP_MD_CTX_free(*md);
}

static int no_hash(box_error *err)
{
    return box_fail(err, BOX_INTERNAL, "SHA-256 does not work");
}

static int too_large(const char *path, box_error *err)
{
    return box_fail(err, BOX_QUOTA, "more than %lld bytes, at %s", (long long)BOX_STAGE_MAX_BYTES,
                    path);
}

/* Of what the descriptor gives until its end; no more than max bytes of it. */
static int hash_content(int fd, const char *path, int64_t max, box_stage_entry *e, box_error *err)
{
    BOX_AUTO(context_freep) EVP_MD_CTX *md = EVP_MD_CTX_new();
    BOX_AUTO(box_freep) uint8_t *data = box_alloc(READ_STEP);
    if (md == NULL || !EVP_DigestInit_ex(md, EVP_sha256(), NULL))
        return no_hash(err);
    for (;;) {
        ssize_t n = read(fd, data, READ_STEP);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return box_fail_errno(err, "read %s", path);
        if (n == 0)
            break;
        e->size_bytes += n;
        if (e->size_bytes > max)
            return too_large(path, err);
        if (!EVP_DigestUpdate(md, data, (size_t)n))
            return no_hash(err);
    }
    return EVP_DigestFinal_ex(md, e->sha256, NULL) ? 0 : no_hash(err);
}

static int take_file(box_stage *s, int fd, const char *path, const struct stat *st, box_error *err)
{
    box_stage_entry *e;
    if (st->st_size > BOX_STAGE_MAX_BYTES - s->bytes)
        return too_large(path, err);
    if (add(s, path, &e, err) < 0)
        return -1;
    e->is_executable = (st->st_mode & S_IXUSR) != 0;
    if (hash_content(fd, path, BOX_STAGE_MAX_BYTES - s->bytes, e, err) < 0)
        return -1;
    s->files++;
    s->bytes += e->size_bytes;
    return 0;
}

/* --- the walk --------------------------------------------------------------------------------- */

int box_stage_open(const box_stage *s, const char *path, int *fd, box_error *err)
{
    struct open_how how = {.flags = O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC,
                           .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS};
    *fd = box_fd_open_how(s->root_fd, path, &how);
    return *fd < 0 ? box_fail_errno(err, "open %s", path) : 0;
}

/* A link: what it leads to when that is a file of the project. */
static int take_link(box_stage *s, const char *path, box_error *err)
{
    struct stat st;
    int opened;
    if (box_stage_open(s, path, &opened, err) < 0) {
        leave_out(s, path);
        return 0;
    }
    BOX_AUTO(box_closep) int fd = opened;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode))
        return take_file(s, fd, path, &st, err);
    leave_out(s, path);
    return 0;
}

static int walk(box_stage *s, int dir, const char *path, int depth, size_t *taken, box_error *err);

static int take_directory(box_stage *s, int fd, const char *path, int depth, box_error *err)
{
    size_t taken = 0;
    box_stage_entry *e;
    if (add(s, path, &e, err) < 0)
        return -1;
    size_t at = (size_t)(e - s->entries); /* they move */
    if (walk(s, fd, path, depth + 1, &taken, err) < 0)
        return -1;
    s->entries[at].is_directory = true;
    s->entries[at].is_empty = taken == 0;
    return 0;
}

static int take_entry(box_stage *s, int dir, const char *name, const char *path, int depth,
                      box_error *err)
{
    struct stat st;
    BOX_AUTO(box_closep)
    int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0 && errno == ELOOP)
        return take_link(s, path, err);
    if (fd < 0 && (errno == ENXIO || errno == ENODEV)) { /* a socket */
        leave_out(s, path);
        return 0;
    }
    if (fd < 0 || fstat(fd, &st) < 0)
        return box_fail_errno(err, "read %s", path);
    if (S_ISDIR(st.st_mode))
        return take_directory(s, fd, path, depth, err);
    if (S_ISREG(st.st_mode))
        return take_file(s, fd, path, &st, err);
    leave_out(s, path);
    return 0;
}

static void closedirp(DIR **d)
{
    if (*d != NULL)
        (void)closedir(*d);
}

static int walk(box_stage *s, int dir, const char *path, int depth, size_t *taken, box_error *err)
{
    char below[PATH_MAX];
    int own = fcntl(dir, F_DUPFD_CLOEXEC, 0);
    BOX_AUTO(closedirp) DIR *d = own < 0 ? NULL : fdopendir(own);
    if (d == NULL)
        return box_fail_errno(err, "read %s", path);
    if (depth > BOX_STAGE_MAX_DEPTH)
        return box_fail(err, BOX_QUOTA, "folders more than %d deep, at %s", BOX_STAGE_MAX_DEPTH,
                        path);
    for (;;) {
        errno = 0;
        const struct dirent *e = readdir(d);
        if (e == NULL)
            return errno == 0 ? 0 : box_fail_errno(err, "read %s", path);
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0 ||
            is_skipped(dir, e->d_name))
            continue;
        int n =
            snprintf(below, sizeof below, "%s%s%s", path, path[0] != '\0' ? "/" : "", e->d_name);
        if (n < 0 || n >= (int)sizeof below)
            return box_fail(err, BOX_QUOTA, "a path in %s is too long", path);
        if (take_entry(s, dir, e->d_name, below, depth, err) < 0)
            return -1;
        ++*taken;
    }
}

/* --- the hash --------------------------------------------------------------------------------- */

static int by_path(const void *a, const void *b)
{
    const box_stage_entry *x = a;
    const box_stage_entry *y = b;
    return strcmp(x->path, y->path);
}

/* "PATH\0KIND" and the content's hash, entry by entry: no two lists give the same bytes. */
static int hash_all(box_stage *s, box_error *err)
{
    uint8_t out[32];
    BOX_AUTO(context_freep) EVP_MD_CTX *md = EVP_MD_CTX_new();
    if (md == NULL || !EVP_DigestInit_ex(md, EVP_sha256(), NULL))
        return no_hash(err);
    for (size_t i = 0; i < s->n_entries; i++) {
        const box_stage_entry *e = &s->entries[i];
        const char *kind = e->is_directory ? "d" : e->is_executable ? "x" : "f";
        if (!EVP_DigestUpdate(md, e->path, strlen(e->path) + 1) || !EVP_DigestUpdate(md, kind, 1) ||
            !EVP_DigestUpdate(md, e->sha256, sizeof e->sha256))
            return no_hash(err);
    }
    if (!EVP_DigestFinal_ex(md, out, NULL))
        return no_hash(err);
    box_hex(out, sizeof out, s->hash);
    return 0;
}

/* --- a stage ---------------------------------------------------------------------------------- */

void box_stage_free(box_stage *s)
{
    if (s == NULL)
        return;
    for (size_t i = 0; i < s->n_entries; i++)
        free(s->entries[i].path);
    free(s->entries);
    free(s->root);
    free(s->example);
    box_closep(&s->root_fd);
    free(s);
}

void box_stage_freep(box_stage **s)
{
    box_stage_free(box_take(*s));
}

int box_stage_scan(const char *root, box_stage **out, box_error *err)
{
    char real[PATH_MAX];
    size_t taken = 0;
    if (realpath(root, real) == NULL)
        return box_fail_errno(err, "%s", root);
    BOX_AUTO(box_stage_freep) box_stage *s = box_alloc(sizeof *s);
    s->root = box_strdup(real);
    s->root_fd = open(real, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (s->root_fd < 0)
        return box_fail_errno(err, "%s", root);
    if (walk(s, s->root_fd, "", 0, &taken, err) < 0)
        return box_wrap(err, "%s", root);
    if (s->n_entries > 0)
        qsort(s->entries, s->n_entries, sizeof *s->entries, by_path);
    if (hash_all(s, err) < 0)
        return -1;
    *out = box_take(s);
    return 0;
}

const char *box_stage_root(const box_stage *s)
{
    return s->root;
}

const char *box_stage_hash(const box_stage *s)
{
    return s->hash;
}

bool box_stage_has(const box_stage *s, const char *path)
{
    const box_stage_entry key = {.path = (char *)(uintptr_t)path};
    if (s->n_entries == 0)
        return false;
    const box_stage_entry *e = bsearch(&key, s->entries, s->n_entries, sizeof *e, by_path);
    return e != NULL && !e->is_directory;
}

size_t box_stage_files(const box_stage *s)
{
    return s->files;
}

int64_t box_stage_bytes(const box_stage *s)
{
    return s->bytes;
}

size_t box_stage_left_out(const box_stage *s, const char **example)
{
    *example = s->example;
    return s->left_out;
}
