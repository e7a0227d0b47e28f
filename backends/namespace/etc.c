#include "namespace/etc.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/limits.h"

typedef struct generated {
    const char *name;
    const char *text;
} generated;

static const generated files[] = {
    {"passwd", "root:x:0:0:root:/:/usr/sbin/nologin\n"
               "box:x:1000:1000:box:/home:/bin/sh\n"
               "nobody:x:65534:65534:nobody:/:/usr/sbin/nologin\n"},
    {"group", "root:x:0:\ntty:x:5:\nbox:x:1000:\nnogroup:x:65534:\n"},
    {"hosts", "127.0.0.1 localhost box\n::1 localhost ip6-localhost ip6-loopback\n"},
    {"hostname", "box\n"},
    {"nsswitch.conf", "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\n"
                      "networks: files\nprotocols: files\nservices: files\nrpc: files\n"},
    {"shells", "/bin/sh\n/bin/bash\n"},
    {"profile", "export PATH=\"${PATH:-/usr/local/bin:/usr/bin:/bin}\"\n"},
};

/* Patterns (fnmatch) of the host's entries; directories come whole. */
static const char *const copied[] = {
    "alternatives", "debian_version", "fonts",      "host.conf",    "inputrc",      "java-*",
    "ld-musl-*",    "ld.so.cache",    "ld.so.conf", "ld.so.conf.d", "locale.alias", "localtime",
    "lsb-release",  "magic",          "mime.types", "networks",     "os-release",   "perl",
    "protocols",    "python3*",       "rpc",        "services",     "timezone",
};
/* ssl/private is not among them. */
static const char *const copied_ssl[] = {"certs", "openssl.cnf"};

typedef struct copy {
    uint32_t files;
    int64_t bytes;
} copy;

static int copy_any(copy *c, int to, int from, const char *name, int depth, box_error *err);

static int copy_link(int to, int from, const char *name, box_error *err)
{
    char target[BOX_ERROR_DETAIL * 4];
    ssize_t n = readlinkat(from, name, target, sizeof target - 1);
    if (n < 0)
        return box_fail_errno(err, "read the link %s", name);
    target[n] = '\0';
    if (symlinkat(target, to, name) < 0 && errno != EEXIST)
        return box_fail_errno(err, "make the link %s", name);
    return 0;
}

static int copy_bytes(copy *c, int out, int in, const char *name, box_error *err)
{
    char block[16384];
    for (int64_t total = 0;;) {
        ssize_t n = read(in, block, sizeof block);
        if (n < 0)
            return box_fail_errno(err, "read %s", name);
        if (n == 0)
            return 0;
        total += n;
        c->bytes += n;
        if (total > BOX_ETC_MAX_FILE_BYTES || c->bytes > BOX_ETC_MAX_BYTES)
            return box_fail(err, BOX_QUOTA, "%s is too large to copy", name);
        if (box_fd_write_all(out, block, (size_t)n, err) < 0)
            return -1;
    }
}

static int copy_file(copy *c, int to, int from, const char *name, mode_t mode, box_error *err)
{
    BOX_AUTO(box_closep) int in = openat(from, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (in < 0)
        return box_fail_errno(err, "open %s", name);
    mode_t shown = (mode & 0111) != 0 ? 0755 : 0644;
    BOX_AUTO(box_closep)
    int out = openat(to, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, shown);
    if (out < 0)
        return errno == EEXIST ? 0 : box_fail_errno(err, "create %s", name);
    return copy_bytes(c, out, in, name, err);
}

static int copy_entries(copy *c, int out, DIR *d, int depth, box_error *err)
{
    for (const struct dirent *e; (e = readdir(d)) != NULL;) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        if (copy_any(c, out, dirfd(d), e->d_name, depth + 1, err) < 0)
            return -1;
    }
    return 0;
}

static int copy_directory(copy *c, int to, int from, const char *name, int depth, box_error *err)
{
    if (depth >= BOX_ETC_MAX_DEPTH)
        return box_fail(err, BOX_QUOTA, "%s is too deep to copy", name);
    if (mkdirat(to, name, 0755) < 0 && errno != EEXIST)
        return box_fail_errno(err, "make %s", name);
    BOX_AUTO(box_closep) int out = openat(to, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int in = openat(from, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    DIR *d = in < 0 ? NULL : fdopendir(in);
    if (out < 0 || d == NULL)
        return box_fail_errno(err, "open %s", name);
    int rc = copy_entries(c, out, d, depth, err);
    (void)closedir(d); /* only read */
    return rc;
}

/* What is not readable for all, or no file, directory or link, is left out. */
static int copy_any(copy *c, int to, int from, const char *name, int depth, box_error *err)
{
    struct stat st;
    if (fstatat(from, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT ? 0 : box_fail_errno(err, "look at %s", name);
    if (++c->files > BOX_ETC_MAX_FILES)
        return box_fail(err, BOX_QUOTA, "more than %d files to copy", BOX_ETC_MAX_FILES);
    if (S_ISLNK(st.st_mode))
        return copy_link(to, from, name, err);
    if (S_ISDIR(st.st_mode) && (st.st_mode & 0005) == 0005)
        return copy_directory(c, to, from, name, depth, err);
    if (S_ISREG(st.st_mode) && (st.st_mode & 0004) != 0)
        return copy_file(c, to, from, name, st.st_mode, err);
    return 0;
}

static int copy_matching(copy *c, int to, int from, const char *const *patterns, size_t count,
                         box_error *err)
{
    int again = openat(from, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = again < 0 ? NULL : fdopendir(again);
    if (d == NULL)
        return box_fail_errno(err, "list the host's /etc");
    int rc = 0;
    for (const struct dirent *e; rc == 0 && (e = readdir(d)) != NULL;) {
        for (size_t i = 0; i < count && rc == 0; i++) {
            if (fnmatch(patterns[i], e->d_name, FNM_PERIOD) == 0)
                rc = copy_any(c, to, from, e->d_name, 0, err);
        }
    }
    (void)closedir(d); /* only read */
    return rc;
}

static int copy_ssl(copy *c, int to, int from, box_error *err)
{
    BOX_AUTO(box_closep)
    int in = openat(from, "ssl", O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (in < 0)
        return 0;
    if (mkdirat(to, "ssl", 0755) < 0)
        return box_fail_errno(err, "make ssl");
    BOX_AUTO(box_closep) int out = openat(to, "ssl", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (out < 0)
        return box_fail_errno(err, "open ssl");
    return copy_matching(c, out, in, copied_ssl, BOX_COUNT(copied_ssl), err);
}

int box_etc_fill(int to, int from, box_error *err)
{
    for (size_t i = 0; i < BOX_COUNT(files); i++) {
        BOX_AUTO(box_closep)
        int fd = openat(to, files[i].name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
        if (fd < 0)
            return box_fail_errno(err, "create %s", files[i].name);
        if (box_fd_write_all(fd, files[i].text, strlen(files[i].text), err) < 0)
            return -1;
    }
    if (symlinkat("/proc/self/mounts", to, "mtab") < 0)
        return box_fail_errno(err, "make mtab");
    copy c = {0};
    if (copy_matching(&c, to, from, copied, BOX_COUNT(copied), err) < 0)
        return -1;
    return copy_ssl(&c, to, from, err);
}
