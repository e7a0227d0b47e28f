#include "warden/request.h"

#include "base/utf8.h"

/* Smaller ones make every command fail in ways nobody can explain. */
#define MIN_MEMORY_BYTES (INT64_C(4) << 20)
#define MIN_TMPFS_BYTES  (INT64_C(64) << 10)
#define MIN_CPU_MILLIS   10 /* the kernel's smallest quota is 1 ms of a 100 ms period */

typedef struct packet_size {
    box_warden_type type;
    size_t body;
} packet_size;

static const packet_size sizes[] = {
    {BOX_WARDEN_HELLO, sizeof(box_warden_hello)},    {BOX_WARDEN_CREATE, sizeof(box_warden_create)},
    {BOX_WARDEN_DESTROY, sizeof(box_warden_target)}, {BOX_WARDEN_ALIVE, sizeof(box_warden_target)},
    {BOX_WARDEN_LIMITS, sizeof(box_warden_limits)},  {BOX_WARDEN_USAGE, sizeof(box_warden_target)},
    {BOX_WARDEN_KEEP, sizeof(box_warden_target)},    {BOX_WARDEN_SWEEP, sizeof(box_warden_target)},
};

int box_warden_packet_parse(const void *packet, size_t len, box_warden_header *header,
                            const void **body, box_error *err)
{
    box_warden_header h;
    if (len < sizeof h)
        return box_fail(err, BOX_PROTOCOL, "a packet of %zu bytes has no header", len);
    memcpy(&h, packet, sizeof h);
    if (h.size != len)
        return box_fail(err, BOX_PROTOCOL, "a packet of %zu bytes says it has %u", len, h.size);
    for (size_t i = 0; i < BOX_COUNT(sizes); i++) {
        if (sizes[i].type != h.type)
            continue;
        if (len != sizeof h + sizes[i].body)
            return box_fail(err, BOX_PROTOCOL, "a packet of type %u has %zu bytes", h.type, len);
        *header = h;
        *body = (const char *)packet + sizeof h;
        return 0;
    }
    return box_fail(err, BOX_PROTOCOL, "a packet of unknown type %u", h.type);
}

static bool ended(const char *text, size_t size)
{
    return memchr(text, '\0', size) != NULL;
}

int box_warden_hello_check(const box_warden_hello *hello, const char *backend, box_error *err)
{
    if (hello->version != BOX_WARDEN_VERSION)
        return box_fail(err, BOX_VERSION_MISMATCH, "boxd speaks version %u, the warden %d",
                        hello->version, BOX_WARDEN_VERSION);
    if (hello->reserved != 0 || !ended(hello->backend, sizeof hello->backend))
        return box_fail(err, BOX_PROTOCOL, "a malformed HELLO");
    if (strcmp(hello->backend, backend) != 0) {
        (void)box_fail(err, BOX_BACKEND_UNAVAILABLE, "this warden runs backend %s, not %s", backend,
                       hello->backend);
        box_error_add(err, "backend", hello->backend);
        return -1;
    }
    return 0;
}

int box_guarantee_fail(box_error *err, const char *backend, uint32_t missing, const char *field)
{
    char names[BOX_ERROR_MSG] = "";
    size_t used = 0;
    for (uint32_t bit = 1; bit != 0; bit <<= 1) {
        const char *name = (missing & bit) != 0 ? box_guarantee_name(bit) : NULL;
        if (name == NULL || used + strlen(name) + 2 > sizeof names)
            continue;
        used +=
            (size_t)snprintf(names + used, sizeof names - used, "%s%s", used > 0 ? "," : "", name);
    }
    (void)box_fail(err, BOX_GUARANTEE_UNSUPPORTED, "backend %s cannot give %s", backend,
                   field != NULL ? field : names);
    box_error_add(err, "guarantees", names);
    box_error_add(err, "backend", backend);
    if (field != NULL)
        box_error_add(err, "fields", field);
    return -1;
}

static bool normalised(const char *path)
{
    if (path[0] != '/')
        return false;
    for (const char *at = path; *at == '/';) {
        const char *part = at + 1;
        size_t len = strcspn(part, "/");
        if (len == 0 || (len == 1 && part[0] == '.') || (len == 2 && strncmp(part, "..", 2) == 0))
            return false;
        at = part + len;
    }
    return true;
}

static bool printable(const char *path)
{
    for (const char *at = path; *at != '\0'; at++) {
        if (box_utf8_control(at) > 0)
            return false;
    }
    return box_utf8_valid(path, strlen(path));
}

bool box_path_within(const char *path, const char *dir)
{
    size_t len = strlen(dir);
    while (len > 0 && dir[len - 1] == '/')
        len--;
    return strncmp(path, dir, len) == 0 && (path[len] == '/' || path[len] == '\0');
}

