#include "warden/memory.h"

static int take(box_warden *w, warden_sandbox *s, int64_t bytes, box_error *err)
{
    int64_t max = w->config->maxima.total_memory_bytes;
    int64_t more = bytes - s->memory_bytes;
    if (more <= 0)
        return 0;
    if (max > 0 && more > max - w->memory_bytes) {
        (void)box_fail(err, BOX_MEMORY_BUDGET,
                       "the sandboxes of this host may have %lld bytes of memory together",
                       (long long)max);
        err->retry_ms = 1000;
        return box_error_limit(err, "total_memory", max, w->memory_bytes);
    }
    s->memory_bytes += more;
    w->memory_bytes += more;
    return 0;
}

int box_warden_memory_admit(box_warden *w, warden_sandbox *s, const box_warden_create *r,
                            box_error *err)
{
    int64_t tmpfs = r->tmp_bytes + r->home_bytes + r->shm_bytes;
    bool in_memory = r->host_path[0] == '\0' && s->record.disk_bytes == 0;
    tmpfs += in_memory ? r->workspace_bytes : 0;
    s->record.memory_bytes = r->memory_bytes;
    return take(w, s, r->memory_bytes + tmpfs, err);
}

int box_warden_memory_raise(box_warden *w, warden_sandbox *s, int64_t memory_bytes, box_error *err)
{
    return take(w, s, memory_bytes + s->record.tmpfs_bytes, err);
}

void box_warden_memory_settle(box_warden *w, warden_sandbox *s)
{
    for (box_list *at = w->queue.next; at != &w->queue; at = at->next) {
        const warden_job *job = BOX_CONTAINER(at, warden_job, link);
        if (job->sandbox == s && job->kind == JOB_LIMITS)
            return;
    }
    box_warden_memory_give(w, s);
    s->memory_bytes = s->record.memory_bytes + s->record.tmpfs_bytes;
    w->memory_bytes += s->memory_bytes;
}

void box_warden_memory_give(box_warden *w, warden_sandbox *s)
{
    w->memory_bytes -= s->memory_bytes;
    s->memory_bytes = 0;
}
