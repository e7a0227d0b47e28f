/* Making and removing the sandbox of a session, on its home loop. */
#include <fcntl.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/log.h"
#include "session/cgroup.h"
#include "session/execution.h"
#include "session/process_impl.h"

static void destroy(box_session *s);

/* --- removing --------------------------------------------------------------------------------- */

static void unbind(box_session *s)
{
    if (!s->socket_bound)
        return;
    s->socket_bound = false;
    (void)unlinkat(s->all->run_dirfd, s->uid_text, 0); /* a stale one is removed at start */
}

/* Nothing is left, or all that could be done was done: the session object goes when its references
 * do. */
static void gone(box_session *s)
{
    box_timer_free(s->timer);
    s->timer = NULL;
    (void)box_session_event_happens(s, BOX_EVENT_GONE, BOX_STOP_NONE, NULL); /* or it is in ERROR */
    box_session_forget_uid(s);
}

static void try_again(void *arg)
{
    box_session *s = arg;
    box_session_ref(s); /* forgetting the uid may drop the last one */
    destroy(s);
    box_session_unref(s);
}

static void destroyed(void *arg, box_warden_reply *reply)
{
    BOX_AUTO(box_session_unrefp) box_session *s = arg;
    enum { TRIES = 5, PAUSE_SECONDS = 2 };
    bool failed = reply->error.reason != BOX_NONE;
    if (failed)
        box_log(BOX_WARN, "session.destroy", BOX_STR("uid", s->uid_text), BOX_ERR(&reply->error));
    box_warden_reply_done(reply);
    if (!failed || ++s->destroy_tries >= TRIES) {
        gone(s);
        return;
    }
    /* The caller does not wait for a warden that may be away for long. When it comes back, it
     * sweeps what nobody keeps. */
    (void)box_session_event_happens(s, BOX_EVENT_GONE, BOX_STOP_NONE, NULL);
    if (s->timer != NULL)
        box_timer_free(s->timer);
    s->timer = box_timer_new(s->home, try_again, s); /* by_uid holds a reference until gone() */
    box_timer_set(s->timer, box_time_add(box_loop_now(s->home), PAUSE_SECONDS * BOX_SECOND));
}

static void destroy(box_session *s)
{
    box_timer_free(s->timer);
    s->timer = NULL;
    box_warden_target target = {.uid = s->uid};
    box_warden_ask(s->warden, s->tenant_name, BOX_WARDEN_DESTROY, &target, -1, s->home, destroyed,
                   box_session_ref(s));
}

static void remove_sandbox(box_session *s)
{
    if (s->sandbox_made)
        destroy(s);
    else
        gone(s);
}

/* Where that failed the ledger tries again. */
static void forgotten(void *arg, const box_error *err)
{
    BOX_AUTO(box_session_unrefp) box_session *s = arg;
    (void)err; /* the ledger has logged it */
    remove_sandbox(s);
}

/* Not from inside a callback of the agent's client. */
static void let_go(void *session)
{
    BOX_AUTO(box_session_unrefp) box_session *s = session;
    box_error why = {0};
    (void)box_session_not_running(s, &why); /* always -1 */
    box_slots_fail_waiting(s, &why);
    box_slots_lose(s, &why);
    box_files_close(s, &why);
    box_forwards_close(s, &why);
    box_slots_drop_held(s);
    bool stopped = box_session_state_now(s, NULL) != BOX_SESSION_ERROR;
    box_processes_lose(s, stopped, stopped ? "its session ended" : why.msg);
    box_agent_free(s->agent);
    s->agent = NULL;
    box_cpu_groups_close(&s->cpu);
    box_closep(&s->cgroup_fd);
    box_closep(&s->memory_fd);
    box_closep(&s->memory_dir);
    box_closep(&s->pids_fd);
    box_closep(&s->channel_fd);
    box_timer_free(s->keep_timer);
    s->keep_timer = NULL;
    unbind(s);
    /* Forgotten first: killed in between, the next start has it swept as nobody's. */
    if (s->recorded)
        box_session_write(s, BOX_SESSION_FORGET, forgotten, box_session_ref(s));
    else
        remove_sandbox(s);
}

static void let_go_soon(box_session *s)
{
    if (s->destroy_asked)
        return;
    s->destroy_asked = true;
    box_session_post(s, let_go);
}

static void grace_is_over(void *arg)
{
    box_session *s = arg;
    let_go_soon(s);
}

void box_sandbox_exec_gone(box_session *s)
{
    if (s->ending && s->n_running == 0 && !s->create_asked)
        let_go_soon(s);
}

