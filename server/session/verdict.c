#include "session/verdict.h"

#include <signal.h>

/* What each cause of the agent means; rows are box_agent_cause. */
static const struct {
    box_verdict_status status;
    const char *limit;
    const char *detail;
} causes[] = {
    [BOX_CAUSE_NONE] = {BOX_VERDICT_COMPLETED, "", ""},
    [BOX_CAUSE_TIMEOUT] = {BOX_VERDICT_TIMED_OUT, "timeout", ""},
    [BOX_CAUSE_IDLE_TIMEOUT] = {BOX_VERDICT_IDLE_TIMED_OUT, "idle_timeout", ""},
    [BOX_CAUSE_CANCELLED] = {BOX_VERDICT_CANCELLED, "", ""},
    [BOX_CAUSE_OUTPUT_LIMIT] = {BOX_VERDICT_OUTPUT_LIMIT, "output_kill_bytes", ""},
    [BOX_CAUSE_STOPPED] = {BOX_VERDICT_KILLED, "", "its session ended"},
};

/* The kernel killed the main process: a KILL that nobody of ours sent, while the session's count of
 * such kills rose (sandbox-facts.md, section 2). */
static bool main_was_oom_killed(const box_exec *e)
{
    const box_exec_result *r = &e->result;
    return r->exit.signal == SIGKILL && r->exit.cause == BOX_CAUSE_NONE && !e->we_killed &&
           r->oom_kills > 0;
}

static void of_exit(const box_exec *e, box_verdict *out)
{
    const box_exec_result *r = &e->result;
    out->status = causes[r->exit.cause].status;
    out->limit = causes[r->exit.cause].limit;
    out->detail = causes[r->exit.cause].detail;
    if (main_was_oom_killed(e)) {
        out->status = BOX_VERDICT_OOM_KILLED;
        out->limit = "memory";
    }
    out->has_exit_code = r->exit.signal == 0;
    out->exit_code = r->exit.signal == 0 ? r->exit.exit_code : 0;
    out->signal = r->exit.signal;
    out->workspace_full = (r->exit.flags & BOX_EXIT_WORKSPACE_FULL) != 0;
    out->core_dumped = (r->exit.flags & BOX_EXIT_CORE_DUMPED) != 0;
    out->wall_ns = r->exit.wall_ns;
    out->leftovers = r->exit.leftovers;
    out->leftovers_killed = (r->exit.flags & BOX_EXIT_LEFTOVERS_KILLED) != 0;
    out->peak_memory_bytes = r->exit.max_rss_bytes;
    out->memory_source = r->exit.max_rss_bytes > 0 ? BOX_SOURCE_PROCESS : BOX_SOURCE_NONE;
    out->cpu_ns = r->has_cgroup_cpu ? r->cgroup_cpu_ns : r->exit.cpu_ns;
    bool exact = r->has_cgroup_cpu || (r->exit.flags & BOX_EXIT_CPU_FROM_CGROUP) != 0;
    out->cpu_source = exact ? BOX_SOURCE_CGROUP : BOX_SOURCE_PROCESS;
}

/* How the command ended is not known: no exit code, never 0. */
static void of_loss(const box_exec *e, box_verdict *out)
{
    const box_exec_result *r = &e->result;
    out->status = r->stopped ? BOX_VERDICT_KILLED : BOX_VERDICT_SANDBOX_LOST;
    out->limit = "";
    out->detail = r->stopped ? "its session ended" : r->error.msg;
    out->wall_ns = box_time_left(box_loop_now(e->loop), e->began_at);
}

void box_verdict_of(box_exec *e, box_verdict *out)
{
    *out = (box_verdict){.oom_kills = e->result.oom_kills,
                         .pids_hit = e->result.pids_hit,
                         .timeout_ns = e->timeout_ns,
                         .timeout_clamped = e->timeout_clamped,
                         .timeout_asked_ns = e->timeout_asked_ns,
                         .session = e->info,
                         .started_wall_ns = e->result.started_wall_ns,
                         .queue_ns = e->result.queue_ns,
                         .stdin_bytes = e->input.written_bytes};
    if (e->result.fate == BOX_FATE_EXITED)
        of_exit(e, out);
    else
        of_loss(e, out);
    for (int i = 0; i < 2; i++) {
        box_output *o = &out->output[i];
        o->total_bytes = e->kept[i].total_bytes;
        if (!e->stream)
            o->dropped_bytes = box_keeper_get(&e->kept[i], &o->head, &o->tail);
    }
}
