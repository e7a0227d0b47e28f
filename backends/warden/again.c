/* Creates that are done again: what was prepared for them is lost, which is no fault of theirs.
 * What is left of it is removed first, by a job before theirs. */
#include "base/fd.h"
#include "base/log.h"
#include "warden/internal.h"

/* Its record is what its CREATE began with: what is to be removed, its helper reads. */
static void begin_anew(warden_sandbox *s)
{
    const box_sandbox_record *r = &s->record;
    s->state = SANDBOX_CREATING;
    s->unread = true;
    s->record = (box_sandbox_record){.uid = r->uid,
                                     .instance = r->instance,
                                     .uid_base = r->uid_base,
                                     .flags = r->flags,
                                     .memory_bytes = r->memory_bytes,
                                     .disk_bytes = r->disk_bytes};
}

static void log_again(const warden_sandbox *s, const box_error *why)
{
    char uid[BOX_UID_TEXT];
    box_uid_text(&s->record.uid, uid);
    box_log(BOX_WARN, "sandbox.create_again", BOX_STR("sandbox", uid), BOX_ERR(why));
}

/* Its helper was killed or died, or the first process was. */
static bool is_loss(const warden_result *r)
{
    return r->lost || r->error.reason == BOX_SESSION_BROKEN;
}

bool box_warden_again(box_warden *w, warden_job *job, const warden_result *r)
{
    warden_sandbox *s = job->sandbox;
    if (!job->prepared || !is_loss(r) || s->state != SANDBOX_CREATING || w->stopping || w->removing)
        return false;
    log_again(s, &r->error);
    box_warden_standby_drop(w, s->standby);
    s->standby = NULL;
    begin_anew(s);
    box_warden_job_queue(w, box_warden_job_new(JOB_CLEAR, s, 0, 0));
    warden_job *next = box_warden_job_new(JOB_CREATE, s, job->conn, job->id);
    next->create = job->create;
    next->listen_fd = box_take_fd(&job->listen_fd);
    box_warden_job_queue(w, next);
    return true;
}

/* What removes it now, or is to. */
static warden_job *destroyer_in(const box_list *jobs, const warden_sandbox *s)
{
    for (box_list *at = jobs->next; at != jobs; at = at->next) {
        warden_job *job = BOX_CONTAINER(at, warden_job, link);
        if (job->sandbox == s && job->kind == JOB_DESTROY)
            return job;
    }
    return NULL;
}

bool box_warden_again_adopt(box_warden *w, warden_sandbox *s)
{
    bool nobodys = box_uid_equal(&s->record.instance, &(box_uid){0});
    if (!nobodys || !s->owns_uids || s->state != SANDBOX_ENDING)
        return false;
    warden_job *runs = destroyer_in(&w->running, s);
    warden_job *waits = destroyer_in(&w->queue, s);
    if (runs != NULL) {
        runs->kind = JOB_CLEAR;
        w->n_destroying--;
    } else if (waits != NULL) {
        waits->kind = JOB_CLEAR;
    } else { /* it failed, and was to be tried again */
        w->n_retries -= s->retry_at != 0 ? 1 : 0;
        s->retry_at = 0;
        box_warden_job_queue(w, box_warden_job_new(JOB_CLEAR, s, 0, 0));
    }
    begin_anew(s);
    return true;
}

void box_warden_cleared(box_warden *w, const warden_job *job, const warden_result *r)
{
    warden_sandbox *s = job->sandbox;
    s->unread = r->error.reason != BOX_NONE;
    if (!s->unread)
        return;
    warden_job *create = box_warden_job_create_of(w, s);
    if (create == NULL)
        return; /* who asked is gone, and it ends */
    log_again(s, &r->error);
    box_warden_conn_answer_error(w, create->conn, create->id, &r->error);
    box_warden_job_drop(w, create);
    box_warden_sandbox_end(w, s);
}
