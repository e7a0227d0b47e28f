#include "warden/config.h"

#include <errno.h>
#include <pwd.h>
#include <stdint.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/limits.h"
#include "base/log.h"

#define MIB (INT64_C(1) << 20)
#define GIB (INT64_C(1) << 30)

static const char *const log_levels[] = {"debug", "info", "warn", "error", "off", NULL};
static const char *const log_formats[] = {"text", "json", NULL};

static const box_config_key root_fields[] = {
    {"path", BOX_CONFIG_STRING, offsetof(box_allowed_root, path),
     .help = "Directory on the host, absolute, no link on the way to it."},
    {"owner_uid", BOX_CONFIG_INT, offsetof(box_allowed_root, owner_uid), .min = 0,
     .max = UINT32_MAX - 1,
     .help = "The one host uid (1000 or above) that the sandbox's user stands for there."},
};

static const box_config_key class_fields[] = {
    {"size", BOX_CONFIG_BYTES, offsetof(box_disk_class, bytes), .min = BOX_DISK_MIN_BYTES,
     .max = BOX_DISK_MAX_BYTES, .help = "Largest workspace that fits."},
    {"ready", BOX_CONFIG_INT, offsetof(box_disk_class, ready), .number = 1, .min = 1,
     .max = BOX_DISK_MAX_READY, .help = "How many are kept ready."},
};

#define FIELD(name) offsetof(box_warden_config, name)