static int check_host_path(const char *path, const char *field, box_error *err)
{
    if (path[0] != '/')
        return box_violation(err, field, "must be an absolute path of a Linux host");
    bool is_root = strcmp(path, "/") == 0; /* refused by the rules for mounts */
    if ((!is_root && !normalised(path)) || !printable(path))
        return box_violation(err, field, "must be normalised: no empty, . or .. parts");
    return 0;
}

/* Places of the sandbox's own system: the tree itself and all beneath. */
static const char *const system_trees[] = {
    "/bin",  "/boot", "/dev",  "/etc", "/lib", "/lib32", "/lib64", "/libx32",
    "/proc", "/run",  "/sbin", "/sys", "/usr", "/var",   NULL,
};
/* Only the directory itself is taken. */
static const char *const system_dirs[] = {"/tmp", "/home", NULL};

int box_mount_path_check(const char *path, const char *field, box_error *err)
{
    if (check_host_path(path, field, err) < 0)
        return -1;
    if (strcmp(path, "/") == 0)
        return box_violation(err, field, "cannot be the root");
    for (size_t i = 0; system_trees[i] != NULL; i++) {
        if (box_path_within(path, system_trees[i]))
            return box_violation(err, field, "%s belongs to the sandbox's system", system_trees[i]);
    }
    for (size_t i = 0; system_dirs[i] != NULL; i++) {
        if (strcmp(path, system_dirs[i]) == 0)
            return box_violation(err, field, "%s is mounted already", path);
    }
    return 0;
}

typedef struct amount {
    const char *name;
    int64_t *value;
    int64_t normal; /* stands for 0 */
    int64_t min;
    int64_t max;
} amount;

static int check_amount(const amount *a, box_error *err)
{
    if (*a->value == 0)
        *a->value = a->normal < a->max ? a->normal : a->max;
    if (*a->value < a->min)
        return box_violation(err, a->name, "must be at least %lld", (long long)a->min);
    return 0;
}

static int check_maximum(const amount *a, box_error *err)
{
    if (*a->value <= a->max)
        return 0;
    (void)box_fail(err, BOX_QUOTA, "%s: the warden allows at most %lld", a->name,
                   (long long)a->max);
    return box_error_limit(err, a->name, a->max, *a->value);
}

static int check_strings(const box_warden_create *r, box_error *err)
{
    if (!ended(r->image, sizeof r->image) || !ended(r->mount_path, sizeof r->mount_path) ||
        !ended(r->host_path, sizeof r->host_path) || r->reserved != 0)
        return box_fail(err, BOX_PROTOCOL, "a malformed CREATE");
    return 0;
}

static int check_paths(box_warden_create *r, box_error *err)
{
    int bad = 0;
    if (r->mount_path[0] == '\0')
        (void)snprintf(r->mount_path, sizeof r->mount_path, "/workspace");
    else
        bad |= box_mount_path_check(r->mount_path, "mount_path", err);
    if (r->host_path[0] != '\0')
        bad |= check_host_path(r->host_path, "host_path", err);
    return bad;
}

/* The guarantees that fields of this request ask for by being set. */
static int check_guarantees(const box_warden_create *r, int64_t workspace_asked,
                            const char *backend, uint32_t guarantees, box_error *err)
{
    const struct {
        bool asked;
        uint32_t bit;
        const char *field;
    } rows[] = {
        {(r->flags & BOX_CREATE_NETWORK_ON) != 0, BOX_G_NETWORK_ON, "network"},
        {(r->flags & BOX_CREATE_WRITABLE_ROOT) != 0, BOX_G_WRITABLE_ROOT, "read_only_rootfs"},
        {(r->flags & BOX_CREATE_PERSISTENT) != 0, BOX_G_PERSISTENT, "persistent"},
        {r->image[0] != '\0', BOX_G_IMAGES, "image"},
        {r->host_path[0] != '\0', BOX_G_HOST_MOUNT, "host_path"},
    };
    /* No quota can be put on a host directory. */
    if (r->host_path[0] != '\0' && workspace_asked != 0)
        return box_guarantee_fail(err, backend, BOX_G_WORKSPACE_LIMIT, "workspace_limit");
    if (r->host_path[0] != '\0' && (r->required & BOX_G_DISK_WORKSPACE) != 0)
        return box_guarantee_fail(err, backend, BOX_G_DISK_WORKSPACE, "host_path");
    if (workspace_asked > BOX_WARDEN_TMPFS_WORKSPACE_BYTES &&
        (guarantees & BOX_G_DISK_WORKSPACE) == 0)
        return box_guarantee_fail(err, backend, BOX_G_DISK_WORKSPACE, "workspace_limit");
    for (size_t i = 0; i < BOX_COUNT(rows); i++) {
        if (rows[i].asked && (guarantees & rows[i].bit) == 0)
            return box_guarantee_fail(err, backend, rows[i].bit, rows[i].field);
    }
    uint32_t missing = r->required & ~guarantees;
    return missing != 0 ? box_guarantee_fail(err, backend, missing, NULL) : 0;
}

