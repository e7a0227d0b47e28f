/* Attachments on the home loop of their session: who is there, who may write, who is to be woken.
 */
#include <errno.h>
#include <fcntl.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "session/attach_impl.h"

static box_attach *at_link(box_list *link)
{
    return BOX_CONTAINER(link, box_attach, link);
}

/* --- telling ---------------------------------------------------------------------------------- */

static box_attach_note *note_new(box_attach *a, box_attach_kind kind)
{
    box_attach_note *n = box_alloc(sizeof *n);
    n->attach = box_attach_ref(a);
    n->kind = kind;
    n->stdin_fd = -1;
    return n;
}

static void send(box_attach_note *n)
{
    box_loop_post(n->attach->loop, box_attach_noted, n);
}

static void fail(box_attach *a, const box_error *why)
{
    box_attach_note *n = note_new(a, BOX_NOTE_FAILED);
    n->error = *why;
    send(n);
}

static void tell_facts(box_attach *a, box_attach_kind kind)
{
    box_attach_note *n = note_new(a, kind);
    n->facts = a->process->facts;
    send(n);
}

static void tell_stdin(box_attach *a)
{
    const box_process *p = a->process;
    box_attach_note *n = note_new(a, BOX_NOTE_STDIN);
    if (p->stdin_fd >= 0)
        n->stdin_fd = fcntl(p->stdin_fd, F_DUPFD_CLOEXEC, 0);
    send(n); /* out of descriptors: what it writes waits, and is bounded */
}

static void count(box_process *p)
{
    uint32_t readers = 0;
    for (box_list *at = p->attached.next; at != &p->attached; at = at->next)
        readers++;
    box_lock_take(&p->session->all->lock);
    p->facts.readers = readers;
    p->facts.attached = p->writer != NULL;
    box_lock_release(&p->session->all->lock);
}

/* --- coming ----------------------------------------------------------------------------------- */

static int may_join(const box_attach *a, const box_process *p, box_error *err)
{
    if (p->journals == NULL)
        return box_session_not_running(a->session, err);
    if (p->facts.readers >= BOX_MAX_ATTACHED) {
        (void)box_fail(err, BOX_QUOTA, "process %s has as many readers as it may have", p->id);
        return box_error_limit(err, "attached", BOX_MAX_ATTACHED, p->facts.readers);
    }
    if (!a->write || p->writer == NULL || a->take_over)
        return 0;
    (void)box_fail(err, BOX_STDIN_TAKEN,
                   "another caller writes to process %s: take over, or only read", p->id);
    box_error_add(err, "process", p->id);
    return -1;
}

static void become_writer(box_attach *a, box_process *p)
{
    if (p->writer != NULL)
        send(note_new(p->writer, BOX_NOTE_WRITER_LOST));
    p->writer = a;
    if (p->stdin_fd >= 0)
        tell_stdin(a);
}

static void join(box_attach *a, box_process *p)
{
    box_error err = {0};
    box_list_remove(&a->link);
    box_timer_free(a->wait_timer);
    a->wait_timer = NULL;
    if (may_join(a, p, &err) < 0) {
        fail(a, &err);
        return;
    }
    a->process = box_process_ref(p);
    box_list_append(&p->attached, &a->link);
    box_attach_note *n = note_new(a, BOX_NOTE_JOINED);
    n->journals = box_journals_ref(p->journals);
    send(n);
    if (a->write)
        become_writer(a, p);
    count(p);
    if (!box_process_is_live(p))
        tell_facts(a, BOX_NOTE_ENDED);
}

static void did_not_come(void *arg)
{
    box_attach *a = arg;
    box_error err;
    box_list_remove(&a->link);
    (void)box_process_not_found(a->id, &err); /* always -1 */
    fail(a, &err);
}

void box_attach_arrives(void *attach)
{
    box_attach *a = attach;
    box_session *s = a->session;
    box_error err = {0};
    box_process *p = a->gone ? NULL : box_process_find(s, a->id);
    if (p != NULL && p->told) {
        join(a, p);
    } else if (!a->gone && s->agent == NULL) {
        (void)box_session_not_running(s, &err); /* always -1 */
        fail(a, &err);
    } else if (!a->gone && (p != NULL || a->wait_ns > 0)) {
        box_list_append(&s->awaited, &a->link);
        a->wait_timer = box_timer_new(s->home, did_not_come, a);
        if (p == NULL) /* one that is being started answers by itself */
            box_timer_set(a->wait_timer, box_time_add(box_loop_now(s->home), a->wait_ns));
    } else if (!a->gone) {
        (void)box_process_not_found(a->id, &err); /* always -1 */
        fail(a, &err);
    }
    box_attach_unref(a);
}

