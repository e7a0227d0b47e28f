#include "session/spec.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/utf8.h"
#include "session/checker.h"
#include "session/profile.h"

static const char *const field_names[] = {
    "network",
    "image",
    "host_path",
    "host_path_mode",
    "mount_path",
    "persistent",
    "cpu_millis",
    "memory_bytes",
    "pids_limit",
    "read_only_rootfs",
    "workspace_limit_bytes",
    "profile",
    "backend",
    "idle_ttl",
    "max_parallel_execs",
    "labels",
    "env",
    "workdir",
    "command_timeout",
    "max_lifetime",
    "destroy_on_timeout",
    "tools",
};

const char *box_spec_field_name(uint32_t bit)
{
    for (size_t i = 0; i < BOX_COUNT(field_names); i++) {
        if (bit == UINT32_C(1) << i)
            return field_names[i];
    }
    return NULL;
}

static void free_pairs(box_label **pairs, size_t *n)
{
    for (size_t i = 0; i < *n; i++) {
        free((*pairs)[i].key);
        free((*pairs)[i].value);
    }
    free(*pairs);
    *pairs = NULL;
    *n = 0;
}

static void set_pairs(box_label **to, size_t *n_to, const box_label *from, size_t n, bool values)
{
    box_label *copy = n > 0 ? box_alloc_array(n, sizeof *copy) : NULL;
    for (size_t i = 0; i < n; i++) {
        copy[i].key = box_strdup(from[i].key);
        copy[i].value = values ? box_strdup(from[i].value) : NULL;
    }
    free_pairs(to, n_to);
    *to = copy;
    *n_to = n;
}

void box_spec_done(box_spec *s)
{
    free(s->image);
    free(s->host_path);
    free(s->mount_path);
    free(s->profile);
    free(s->backend);
    free(s->workdir);
    free(s->unsupported);
    free_pairs(&s->labels, &s->n_labels);
    free_pairs(&s->env, &s->n_env);
    box_tool_choice_done(&s->tools);
    *s = (box_spec){0};
}

void box_spec_set_labels(box_spec *s, const box_label *labels, size_t n)
{
    set_pairs(&s->labels, &s->n_labels, labels, n, true);
}

void box_spec_set_env(box_spec *s, const box_label *env, size_t n)
{
    set_pairs(&s->env, &s->n_env, env, n, true);
}

void box_spec_set_env_names(box_spec *s, const box_label *env, size_t n)
{
    set_pairs(&s->env, &s->n_env, env, n, false);
}

void box_spec_copy_but_env(box_spec *to, const box_spec *from)
{
    *to = *from;
    to->image = box_strdup_null(from->image);
    to->host_path = box_strdup_null(from->host_path);
    to->mount_path = box_strdup_null(from->mount_path);
    to->profile = box_strdup_null(from->profile);
    to->backend = box_strdup_null(from->backend);
    to->workdir = box_strdup_null(from->workdir);
    to->unsupported = box_strdup_null(from->unsupported);
    to->labels = to->env = NULL;
    to->n_labels = to->n_env = 0;
    to->tools = (box_tool_choice){0};
    box_tool_choice_set(&to->tools, &from->tools);
    box_spec_set_labels(to, from->labels, from->n_labels);
}

void box_spec_copy(box_spec *to, const box_spec *from)
{
    box_spec_copy_but_env(to, from);
    box_spec_set_env(to, from->env, from->n_env);
}

static size_t pairs_bytes(const box_label *pairs, size_t n)
{
    enum { EACH = 32 /* of the allocator, for two texts */ };
    size_t bytes = 0;
    for (size_t i = 0; i < n; i++) {
        bytes += sizeof pairs[i] + EACH + strlen(pairs[i].key);
        bytes += pairs[i].value != NULL ? strlen(pairs[i].value) : 0;
    }
    return bytes;
}

size_t box_spec_bytes(const box_spec *s)
{
    return pairs_bytes(s->env, s->n_env) + pairs_bytes(s->labels, s->n_labels) +
           box_tool_choice_bytes(&s->tools);
}

void box_spec_refuse(box_spec *s, const char *name)
{
    size_t old = s->unsupported != NULL ? strlen(s->unsupported) : 0;
    size_t size = old + strlen(name) + 2;
    char *text = box_alloc(size);
    (void)snprintf(text, size, "%s%s%s", old > 0 ? s->unsupported : "", old > 0 ? "," : "", name);
    free(s->unsupported);
    s->unsupported = text;
}

/* --- checking --------------------------------------------------------------------------------- */

