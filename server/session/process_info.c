/* What is told of a managed process. */
#include <signal.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "base/utf8.h"
#include "session/process_impl.h"

/* --- references ------------------------------------------------------------------------------- */

box_journals *box_journals_ref(box_journals *j)
{
    if (j != NULL)
        atomic_fetch_add_explicit(&j->refs, 1, memory_order_relaxed);
    return j;
}

void box_journals_unref(box_journals *j)
{
    if (j == NULL || atomic_fetch_sub_explicit(&j->refs, 1, memory_order_acq_rel) != 1)
        return;
    box_closep(&j->fd[0]);
    box_closep(&j->fd[1]);
    free(j);
}

box_process *box_process_ref(box_process *p)
{
    atomic_fetch_add_explicit(&p->refs, 1, memory_order_relaxed);
    return p;
}

void box_process_unref(box_process *p)
{
    if (p == NULL || atomic_fetch_sub_explicit(&p->refs, 1, memory_order_acq_rel) != 1)
        return;
    box_share_give(&p->session->memory, p->charged_bytes);
    box_journals_unref(p->journals);
    box_closep(&p->stdin_fd);
    free(p->record);
    free(p);
}

void box_process_info_done(box_process_info *info)
{
    free(info->preview);
    box_process_unref(info->process);
    box_session_unref(info->session);
    *info = (box_process_info){0};
}

void box_process_key(const box_process_info *info, char out[BOX_PROCESS_KEY_TEXT])
{
    char uid[BOX_UID_TEXT];
    box_uid_text(&info->session_uid, uid);
    (void)snprintf(out, BOX_PROCESS_KEY_TEXT, "%s/%s", uid, info->id);
}

/* --- verdicts --------------------------------------------------------------------------------- */

static box_verdict_status status_of(const box_process_facts *f)
{
    const box_agent_run_exit *e = &f->now.exit;
    if (e->signal == SIGKILL && e->cause == BOX_CAUSE_NONE && f->oom_kills > 0)
        return BOX_VERDICT_OOM_KILLED;
    switch (e->cause) {
    case BOX_CAUSE_NONE:
        return BOX_VERDICT_COMPLETED;
    case BOX_CAUSE_STOPPED:
        return BOX_VERDICT_KILLED;
    default:
        return BOX_VERDICT_CANCELLED; /* stopped, and it did not end by itself */
    }
}

static void verdict_of_exit(const box_process_facts *f, box_verdict *out)
{
    const box_agent_run_exit *e = &f->now.exit;
    out->status = status_of(f);
    out->limit = out->status == BOX_VERDICT_OOM_KILLED ? "memory" : "";
    out->has_exit_code = e->signal == 0;
    out->exit_code = e->signal == 0 ? e->exit_code : 0;
    out->signal = e->signal;
    out->core_dumped = (e->flags & BOX_EXIT_CORE_DUMPED) != 0;
    out->workspace_full = (e->flags & BOX_EXIT_WORKSPACE_FULL) != 0;
    out->pids_hit = f->pids_hit;
    out->oom_kills = f->oom_kills;
    out->wall_ns = e->wall_ns;
    out->cpu_ns = e->cpu_ns;
    out->cpu_source =
        (e->flags & BOX_EXIT_CPU_FROM_CGROUP) != 0 ? BOX_SOURCE_CGROUP : BOX_SOURCE_PROCESS;
    bool of_group = e->own_peak_bytes > 0;
    out->peak_memory_bytes = of_group ? e->own_peak_bytes : e->max_rss_bytes;
    out->memory_source = of_group               ? BOX_SOURCE_CGROUP
                         : e->max_rss_bytes > 0 ? BOX_SOURCE_PROCESS
                                                : BOX_SOURCE_NONE;
    out->leftovers = e->leftovers;
    out->leftovers_killed = (e->flags & BOX_EXIT_LEFTOVERS_KILLED) != 0;
    for (int i = 0; i < 2; i++)
        out->output[i].total_bytes = e->end_offset[i] - e->first_offset[i];
}

