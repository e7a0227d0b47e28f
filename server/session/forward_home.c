/* Connections to ports inside, on the home loop of their session: having them made, counting them.
 */
#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "base/limits.h"
#include "session/forward_impl.h"

/* --- counting --------------------------------------------------------------------------------- */

static int limit_reached(const char *whose, const char *limit, uint32_t max, box_error *err)
{
    (void)box_fail(err, BOX_QUOTA, "%s has as many connections to ports as it may have", whose);
    err->retry_ms = 1000;
    return box_error_limit(err, limit, max, max);
}

static int enter(box_forward *f, box_error *err)
{
    box_session *s = f->session;
    if (s->n_forwards >= BOX_MAX_FORWARDS)
        return limit_reached("this session", "forwards", BOX_MAX_FORWARDS, err);
    box_lock_take(&s->all->lock);
    box_tenancy *t = box_map_get(s->all->tenants, s->tenant_name); /* its session lives */
    bool full = t->forwards >= BOX_MAX_FORWARDS_PER_TENANT;
    t->forwards += !full;
    box_lock_release(&s->all->lock);
    if (full)
        return limit_reached("this tenant", "forwards_per_tenant", BOX_MAX_FORWARDS_PER_TENANT,
                             err);
    s->n_forwards++;
    box_list_append(&s->forwards, &box_forward_ref(f)->link);
    return 0;
}

static void leave(box_forward *f)
{
    box_session *s = f->session;
    box_timer_free(f->retry);
    f->retry = NULL;
    if (!box_list_linked(&f->link))
        return;
    box_list_remove(&f->link);
    s->n_forwards--;
    box_lock_take(&s->all->lock);
    box_tenancy *t = box_map_get(s->all->tenants, s->tenant_name); /* stays while it counts any */
    t->forwards--;
    box_tenancy_drop_if_unused(s->all, t);
    box_lock_release(&s->all->lock);
    box_forward_unref(f);
}

/* The last thing that happens to it here. */
static void fail(box_forward *f, const box_error *why)
{
    if (!f->gone) {
        f->error = *why;
        box_loop_post(f->loop, box_forward_failed, box_forward_ref(f));
    }
    leave(f);
}

/* --- connecting ------------------------------------------------------------------------------- */

static void ask(box_forward *f)
{
    box_session *s = f->session;
    const box_agent_connect connect = {.port = f->port};
    f->asked_id = s->next_forward_id++;
    box_agent_order(s->agent, BOX_AGENT_CONNECT, f->asked_id, &connect, sizeof connect);
}

static void ask_again(void *arg)
{
    box_forward *f = arg;
    if (f->session->agent != NULL) /* else box_forwards_close has been here, or comes */
        ask(f);
}

static void try_later(box_forward *f)
{
    box_loop *home = f->session->home;
    if (f->retry == NULL)
        f->retry = box_timer_new(home, ask_again, f);
    box_timer_set(f->retry, box_time_add(box_loop_now(home), BOX_FORWARD_RETRY_MS * BOX_MS));
}

void box_forward_arrives(void *forward)
{
    box_forward *f = forward;
    box_session *s = f->session;
    box_error err = {0};
    if (f->gone) {
        box_forward_unref(f);
        return;
    }
    int rc = s->agent == NULL || s->ending ? box_session_not_running(s, &err) : enter(f, &err);
    if (rc < 0) {
        fail(f, &err);
    } else {
        f->until = box_time_add(box_loop_now(s->home), f->wait_ns);
        ask(f);
    }
    box_forward_unref(f);
}

void box_forward_leaves(void *forward)
{
    box_forward *f = forward;
    f->gone = true;
    box_timer_free(f->retry);
    f->retry = NULL;
    if (f->asked_id == 0) /* else it counts until the agent has answered */
        leave(f);
    box_forward_unref(f);
}

/* --- the agent's word ------------------------------------------------------------------------- */

static box_forward *find(const box_session *s, uint64_t id)
{
    for (box_list *at = s->forwards.next; at != &s->forwards; at = at->next) {
        box_forward *f = BOX_CONTAINER(at, box_forward, link);
        if (f->asked_id == id)
            return f;
    }
    return NULL;
}

static bool has(int fd, int option, int wanted)
{
    int value = -1;
    socklen_t len = sizeof value;
    return getsockopt(fd, SOL_SOCKET, option, &value, &len) == 0 && value == wanted;
}

/* Nothing else is read or written as if it were one. */
static int check_socket(const box_session *s, int fd, box_error *err)
{
    bool ip = has(fd, SO_DOMAIN, AF_INET) || has(fd, SO_DOMAIN, AF_INET6);
    if (!ip || !has(fd, SO_TYPE, SOCK_STREAM) || !has(fd, SO_PROTOCOL, IPPROTO_TCP))
        return box_fail(err, BOX_INTERNAL, "the sandbox's agent gave something else than a port");
    if (fd <= s->all->last_fd)
        return 0;
    (void)box_fail(err, BOX_QUOTA, "the server has no file descriptors left: retry later");
    box_error_add(err, "limit", "open_files");
    err->retry_ms = 1000;
    return -1;
}

static bool is_refused(const box_error *err)
{
    const char *cause = box_error_get(err, "cause");
    return err->reason == BOX_RUNTIME_UNAVAILABLE && cause != NULL && strcmp(cause, "refused") == 0;
}

void box_forward_connected(box_session *s, uint64_t id, const box_agent_connected *c, int *fd)
{
    box_forward *f = find(s, id);
    box_error err = c->error;
    if (f == NULL)
        return; /* of nobody who still counts */
    f->asked_id = 0;
    if (f->gone) {
        leave(f);
    } else if (is_refused(&err) && box_loop_now(s->home) < f->until) {
        try_later(f);
    } else if (err.reason != BOX_NONE || check_socket(s, *fd, &err) < 0) {
        fail(f, &err);
    } else {
        f->fd = box_take_fd(fd);
        box_loop_post(f->loop, box_forward_opened, box_forward_ref(f));
    }
}

void box_forwards_close(box_session *s, const box_error *why)
{
    while (!box_list_empty(&s->forwards)) {
        box_forward *f = BOX_CONTAINER(s->forwards.next, box_forward, link);
        f->asked_id = 0;
        fail(f, why);
    }
}