/* Absolute, no empty, "." or ".." component, no control characters, short enough for the warden. */
const char *box_spec_path_problem(const char *path)
{
    enum { MAX_PATH = 1023 }; /* warden/protocol.h: BOX_WARDEN_MAX_PATH with its NUL */
    if (path[0] != '/')
        return "must be an absolute POSIX path";
    if (strlen(path) > MAX_PATH)
        return "longer than 1023 bytes";
    for (const char *p = path; *p != '\0'; p++) {
        if (box_utf8_control(p) > 0)
            return "holds a control character";
        if (*p == '/' && (p[1] == '/' || (p[1] == '\0' && p != path)))
            return "holds an empty component";
        if (*p != '/' || p[1] != '.')
            continue;
        const char *end = p[2] == '.' ? p + 3 : p + 2;
        if (*end == '\0' || *end == '/')
            return "holds a . or .. component";
    }
    return NULL;
}

/* Places of the sandbox's own system; every warden checks for its backend again. */
static const char *mount_path_problem(const char *path)
{
    static const char *const trees[] = {"/bin",   "/boot",  "/dev",    "/etc", "/lib",
                                        "/lib32", "/lib64", "/proc",   "/run", "/sbin",
                                        "/sys",   "/usr",   "/libx32", "/var"};
    const char *why = box_spec_path_problem(path);
    if (why != NULL)
        return why;
    for (size_t i = 0; i < BOX_COUNT(trees); i++) {
        size_t len = strlen(trees[i]);
        if (strncmp(path, trees[i], len) == 0 && (path[len] == '\0' || path[len] == '/'))
            return "belongs to the sandbox's system";
    }
    bool taken = strcmp(path, "/tmp") == 0 || strcmp(path, "/home") == 0;
    return strcmp(path, "/") == 0 ? "cannot be the root" : taken ? "is mounted already" : NULL;
}

static void check_paths(box_checker *c, const box_spec *s)
{
    if (s->set & BOX_SPEC_HOST_PATH) {
        const char *why = box_spec_path_problem(s->host_path);
        if (why != NULL)
            box_checker_add(c, "host_path", why);
    }
    if (s->set & BOX_SPEC_MOUNT_PATH) {
        const char *why = mount_path_problem(s->mount_path);
        if (why != NULL)
            box_checker_add(c, "mount_path", why);
    }
    if ((s->set & BOX_SPEC_WORKDIR) && (s->workdir[0] != '/' || strlen(s->workdir) > 4095))
        box_checker_add(c, "workdir", "must be absolute, of at most 4095 bytes");
}

static void check_names(box_checker *c, const box_spec *s)
{
    static const struct {
        uint32_t bit;
        size_t offset;
    } names[] = {
        {BOX_SPEC_IMAGE, offsetof(box_spec, image)},
        {BOX_SPEC_PROFILE, offsetof(box_spec, profile)},
        {BOX_SPEC_BACKEND, offsetof(box_spec, backend)},
    };
    for (size_t i = 0; i < BOX_COUNT(names); i++) {
        if ((s->set & names[i].bit) == 0)
            continue;
        const char *value = *(char *const *)(const void *)((const char *)s + names[i].offset);
        if (strlen(value) > BOX_MAX_ID_BYTES - 1)
            box_checker_add(c, box_spec_field_name(names[i].bit), "longer than 255 bytes");
    }
    if ((s->set & BOX_SPEC_PROFILE) && s->profile[0] != '\0' &&
        box_profile_find(s->profile) == NULL)
        box_checker_add(c, "profile",
                        "there are default, offline_readonly, network_basic and network_extended");
}

static void check_numbers(box_checker *c, const box_spec *s)
{
    /* The largest machine there is. */
    enum { MIN_CPU = 10, MAX_CPU = 1024 * 1000 };
    if ((s->set & BOX_SPEC_CPU) && (s->cpu_millis < MIN_CPU || s->cpu_millis > MAX_CPU))
        box_checker_add(c, "cpu_millis", "must be 10 to 1024000 (1000 = one core)");
    if ((s->set & BOX_SPEC_MEMORY) && s->memory_bytes < BOX_MIN_MEMORY_BYTES)
        box_checker_add(c, "memory_bytes", "must be at least 32 MiB");
    if ((s->set & BOX_SPEC_MEMORY) && s->memory_bytes > INT64_C(1) << 46)
        box_checker_add(c, "memory_bytes", "must be at most 64 TiB");
    if ((s->set & BOX_SPEC_PIDS) && (s->pids < 1 || s->pids > 4194304))
        box_checker_add(c, "pids_limit", "must be 1 to 4194304");
    if ((s->set & BOX_SPEC_WORKSPACE_LIMIT) &&
        (s->workspace_limit_bytes < 0 || s->workspace_limit_bytes > INT64_C(1) << 46))
        box_checker_add(c, "workspace_limit_bytes", "must be 0 (the default) to 64 TiB");
    if ((s->set & BOX_SPEC_IDLE_TTL) && s->idle_ttl_ns > 0 && s->idle_ttl_ns < BOX_SECOND)
        box_checker_add(c, "idle_ttl", "must be 0 (none) or at least 1 s");
    if ((s->set & BOX_SPEC_MAX_LIFETIME) &&
        (s->max_lifetime_ns < BOX_SECOND ||
         s->max_lifetime_ns > BOX_SESSION_LIFETIME_SECONDS * BOX_SECOND))
        box_checker_add(c, "max_lifetime", "must be 1 s to 48 h");
    if ((s->set & BOX_SPEC_COMMAND_TIMEOUT) && s->command_timeout_ns == 0)
        box_checker_add(c, "command_timeout", "must be greater than 0");
    if ((s->set & BOX_SPEC_MAX_PARALLEL_EXECS) &&
        (s->max_parallel_execs < 1 || s->max_parallel_execs > BOX_MAX_PARALLEL_EXECS))
        box_checker_add(c, "max_parallel_execs", "must be 1 to 64");
}

