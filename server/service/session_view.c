/* Sessions as messages. */
#include "base/alloc.h"
#include "box/v1/types.fields.h"
#include "service/session_convert.h"
#include "warden/protocol.h"

/* Messages are read only while they are packed; protobuf-c has no const fields. */
static char *text(const char *s)
{
    return (char *)(uintptr_t)(s != NULL ? s : "");
}

Box__V1__SessionState box_view_state(box_session_state s)
{
    return (Box__V1__SessionState)s; /* the same numbers: asserted in the test */
}

static Box__V1__StopReason view_reason(box_stop_reason r)
{
    static const Box__V1__StopReason reasons[] = {
        [BOX_STOP_NONE] = BOX__V1__STOP_REASON__STOP_REASON_UNSPECIFIED,
        [BOX_STOP_REQUESTED] = BOX__V1__STOP_REASON__STOP_REASON_REQUESTED,
        [BOX_STOP_IDLE] = BOX__V1__STOP_REASON__STOP_REASON_IDLE,
        [BOX_STOP_LIFETIME] = BOX__V1__STOP_REASON__STOP_REASON_LIFETIME,
        [BOX_STOP_EXEC_TIMEOUT] = BOX__V1__STOP_REASON__STOP_REASON_EXEC_TIMEOUT,
        [BOX_STOP_DELETED] = BOX__V1__STOP_REASON__STOP_REASON_DELETED,
        [BOX_STOP_SHUTDOWN] = BOX__V1__STOP_REASON__STOP_REASON_SHUTDOWN,
        [BOX_STOP_LOST] = BOX__V1__STOP_REASON__STOP_REASON_SANDBOX_LOST,
        [BOX_STOP_CREATE_FAILED] = BOX__V1__STOP_REASON__STOP_REASON_START_FAILED,
        [BOX_STOP_REVOKED] = BOX__V1__STOP_REASON__STOP_REASON_REVOKED,
        [BOX_STOP_EVICTED] = BOX__V1__STOP_REASON__STOP_REASON_EVICTED,
        [BOX_STOP_BROKEN] = BOX__V1__STOP_REASON__STOP_REASON_BROKEN,
    };
    return reasons[r];
}

static void add_adjustment(box_adjustment_view *v, const char *prefix, const char *field,
                           const char *requested, const char *effective, const char *rule)
{
    Box__V1__Adjustment *m = &v->messages[v->n];
    box__v1__adjustment__init(m);
    (void)snprintf(v->fields[v->n], sizeof v->fields[v->n], "%s%s", prefix, field);
    m->field = v->fields[v->n];
    m->requested = text(requested);
    m->effective = text(effective);
    m->rule = text(rule);
    v->pointers[v->n] = m;
    v->n++;
}

void box_view_adjustments(box_adjustment_view *v, const box_session_info *info)
{
    v->n = 0;
    for (size_t i = 0; i < info->n_adjustments; i++) {
        const box_adjustment *a = &info->adjustments[i];
        add_adjustment(v, "spec.", a->field, a->requested, a->effective, a->rule);
    }
}

void box_view_timeout(box_adjustment_view *v, int64_t asked_ns, uint64_t effective_ns)
{
    (void)snprintf(v->texts[0], sizeof v->texts[0], "%.9gs", (double)asked_ns / (double)BOX_SECOND);
    (void)snprintf(v->texts[1], sizeof v->texts[1], "%.9gs",
                   (double)effective_ns / (double)BOX_SECOND);
    add_adjustment(v, "command.", "timeout", asked_ns > 0 ? v->texts[0] : "", v->texts[1],
                   "profile.max_timeout");
}

