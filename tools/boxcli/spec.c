#include "spec.h"

#include "base/alloc.h"
#include "base/clock.h"

enum {
    OPT_PROFILE = 0x100,
    OPT_BACKEND,
    OPT_IMAGE,
    OPT_NETWORK,
    OPT_MEMORY,
    OPT_CPU,
    OPT_PIDS,
    OPT_WORKSPACE,
    OPT_HOST_PATH,
    OPT_HOST_MODE,
    OPT_MOUNT_PATH,
    OPT_WRITABLE_ROOT,
    OPT_PERSISTENT,
    OPT_LABEL,
    OPT_SESSION_ENV,
    OPT_IDLE_TTL,
    OPT_LIFETIME,
    OPT_PARALLEL,
    OPT_DESTROY,
    OPT_GUARANTEE,
    OPT_TOOLS,
};

/* What can change while a session lives. */
static const struct argp_option live_options[] = {
    {.name = "memory",
     .key = OPT_MEMORY,
     .arg = "SIZE",
     .doc = "memory limit, such as 512MiB",
     .group = 10},
    {.name = "cpu", .key = OPT_CPU, .arg = "CORES", .doc = "CPU limit, such as 0.5"},
    {.name = "pids", .key = OPT_PIDS, .arg = "N", .doc = "most processes and threads at once"},
    {.name = "label", .key = OPT_LABEL, .arg = "K=V", .doc = "mark of your own; may be repeated"},
    {.name = "tools",
     .key = OPT_TOOLS,
     .arg = "LIST",
     .doc = "tools a model may call: names, as exec,read; all; none"},
    {.name = "idle-ttl",
     .key = OPT_IDLE_TTL,
     .arg = "TIME",
     .doc = "ends when unused for this long, such as 5m"},
    {.name = "max-parallel-execs",
     .key = OPT_PARALLEL,
     .arg = "N",
     .doc = "commands that run at once (1)"},
    {0},
};

/* argp puts an empty line below a text that reaches its right margin: keep them under 49 bytes. */
static const struct argp_option options[] = {
    {.doc = "Sandbox:", .group = 10},
    {.name = "profile",
     .key = OPT_PROFILE,
     .arg = "NAME",
     .doc = "defaults and locks: default, offline_readonly..."},
    {.name = "backend",
     .key = OPT_BACKEND,
     .arg = "NAME",
     .doc = "namespace, auto...; default: the server's choice"},
    {.name = "image", .key = OPT_IMAGE, .arg = "NAME", .doc = "root file system (not built yet)"},
    {.name = "network",
     .key = OPT_NETWORK,
     .arg = "on|off",
     .doc = "default: the profile's (on: not built yet)"},
    {.name = "workspace",
     .key = OPT_WORKSPACE,
     .arg = "SIZE",
     .doc = "hard size of a private /workspace"},
    {.name = "host-path",
     .key = OPT_HOST_PATH,
     .arg = "DIR",
     .doc = "this directory of the server as the workspace"},
    {.name = "host-path-mode", .key = OPT_HOST_MODE, .arg = "ro|rw|none", .doc = "how"},
    {.name = "mount-path",
     .key = OPT_MOUNT_PATH,
     .arg = "DIR",
     .doc = "where the workspace is inside (/workspace)"},
    {.name = "writable-root",
     .key = OPT_WRITABLE_ROOT,
     .doc = "/ may be written, up to 16 MiB; /usr and /etc stay read-only"},
    {.name = "persistent",
     .key = OPT_PERSISTENT,
     .doc = "outlives idle time and the server's restarts; not for run"},
    {.name = "session-env",
     .key = OPT_SESSION_ENV,
     .arg = "K=V",
     .doc = "environment of every command; may be repeated"},
    {.name = "max-lifetime",
     .key = OPT_LIFETIME,
     .arg = "TIME",
     .doc = "ends this long after its creation"},
    {.name = "destroy-on-timeout",
     .key = OPT_DESTROY,
     .doc = "a command's timeout ends the session"},
    {.name = "guarantee",
     .key = OPT_GUARANTEE,
     .arg = "NAME",
     .doc = "must hold, or nothing is made; may be repeated"},
    {0},
};

