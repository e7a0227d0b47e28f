/* boxcli doctor: numbers of this machine that bound how many sandboxes and commands it carries. */
#include <errno.h>
#include <sys/resource.h>

#include "base/limits.h"
#include "doctor.h"
#include "machine.h"

enum { WANTED_FILES = 65536 }; /* LimitNOFILE of the installed units */

static void check_files(doctor *d, const doctor_check *check, doctor_row *row)
{
    (void)d;
    (void)check;
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) < 0) {
        doctor_skip(row, "%s", strerror(errno));
        return;
    }
    if (limit.rlim_max >= WANTED_FILES) {
        doctor_ok(row, "%llu may be asked for", (unsigned long long)limit.rlim_max);
        return;
    }
    doctor_warn(row, "at most %llu for what this shell starts: about %llu sandboxes",
                (unsigned long long)limit.rlim_max, (unsigned long long)limit.rlim_max / 8);
    doctor_fix(row, "ulimit -Hn %d before boxd and box-warden are started (their systemd units do)",
               WANTED_FILES);
}

/* A kernel setting, and below which number it hurts. */
typedef struct setting {
    const char *name; /* as sysctl(8) has it */
    const char *path;
    int64_t least;
    int64_t advised;
    bool zero_is_unlimited;
    const char *hurts; /* what is worse below `least` */
} setting;

static const setting pid_max = {"kernel.pid_max",
                                "/proc/sys/kernel/pid_max",
                                65536,
                                4194304,
                                false,
                                "few processes for all sandboxes together"};
static const setting threads_max = {"kernel.threads-max",
                                    "/proc/sys/kernel/threads-max",
                                    65536,
                                    262144,
                                    false,
                                    "few processes for all sandboxes together"};
/* From the 1,024th pipe of a user with the default of 16,384 pages, new pipes hold 8 KiB; a command
 * has three. */
static const setting pipe_pages = {
    "fs.pipe-user-pages-soft",
    "/proc/sys/fs/pipe-user-pages-soft",
    262144,
    1048576,
    true,
    "pipes shrink to 8 KiB where many commands run, and output gets slower"};
static const setting file_max = {"fs.file-max", "/proc/sys/fs/file-max",
                                 262144,        2097152,
                                 false,         "few open files for the whole machine"};
static const setting instances = {"fs.inotify.max_user_instances",
                                  "/proc/sys/fs/inotify/max_user_instances",
                                  128,
                                  1024,
                                  false,
                                  "programs in a sandbox that watch files do not start"};
static const setting watches = {"fs.inotify.max_user_watches",
                                "/proc/sys/fs/inotify/max_user_watches",
                                8192,
                                524288,
                                false,
                                "programs in a sandbox that watch many files fail"};
static const setting backlog = {"net.core.somaxconn",
                                "/proc/sys/net/core/somaxconn",
                                1024,
                                BOX_LISTEN_BACKLOG,
                                false,
                                "connections are refused when many come at once"};
static const setting terminals = {"kernel.pty.max",
                                  "/proc/sys/kernel/pty/max",
                                  2048,
                                  16384,
                                  false,
                                  "few terminals for all sandboxes together"};

static void check_setting(doctor *d, const doctor_check *check, doctor_row *row)
{
    (void)d;
    const setting *s = check->about;
    int64_t value = 0;
    if (!machine_number(s->path, &value)) {
        doctor_skip(row, "%s: %s", s->path, strerror(errno));
    } else if (s->zero_is_unlimited && value == 0) {
        doctor_ok(row, "0: not limited");
    } else if (value >= s->least) {
        doctor_ok(row, "%lld", (long long)value);
    } else {
        doctor_warn(row, "%lld: %s", (long long)value, s->hurts);
        doctor_fix(row, "sysctl -w %s=%lld (and in /etc/sysctl.d)", s->name, (long long)s->advised);
    }
}

/* Each sandbox takes one of each kind, all of them counted for the warden's user. */
static void check_namespaces(doctor *d, const doctor_check *check, doctor_row *row)
{
    (void)d;
    (void)check;
    static const char *const names[] = {"user", "mnt", "pid", "net", "ipc", "uts", "cgroup"};
    const char *scarcest = NULL;
    int64_t least = INT64_MAX;
    for (size_t i = 0; i < BOX_COUNT(names); i++) {
        char path[64];
        int64_t value = 0;
        (void)snprintf(path, sizeof path, "/proc/sys/user/max_%s_namespaces", names[i]);
        if (machine_number(path, &value) && value < least) {
            least = value;
            scarcest = names[i];
        }
    }
    if (scarcest == NULL) {
        doctor_skip(row, "/proc/sys/user cannot be read");
    } else if (least >= BOX_MAX_SESSIONS) {
        doctor_ok(row, "%lld or more of each kind", (long long)least);
    } else if (least == 0) {
        doctor_fail(row, "user.max_%s_namespaces is 0: no sandbox can be made", scarcest);
    } else {
        doctor_warn(row, "user.max_%s_namespaces is %lld: that many sandboxes", scarcest,
                    (long long)least);
    }
    if (row->state == DOCTOR_WARN || row->state == DOCTOR_FAIL)
        doctor_fix(row, "sysctl -w user.max_%s_namespaces=65536 (and in /etc/sysctl.d)", scarcest);
}

const doctor_check doctor_limit_checks[] = {
    {.name = "open files", .run = check_files},
    {.name = "user.max_*_namespaces", .run = check_namespaces},
    {.name = "kernel.pid_max", .run = check_setting, .about = &pid_max},
    {.name = "kernel.threads-max", .run = check_setting, .about = &threads_max},
    {.name = "kernel.pty.max", .run = check_setting, .about = &terminals},
    {.name = "fs.pipe-user-pages-soft", .run = check_setting, .about = &pipe_pages},
    {.name = "fs.file-max", .run = check_setting, .about = &file_max},
    {.name = "fs.inotify.max_user_instances", .run = check_setting, .about = &instances},
    {.name = "fs.inotify.max_user_watches", .run = check_setting, .about = &watches},
    {.name = "net.core.somaxconn", .run = check_setting, .about = &backlog},
    {0},
};
