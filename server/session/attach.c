/* Attachments on the loop of their call: what the process wrote and what became of it. */
#include "session/attach.h"

#include "base/alloc.h"
#include "base/fd.h"
#include "session/attach_impl.h"

enum {
    CHUNK_BYTES = 64 * 1024,
    CHUNKS_A_TURN = 4, /* then others of the loop have theirs */
};

box_attach *box_attach_ref(box_attach *a)
{
    atomic_fetch_add_explicit(&a->refs, 1, memory_order_relaxed);
    return a;
}

void box_attach_unref(box_attach *a)
{
    if (a == NULL || atomic_fetch_sub_explicit(&a->refs, 1, memory_order_acq_rel) != 1)
        return;
    box_journals_unref(a->journals);
    box_process_unref(a->process);
    box_session_unref(a->session);
    free(a);
}

static void finish(box_attach *a, const box_verdict *v, const box_error *err)
{
    if (a->over)
        return;
    a->over = true;
    a->events.done(a->arg, v, err);
}

/* --- reading ---------------------------------------------------------------------------------- */

static bool is_read(const box_attach *a, int stream)
{
    return a->journals->fd[stream] >= 0 && !(stream == 1 && a->skip_stderr);
}

/* Where this stream may be read to now: not into a run that has not been told of. */
static uint64_t limit_of(const box_attach *a, int stream, uint64_t end)
{
    uint64_t run = a->restart.now.exit.end_offset[stream];
    if (a->restart_due && run < end)
        end = run;
    if (a->no_follow && a->until[stream] < end)
        end = a->until[stream];
    return end;
}

/* One that is overtaken again and again would never get anything: it goes on well inside. */
static void skip(box_attach *a, int stream, const box_journal_span *span, bool overtaken)
{
    uint64_t from = a->at[stream];
    uint64_t to = span->first + (overtaken ? (span->end - span->first) / 4 : 0);
    a->at[stream] = to;
    a->events.dropped(a->arg, stream, from, to - from);
}

/* 1: something was told; 0: there is nothing now; -1: it is over. */
static int step(box_attach *a, int stream)
{
    uint8_t data[CHUNK_BYTES];
    const box_journals *j = a->journals;
    box_journal_span span;
    box_error err = {0};
    if (!is_read(a, stream))
        return 0;
    int rc = box_journal_look(j->fd[stream], j->capacity[stream], &span, &err);
    uint64_t at = a->at[stream];
    ssize_t n = 0;
    if (rc == 0 && at < span.first) {
        skip(a, stream, &span, false);
        return 1;
    }
    uint64_t end = rc == 0 ? limit_of(a, stream, span.end) : 0;
    if (rc == 0 && at >= end)
        return 0;
    size_t want = end - at < sizeof data ? (size_t)(end - at) : sizeof data;
    if (rc == 0)
        n = box_journal_read(j->fd[stream], j->capacity[stream], at, data, want, &err);
    if (rc < 0 || n < 0) {
        finish(a, NULL, &err); /* only a broken agent writes such a journal */
        return -1;
    }
    if (n == 0) {
        if (box_journal_look(j->fd[stream], j->capacity[stream], &span, &err) == 0 &&
            at < span.first)
            skip(a, stream, &span, true);
        return 1;
    }
    a->at[stream] = at + (uint64_t)n;
    a->events.output(a->arg, stream, at, data, (size_t)n);
    return a->over ? -1 : 1;
}

static void ask_for_more(box_attach *a)
{
    if (a->asked)
        return;
    a->asked = true;
    for (int i = 0; i < 2; i++)
        a->seen[i] = is_read(a, i) ? a->at[i] : UINT64_MAX;
    box_loop_post(a->session->home, box_attach_wants, box_attach_ref(a));
}

static void tell_restart(box_attach *a)
{
    char detail[BOX_ERROR_MSG];
    box_verdict v;
    a->restart_due = false;
    box_process_verdict(&a->restart, detail, &v);
    a->events.restarted(a->arg, &v, a->restart.now.restarts);
}

/* Everything that is there was told. True: there may be more behind what was waited for. */
static bool settle(box_attach *a)
{
    if (a->restart_due) {
        tell_restart(a);
        return true;
    }
    if (a->no_follow) {
        finish(a, NULL, NULL);
    } else if (a->ended) {
        char detail[BOX_ERROR_MSG];
        box_verdict v;
        box_process_verdict(&a->final, detail, &v);
        finish(a, &v, NULL);
    } else {
        ask_for_more(a);
    }
    return false;
}

static void pump(box_attach *a);

static void pump_again(void *attach)
{
    box_attach *a = attach;
    a->pump_posted = false;
    pump(a);
    box_attach_unref(a);
}

/* Both streams a piece. 1, 0, -1 as step. */
static int step_both(box_attach *a)
{
    int told = step(a, 0);
    if (told < 0 || !a->events.writable(a->arg))
        return told;
    int also = step(a, 1);
    return also != 0 ? also : told;
}

static void pump(box_attach *a)
{
    if (!a->joined)
        return;
    for (int i = 0; i < CHUNKS_A_TURN && !a->over; i++) {
        if (!a->events.writable(a->arg))
            return; /* box_attach_resume goes on */
        int told = step_both(a);
        if (told < 0 || (told == 0 && !settle(a)))
            return;
    }
    if (a->over || a->pump_posted)
        return;
    a->pump_posted = true;
    box_loop_post(a->loop, pump_again, box_attach_ref(a));
}