void cli_map_add(size_t *count, void ***array, size_t size, void (*init)(void *), size_t key_at,
                 size_t value_at, struct argp_state *state, const char *text)
{
    const char *equals = strchr(text, '=');
    if (equals == NULL || equals == text)
        argp_error(state, "%s: expected KEY=VALUE", text);
    void **grown = box_alloc_array(*count + 1, sizeof *grown);
    if (*count > 0)
        memcpy(grown, *array, *count * sizeof *grown);
    char *entry = box_alloc(size);
    init(entry);
    size_t key_len = (size_t)(equals - text);
    char *key = box_alloc(key_len + 1);
    memcpy(key, text, key_len);
    *(char **)(void *)(entry + key_at) = key;
    *(char **)(void *)(entry + value_at) = box_strdup(equals + 1);
    grown[(*count)++] = entry;
    free(*array);
    *array = grown;
}

Google__Protobuf__Duration *cli_duration_message(uint64_t ns)
{
    Google__Protobuf__Duration *d = box_alloc(sizeof *d);
    google__protobuf__duration__init(d);
    d->seconds = (int64_t)(ns / BOX_SECOND);
    d->nanos = (int32_t)(ns % BOX_SECOND);
    return d;
}

void cli_duration_set(Google__Protobuf__Duration **field, uint64_t ns)
{
    free(*field);
    *field = cli_duration_message(ns);
}

static Box__V1__SessionSpec *spec_of(cli_spec_args *a)
{
    if (a->spec == NULL) {
        a->spec = box_alloc(sizeof *a->spec);
        box__v1__session_spec__init(a->spec);
    }
    return a->spec;
}

static void set_text(char **field, const char *text)
{
    if (*field != (const char *)protobuf_c_empty_string)
        free(*field);
    *field = box_strdup(text);
}

static Box__V1__NetworkMode parse_network(struct argp_state *state, const char *text)
{
    if (strcmp(text, "on") == 0)
        return BOX__V1__NETWORK_MODE__NETWORK_MODE_ON;
    if (strcmp(text, "off") != 0)
        argp_error(state, "--network %s: expected on or off", text);
    return BOX__V1__NETWORK_MODE__NETWORK_MODE_OFF;
}

static Box__V1__MountMode parse_mode(struct argp_state *state, const char *text)
{
    if (strcmp(text, "ro") == 0)
        return BOX__V1__MOUNT_MODE__MOUNT_MODE_READ_ONLY;
    if (strcmp(text, "none") == 0)
        return BOX__V1__MOUNT_MODE__MOUNT_MODE_NONE;
    if (strcmp(text, "rw") != 0)
        argp_error(state, "--host-path-mode %s: expected ro, rw or none", text);
    return BOX__V1__MOUNT_MODE__MOUNT_MODE_READ_WRITE;
}

static void add_guarantee(Box__V1__SessionSpec *spec, const char *name)
{
    char **grown = box_alloc_array(spec->n_guarantees + 1, sizeof *grown);
    if (spec->n_guarantees > 0)
        memcpy(grown, spec->guarantees, spec->n_guarantees * sizeof *grown);
    grown[spec->n_guarantees++] = box_strdup(name);
    free(spec->guarantees);
    spec->guarantees = grown;
}

/* "all", "none", or names with commas between. */
static Box__V1__ToolSelection *parse_tools(const char *text)
{
    Box__V1__ToolSelection *t = box_alloc(sizeof *t);
    box__v1__tool_selection__init(t);
    t->all = strcmp(text, "all") == 0;
    if (t->all || strcmp(text, "none") == 0)
        return t;
    t->names = box_alloc_array(strlen(text) + 1, sizeof *t->names); /* more than there are */
    BOX_AUTO(box_freep) char *copy = box_strdup(text);
    char *rest = copy;
    for (char *name; (name = strsep(&rest, ",")) != NULL;)
        t->names[t->n_names++] = box_strdup(name);
    return t;
}