void box_attach_serve_awaited(box_session *s)
{
    for (box_list *at = s->awaited.next, *next; at != &s->awaited; at = next) {
        next = at->next;
        box_attach *a = at_link(at);
        box_process *p = box_process_find(s, a->id);
        if (p != NULL && p->told)
            join(a, p);
        else if (p == NULL && a->wait_ns == 0) /* it never ran */
            did_not_come(a);
    }
}

void box_attach_fail_awaited(box_session *s, const box_error *why)
{
    while (!box_list_empty(&s->awaited)) {
        box_attach *a = at_link(s->awaited.next);
        box_list_remove(&a->link);
        box_timer_free(a->wait_timer);
        a->wait_timer = NULL;
        fail(a, why);
    }
}

/* --- leaving ---------------------------------------------------------------------------------- */

void box_attach_leaves(void *attach)
{
    box_attach *a = attach;
    box_process *p = a->process;
    a->gone = true;
    box_list_remove(&a->link);
    box_timer_free(a->wait_timer);
    a->wait_timer = NULL;
    if (p != NULL) {
        if (p->writer == a)
            p->writer = NULL;
        count(p);
        bool last = box_list_empty(&p->attached);
        if (a->stop_on_detach || (last && (p->flags & BOX_MANAGE_STOP_ON_DETACH) != 0))
            box_process_order_stop(p, BOX_STOP_DEFAULT_GRACE);
    }
    box_attach_unref(a);
}

/* --- bytes ------------------------------------------------------------------------------------ */

static void wake(box_attach *a)
{
    a->wants_more = false;
    send(note_new(a, BOX_NOTE_MORE));
}

/* One question to the agent serves all who wait: it is about the least that any of them has seen.
 */
void box_attach_wants(void *attach)
{
    box_attach *a = attach;
    box_process *p = a->process;
    if (a->gone || !box_process_is_live(p) || p->session->agent == NULL) {
        box_attach_unref(a);
        return; /* ENDED is on its way */
    }
    a->wants_more = true;
    box_agent_ends least = {{a->seen[0], a->seen[1]}};
    for (int i = 0; i < 2 && p->armed; i++)
        least.end[i] = least.end[i] < p->armed_ends.end[i] ? least.end[i] : p->armed_ends.end[i];
    if (!p->armed || memcmp(&least, &p->armed_ends, sizeof least) != 0) {
        p->armed = true;
        p->armed_ends = least;
        box_agent_order(p->session->agent, BOX_AGENT_WATCH, p->agent_id, &least, sizeof least);
    }
    box_attach_unref(a);
}

void box_attach_more(box_process *p)
{
    for (box_list *at = p->attached.next; at != &p->attached; at = at->next) {
        if (at_link(at)->wants_more)
            wake(at_link(at));
    }
}

/* --- what happens to the process -------------------------------------------------------------- */

void box_attach_restarted(box_process *p)
{
    for (box_list *at = p->attached.next; at != &p->attached; at = at->next)
        tell_facts(at_link(at), BOX_NOTE_RESTARTED);
}

void box_attach_ended(box_process *p)
{
    for (box_list *at = p->attached.next; at != &p->attached; at = at->next)
        tell_facts(at_link(at), BOX_NOTE_ENDED);
}

void box_attach_stdin_changed(box_process *p)
{
    if (p->writer != NULL)
        tell_stdin(p->writer);
}

void box_attach_closes_stdin(void *attach)
{
    box_attach *a = attach;
    box_process *p = a->process;
    if (!a->gone && p->writer == a && p->session->agent != NULL && box_process_is_live(p)) {
        box_closep(&p->stdin_fd);
        box_agent_order(p->session->agent, BOX_AGENT_CLOSE_STDIN, p->agent_id, "", 0);
    }
    box_attach_unref(a);
}
