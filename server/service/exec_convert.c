#include "service/exec_convert.h"

#include "base/alloc.h"
#include "box/v1/types.fields.h"

static char *text(const char *s)
{
    return (char *)(uintptr_t)s; /* only packed */
}

/* --- commands in ------------------------------------------------------------------------------ */

static int take_leftovers(const Box__V1__Command *m, box_command *out, box_error *err)
{
    switch (m->leftovers) {
    case BOX__V1__LEFTOVER_POLICY__LEFTOVER_POLICY_UNSPECIFIED:
        out->leftovers = BOX_LEFTOVERS_DEFAULT;
        return 0;
    case BOX__V1__LEFTOVER_POLICY__LEFTOVER_POLICY_KEEP:
        out->leftovers = BOX_LEFTOVERS_KEEP;
        return 0;
    case BOX__V1__LEFTOVER_POLICY__LEFTOVER_POLICY_KILL:
        out->leftovers = BOX_LEFTOVERS_KILL;
        return 0;
    default:
        return box_violation(err, "command.leftovers", "is no known value");
    }
}

static int take_spans(const Box__V1__Command *m, box_command *out, box_error *err)
{
    int bad = 0;
    if (m->timeout != NULL)
        bad |= box_convert_span(m->timeout, "command.timeout", &out->timeout_ns, err);
    out->has_timeout = m->timeout != NULL && bad == 0;
    int bad_idle = 0;
    if (m->idle_timeout != NULL)
        bad_idle =
            box_convert_span(m->idle_timeout, "command.idle_timeout", &out->idle_timeout_ns, err);
    out->has_idle_timeout = m->idle_timeout != NULL && bad_idle == 0;
    return bad | bad_idle;
}

static void take_env(const Box__V1__Command *m, const Box__V1__Terminal *t, box_command_view *out)
{
    size_t n = 0;
    size_t most = m->n_env + (t != NULL ? 1 : 0);
    out->env = most > 0 ? box_alloc_array(most, sizeof *out->env) : NULL;
    if (t != NULL) /* the command's own entry comes later, and wins */
        out->env[n++] = (box_env){"TERM", t->term[0] != '\0' ? t->term : "xterm-256color"};
    for (size_t i = 0; i < m->n_env; i++)
        out->env[n++] = (box_env){m->env[i]->key, m->env[i]->value};
    out->command.env = out->env;
    out->command.n_env = n;
}

int box_convert_command(const Box__V1__Command *m, const Box__V1__Terminal *terminal,
                        box_command_view *out, box_error *err)
{
    *out = (box_command_view){0};
    box_command *c = &out->command;
    if (m == NULL)
        return box_violation(err, "command", "must be set");
    c->argv = (const char *const *)m->argv;
    c->argc = m->n_argv;
    c->shell_command = m->shell_command[0] != '\0' ? m->shell_command : NULL;
    c->workdir = m->workdir;
    c->has_output_limit = box__v1__command__has_output_limit_bytes(m);
    c->output_limit_bytes = m->output_limit_bytes;
    c->has_output_kill = box__v1__command__has_output_kill_bytes(m);
    c->output_kill_bytes = m->output_kill_bytes;
    take_env(m, terminal, out);
    int bad = take_leftovers(m, c, err);
    bad |= take_spans(m, c, err);
    if (bad == 0 && m->skill_name[0] != '\0')
        bad = box_convert_not_built("skill_name", err);
    return bad;
}

void box_command_view_done(box_command_view *v)
{
    free(v->env);
    v->env = NULL;
}

int box_convert_scope(const Box__V1__Signal *s, bool *tree, box_error *err)
{
    *tree = s->scope == BOX__V1__SIGNAL_SCOPE__SIGNAL_SCOPE_TREE;
    if (*tree || s->scope == BOX__V1__SIGNAL_SCOPE__SIGNAL_SCOPE_MAIN ||
        s->scope == BOX__V1__SIGNAL_SCOPE__SIGNAL_SCOPE_UNSPECIFIED)
        return 0;
    return box_violation(err, "signal.scope", "is no known value");
}