void box_sandbox_end(void *session)
{
    BOX_AUTO(box_session_unrefp) box_session *s = session;
    if (s->ending)
        return;
    s->ending = true;
    box_error why = {0};
    (void)box_session_not_running(s, &why); /* always -1 */
    box_slots_fail_waiting(s, &why);
    if (s->create_asked)
        return; /* goes on when the warden has answered */
    if (s->n_running == 0) {
        let_go_soon(s);
        return;
    }
    box_slots_kill_running(s, BOX_CAUSE_STOPPED);
    s->timer = box_timer_new(s->home, grace_is_over, s);
    box_timer_set(s->timer,
                  box_time_add(box_loop_now(s->home), BOX_SESSION_STOP_GRACE_MS * BOX_MS));
}

void box_sandbox_lost(box_session *s, const char *cause, box_stop_reason reason)
{
    box_error why;
    (void)box_fail(&why, BOX_SESSION_BROKEN, "the sandbox of session %s is gone: %s", s->id,
                   cause); /* always -1 */
    box_error_add(&why, "cause", cause);
    if (box_session_event_happens(s, BOX_EVENT_LOST, reason, &why))
        box_log(BOX_WARN, "session.lost", BOX_STR("session", s->id), BOX_STR("uid", s->uid_text),
                BOX_STR("cause", cause));
    box_slots_lose(s, &why);
    s->ending = true;
    if (!s->create_asked)
        let_go_soon(s);
}

/* --- making ----------------------------------------------------------------------------------- */

void box_sandbox_failed(box_session *s, const box_error *why)
{
    if (box_session_event_happens(s, BOX_EVENT_FAIL, BOX_STOP_CREATE_FAILED, why))
        box_log(BOX_WARN, "session.failed", BOX_STR("session", s->id), BOX_ERR(why));
    box_slots_fail_waiting(s, why);
    s->ending = true;
    let_go_soon(s);
}

static void created(void *arg, box_warden_reply *reply)
{
    BOX_AUTO(box_session_unrefp) box_session *s = arg;
    box_error err = reply->error;
    s->create_asked = false;
    /* Whether an unanswered create made something is not known: destroy is idempotent. */
    s->sandbox_made = err.reason == BOX_NONE || err.reason == BOX_BACKEND_UNAVAILABLE;
    if (err.reason == BOX_NONE && !s->ending) {
        box_session_made(s, reply->answer.guarantees);
        s->cgroup_fd = box_take_fd(&reply->cgroup);
        s->memory_fd = box_cgroup_open_memory(reply->memory, reply->answer.memory_version);
        if (reply->answer.memory_version == 1)
            s->memory_dir = box_take_fd(&reply->memory);
        s->pids_fd = box_cgroup_open_pids(reply->pids);
        BOX_IGNORE(box_agent_new(s->home, s->all->run_dirfd, s->uid_text, &box_slots_agent_events,
                                 s, s->first_exec_id, &s->agent, &err)); /* err says it */
    }
    box_warden_reply_done(reply);
    if (!s->spec.persistent)
        unbind(s); /* the agent holds the socket; nobody else is to find it */
    if (s->ending)
        let_go_soon(s);
    else if (err.reason != BOX_NONE)
        box_sandbox_failed(s, &err);
}

void box_sandbox_request(const box_spec *spec, uint32_t required, box_warden_create *c)
{
    *c = (box_warden_create){.cpu_millis = spec->cpu_millis,
                             .memory_bytes = spec->memory_bytes,
                             .pids = spec->pids,
                             .workspace_bytes = spec->workspace_limit_bytes,
                             .required = required};
    c->flags = (spec->network_on ? BOX_CREATE_NETWORK_ON : 0) |
               (spec->read_only_rootfs ? 0 : BOX_CREATE_WRITABLE_ROOT) |
               (spec->host_path_mode == BOX_HOST_PATH_RO ? BOX_CREATE_HOST_READ_ONLY : 0) |
               (spec->persistent ? BOX_CREATE_PERSISTENT : 0);
    (void)snprintf(c->image, sizeof c->image, "%s", spec->image);
    (void)snprintf(c->mount_path, sizeof c->mount_path, "%s", spec->mount_path);
    if (spec->host_path_mode != BOX_HOST_PATH_NONE)
        (void)snprintf(c->host_path, sizeof c->host_path, "%s", spec->host_path);
}

