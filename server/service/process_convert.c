#include "service/process_convert.h"

#include "agent/process.h"
#include "base/alloc.h"
#include "box/v1/process.fields.h"
#include "box/v1/types.fields.h"

/* --- in: the record --------------------------------------------------------------------------- */

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* What is shown of a process later: its spec without the values of variables, and their names. */
static void make_record(const Box__V1__ProcessSpec *m, box_process_request_view *out)
{
    Box__V1__ManagedProcess shown;
    box__v1__managed_process__init(&shown);
    Box__V1__ProcessSpec spec = *m;
    Box__V1__Readiness readiness;
    Box__V1__Command probe;
    BOX_AUTO(box_freep) char **keys = box_alloc_array(m->n_env + 1, sizeof *keys);
    for (size_t i = 0; i < m->n_env; i++)
        keys[i] = m->env[i]->key;
    qsort(keys, m->n_env, sizeof *keys, by_text);
    spec.n_env = 0;
    if (m->readiness != NULL && m->readiness->probe_case == BOX__V1__READINESS__PROBE_COMMAND) {
        readiness = *m->readiness;
        probe = *readiness.command;
        probe.n_env = 0;
        readiness.command = &probe;
        spec.readiness = &readiness;
    }
    shown.spec = &spec;
    shown.env_keys = keys;
    shown.n_env_keys = m->n_env;
    size_t len = box__v1__managed_process__get_packed_size(&shown);
    out->record = box_alloc(len + 1);
    (void)box__v1__managed_process__pack(&shown, out->record); /* len, as just said */
    out->request.record = (box_bytes){.data = out->record, .len = len};
}

/* --- in: the parts ---------------------------------------------------------------------------- */

static int take_span(const Google__Protobuf__Duration *d, const char *field, bool *has,
                     int64_t *out, box_error *err)
{
    *has = d != NULL;
    int rc = d != NULL ? box_convert_span(d, field, out, err) : 0;
    *has &= rc == 0;
    return rc;
}

static int take_restart(const Box__V1__RestartPolicy *m, box_process_request *r, box_error *err)
{
    r->restart = BOX_RESTART_NEVER;
    if (m == NULL)
        return 0;
    int bad = 0;
    switch (m->mode) {
    case BOX__V1__RESTART_MODE__RESTART_MODE_UNSPECIFIED:
    case BOX__V1__RESTART_MODE__RESTART_MODE_NEVER:
        break;
    case BOX__V1__RESTART_MODE__RESTART_MODE_ON_FAILURE:
        r->restart = BOX_RESTART_ON_FAILURE;
        break;
    case BOX__V1__RESTART_MODE__RESTART_MODE_ALWAYS:
        r->restart = BOX_RESTART_ALWAYS;
        break;
    default:
        bad = box_violation(err, "spec.restart.mode", "is no known value");
        break;
    }
    r->max_restarts = m->max_restarts;
    bad |= take_span(m->first_backoff, "spec.restart.first_backoff", &r->has_first_backoff,
                     &r->first_backoff_ns, err);
    return bad | take_span(m->max_backoff, "spec.restart.max_backoff", &r->has_max_backoff,
                           &r->max_backoff_ns, err);
}

static int take_probe_command(const Box__V1__Command *m, box_process_request_view *out,
                              box_error *err)
{
    int bad = box_convert_command(m, NULL, &out->probe, err);
    const box_command *c = &out->probe.command;
    if (c->has_timeout || c->has_idle_timeout || c->has_output_limit || c->has_output_kill)
        bad |= box_violation(err, "spec.readiness.command",
                             "has its own limits: leave timeouts and output limits unset");
    out->request.readiness.command = c;
    return bad;
}

static int take_readiness(const Box__V1__Readiness *m, box_process_request_view *out,
                          box_error *err)
{
    box_readiness *r = &out->request.readiness;
    int bad = 0;
    if (m == NULL)
        return 0;
    switch (m->probe_case) {
    case BOX__V1__READINESS__PROBE_STDOUT_LINE:
        r->stdout_line = m->stdout_line;
        break;
    case BOX__V1__READINESS__PROBE_TCP_PORT:
        if (m->tcp_port < 1 || m->tcp_port > UINT16_MAX)
            bad = box_violation(err, "spec.readiness.tcp_port", "must be 1 to 65535");
        else
            r->tcp_port = (uint32_t)m->tcp_port;
        break;
    case BOX__V1__READINESS__PROBE_COMMAND:
        bad = take_probe_command(m->command, out, err);
        break;
    default:
        bad = box_violation(err, "spec.readiness.probe", "must be set");
        break;
    }
    return bad | take_span(m->interval, "spec.readiness.interval", &r->has_interval,
                           &r->interval_ns, err);
}

static int take_terminal(const Box__V1__Terminal *m, box_process_request *r, box_error *err)
{
    r->terminal = m != NULL;
    if (m == NULL)
        return 0;
    if (m->size != NULL) {
        r->rows = m->size->rows;
        r->columns = m->size->columns;
    }
    return strlen(m->term) <= BOX_TERM_BYTES
               ? 0
               : box_violation(err, "spec.terminal.term", "over 64 bytes");
}

static void take_command(const Box__V1__ProcessSpec *m, box_process_request_view *out)
{
    box_command *c = &out->command;
    c->argv = (const char *const *)m->argv;
    c->argc = m->n_argv;
    c->shell_command = m->shell_command[0] != '\0' ? m->shell_command : NULL;
    c->workdir = m->workdir;
    out->env = box_alloc_array(m->n_env + 1, sizeof *out->env);
    if (m->terminal != NULL) /* the process's own entry comes later, and wins */
        out->env[c->n_env++] =
            (box_env){"TERM", m->terminal->term[0] != '\0' ? m->terminal->term : "xterm-256color"};
    for (size_t i = 0; i < m->n_env; i++)
        out->env[c->n_env++] = (box_env){m->env[i]->key, m->env[i]->value};
    c->env = out->env;
    out->request.command = c;
}

