#include "warden/state.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/limits.h"

#define PREFIX          "sandbox-"
#define PREFIX_PREPARED "prepared-"

enum {
    STATE_MAGIC = 0x42585354,
    STATE_VERSION = 4,
    NAME_BYTES = sizeof PREFIX_PREPARED + BOX_UID_TEXT,
    BOOT_ID_BYTES = 40, /* "b5f2...", 36 characters and the end of line */
};

typedef struct state_file {
    uint32_t magic;
    uint32_t version;
    char boot_id[BOOT_ID_BYTES];
    box_sandbox_record record;
} state_file;

_Static_assert(sizeof(state_file) <= 4096, "an update is one page");

/* Every version begins so: what it takes to end a sandbox of another one. */
typedef struct state_head {
    uint32_t magic;
    uint32_t version;
    char boot_id[BOOT_ID_BYTES];
    box_uid uid;
    box_uid instance;
    int32_t pid;
    uint32_t uid_base;
    uint64_t start_time;
} state_head;

#define AT_SAME_PLACE(field)                                                                       \
    _Static_assert(offsetof(state_head, field) ==                                                  \
                       offsetof(state_file, record) + offsetof(box_sandbox_record, field),         \
                   "older and newer wardens look for it there")
AT_SAME_PLACE(uid);
AT_SAME_PLACE(instance);
AT_SAME_PLACE(pid);
AT_SAME_PLACE(uid_base);
AT_SAME_PLACE(start_time);

static int read_boot_id(char out[BOOT_ID_BYTES], box_error *err)
{
    BOX_AUTO(box_closep) int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    char text[BOOT_ID_BYTES] = "";
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (n <= 0)
        return box_fail_errno(err, "read the boot id");
    text[strcspn(text, "\n")] = '\0';
    memcpy(out, text, sizeof text);
    return 0;
}

/* Each directory on the way is made when missing; existing ones stay as they are. */
static int make_parents(const char *path, box_error *err)
{
    char part[BOX_WARDEN_MAX_PATH];
    if (strlen(path) >= sizeof part)
        return box_fail(err, BOX_VALIDATION, "instance_dir is too long");
    for (const char *slash = strchr(path + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        memcpy(part, path, (size_t)(slash - path));
        part[slash - path] = '\0';
        if (mkdir(part, 0755) < 0 && errno != EEXIST)
            return box_fail_errno(err, "make the parents of instance_dir");
    }
    return 0;
}

int box_state_lock(int dir, uint64_t patience_ns, box_error *err)
{
    box_time give_up = box_time_add(box_now(), patience_ns);
    while (flock(dir, LOCK_EX | LOCK_NB) < 0) {
        if (errno != EWOULDBLOCK)
            return box_fail_errno(err, "lock instance_dir");
        if (box_now() >= give_up)
            return box_fail(err, BOX_PERMISSION, "another warden uses this instance_dir");
        (void)nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL); /* cut short is fine */
    }
    return 0;
}

int box_state_dir(const char *path, int *out, box_error *err)
{
    if (make_parents(path, err) < 0)
        return -1;
    if (mkdir(path, 0700) < 0 && errno != EEXIST)
        return box_fail_errno(err, "make the state directory");
    BOX_AUTO(box_closep) int dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    struct stat st;
    if (dir < 0 || fstat(dir, &st) < 0)
        return box_fail_errno(err, "open the state directory");
    if (st.st_uid != geteuid())
        return box_fail(err, BOX_PERMISSION, "the state directory is not the warden's own");
    if ((st.st_mode & 077) != 0 && fchmod(dir, 0700) < 0)
        return box_fail_errno(err, "set the mode of the state directory");
    *out = box_take_fd(&dir);
    return 0;
}

int box_state_open(const char *instance_dir, int *out_dir, box_error *err)
{
    BOX_AUTO(box_closep) int dir = -1;
    if (box_state_dir(instance_dir, &dir, err) < 0)
        return box_wrap(err, "instance_dir");
    if (box_state_lock(dir, BOX_WARDEN_LOCK_SECONDS * BOX_SECOND, err) < 0)
        return -1;
    *out_dir = box_take_fd(&dir);
    return 0;
}

static void file_name(const box_uid *uid, bool prepared, char out[NAME_BYTES])
{
    char text[BOX_UID_TEXT];
    box_uid_text(uid, text);
    (void)snprintf(out, NAME_BYTES, "%s%s", prepared ? PREFIX_PREPARED : PREFIX, text);
}

static void temporary_name(const char *name, char out[NAME_BYTES + 8])
{
    (void)snprintf(out, NAME_BYTES + 8, ".%s.new", name);
}

int box_state_update(int file, const box_sandbox_record *record, box_error *err)
{
    const size_t at = offsetof(state_file, record);
    if (pwrite(file, record, sizeof *record, (off_t)at) != (ssize_t)sizeof *record)
        return box_fail_errno(err, "write a state file");
    return 0;
}

