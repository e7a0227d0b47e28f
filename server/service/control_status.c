/* ControlService: GetStatus. */
#include "base/alloc.h"
#include "box/v1/types.fields.h"
#include "service/control_impl.h"
#include "service/process_memory.h"
#include "service/session_convert.h"
#include "session/profile.h"

enum { MAX_WARNINGS = 16, MAX_PROFILES = 8, MAX_LOCKED = 22 /* fields of a spec */ };

/* The answer, with what it points to. */
typedef struct status_view {
    Box__V1__GetStatusResponse message;
    box_control_settings settings;
    box_backend_report backend;
    Google__Protobuf__Timestamp started;
    Google__Protobuf__Duration ttl;
    Box__V1__SessionStateCount states[BOX_CONTROL_STATES];
    Box__V1__SessionStateCount *state_list[BOX_CONTROL_STATES];
    struct {
        Box__V1__Profile message;
        Google__Protobuf__Duration timeout, max_timeout;
        char *locked[MAX_LOCKED];
    } profiles[MAX_PROFILES];
    Box__V1__Profile *profile_list[MAX_PROFILES];
    Box__V1__Limits limits;
    char *warnings[MAX_WARNINGS];
    Box__V1__ServerStatus server;
    Box__V1__Limits server_limits;
    Google__Protobuf__Timestamp certificate;
} status_view;

static void view_backend(status_view *v, box_control *c)
{
    static char none[] = "no backend works: see ListBackends";
    v->message.backend_error = none;
    if (!box_control_selected(c, &v->backend))
        return;
    v->message.backend = v->backend.name;
    v->message.available = v->backend.available;
    v->message.backend_error =
        v->backend.available ? (char *)(uintptr_t)protobuf_c_empty_string : v->backend.detail;
}

static void view_states(status_view *v, const box_control *c, const char *tenant)
{
    uint32_t counts[BOX_CONTROL_STATES] = {0};
    size_t n = 0;
    c->config.facts.states(c->config.facts.arg, tenant, counts);
    for (size_t i = 1; i < BOX_CONTROL_STATES; i++) {
        if (counts[i] == 0)
            continue;
        box__v1__session_state_count__init(&v->states[n]);
        v->states[n].state = box_view_state((box_session_state)i);
        v->states[n].count = (int32_t)counts[i];
        v->state_list[n] = &v->states[n];
        n++;
    }
    v->message.sessions_by_state = v->state_list;
    v->message.n_sessions_by_state = n;
}

static size_t view_locked(uint32_t locked, char *names[MAX_LOCKED])
{
    size_t n = 0;
    for (uint32_t bit = 1; bit <= BOX_SPEC_ALL; bit <<= 1) {
        if ((locked & bit) != 0)
            names[n++] = (char *)(uintptr_t)box_spec_field_name(bit); /* read only */
    }
    return n;
}

static void view_profiles(status_view *v)
{
    size_t n = 0;
    const box_profile *p;
    for (; n < MAX_PROFILES && (p = box_profile_at(n)) != NULL; n++) {
        Box__V1__Profile *m = &v->profiles[n].message;
        box__v1__profile__init(m);
        m->name = (char *)(uintptr_t)p->name; /* read only, while packing */
        m->network = p->network_on ? BOX__V1__NETWORK_MODE__NETWORK_MODE_ON
                                   : BOX__V1__NETWORK_MODE__NETWORK_MODE_OFF;
        m->host_path_mode = p->host_path_mode == BOX_HOST_PATH_RO
                                ? BOX__V1__MOUNT_MODE__MOUNT_MODE_READ_ONLY
                                : BOX__V1__MOUNT_MODE__MOUNT_MODE_READ_WRITE;
        m->command_timeout = box_times_span(&v->profiles[n].timeout, p->timeout_ns);
        m->max_timeout = box_times_span(&v->profiles[n].max_timeout, p->max_timeout_ns);
        m->cpu_millis = p->cpu_millis;
        m->memory_bytes = p->memory_bytes;
        m->pids_limit = (int32_t)p->pids;
        m->read_only_rootfs = p->read_only_rootfs;
        m->n_locked_fields = view_locked(p->locked, v->profiles[n].locked);
        m->locked_fields = v->profiles[n].locked;
        v->profile_list[n] = m;
    }
    v->message.profiles = v->profile_list;
    v->message.n_profiles = n;
}