void box_attach_resume(box_attach *a)
{
    pump(a);
}

/* --- notes ------------------------------------------------------------------------------------ */

/* Where it begins. -1: beyond what there is. */
static int find_begin(box_attach *a, int stream, uint64_t begin[2], box_error *err)
{
    static const char *const fields[] = {"start.stdout_offset", "start.stderr_offset"};
    box_journal_span span = {0};
    if (a->journals->fd[stream] >= 0 &&
        box_journal_look(a->journals->fd[stream], a->journals->capacity[stream], &span, err) < 0)
        return -1;
    a->until[stream] = span.end;
    if (!a->has_offset[stream])
        a->at[stream] = span.end;
    else if (a->at[stream] > span.end)
        return box_violation(err, fields[stream], "the stream has %llu bytes so far",
                             (unsigned long long)span.end);
    if (!is_read(a, stream))
        a->at[stream] = span.end;
    begin[stream] = a->at[stream] > span.first ? a->at[stream] : span.first;
    return 0;
}

static void joined(box_attach *a)
{
    box_process_info info;
    box_error err = {0};
    uint64_t begin[2] = {0};
    int bad = find_begin(a, 0, begin, &err);
    bad |= find_begin(a, 1, begin, &err);
    if (bad != 0) {
        finish(a, NULL, &err);
        return;
    }
    a->joined = true;
    box_process_snapshot(a->session, a->process, true, &info);
    a->events.attached(a->arg, &info, begin);
    box_process_info_done(&info);
    pump(a);
}

static void take_note(box_attach *a, box_attach_note *n)
{
    switch (n->kind) {
    case BOX_NOTE_JOINED:
        a->journals = n->journals;
        n->journals = NULL;
        joined(a);
        return;
    case BOX_NOTE_FAILED:
        finish(a, NULL, &n->error);
        return;
    case BOX_NOTE_MORE:
        a->asked = false;
        pump(a);
        return;
    case BOX_NOTE_RESTARTED:
        a->restart = n->facts;
        a->restart_due = true;
        pump(a);
        return;
    case BOX_NOTE_ENDED:
        a->final = n->facts;
        a->ended = true;
        pump(a);
        return;
    case BOX_NOTE_STDIN:
        box_attach_take_stdin(a, &n->stdin_fd);
        return;
    case BOX_NOTE_WRITER_LOST:
        box_attach_lose_stdin(a);
        return;
    }
}

void box_attach_noted(void *note)
{
    box_attach_note *n = note;
    box_attach *a = n->attach;
    if (!a->over)
        take_note(a, n);
    box_closep(&n->stdin_fd);
    box_journals_unref(n->journals);
    free(n);
    box_attach_unref(a);
}

/* --- the caller ------------------------------------------------------------------------------- */

static void fail_early(void *attach)
{
    box_attach *a = attach;
    finish(a, NULL, &a->error);
    box_attach_unref(a);
}

static void session_runs(void *arg, const box_session_info *info, const box_error *err)
{
    box_attach *a = arg;
    (void)info;
    if (err != NULL) {
        a->error = *err;
        fail_early(a);
        return;
    }
    box_loop_post(a->session->home, box_attach_arrives, a);
}

/* With one reference for being under way. */
static void submit(box_attach *a)
{
    if (a->session == NULL || a->error.reason != BOX_NONE) {
        box_loop_post(a->loop, fail_early, a);
        return;
    }
    box_session_state state = box_session_state_now(a->session, NULL);
    if (state == BOX_SESSION_CREATED || state == BOX_SESSION_STARTING)
        box_session_want_run(a->session, box_waiter_new(session_runs, a));
    else
        box_loop_post(a->session->home, box_attach_arrives, a);
}

static void check(box_attach *a, box_sessions *all, const box_attach_request *r)
{
    const box_process_request only_name = {.process_id = r->process_id};
    int bad = box_process_check(&only_name, &a->error);
    if (r->session_id[0] == '\0')
        bad |= box_violation(&a->error, "start.session_id", "must not be empty");
    else
        bad |= box_session_id_check(r->session_id, "start.session_id", &a->error);
    if (bad == 0)
        BOX_IGNORE(box_sessions_find(all, r->tenant, r->session_id, &a->session, &a->error));
}

box_attach *box_attach_new(box_sessions *all, const box_attach_request *r,
                           const box_attach_events *events, void *arg)
{
    box_attach *a = box_alloc(sizeof *a);
    atomic_init(&a->refs, 2); /* the caller's, and one for being under way */
    a->loop = box_loop_current();
    a->events = *events;
    a->arg = arg;
    a->write = a->may_write = r->write;
    a->take_over = r->take_over;
    a->skip_stderr = r->skip_stderr;
    a->no_follow = r->no_follow;
    a->stop_on_detach = r->stop_on_detach;
    a->wait_ns = r->wait_ns;
    for (int i = 0; i < 2; i++) {
        a->has_offset[i] = r->has_offset[i];
        a->at[i] = r->offset[i];
    }
    (void)snprintf(a->id, sizeof a->id, "%s", r->process_id[0] != '\0' ? r->process_id : "default");
    check(a, all, r);
    box_attach_input_begin(a);
    submit(a);
    return a;
}

void box_attach_free(box_attach *a)
{
    if (a == NULL)
        return;
    a->over = true;
    box_input_done(&a->input);
    if (a->session != NULL)
        box_loop_post(a->session->home, box_attach_leaves, a); /* with the caller's reference */
    else
        box_attach_unref(a);
}