/* A sandbox of the pool, its limits being right: only its channel comes to this loop. */
static void attach(box_session *s)
{
    box_error err = {0};
    if (box_agent_attach(s->home, &s->channel_fd, &box_slots_agent_events, s, s->first_exec_id,
                         &s->agent, &err) < 0)
        box_sandbox_failed(s, &err);
    else
        box_slots_agent_events.ready(s);
}

static void relimited(void *arg, box_warden_reply *reply)
{
    BOX_AUTO(box_session_unrefp) box_session *s = arg;
    box_error err = reply->error;
    s->create_asked = false;
    box_warden_reply_done(reply);
    if (s->ending)
        let_go_soon(s);
    else if (err.reason == BOX_SESSION_NOT_FOUND)
        box_sandbox_lost(s, "it ended by itself", BOX_STOP_LOST);
    else if (err.reason != BOX_NONE)
        box_sandbox_failed(s, &err);
    else
        attach(s);
}

static void start_warm(box_session *s)
{
    const box_warden_limits *l = &s->relimit;
    if (l->memory_bytes == 0 && l->pids == 0 && l->cpu_millis == 0) {
        attach(s);
        return;
    }
    s->create_asked = true; /* nothing runs in it before */
    box_warden_ask(s->warden, s->tenant_name, BOX_WARDEN_LIMITS, l, -1, s->home, relimited,
                   box_session_ref(s));
}

void box_sandbox_start(void *session)
{
    BOX_AUTO(box_session_unrefp) box_session *s = session;
    if (!box_session_event_happens(s, BOX_EVENT_START, BOX_STOP_NONE, NULL))
        return; /* stopped already: box_sandbox_end follows */
    if (s->channel_fd >= 0) {
        start_warm(s);
        return;
    }
    box_error err = {0};
    int listen_fd = -1;
    if (box_agent_listen(s->all->run_dirfd, s->uid_text, &listen_fd, &err) < 0) {
        box_sandbox_failed(s, &err);
        return;
    }
    s->socket_bound = true;
    s->create_asked = true;
    box_warden_create create;
    box_lock_take(&s->all->lock); /* its limits may change while it starts */
    box_sandbox_request(&s->spec, s->required, &create);
    box_lock_release(&s->all->lock);
    create.uid = s->uid;
    box_warden_ask(s->warden, s->tenant_name, BOX_WARDEN_CREATE, &create, listen_fd, s->home,
                   created, box_session_ref(s));
}

/* --- taking over ------------------------------------------------------------------------------ */

static void ask_keep(void *session);

/* Until then commands run without the control groups' numbers. */
static void kept(void *arg, box_warden_reply *reply)
{
    BOX_AUTO(box_session_unrefp) box_session *s = arg;
    bool answered = reply->error.reason == BOX_NONE;
    if (!s->ending && answered && reply->answer.alive == BOX_DEAD) {
        box_sandbox_lost(s, "it ended while no boxd watched", BOX_STOP_LOST);
    } else if (!s->ending && answered) {
        box_session_made(s, reply->answer.guarantees);
        s->cgroup_fd = box_take_fd(&reply->cgroup);
        s->memory_fd = box_cgroup_open_memory(reply->memory, reply->answer.memory_version);
        if (reply->answer.memory_version == 1)
            s->memory_dir = box_take_fd(&reply->memory);
        s->pids_fd = box_cgroup_open_pids(reply->pids);
    } else if (!s->ending) {
        if (s->keep_timer == NULL)
            s->keep_timer = box_timer_new(s->home, ask_keep, s);
        box_timer_set(s->keep_timer,
                      box_time_add(box_loop_now(s->home), BOX_ADOPT_RETRY_SECONDS * BOX_SECOND));
    }
    box_warden_reply_done(reply);
}

static void ask_keep(void *session)
{
    box_session *s = session;
    box_warden_target target = {.uid = s->uid};
    box_warden_ask(s->warden, s->tenant_name, BOX_WARDEN_KEEP, &target, -1, s->home, kept,
                   box_session_ref(s));
}

/* The agent is asked itself: it answers without its warden. */
void box_sandbox_adopt(void *session)
{
    BOX_AUTO(box_session_unrefp) box_session *s = session;
    box_error err = {0};
    if (s->ending || box_session_state_now(s, NULL) != BOX_SESSION_STARTING)
        return;
    if (box_agent_new(s->home, s->all->run_dirfd, s->uid_text, &box_slots_agent_events, s,
                      s->first_exec_id, &s->agent, &err) < 0) {
        const char *cause = box_error_get(&err, "cause");
        box_sandbox_lost(s, cause != NULL ? cause : err.msg, BOX_STOP_LOST);
        return;
    }
    ask_keep(s);
}