void box_process_verdict(const box_process_facts *f, char detail[BOX_ERROR_MSG], box_verdict *out)
{
    *out = (box_verdict){.limit = "", .detail = detail, .started_wall_ns = f->now.started_ns};
    detail[0] = '\0';
    if (f->lost) {
        out->status = f->lost_by_stop ? BOX_VERDICT_KILLED : BOX_VERDICT_SANDBOX_LOST;
        (void)snprintf(detail, BOX_ERROR_MSG, "%s", f->lost_why);
        return;
    }
    verdict_of_exit(f, out);
    if (f->now.error.reason != BOX_NONE)
        (void)snprintf(detail, BOX_ERROR_MSG, "not started again: %.*s", BOX_ERROR_MSG - 32,
                       f->now.error.msg);
}

/* --- snapshots -------------------------------------------------------------------------------- */

/* From the begin of a line, or at least of a character. */
static size_t preview_start(const uint8_t *text, size_t len, bool cut)
{
    if (!cut)
        return 0;
    const uint8_t *line = memchr(text, '\n', len);
    if (line != NULL && line + 1 < text + len)
        return (size_t)(line + 1 - text);
    size_t i = 0;
    while (i < len && i < 4 && (text[i] & 0xc0) == 0x80)
        i++;
    return i;
}

static void fill_preview(const box_journals *j, const box_journal_span *span, box_process_info *out)
{
    uint64_t end = span->end;
    uint64_t at = span->first;
    box_error err;
    if (end - at > BOX_STDERR_PREVIEW_BYTES)
        at = end - BOX_STDERR_PREVIEW_BYTES;
    bool cut = at > 0;
    out->preview = box_alloc(BOX_STDERR_PREVIEW_BYTES);
    while (at < end) {
        ssize_t n = box_journal_read(j->fd[1], j->capacity[1], at, out->preview + out->preview_len,
                                     (size_t)(end - at), &err);
        if (n <= 0)
            break; /* it writes faster than we read: what came is shown */
        out->preview_len += (size_t)n;
        at += (uint64_t)n;
    }
    size_t skip = preview_start(out->preview, out->preview_len, cut);
    out->preview_len -= skip;
    memmove(out->preview, out->preview + skip, out->preview_len);
}

static void fill_journals(const box_process_facts *f, const box_journals *j, bool preview,
                          box_process_info *out)
{
    box_error err;
    for (int i = 0; i < 2; i++) {
        box_journal_span *span = &out->journals[i];
        if (j == NULL || j->fd[i] < 0 ||
            box_journal_look(j->fd[i], j->capacity[i], span, &err) < 0) {
            uint64_t end = f->now.exit.end_offset[i];
            *span = (box_journal_span){.first = end, .end = end}; /* gone with its session */
        }
    }
    if (preview && j != NULL && j->fd[1] >= 0)
        fill_preview(j, &out->journals[1], out);
}

void box_process_snapshot(box_session *s, box_process *p, bool preview, box_process_info *out)
{
    box_lock_take(&s->all->lock);
    const box_process_facts f = p->facts;
    box_journals *j = box_journals_ref(p->journals);
    box_lock_release(&s->all->lock);
    *out = (box_process_info){
        .process = box_process_ref(p),
        .session = box_session_ref(s),
        .id = p->id,
        .session_id = s->id,
        .session_uid = s->uid,
        .record = {.data = p->record, .len = p->record_len},
        .state = f.state,
        .attached = f.attached,
        .readers = f.readers,
        .created_wall_ns = p->created_wall_ns,
        .started_wall_ns = f.now.started_ns,
        .exited_wall_ns = f.now.exited_ns,
        .ready_wall_ns = f.now.ready_ns,
        .next_start_wall_ns = f.state == BOX_PROCESS_WAITING ? f.now.next_start_ns : 0,
        .ready = (f.now.flags & BOX_MANAGED_READY) != 0 && !f.lost,
        .restarts = f.now.restarts,
        .pid = f.lost ? 0 : f.now.pid,
        .has_verdict = f.lost || (f.now.flags & BOX_MANAGED_HAS_EXIT) != 0,
    };
    box_process_verdict(&f, out->detail, &out->verdict);
    out->verdict.detail = NULL; /* the struct may be moved: set when it is shown */
    fill_journals(&f, j, preview, out);
    box_journals_unref(j);
}