/* --- verdicts out ----------------------------------------------------------------------------- */

static Box__V1__MeasureSource view_source(box_source s)
{
    static const Box__V1__MeasureSource sources[] = {
        [BOX_SOURCE_NONE] = BOX__V1__MEASURE_SOURCE__MEASURE_SOURCE_UNSPECIFIED,
        [BOX_SOURCE_CGROUP] = BOX__V1__MEASURE_SOURCE__MEASURE_SOURCE_CGROUP,
        [BOX_SOURCE_PROCESS] = BOX__V1__MEASURE_SOURCE__MEASURE_SOURCE_RUSAGE,
        [BOX_SOURCE_SESSION] = BOX__V1__MEASURE_SOURCE__MEASURE_SOURCE_SESSION,
    };
    return sources[s];
}

static void view_output(Box__V1__OutputReport *m, const box_output *o, bool stream)
{
    box__v1__output_report__init(m);
    m->total_bytes = (int64_t)o->total_bytes;
    m->kept_bytes = stream ? m->total_bytes : (int64_t)(o->head.len + o->tail.len);
    m->head_bytes = o->dropped_bytes > 0 ? (int64_t)o->head.len : m->kept_bytes;
    m->truncated = o->dropped_bytes > 0;
}

static void view_measures(box_verdict_view *out, const box_verdict *v)
{
    Box__V1__Verdict *m = &out->message;
    m->cpu_source = view_source(v->cpu_source);
    if (v->cpu_source != BOX_SOURCE_NONE)
        m->cpu_time = box_times_span(&out->cpu, v->cpu_ns);
    m->peak_memory_source = view_source(v->memory_source);
    if (v->memory_source != BOX_SOURCE_NONE)
        box__v1__verdict__set_peak_memory_bytes(m, (int64_t)v->peak_memory_bytes);
    m->wall_time = box_times_span(&out->wall, v->wall_ns);
    m->queue_time = box_times_span(&out->queued, v->queue_ns);
    m->started_at = box_times_stamp(&out->started, v->started_wall_ns);
}

void box_view_verdict(box_verdict_view *out, const box_verdict *v, bool stream)
{
    *out = (box_verdict_view){0};
    Box__V1__Verdict *m = &out->message;
    box__v1__verdict__init(m);
    m->status = (Box__V1__VerdictStatus)v->status; /* the same numbers: asserted in the test */
    if (v->has_exit_code)
        box__v1__verdict__set_exit_code(m, v->exit_code);
    if (v->signal > 0)
        box__v1__verdict__set_signal(m, v->signal);
    m->core_dumped = v->core_dumped;
    m->limits_hit = out->limits;
    if (v->limit[0] != '\0')
        out->limits[m->n_limits_hit++] = text(v->limit);
    if (v->pids_hit)
        out->limits[m->n_limits_hit++] = text("pids");
    if (v->workspace_full)
        out->limits[m->n_limits_hit++] = text("workspace");
    m->oom_kills = (int64_t)v->oom_kills;
    for (int i = 0; i < 2; i++)
        view_output(&out->reports[i], &v->output[i], stream);
    m->stdout_report = &out->reports[0];
    m->stderr_report = &out->reports[1];
    m->stdin_bytes = (int64_t)v->stdin_bytes;
    view_measures(out, v);
    m->leftover_processes = (int32_t)v->leftovers;
    if (v->leftovers > 0)
        m->leftovers = v->leftovers_killed ? BOX__V1__LEFTOVER_POLICY__LEFTOVER_POLICY_KILL
                                           : BOX__V1__LEFTOVER_POLICY__LEFTOVER_POLICY_KEEP;
    m->session_destroyed = v->session_destroyed;
    m->detail = text(v->detail);
}