static const box_config_key keys[] = {
    {"socket", BOX_CONFIG_STRING, FIELD(socket),
     .help = "Unix socket to listen on (mode 0660, owned by peer_uid)."},
    {"peer_uid", BOX_CONFIG_STRING, FIELD(peer_uid),
     .help = "User, by name or number, whose boxd may connect; absent: the warden's own."},
    {"instance_dir", BOX_CONFIG_STRING, FIELD(instance_dir), .text = "/run/box/warden",
     .help = "Directory (mode 0700) of the state files, on a file system emptied at boot."},
    {"agent", BOX_CONFIG_STRING, FIELD(agent),
     .help = "The box-agent program; box-files is beside it. Absent: the one beside box-warden."},
    {"cgroup", BOX_CONFIG_STRING, FIELD(cgroup),
     .help = "Parent control group, such as /box; absent: the top on cgroup v2, the warden's own "
             "on v1."},
    {"standbys", BOX_CONFIG_INT, FIELD(standbys), .number = 4, .min = 0,
     .max = BOX_WARDEN_MAX_STANDBYS,
     .help = "How many new sandboxes find their control groups and empty network, ipc, uts and "
             "cgroup namespaces made already, by a process that waits for them (backend "
             "namespace)."},
    {"allowed_roots", BOX_CONFIG_RECORDS, FIELD(allowed_roots), .max = 64, .fields = root_fields,
     .n_fields = BOX_COUNT(root_fields), .record_size = sizeof(box_allowed_root),
     .help = "Host directories that host_path may name or lie beneath; empty: none."},
    {"images", BOX_CONFIG_NOT_BUILT, 0, .help = "imported images"},
    {"disk.directory", BOX_CONFIG_STRING, FIELD(disk.directory),
     .help = "Directory (mode 0700) on a disk for the workspaces of persistent sandboxes and those "
             "above 256MiB; absent: none are on disk."},
    {"disk.pool", BOX_CONFIG_RECORDS, FIELD(disk.pool), .max = BOX_DISK_MAX_CLASSES,
     .fields = class_fields, .n_fields = BOX_COUNT(class_fields),
     .record_size = sizeof(box_disk_class),
     .help = "Workspaces kept ready, a list of {size, ready}; absent: 2 of 256MiB, 2 of 1GiB, 1 of "
             "4GiB."},
    {"disk.total", BOX_CONFIG_BYTES, FIELD(disk.total_bytes), .max = BOX_DISK_MAX_BYTES,
     .help = "Most that all workspaces on disk together may grow to; 0: what the disk has room "
             "for."},
    {"disk.keep_free", BOX_CONFIG_BYTES, FIELD(disk.keep_free_bytes), .number = GIB,
     .max = BOX_DISK_MAX_BYTES, .help = "What of the disk stays free if they all fill up."},
    {"maxima.memory", BOX_CONFIG_BYTES, FIELD(maxima.memory_bytes), .number = 16 * GIB,
     .min = 16 * MIB, .max = INT64_C(1) << 44, .help = "Largest memory limit of one sandbox."},
    {"maxima.pids", BOX_CONFIG_INT, FIELD(maxima.pids), .number = 4096, .min = 1, .max = 4194304,
     .help = "Most processes of one sandbox."},
    {"maxima.cpu_millis", BOX_CONFIG_INT, FIELD(maxima.cpu_millis), .number = 64000, .min = 10,
     .max = 1024000, .help = "Most CPU of one sandbox, in thousandths of a core."},
    {"maxima.workspace", BOX_CONFIG_BYTES, FIELD(maxima.workspace_bytes), .number = 16 * GIB,
     .min = MIB, .max = BOX_DISK_MAX_BYTES,
     .help = "Largest private workspace; above 256MiB it needs disk.directory."},
    {"maxima.tmp", BOX_CONFIG_BYTES, FIELD(maxima.tmp_bytes), .number = GIB, .min = MIB,
     .max = 64 * GIB, .help = "Largest /tmp."},
    {"maxima.home", BOX_CONFIG_BYTES, FIELD(maxima.home_bytes), .number = GIB, .min = MIB,
     .max = 64 * GIB, .help = "Largest /home."},
    {"maxima.shm", BOX_CONFIG_BYTES, FIELD(maxima.shm_bytes), .number = GIB, .min = MIB,
     .max = 64 * GIB, .help = "Largest /dev/shm."},
    {"maxima.sandboxes", BOX_CONFIG_INT, FIELD(maxima.sandboxes), .number = 10000, .min = 1,
     .max = 100000, .help = "Sandboxes at once, of all boxd instances together."},
    {"maxima.total_memory", BOX_CONFIG_BYTES, FIELD(maxima.total_memory_bytes), .number = 0,
     .min = 0, .max = INT64_C(1) << 50,
     .help = "Most memory of all sandboxes together, their limits added up whether used or not; 0: "
             "no limit."},
    {"log.level", BOX_CONFIG_ENUM, FIELD(log_level), .text = "info", .choices = log_levels,
     .help = "debug, info, warn, error or off."},
    {"log.format", BOX_CONFIG_ENUM, FIELD(log_format), .text = "text", .choices = log_formats,
     .help = "text or json."},
};

/* Keys of boxd, which may share its environment (server/config.c). */
static const char *const boxd_keys[] = {"server", "tls",    "warden",    "state_dir",
                                        "box",    "limits", "admission", NULL};

static int check_absolute(const box_config_origin *origin, const char *key, const char *path,
                          box_error *err)
{
    if (path == NULL || path[0] == '/')
        return 0;
    return box_config_bad(origin, key, err, "must be an absolute path");
}

static int check_root(const box_config_origin *origin, const box_allowed_root *root, size_t i,
                      box_error *err)
{
    char key[64];
    (void)snprintf(key, sizeof key, "allowed_roots[%zu].path", i);
    if (root->path == NULL)
        return box_config_bad(origin, key, err, "is missing");
    if (check_absolute(origin, key, root->path, err) < 0)
        return -1;
    (void)snprintf(key, sizeof key, "allowed_roots[%zu].owner_uid", i);
    if (root->owner_uid < BOX_WARDEN_MIN_OWNER)
        return box_config_bad(origin, key, err, "must be %d or above", BOX_WARDEN_MIN_OWNER);
    return 0;
}