int box_state_write(int dir, const box_sandbox_record *record, bool prepared, int *file,
                    box_error *err)
{
    state_file all = {.magic = STATE_MAGIC, .version = STATE_VERSION, .record = *record};
    if (read_boot_id(all.boot_id, err) < 0)
        return -1;
    char name[NAME_BYTES];
    char temporary[NAME_BYTES + 8];
    file_name(&record->uid, prepared, name);
    temporary_name(name, temporary);
    BOX_AUTO(box_closep)
    int fd = openat(dir, temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return box_fail_errno(err, "create a state file");
    if (box_fd_write_all(fd, &all, sizeof all, err) < 0)
        return box_wrap(err, "state file");
    if (renameat(dir, temporary, dir, name) < 0)
        return box_fail_errno(err, "replace a state file");
    if (file != NULL)
        *file = box_take_fd(&fd);
    return 0;
}

int box_state_claim(int dir, const box_uid *uid, box_error *err)
{
    char before[NAME_BYTES];
    char after[NAME_BYTES];
    file_name(uid, true, before);
    file_name(uid, false, after);
    if (renameat(dir, before, dir, after) < 0)
        return box_fail_errno(err, "rename a state file");
    return 0;
}

static bool terminated(const box_sandbox_record *r)
{
    return memchr(r->place, '\0', sizeof r->place) != NULL &&
           memchr(r->mount_path, '\0', sizeof r->mount_path) != NULL;
}

int box_state_read(int dir, const box_uid *uid, bool prepared, box_sandbox_record *out,
                   box_error *err)
{
    char name[NAME_BYTES];
    char boot_id[BOOT_ID_BYTES];
    file_name(uid, prepared, name);
    if (read_boot_id(boot_id, err) < 0)
        return -1;
    BOX_AUTO(box_closep) int fd = openat(dir, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return box_fail_errno(err, "open a state file");
    state_file file;
    ssize_t n = read(fd, &file, sizeof file);
    if (n < 0)
        return box_fail_errno(err, "read a state file");
    if (n != (ssize_t)sizeof file || file.magic != STATE_MAGIC || file.version != STATE_VERSION ||
        !box_uid_equal(&file.record.uid, uid) || !terminated(&file.record) || file.record.pid < 0)
        return box_fail(err, BOX_PROTOCOL, "a damaged state file");
    file.boot_id[sizeof file.boot_id - 1] = '\0';
    if (strcmp(file.boot_id, boot_id) != 0)
        file.record.pid = 0;
    *out = file.record;
    return 0;
}

static bool may_be_whole(const box_error *err)
{
    return err->sys_errno != 0 && err->sys_errno != ENOENT;
}

int box_state_find(int dir, const box_uid *uid, box_sandbox_record *out, box_error *err)
{
    for (int prepared = 0; prepared <= 1; prepared++) {
        if (box_state_read(dir, uid, prepared != 0, out, err) == 0)
            return 1;
        if (may_be_whole(err))
            return -1;
    }
    return 0;
}

int box_state_remove(int dir, const box_uid *uid, box_error *err)
{
    for (int prepared = 0; prepared <= 1; prepared++) {
        char name[NAME_BYTES];
        char temporary[NAME_BYTES + 8];
        file_name(uid, prepared != 0, name);
        temporary_name(name, temporary);
        if ((unlinkat(dir, name, 0) < 0 && errno != ENOENT) ||
            (unlinkat(dir, temporary, 0) < 0 && errno != ENOENT))
            return box_fail_errno(err, "remove a state file");
    }
    return 0;
}

static bool starts_with(const char *name, const char *prefix)
{
    return strncmp(name, prefix, strlen(prefix)) == 0;
}

static bool is_ours(const char *name)
{
    name += name[0] == '.' ? 1 : 0; /* a write that was interrupted */
    return starts_with(name, PREFIX) || starts_with(name, PREFIX_PREPARED);
}

static bool uid_of(const char *name, box_uid *out, bool *prepared)
{
    *prepared = starts_with(name, PREFIX_PREPARED);
    if (!*prepared && !starts_with(name, PREFIX))
        return false;
    return box_uid_parse(name + strlen(*prepared ? PREFIX_PREPARED : PREFIX), out);
}

static void closedirp(DIR **d)
{
    if (*d != NULL)
        (void)closedir(*d);
}

/* As much as can be read of a file that is damaged, or another version's: the name at least. */
static box_sandbox_record salvage(int dir, const char *name, const box_uid *uid)
{
    box_sandbox_record r = {.uid = *uid};
    state_head head;
    char boot_id[BOOT_ID_BYTES];
    box_error unknown;
    BOX_AUTO(box_closep) int fd = openat(dir, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0 || read(fd, &head, sizeof head) != (ssize_t)sizeof head ||
        head.magic != STATE_MAGIC || !box_uid_equal(&head.uid, uid) || head.pid <= 0 ||
        read_boot_id(boot_id, &unknown) < 0 ||
        memcmp(head.boot_id, boot_id, strlen(boot_id) + 1) != 0)
        return r;
    r.pid = head.pid;
    r.start_time = head.start_time;
    r.uid_base = head.uid_base;
    return r;
}

/* 1: it was whole; 0: `each` has what could be read of it; -1: it cannot be read now. */
static int scan_one(int dir, const char *name, const box_uid *uid, bool prepared,
                    box_state_each *each, void *owner, box_error *err)
{
    box_sandbox_record record;
    bool whole = box_state_read(dir, uid, prepared, &record, err) == 0;
    if (!whole && may_be_whole(err))
        return -1;
    if (!whole)
        record = salvage(dir, name, uid);
    each(owner, &record, prepared || !whole);
    return whole ? 1 : 0;
}

int box_state_scan(int dir, box_state_each *each, void *owner, box_error *err)
{
    int copy = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    BOX_AUTO(closedirp) DIR *d = copy < 0 ? NULL : fdopendir(copy);
    if (d == NULL)
        return box_fail_errno(err, "list instance_dir");
    int damaged = 0;
    for (const struct dirent *e; (e = readdir(d)) != NULL;) {
        box_uid uid;
        bool prepared;
        if (uid_of(e->d_name, &uid, &prepared)) {
            int rc = scan_one(dir, e->d_name, &uid, prepared, each, owner, err);
            if (rc < 0)
                return -1;
            damaged += rc == 0 ? 1 : 0;
        } else if (is_ours(e->d_name)) {
            if (unlinkat(dir, e->d_name, 0) < 0)
                return box_fail_errno(err, "remove a damaged state file");
            damaged++;
        }
    }
    return damaged;
}