static void take_limits(const Box__V1__ProcessSpec *m, box_process_request *r)
{
    r->has_memory = box__v1__process_spec__has_memory_bytes(m);
    r->memory_bytes = m->memory_bytes;
    r->has_pids = box__v1__process_spec__has_pids_limit(m);
    r->pids = m->pids_limit;
    r->has_cpu = box__v1__process_spec__has_cpu_millis(m);
    r->cpu_millis = m->cpu_millis;
}

static int check_built(const Box__V1__ProcessSpec *m, box_error *err)
{
    return m->skill_name[0] != '\0' ? box_convert_not_built("spec.skill_name", err) : 0;
}

int box_convert_process(const Box__V1__StartManagedProcessRequest *m, box_process_request_view *out,
                        box_error *err)
{
    *out = (box_process_request_view){0};
    box_process_request *r = &out->request;
    const Box__V1__ProcessSpec *spec = m->spec;
    r->session_id = m->session_id;
    r->process_id = m->process_id;
    r->replace = m->replace;
    r->idempotency_key = m->idempotency_key;
    int bad = take_span(m->ready_timeout, "ready_timeout", &r->has_ready_timeout,
                        &r->ready_timeout_ns, err);
    if (spec == NULL)
        return box_violation(err, "spec", "must be set");
    take_command(spec, out);
    take_limits(spec, r);
    r->has_journal = box__v1__process_spec__has_journal_limit_bytes(spec);
    r->journal_bytes = spec->journal_limit_bytes;
    r->stop_on_detach = spec->stop_on_detach;
    bad |= take_span(spec->stop_grace, "spec.stop_grace", &r->has_grace, &r->grace_ns, err);
    bad |= take_restart(spec->restart, r, err);
    bad |= take_readiness(spec->readiness, out, err);
    bad |= take_terminal(spec->terminal, r, err);
    make_record(spec, out);
    return bad == 0 ? check_built(spec, err) : bad;
}

void box_process_request_view_done(box_process_request_view *v)
{
    free(v->env);
    free(v->record);
    box_command_view_done(&v->probe);
    *v = (box_process_request_view){0};
}

/* --- out -------------------------------------------------------------------------------------- */

static Box__V1__JournalRange *view_range(Box__V1__JournalRange *m, const box_journal_span *span)
{
    box__v1__journal_range__init(m);
    m->first_offset = (int64_t)span->first;
    m->end_offset = (int64_t)span->end;
    return m;
}

static void view_verdict(box_process_view *v, box_process_info *info)
{
    if (!info->has_verdict)
        return;
    info->verdict.detail = info->detail;
    box_view_verdict(&v->verdict, &info->verdict, true);
    v->message.verdict = &v->verdict.message;
}

static void view_usage(box_process_view *v, const box_process_info *info)
{
    const box_process_usage *u = &info->usage;
    if (!info->has_usage)
        return;
    Box__V1__SessionUsage *m = &v->usage;
    box__v1__session_usage__init(m);
    if (u->memory_bytes >= 0)
        box__v1__session_usage__set_memory_bytes(m, u->memory_bytes);
    if (u->memory_peak_bytes >= 0)
        box__v1__session_usage__set_memory_peak_bytes(m, u->memory_peak_bytes);
    if (u->threads >= 0)
        box__v1__session_usage__set_process_count(m, (int32_t)u->threads);
    if (u->cpu_ns >= 0)
        m->cpu_time = box_times_span(&v->cpu, (uint64_t)u->cpu_ns);
    m->measured_at = box_times_stamp(&v->measured, u->measured_wall_ns);
    v->message.usage = m;
}

void box_view_process(box_process_view *v, box_process_info *info)
{
    Box__V1__ManagedProcess *m = &v->message;
    box__v1__managed_process__init(m);
    /* It may come from an agent: what does not fit is not shown. */
    v->record = box__v1__managed_process__unpack(NULL, info->record.len, info->record.data);
    if (v->record != NULL) {
        m->spec = v->record->spec;
        m->env_keys = v->record->env_keys;
        m->n_env_keys = v->record->n_env_keys;
    }
    box_uid_text(&info->session_uid, v->uid);
    m->session_id = (char *)(uintptr_t)info->session_id; /* only packed */
    m->session_uid = v->uid;
    m->process_id = (char *)(uintptr_t)info->id;
    m->state = (Box__V1__ProcessState)info->state; /* the same numbers: asserted in the test */
    m->attached = info->attached;
    m->readers = (int32_t)info->readers;
    m->created_at = box_times_stamp(&v->created, info->created_wall_ns);
    m->started_at = box_times_stamp(&v->started, info->started_wall_ns);
    m->exited_at = box_times_stamp(&v->exited, info->exited_wall_ns);
    m->ready_at = box_times_stamp(&v->ready, info->ready ? info->ready_wall_ns : 0);
    m->next_start_at = box_times_stamp(&v->next, info->next_start_wall_ns);
    m->stderr_preview = (ProtobufCBinaryData){.data = info->preview, .len = info->preview_len};
    m->ready = info->ready;
    m->restarts = (int32_t)info->restarts;
    m->pid = info->pid;
    m->stdout_journal = view_range(&v->journals[0], &info->journals[0]);
    m->stderr_journal = view_range(&v->journals[1], &info->journals[1]);
    view_verdict(v, info);
    view_usage(v, info);
}

void box_process_view_done(box_process_view *v)
{
    if (v->record != NULL)
        box__v1__managed_process__free_unpacked(v->record, NULL);
    v->record = NULL;
}