bool box_warden_create_on_disk(const box_warden_create *r, uint32_t guarantees)
{
    return r->host_path[0] == '\0' && (guarantees & BOX_G_DISK_WORKSPACE) != 0 &&
           ((r->flags & BOX_CREATE_PERSISTENT) != 0 ||
            r->workspace_bytes > BOX_WARDEN_TMPFS_WORKSPACE_BYTES ||
            (r->required & BOX_G_DISK_WORKSPACE) != 0);
}

int box_warden_create_check(box_warden_create *r, const box_warden_config *config,
                            const char *backend, uint32_t guarantees, box_error *err)
{
    if (check_strings(r, err) < 0)
        return -1;
    *err = (box_error){0};
    const box_warden_maxima *m = &config->maxima;
    int64_t cpu_millis = r->cpu_millis;
    int64_t workspace_asked = r->workspace_bytes;
    const amount amounts[] = {
        {"memory", &r->memory_bytes, BOX_SANDBOX_MEMORY_BYTES, MIN_MEMORY_BYTES, m->memory_bytes},
        {"pids", &r->pids, BOX_SANDBOX_PIDS, 1, m->pids},
        {"cpu", &cpu_millis, BOX_SANDBOX_CPU_MILLIS, MIN_CPU_MILLIS, m->cpu_millis},
        {"workspace_limit", &r->workspace_bytes, BOX_SANDBOX_WORKSPACE_BYTES, MIN_TMPFS_BYTES,
         m->workspace_bytes},
        {"tmp", &r->tmp_bytes, BOX_SANDBOX_TMP_BYTES, MIN_TMPFS_BYTES, m->tmp_bytes},
        {"home", &r->home_bytes, BOX_SANDBOX_HOME_BYTES, MIN_TMPFS_BYTES, m->home_bytes},
        {"shm", &r->shm_bytes, BOX_SANDBOX_SHM_BYTES, MIN_TMPFS_BYTES, m->shm_bytes},
    };
    int bad = 0;
    const uint32_t known = BOX_CREATE_NETWORK_ON | BOX_CREATE_WRITABLE_ROOT |
                           BOX_CREATE_HOST_READ_ONLY | BOX_CREATE_PERSISTENT;
    if ((r->flags & ~known) != 0)
        bad |= box_violation(err, "flags", "unknown bits");
    for (size_t i = 0; i < BOX_COUNT(amounts); i++)
        bad |= check_amount(&amounts[i], err);
    bad |= check_paths(r, err);
    if (bad != 0)
        return -1;
    if (check_guarantees(r, workspace_asked, backend, guarantees, err) < 0)
        return -1;
    for (size_t i = 0; i < BOX_COUNT(amounts); i++) {
        if (check_maximum(&amounts[i], err) < 0)
            return -1;
    }
    r->cpu_millis = (int32_t)cpu_millis;
    return 0;
}

int box_warden_limits_check(const box_warden_limits *limits, const box_warden_config *config,
                            const char *backend, uint32_t guarantees, box_error *err)
{
    if (limits->reserved != 0)
        return box_fail(err, BOX_PROTOCOL, "a malformed LIMITS");
    int64_t memory = limits->memory_bytes;
    int64_t pids = limits->pids;
    int64_t cpu = limits->cpu_millis;
    const struct {
        amount amount;
        uint32_t bit;
    } rows[] = {
        {{"memory", &memory, 0, MIN_MEMORY_BYTES, config->maxima.memory_bytes}, BOX_G_MEMORY},
        {{"pids", &pids, 0, 1, config->maxima.pids}, BOX_G_PIDS},
        {{"cpu", &cpu, 0, MIN_CPU_MILLIS, config->maxima.cpu_millis}, BOX_G_CPU},
    };
    *err = (box_error){0};
    for (size_t i = 0; i < BOX_COUNT(rows); i++) {
        const amount *a = &rows[i].amount;
        if (*a->value == 0)
            continue;
        if (check_amount(a, err) < 0 || check_maximum(a, err) < 0)
            return -1;
        if ((guarantees & rows[i].bit) == 0)
            return box_guarantee_fail(err, backend, rows[i].bit, a->name);
    }
    return 0;
}