/* NULL = it names one. */
static const char *find_peer(const char *text, uid_t *out)
{
    char *end;
    errno = 0;
    unsigned long long number = strtoull(text, &end, 10);
    if (text[0] >= '0' && text[0] <= '9' && *end == '\0') {
        if (errno != 0 || number >= UINT32_MAX)
            return "there is no user with the number";
        *out = (uid_t)number;
        return NULL;
    }
    const struct passwd *user = getpwnam(text); /* single-threaded, at start */
    if (user == NULL)
        return "there is no user";
    *out = user->pw_uid;
    return NULL;
}

static int by_size(const void *a, const void *b)
{
    const box_disk_class *x = a;
    const box_disk_class *y = b;
    return (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

static int check_disk(const box_config_origin *origin, box_disk_config *d, box_error *err)
{
    static const box_disk_class usual[] = {{256 * MIB, 2}, {GIB, 2}, {4 * GIB, 1}};
    if (check_absolute(origin, "disk.directory", d->directory, err) < 0)
        return -1;
    if (d->pool.count == 0) {
        d->pool.items = memcpy(box_alloc(sizeof usual), usual, sizeof usual);
        d->pool.count = BOX_COUNT(usual);
    }
    box_disk_class *classes = d->pool.items;
    qsort(classes, d->pool.count, sizeof *classes, by_size);
    for (size_t i = 0; i < d->pool.count; i++) {
        if (classes[i].bytes == 0)
            return box_config_bad(origin, "disk.pool", err, "a size is missing");
        if (i > 0 && classes[i].bytes == classes[i - 1].bytes)
            return box_config_bad(origin, "disk.pool", err, "a size is there twice");
    }
    return 0;
}

static int check(void *conf, const box_config_origin *origin, const void *arg, box_error *err)
{
    box_warden_config *c = conf;
    const box_allowed_root *roots = c->allowed_roots.items;
    (void)arg;
    if (check_absolute(origin, "socket", c->socket, err) < 0 ||
        check_absolute(origin, "instance_dir", c->instance_dir, err) < 0 ||
        check_absolute(origin, "agent", c->agent, err) < 0 ||
        check_absolute(origin, "cgroup", c->cgroup, err) < 0 ||
        check_disk(origin, &c->disk, err) < 0)
        return -1;
    for (size_t i = 0; i < c->allowed_roots.count; i++) {
        if (check_root(origin, &roots[i], i, err) < 0)
            return -1;
    }
    uid_t peer;
    const char *why = c->peer_uid != NULL ? find_peer(c->peer_uid, &peer) : NULL;
    return why != NULL ? box_config_bad(origin, "peer_uid", err, "%s %.64s", why, c->peer_uid) : 0;
}

static const box_config_schema schema = {
    .keys = keys,
    .n_keys = BOX_COUNT(keys),
    .size = sizeof(box_warden_config),
    .env_prefix = "BOX",
    .foreign = boxd_keys,
    .trusted_file = true,
    .check = check,
};

int box_warden_config_load(const char *file, char *const *env, box_warden_config *out,
                           box_error *err)
{
    return box_config_load(&schema, file, env, out, err);
}

int box_warden_config_parse(const char *name, const char *yaml, size_t len, box_warden_config *out,
                            box_error *err)
{
    return box_config_parse(&schema, name, yaml, len, NULL, out, err);
}

void box_warden_config_done(box_warden_config *config)
{
    box_config_done(&schema, config);
}

int box_warden_config_print(const box_warden_config *config, FILE *to)
{
    return box_config_print(&schema, config, to);
}

int box_warden_config_peer(const box_warden_config *config, uid_t *out, box_error *err)
{
    const char *text = config->peer_uid;
    if (text == NULL) {
        *out = geteuid();
        return 0;
    }
    const char *why = find_peer(text, out);
    return why != NULL ? box_fail(err, BOX_VALIDATION, "peer_uid: %s %.64s", why, text) : 0;
}