static void view_labels(box_session_view *v, const box_spec *s)
{
    size_t n = s->n_labels < BOX_VIEW_LABELS ? s->n_labels : BOX_VIEW_LABELS; /* checked before */
    for (size_t i = 0; i < n; i++) {
        box__v1__session_spec__labels_entry__init(&v->labels[i]);
        v->labels[i].key = text(s->labels[i].key);
        v->labels[i].value = text(s->labels[i].value);
        v->label_pointers[i] = &v->labels[i];
    }
    v->spec.labels = v->label_pointers;
    v->spec.n_labels = n;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void view_env_keys(box_session_view *v, const box_spec *s)
{
    v->env_keys = s->n_env > 0 ? box_alloc_array(s->n_env, sizeof(char *)) : NULL;
    for (size_t i = 0; i < s->n_env; i++)
        v->env_keys[i] = s->env[i].key;
    if (s->n_env > 1)
        qsort(v->env_keys, s->n_env, sizeof(char *), by_text);
    v->message.env_keys = v->env_keys;
    v->message.n_env_keys = s->n_env;
}

static Box__V1__MountMode view_mode(box_host_path_mode m)
{
    return m == BOX_HOST_PATH_RW   ? BOX__V1__MOUNT_MODE__MOUNT_MODE_READ_WRITE
           : m == BOX_HOST_PATH_RO ? BOX__V1__MOUNT_MODE__MOUNT_MODE_READ_ONLY
                                   : BOX__V1__MOUNT_MODE__MOUNT_MODE_NONE;
}

static void view_spec(box_session_view *v, const box_session_info *info)
{
    const box_spec *s = &info->spec;
    Box__V1__SessionSpec *m = &v->spec;
    box__v1__session_spec__init(m);
    m->profile = text(s->profile);
    m->backend = text(s->backend);
    bool host_root = s->image[0] == '\0' && strcmp(info->backend, "namespace") == 0;
    m->image = text(host_root ? "host" : s->image);
    m->network = s->network_on ? BOX__V1__NETWORK_MODE__NETWORK_MODE_ON
                               : BOX__V1__NETWORK_MODE__NETWORK_MODE_OFF;
    m->host_path = text(s->host_path);
    m->host_path_mode = view_mode(s->host_path_mode);
    m->mount_path = text(s->mount_path);
    m->workdir = text(s->workdir);
    box__v1__session_spec__set_persistent(m, s->persistent);
    box__v1__session_spec__set_cpu_millis(m, s->cpu_millis);
    box__v1__session_spec__set_memory_bytes(m, s->memory_bytes);
    box__v1__session_spec__set_pids_limit(m, (int32_t)s->pids);
    box__v1__session_spec__set_read_only_rootfs(m, s->read_only_rootfs);
    box__v1__session_spec__set_workspace_limit_bytes(m, s->workspace_limit_bytes);
    box__v1__session_spec__set_max_parallel_execs(m, (int32_t)s->max_parallel_execs);
    box__v1__session_spec__set_destroy_on_timeout(m, s->destroy_on_timeout);
    m->command_timeout = box_times_span(&v->timeout, s->command_timeout_ns);
    box_view_tools(&v->tools, &s->tools);
    m->tools = &v->tools.message;
    m->idle_ttl = box_times_span(&v->idle, s->idle_ttl_ns);
    m->max_lifetime = box_times_span(&v->lifetime, s->max_lifetime_ns);
    view_labels(v, s);
    for (unsigned i = 0; i < BOX_VIEW_GUARANTEES; i++) {
        if (s->guarantees >> i & 1)
            v->required[m->n_guarantees++] = text(box_guarantee_name(UINT32_C(1) << i));
    }
    m->guarantees = v->required;
}

static void view_guarantees(box_session_view *v, const box_session_info *info)
{
    size_t n = 0;
    for (unsigned i = 0; i < BOX_VIEW_GUARANTEES; i++) {
        uint32_t bit = UINT32_C(1) << i;
        Box__V1__Guarantee *g = &v->guarantees[n];
        box__v1__guarantee__init(g);
        g->name = text(box_guarantee_name(bit));
        g->holds = (info->guarantees & bit) != 0;
        g->required = (info->required & bit) != 0;
        if (info->best_effort & bit)
            g->detail = text("the profile wants it; this host cannot give it");
        v->guarantee_pointers[n++] = g;
    }
    v->message.guarantees = v->guarantee_pointers;
    v->message.n_guarantees = n;
}

void box_view_session(box_session_view *v, const box_session_info *info)
{
    *v = (box_session_view){0};
    Box__V1__Session *m = &v->message;
    box__v1__session__init(m);
    box_uid_text(&info->uid, v->uid);
    view_spec(v, info);
    view_env_keys(v, &info->spec);
    view_guarantees(v, info);
    box_view_adjustments(&v->adjustments, info);
    m->session_id = text(info->id);
    m->uid = v->uid;
    m->state = box_view_state(info->state);
    m->stop_reason = view_reason(info->stop_reason);
    m->state_detail = text(info->error.msg);
    m->backend = text(info->backend);
    m->spec = &v->spec;
    m->adjustments = v->adjustments.pointers;
    m->n_adjustments = v->adjustments.n;
    m->created_at = box_times_stamp(&v->created, info->created_wall_ns);
    m->updated_at = box_times_stamp(&v->updated, info->updated_wall_ns);
    m->last_used_at = box_times_stamp(&v->used, info->last_used_wall_ns);
    m->expires_at = box_times_stamp(&v->expires, info->expires_wall_ns);
    m->stopped_at = box_times_stamp(&v->stopped, info->stopped_wall_ns);
    m->active_execs = (int32_t)info->running_execs;
    m->queued_execs = (int32_t)info->queued_execs;
    m->running_processes = (int32_t)info->running_processes;
    m->total_execs = (int64_t)info->total_execs;
    m->rebuilds = (int32_t)info->rebuilds;
}

void box_view_usage(box_session_view *v, const box_session_usage *usage)
{
    if (!usage->measured)
        return;
    Box__V1__SessionUsage *m = &v->usage;
    box__v1__session_usage__init(m);
    if (usage->memory_bytes >= 0)
        box__v1__session_usage__set_memory_bytes(m, usage->memory_bytes);
    if (usage->memory_peak_bytes >= 0)
        box__v1__session_usage__set_memory_peak_bytes(m, usage->memory_peak_bytes);
    if (usage->pids >= 0)
        box__v1__session_usage__set_process_count(m, (int32_t)usage->pids);
    if (usage->workspace_bytes >= 0) {
        box__v1__session_usage__set_workspace_bytes(m, usage->workspace_bytes);
        box__v1__session_usage__set_workspace_limit_bytes(m, usage->workspace_limit_bytes);
        box__v1__session_usage__set_workspace_inodes(m, usage->workspace_inodes);
        box__v1__session_usage__set_workspace_inode_limit(m, usage->workspace_inode_limit);
    }
    if (usage->oom_kills >= 0)
        box__v1__session_usage__set_oom_kills(m, usage->oom_kills);
    if (usage->cpu_ns >= 0)
        m->cpu_time = box_times_span(&v->cpu, (uint64_t)usage->cpu_ns);
    m->measured_at = box_times_stamp(&v->measured, box_wall_ns());
    v->message.usage = m;
}

void box_session_view_done(box_session_view *v)
{
    free(v->env_keys);
    v->env_keys = NULL;
    box_tool_choice_view_done(&v->tools);
}