int box_spec_labels_check(const box_label *labels, size_t n, const char *field, box_error *err)
{
    int bad = 0;
    if (n > BOX_MAX_LABELS)
        bad |= box_violation(err, field, "more than %d labels", BOX_MAX_LABELS);
    for (size_t i = 0; i < n && i < BOX_MAX_LABELS; i++) {
        size_t key = strlen(labels[i].key);
        if (key == 0 || key > BOX_MAX_LABEL_KEY_BYTES)
            bad |=
                box_violation(err, field, "a key must have 1 to %d bytes", BOX_MAX_LABEL_KEY_BYTES);
        if (strlen(labels[i].value) > BOX_MAX_LABEL_VALUE_BYTES)
            bad |= box_violation(err, field, "a value has more than %d bytes",
                                 BOX_MAX_LABEL_VALUE_BYTES);
        for (size_t j = 0; j < i; j++) {
            if (strcmp(labels[i].key, labels[j].key) == 0)
                bad |= box_violation(err, field, "the key %s stands twice", labels[i].key);
        }
    }
    return bad;
}

static void check_env(box_checker *c, const box_spec *s)
{
    uint64_t total = 0;
    bool named = true;
    bool fits = s->n_env <= BOX_MAX_ENV;
    for (size_t i = 0; fits && i < s->n_env; i++) {
        const char *key = s->env[i].key;
        size_t len = strlen(key) + 1 + strlen(s->env[i].value);
        named &= key[0] != '\0' && strchr(key, '=') == NULL;
        total += len + 1;
        fits &= len < BOX_MAX_ARG_BYTES && total <= BOX_MAX_ARGV_ENV_BYTES;
    }
    if (!named)
        box_checker_add(c, "env", "a key is empty or holds '='");
    if (!fits)
        box_checker_add(c, "env", "too many or too long entries");
}

int box_spec_check(const box_spec *s, const char *prefix, box_error *err)
{
    box_checker c = {.prefix = prefix, .err = err};
    char labels[80];
    (void)snprintf(labels, sizeof labels, "%slabels", prefix);
    check_names(&c, s);
    check_paths(&c, s);
    check_numbers(&c, s);
    if (s->set & BOX_SPEC_ENV)
        check_env(&c, s);
    if (s->set & BOX_SPEC_LABELS)
        c.bad |= box_spec_labels_check(s->labels, s->n_labels, labels, err);
    return c.bad;
}

/* --- comparing -------------------------------------------------------------------------------- */

/* "" and absent are the same: nothing named. */
static bool text_differs(const char *a, const char *b)
{
    return strcmp(a != NULL ? a : "", b != NULL ? b : "") != 0;
}

uint32_t box_spec_differences(const box_spec *asked, const box_spec *have)
{
    const struct {
        uint32_t bit;
        bool differs;
    } rows[] = {
        {BOX_SPEC_NETWORK, asked->network_on != have->network_on},
        {BOX_SPEC_IMAGE, text_differs(asked->image, have->image)},
        {BOX_SPEC_HOST_PATH, text_differs(asked->host_path, have->host_path)},
        {BOX_SPEC_HOST_PATH_MODE, asked->host_path_mode != have->host_path_mode},
        {BOX_SPEC_MOUNT_PATH, text_differs(asked->mount_path, have->mount_path)},
        {BOX_SPEC_PERSISTENT, asked->persistent != have->persistent},
        {BOX_SPEC_CPU, asked->cpu_millis != have->cpu_millis},
        {BOX_SPEC_MEMORY, asked->memory_bytes != have->memory_bytes},
        {BOX_SPEC_PIDS, asked->pids != have->pids},
        {BOX_SPEC_READ_ONLY_ROOTFS, asked->read_only_rootfs != have->read_only_rootfs},
        {BOX_SPEC_WORKSPACE_LIMIT, asked->workspace_limit_bytes != have->workspace_limit_bytes},
        {BOX_SPEC_PROFILE, text_differs(asked->profile, have->profile)},
        {BOX_SPEC_BACKEND, text_differs(asked->backend, have->backend)},
    };
    uint32_t out = 0;
    for (size_t i = 0; i < BOX_COUNT(rows); i++) {
        if ((asked->set & rows[i].bit) && rows[i].differs)
            out |= rows[i].bit;
    }
    return out;
}