static error_t parse_live(int key, char *arg, struct argp_state *state)
{
    cli_spec_args *a = state->input;
    switch (key) {
    case OPT_TOOLS:
        cli_message_free(spec_of(a)->tools);
        a->spec->tools = parse_tools(arg);
        return 0;
    case OPT_MEMORY:
        box__v1__session_spec__set_memory_bytes(spec_of(a), cli_bytes(state, "--memory", arg));
        return 0;
    case OPT_CPU:
        box__v1__session_spec__set_cpu_millis(spec_of(a), cli_cores(state, arg));
        return 0;
    case OPT_PIDS:
        box__v1__session_spec__set_pids_limit(
            spec_of(a), (int32_t)cli_number(state, "--pids", arg, 1, INT32_MAX));
        return 0;
    case OPT_PARALLEL:
        box__v1__session_spec__set_max_parallel_execs(
            spec_of(a), (int32_t)cli_number(state, "--max-parallel-execs", arg, 1, 64));
        return 0;
    case OPT_IDLE_TTL:
        free(spec_of(a)->idle_ttl);
        a->spec->idle_ttl = cli_duration_message(cli_duration(state, "--idle-ttl", arg));
        return 0;
    case OPT_LABEL:
        (void)spec_of(a); /* arguments have no order: it is made before them */
        CLI_MAP_ADD(&a->spec->n_labels, &a->spec->labels, Box__V1__SessionSpec__LabelsEntry,
                    box__v1__session_spec__labels_entry__init, state, arg);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    cli_spec_args *a = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = a;
        return 0;
    case OPT_PROFILE:
        set_text(&spec_of(a)->profile, arg);
        return 0;
    case OPT_BACKEND:
        set_text(&spec_of(a)->backend, arg);
        return 0;
    case OPT_IMAGE:
        set_text(&spec_of(a)->image, arg);
        return 0;
    case OPT_HOST_PATH:
        set_text(&spec_of(a)->host_path, arg);
        return 0;
    case OPT_MOUNT_PATH:
        set_text(&spec_of(a)->mount_path, arg);
        return 0;
    case OPT_NETWORK:
        spec_of(a)->network = parse_network(state, arg);
        return 0;
    case OPT_HOST_MODE:
        spec_of(a)->host_path_mode = parse_mode(state, arg);
        return 0;
    case OPT_WRITABLE_ROOT:
        box__v1__session_spec__set_read_only_rootfs(spec_of(a), false);
        return 0;
    case OPT_PERSISTENT:
        box__v1__session_spec__set_persistent(spec_of(a), true);
        return 0;
    case OPT_DESTROY:
        box__v1__session_spec__set_destroy_on_timeout(spec_of(a), true);
        return 0;
    case OPT_LIFETIME:
        free(spec_of(a)->max_lifetime);
        a->spec->max_lifetime = cli_duration_message(cli_duration(state, "--max-lifetime", arg));
        return 0;
    case OPT_WORKSPACE:
        box__v1__session_spec__set_workspace_limit_bytes(spec_of(a),
                                                         cli_bytes(state, "--workspace", arg));
        return 0;
    case OPT_SESSION_ENV:
        (void)spec_of(a); /* arguments have no order: it is made before them */
        CLI_MAP_ADD(&a->spec->n_env, &a->spec->env, Box__V1__SessionSpec__EnvEntry,
                    box__v1__session_spec__env_entry__init, state, arg);
        return 0;
    case OPT_GUARANTEE:
        add_guarantee(spec_of(a), arg);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

const struct argp cli_live_argp = {.options = live_options, .parser = parse_live};

static const struct argp_child children[] = {{.argp = &cli_live_argp}, {0}};
const struct argp cli_spec_argp = {.options = options, .parser = parse, .children = children};