static void add_warning(status_view *v, const char *text)
{
    if (v->message.n_warnings < MAX_WARNINGS)
        v->warnings[v->message.n_warnings++] = (char *)(uintptr_t)text; /* read only */
}

static void view_warnings(status_view *v, const box_control *c)
{
    v->message.warnings = v->warnings;
    if (v->backend.available && v->backend.isolation == 0)
        add_warning(v, "backend host: commands run without isolation");
    if (box_policy_auth_off(c->config.policy))
        add_warning(v, "server.auth is off: every local caller is an administrator");
    for (const char *const *w = c->config.warnings; w != NULL && *w != NULL; w++)
        add_warning(v, *w);
}

static void view_server(status_view *v, const box_control *c)
{
    box_sessions_stats stats = {0};
    box_control_traffic traffic = {0};
    Box__V1__ServerStatus *s = &v->server;
    c->config.facts.stats(c->config.facts.arg, NULL, &stats);
    if (c->config.hooks.traffic != NULL)
        c->config.hooks.traffic(c->config.hooks.arg, &traffic);
    box__v1__server_status__init(s);
    box__v1__limits__init(&v->server_limits);
    s->active_sessions = (int32_t)stats.live;
    s->active_execs = (int32_t)stats.running_execs;
    s->managed_processes = (int32_t)stats.running_processes;
    s->tenants = (int32_t)box_policy_tenant_count(c->config.policy);
    s->connections = (int32_t)traffic.connections;
    s->active_calls = (int32_t)traffic.calls;
    s->loop_threads = c->config.loops;
    s->resident_bytes = box_process_resident_bytes();
    s->warm_sandboxes = (int32_t)stats.warm_ready;
    s->warm_pool_size = (int32_t)stats.warm_wanted;
    s->certificate_expires_at =
        box_times_stamp(&v->certificate, atomic_load(&c->certificate_expires_ns));
    box__v1__limits__set_max_sessions(&v->server_limits, v->settings.max_sessions);
    s->limits = &v->server_limits;
    v->message.server = s;
}

static int answer_status(box_call *call, const char *name, box_error *err)
{
    box_control *c = box_call_context(call);
    const box_identity *who = box_call_identity(call);
    static char version[] = BOX_VERSION;
    box_sessions_stats stats = {0};
    (void)name; /* asks for none */
    if (who == NULL)
        return box_fail(err, BOX_UNAUTHENTICATED, "this call needs a known caller");
    BOX_AUTO(box_freep) status_view *v = box_alloc(sizeof *v);
    Box__V1__GetStatusResponse *m = &v->message;
    box__v1__get_status_response__init(m);
    v->settings = box_control_settings_get(c);
    c->config.facts.stats(c->config.facts.arg, who->tenant, &stats);
    m->version = version;
    m->started_at = box_times_stamp(&v->started, c->started_ns);
    m->enabled = v->settings.enabled;
    m->active_sessions = (int32_t)stats.live;
    m->active_execs = (int32_t)stats.running_execs;
    m->managed_processes = (int32_t)stats.running_processes;
    m->session_ttl = box_times_span(&v->ttl, c->config.idle_ttl_ns);
    m->recent_error_count =
        (int32_t)box_recent_count(box_policy_recent(c->config.policy), who->tenant);
    m->profile = v->settings.default_profile;
    m->initialized = box_policy_is_initialized(c->config.policy);
    box__v1__limits__init(&v->limits);
    box__v1__limits__set_max_sessions(&v->limits, c->config.max_sessions_per_tenant);
    box__v1__limits__set_max_tokens(&v->limits, c->config.max_tokens_per_tenant);
    m->limits = &v->limits;
    view_backend(v, c);
    view_states(v, c, who->tenant);
    view_profiles(v);
    view_warnings(v, c);
    if ((who->scopes & BOX_SCOPE_ADMIN_READ) != 0)
        view_server(v, c);
    box_v1_control_service_get_status_answer(call, m);
    return 0;
}

int box_control_get_status(box_call *call, const Box__V1__GetStatusRequest *r, box_error *err)
{
    (void)r; /* has no fields */
    return box_control_when_known(call, "", answer_status, err);
}
