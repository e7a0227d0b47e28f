/* The metrics page, Prometheus' text format: numbers of the whole server, from memory. Labels name
 * what Box itself names (states, codes, methods, loops, configured backends), never what a tenant
 * chose, so there are only so many series. */
#include <stdarg.h>
#include <stdio.h>

#include "base/alloc.h"
#include "service/control_impl.h"
#include "service/process_memory.h"
#include "session/exec.h"

typedef struct page {
    box_control *control;
    box_buf *out;
    box_error *err;
    bool failed; /* for good: the page has no room */
} page;

static void add(page *p, const char *fmt, ...) BOX_PRINTF(2, 3);
static void add(page *p, const char *fmt, ...)
{
    char line[256]; /* names and numbers of ours */
    va_list args;
    va_start(args, fmt);
    int len = vsnprintf(line, sizeof line, fmt, args);
    va_end(args);
    if (len < 0 || (size_t)len >= sizeof line)
        p->failed = true;
    else if (!p->failed)
        p->failed = box_buf_add(p->out, line, (size_t)len, p->err) < 0;
}

static void begin(page *p, const char *name, const char *type, const char *help)
{
    add(p, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void add_one(page *p, const char *name, const char *type, const char *help, uint64_t value)
{
    begin(p, name, type, help);
    add(p, "%s %llu\n", name, (unsigned long long)value);
}

static uint64_t seconds(int64_t ns)
{
    return ns > 0 ? (uint64_t)ns / BOX_SECOND : 0;
}

static void add_server(page *p)
{
    const box_control *c = p->control;
    int64_t expires_ns = atomic_load(&c->certificate_expires_ns);
    int64_t now_ns = box_policy_wall_ns(c->config.policy);
    begin(p, "box_build_info", "gauge", "Version of boxd.");
    add(p, "box_build_info{version=\"%s\"} 1\n", BOX_VERSION);
    add_one(p, "box_start_time_seconds", "gauge", "When boxd started, since 1970.",
            seconds(c->started_ns));
    add_one(p, "box_uptime_seconds", "gauge", "Since boxd started.",
            seconds(now_ns - c->started_ns));
    add_one(p, "box_resident_memory_bytes", "gauge", "Memory of boxd.",
            (uint64_t)box_process_resident_bytes());
    if (expires_ns != 0)
        add_one(p, "box_certificate_expiry_seconds", "gauge",
                "When the server's certificate expires, since 1970.", seconds(expires_ns));
}

static void add_connections(page *p, const box_control_traffic *t)
{
    add_one(p, "box_connections", "gauge", "Open connections.", t->connections);
    add_one(p, "box_connections_total", "counter", "Connections that were accepted.",
            t->connections_total);
    add_one(p, "box_connections_ended_badly_total", "counter",
            "Connections that ended by a failed or abandoned handshake, broken HTTP/2 or a flood.",
            t->ended_badly);
    begin(p, "box_connections_refused_total", "counter", "Connections closed unread.");
    add(p, "box_connections_refused_total{reason=\"held_back\"} %llu\n",
        (unsigned long long)t->refused_held);
    add(p, "box_connections_refused_total{reason=\"connections_per_peer\"} %llu\n",
        (unsigned long long)t->refused_peer);
    add_one(p, "box_peers_held_back_total", "counter",
            "Times an address was held back: too many of its connections ended badly.", t->holds);
    add_one(p, "box_handshakes_waiting", "gauge",
            "Connections whose handshake waits for a worker, or is in one's hands.",
            t->handshakes_waiting);
    add_one(p, "box_handshake_steps_queued_total", "counter",
            "Steps of handshakes that waited for a worker.", t->handshakes_queued);
}

static void add_queues(page *p)
{
    const box_control_hooks *hooks = &p->control->config.hooks;
    begin(p, "box_loop_waiting_connections", "gauge",
          "Connections of a network thread that wait for a step of their handshake, or flood.");
    for (int32_t i = 0; i < p->control->config.loops; i++)
        add(p, "box_loop_waiting_connections{loop=\"%d\"} %u\n", (int)i,
            hooks->waiting(hooks->arg, (unsigned)i));
}

static void add_call_count(void *arg, const char *path, box_code code, uint64_t count)
{
    add(arg, "box_calls_total{method=\"%s\",code=\"%s\"} %llu\n", path, box_code_name(code),
        (unsigned long long)count);
}

static void add_calls(page *p, const box_control_traffic *t)
{
    const box_control_hooks *hooks = &p->control->config.hooks;
    add_one(p, "box_calls", "gauge", "Calls in progress.", t->calls);
    begin(p, "box_calls_total", "counter",
          "Calls that ended, by method (empty: there is none of that name) and gRPC code.");
    hooks->each_call_count(hooks->arg, add_call_count, p);
}

static void add_traffic(page *p)
{
    const box_control_hooks *hooks = &p->control->config.hooks;
    box_control_traffic t = {0};
    if (hooks->traffic == NULL)
        return;
    hooks->traffic(hooks->arg, &t);
    add_connections(p, &t);
    add_queues(p);
    add_calls(p, &t);
}

static void add_sessions(page *p, const box_sessions_stats *s)
{
    static const char *const states[BOX_CONTROL_STATES] = {
        [BOX_SESSION_CREATED] = "created", [BOX_SESSION_STARTING] = "starting",
        [BOX_SESSION_RUNNING] = "running", [BOX_SESSION_STOPPING] = "stopping",
        [BOX_SESSION_STOPPED] = "stopped", [BOX_SESSION_ERROR] = "error",
    };
    begin(p, "box_sessions", "gauge", "Sessions by state.");
    for (size_t i = BOX_SESSION_CREATED; i < BOX_CONTROL_STATES; i++)
        add(p, "box_sessions{state=\"%s\"} %u\n", states[i], s->states[i]);
    add_one(p, "box_sandboxes", "gauge", "Sandboxes of sessions and of calls without one.",
            s->live);
    add_one(p, "box_sessions_created_total", "counter", "Sessions that were created.",
            s->created_total);
    add_one(p, "box_warm_sandboxes", "gauge", "Sandboxes kept ready.", s->warm_ready);
    add_one(p, "box_warm_sandboxes_wanted", "gauge", "Sandboxes to be kept ready.", s->warm_wanted);
}

static void add_execs(page *p, const box_sessions_stats *s)
{
    static const char *const verdicts[BOX_SESSION_VERDICTS] = {
        [BOX_VERDICT_COMPLETED] = "completed",
        [BOX_VERDICT_TIMED_OUT] = "timed_out",
        [BOX_VERDICT_IDLE_TIMED_OUT] = "idle_timed_out",
        [BOX_VERDICT_CANCELLED] = "cancelled",
        [BOX_VERDICT_OOM_KILLED] = "oom_killed",
        [BOX_VERDICT_OUTPUT_LIMIT] = "output_limit",
        [BOX_VERDICT_KILLED] = "killed",
        [BOX_VERDICT_SANDBOX_LOST] = "sandbox_lost",
    };
    add_one(p, "box_execs_running", "gauge", "Commands that run.", s->running_execs);
    add_one(p, "box_execs_queued", "gauge", "Commands that wait for their session.",
            s->queued_execs);
    begin(p, "box_execs_total", "counter", "Commands that ended, by the status of their verdict.");
    for (size_t i = BOX_VERDICT_COMPLETED; i < BOX_SESSION_VERDICTS; i++)
        add(p, "box_execs_total{status=\"%s\"} %llu\n", verdicts[i],
            (unsigned long long)s->verdicts[i]);
}

static void add_backends(page *p)
{
    const box_control_facts *facts = &p->control->config.facts;
    BOX_AUTO(box_freep)
    box_backend_report *reports = box_alloc(BOX_CONTROL_MAX_BACKENDS * sizeof *reports);
    size_t n = facts->backends(facts->arg, reports, BOX_CONTROL_MAX_BACKENDS);
    begin(p, "box_backend_available", "gauge", "Whether a configured backend works.");
    for (size_t i = 0; i < n; i++)
        add(p, "box_backend_available{backend=\"%s\"} %d\n", reports[i].name, reports[i].available);
}

int box_control_metrics(void *arg, const void *identity, box_buf *out, box_error *err)
{
    const box_identity *who = identity;
    page p = {.control = arg, .out = out, .err = err};
    box_sessions_stats stats = {0};
    if (who == NULL || (who->scopes & BOX_SCOPE_ADMIN_READ) == 0)
        return box_fail(err, BOX_PERMISSION, "metrics need a token with scope %s",
                        box_scope_name(BOX_SCOPE_ADMIN_READ));
    p.control->config.facts.stats(p.control->config.facts.arg, NULL, &stats);
    add_server(&p);
    add_traffic(&p);
    add_sessions(&p, &stats);
    add_execs(&p, &stats);
    add_backends(&p);
    add_one(&p, "box_tenants", "gauge", "Tenants.",
            (uint64_t)box_policy_tenant_count(p.control->config.policy));
    return p.failed ? box_fail(err, BOX_INTERNAL, "the page of metrics is too long") : 0;
}
