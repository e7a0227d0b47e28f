#include "namespace/image_template.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/limits.h"

enum {
    BLOCK = 4096,
    ITABLE_SHARE = 15,          /* an inode of 256 bytes for each block: one in 16, of the rest */
    RESERVED_SHARE = 40,        /* the kernel keeps 2 % back for its own use, */
    RESERVED_MAX_BLOCKS = 4096, /* and no more (ext4_set_resv_clusters) */
    SLACK_BLOCKS = 1024,        /* bitmaps, descriptors, a last group that is all tables */
    TARGET_FD = 3,
};

int64_t box_image_file_bytes(int64_t bytes)
{
    int64_t blocks = (bytes + BLOCK - 1) / BLOCK;
    int64_t reserved = blocks / RESERVED_SHARE;
    blocks += blocks / ITABLE_SHARE + blocks / 512 + SLACK_BLOCKS;
    blocks += reserved < RESERVED_MAX_BLOCKS ? reserved : RESERVED_MAX_BLOCKS;
    return blocks * BLOCK;
}

/* Without a journal: an image never outlives the kernel that mounted it. Nothing is read from the
 * host's mke2fs.conf, and nothing of the tables written: they are holes, which read as zeros. */
BOX_NORETURN static void run_mke2fs(int target, const char *blocks)
{
    static const char *const programs[] = {"/usr/sbin/mke2fs", "/sbin/mke2fs", "/usr/bin/mke2fs",
                                           "/usr/local/sbin/mke2fs"};
    const char *const argv[] = {"mke2fs",
                                "-q",
                                "-F",
                                "-b",
                                "4096",
                                "-m",
                                "0",
                                "-I",
                                "256",
                                "-i",
                                "4096",
                                "-O",
                                "none,extent,filetype,flex_bg,sparse_super,large_file,huge_file,"
                                "dir_index,ext_attr,dir_nlink,extra_isize,uninit_bg",
                                "-E",
                                "lazy_itable_init=1,nodiscard,packed_meta_blocks=1",
                                "/proc/self/fd/3",
                                blocks,
                                NULL};
    const char *const env[] = {"MKE2FS_CONFIG=/dev/null", "LC_ALL=C", NULL};
    sigset_t none;
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    (void)alarm(BOX_DISK_MKFS_SECONDS);
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null < 0 || dup2(null, 0) < 0 || dup2(null, 1) < 0 || dup2(null, 2) < 0 ||
        (target == TARGET_FD ? fcntl(target, F_SETFD, 0) : dup2(target, TARGET_FD)) < 0)
        _exit(126);
    for (size_t i = 0; i < BOX_COUNT(programs); i++)
        (void)execve(programs[i], (char *const *)(uintptr_t)argv, (char *const *)(uintptr_t)env);
    _exit(127); /* none of them is there */
}

static int wait_mke2fs(pid_t pid, box_error *err)
{
    int status;
    while (waitpid(pid, &status, 0) < 0) {
        if (errno != EINTR)
            return box_fail_errno(err, "wait for mke2fs");
    }
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return 0;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
        return box_fail(err, BOX_BACKEND_UNAVAILABLE, "mke2fs is missing (package e2fsprogs)");
    return box_fail(err, BOX_INTERNAL, "mke2fs failed (wait status %d)", status);
}

int box_image_template(int64_t file_bytes, int *out, box_error *err)
{
    char blocks[24];
    (void)snprintf(blocks, sizeof blocks, "%lld", (long long)(file_bytes / BLOCK));
    BOX_AUTO(box_closep) int fd = memfd_create("box-image", MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, file_bytes) < 0)
        return box_fail_errno(err, "make room for a template");
    pid_t pid = fork();
    if (pid == 0)
        run_mke2fs(fd, blocks);
    if (pid < 0)
        return box_fail_errno(err, "start mke2fs");
    if (wait_mke2fs(pid, err) < 0)
        return -1;
    *out = box_take_fd(&fd);
    return 0;
}

static int copy_range(int from, off_t at, off_t end, int to, box_error *err)
{
    if (lseek(to, at, SEEK_SET) < 0)
        return box_fail_errno(err, "write an image");
    while (at < end) {
        ssize_t n = sendfile(to, from, &at, (size_t)(end - at));
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return box_fail_errno(err, "write an image");
    }
    return 0;
}

int box_image_copy(int from, int to, box_error *err)
{
    struct stat st;
    if (fstat(from, &st) < 0 || ftruncate(to, st.st_size) < 0)
        return box_fail_errno(err, "make room for an image");
    for (off_t end = 0;;) {
        off_t at = lseek(from, end, SEEK_DATA);
        if (at < 0 && errno == ENXIO)
            return 0; /* only holes from here */
        end = at < 0 ? -1 : lseek(from, at, SEEK_HOLE);
        if (end < 0)
            return box_fail_errno(err, "read a template");
        if (copy_range(from, at, end, to, err) < 0)
            return -1;
    }
}
