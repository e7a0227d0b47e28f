/* The manager: made from configuration, swept by its own timer. */
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "base/limits.h"
#include "session/execution.h"
#include "session/pool.h"
#include "session/process_impl.h"
#include "session/watch.h"

/* --- what the wardens tell -------------------------------------------------------------------- */

static void warden_lost_it(void *session)
{
    BOX_AUTO(box_session_unrefp) box_session *s = session;
    box_sandbox_lost(s, "it ended by itself", BOX_STOP_LOST);
}

static void warden_lost_it_to_oom(void *session)
{
    BOX_AUTO(box_session_unrefp) box_session *s = session;
    box_sandbox_lost(s, "the kernel ended it for memory", BOX_STOP_LOST);
}

static void on_exited(void *arg, const box_uid *uid, bool oom)
{
    box_sessions *all = arg;
    if (box_pool_lose(all->pool, uid))
        return;
    BOX_AUTO(box_session_unrefp) box_session *s = box_sessions_find_uid(all, uid);
    if (s != NULL)
        box_session_post(s, oom ? warden_lost_it_to_oom : warden_lost_it);
}

static void on_live(void *arg, box_warden *w, void (*add)(void *to, const box_uid *uid), void *to)
{
    box_sessions *all = arg;
    box_lock_take(&all->lock);
    size_t at = 0;
    void *value;
    while (box_map_next(all->by_uid, &at, &value)) {
        const box_session *s = value;
        /* CREATED: one of the pool that was just given. */
        bool lives = s->state >= BOX_SESSION_CREATED && s->state <= BOX_SESSION_RUNNING;
        if (s->warden == w && s->at_warden && lives)
            add(to, &s->uid);
    }
    box_pool_forget_warden_locked(all->pool, w);
    box_lock_release(&all->lock);
}

/* --- making ----------------------------------------------------------------------------------- */

/* Sockets that an earlier run left, but of known sandboxes: names of 32 hexadecimal digits are
 * ours. */
static void remove_stale_sockets(int dirfd, const box_map *known)
{
    int copy = openat(dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = copy >= 0 ? fdopendir(copy) : NULL;
    if (dir == NULL) {
        box_closep(&copy);
        return;
    }
    box_uid uid;
    for (struct dirent *e; (e = readdir(dir)) != NULL;) {
        if (box_uid_parse(e->d_name, &uid) && box_map_get_bytes(known, &uid, sizeof uid) == NULL)
            (void)unlinkat(dirfd, e->d_name, 0); /* a name that stays does no harm */
    }
    (void)closedir(dir); /* only read */
}

static void sweep(void *arg)
{
    box_sessions *all = arg;
    box_loop *loop = box_loops_get(all->loops, 0);
    box_sessions_expire(all, box_loop_now(loop));
    box_pool_look(all->pool);
    if (all->ledger != NULL)
        box_ledger_tick(all->ledger, box_loop_now(loop));
    box_timer_set(all->sweep, box_time_add(box_loop_now(loop), BOX_SESSION_SWEEP_MS * BOX_MS));
}

static void begin(void *arg)
{
    box_sessions *all = arg;
    all->sweep = box_timer_new(box_loops_get(all->loops, 0), sweep, all);
    sweep(all);
}

static uint64_t or_default(uint64_t value, uint64_t normal)
{
    return value != 0 ? value : normal;
}

static void set_text(char *to, size_t size, const char *text, const char *normal)
{
    (void)snprintf(to, size, "%s", text != NULL && text[0] != '\0' ? text : normal);
}

static void configure_defaults(box_session_defaults *d, const box_sessions_config *c)
{
    set_text(d->backend, sizeof d->backend, c->backend, "auto");
    set_text(d->profile, sizeof d->profile, c->default_profile, "default");
    set_text(d->image, sizeof d->image, c->default_image, "");
    d->memory_bytes = c->default_memory_bytes;
    set_text(d->workspace, sizeof d->workspace, c->default_workspace, "");
    d->workspace_limit_bytes = c->default_workspace_limit_bytes;
    d->required_guarantees = c->required_guarantees;
    d->max_sessions = (uint32_t)or_default(c->max_sessions, BOX_MAX_SESSIONS);
    d->disabled = c->disabled;
}

static int check_profile(const char *profile, box_error *err)
{
    if (box_profile_find(profile) == NULL)
        return box_violation(err, "box.default_profile", "there is no profile %s", profile);
    return 0;
}

box_session_defaults box_sessions_defaults(box_sessions *all)
{
    box_lock_take(&all->lock);
    box_session_defaults copy = all->defaults;
    box_lock_release(&all->lock);
    return copy;
}

int box_sessions_set_defaults(box_sessions *all, box_session_defaults *next, bool *reselected,
                              box_error *err)
{
    if (check_profile(next->profile, err) < 0)
        return -1;
    box_lock_take(&all->lock);
    *reselected = all->live == 0;
    if (all->live > 0)
        set_text(next->backend, sizeof next->backend, all->defaults.backend, "auto");
    all->defaults = *next;
    box_lock_release(&all->lock);
    box_loop_post(box_loops_get(all->loops, 0), box_pool_look, all->pool);
    return 0;
}

static void configure(box_sessions *all, const box_sessions_config *c)
{
    for (size_t i = 0; i < BOX_TENANCY_SIZES; i++)
        box_list_init(&all->by_size[i]);
    all->loops = c->loops;
    all->instance = c->instance;
    all->max_sessions_per_tenant =
        (uint32_t)or_default(c->max_sessions_per_tenant, BOX_MAX_SESSIONS_PER_TENANT);
    all->evict_idle = c->evict_idle;
    all->allow_no_idle_ttl = c->allow_no_idle_ttl;
    all->idle_ttl_ns = or_default(c->idle_ttl_ns, BOX_SESSION_IDLE_SECONDS * BOX_SECOND);
    all->lifetime_ns = or_default(c->lifetime_ns, BOX_SESSION_LIFETIME_SECONDS * BOX_SECOND);
    all->budget = c->budget;
    all->store = c->store;
    all->ledger = c->store != NULL ? box_ledger_new(c->store) : NULL;
    atomic_init(&all->cpu_files_left, BOX_MAX_CPU_FILES);
    all->last_fd = c->last_fd != 0 ? c->last_fd : INT_MAX;
    all->wall_ns = c->wall_ns != NULL ? c->wall_ns : box_wall_ns;
}

static void make_wardens(box_sessions *all, const box_sessions_config *c)
{
    const box_warden_hooks hooks = {.arg = all, .exited = on_exited, .live = on_live};
    all->wardens = box_alloc_array(c->n_backends > 0 ? c->n_backends : 1, sizeof(box_warden *));
    for (size_t i = 0; i < c->n_backends; i++) {
        box_loop *loop = box_loops_get(c->loops, (unsigned)(i % box_loops_count(c->loops)));
        all->wardens[i] = box_warden_new(loop, &c->backends[i], &c->instance, &hooks);
    }
    all->n_wardens = c->n_backends;
}

static int restore(box_sessions *all, box_error *err)
{
    box_map *known = box_map_new();
    int rc = box_sessions_restore(all, known, err);
    if (rc == 0)
        remove_stale_sockets(all->run_dirfd, known);
    box_map_free(known);
    return rc;
}

int box_sessions_new(const box_sessions_config *c, box_sessions **out, box_error *err)
{
    box_session_defaults defaults;
    configure_defaults(&defaults, c);
    if (check_profile(defaults.profile, err) < 0)
        return -1;
    BOX_AUTO(box_closep)
    int dirfd = open(c->run_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (dirfd < 0)
        return box_fail_errno(err, "open the directory of agents' sockets");
    box_sessions *all = box_alloc(sizeof *all);
    box_lock_init(&all->lock);
    all->by_key = box_map_new();
    all->by_uid = box_map_new();
    all->tenants = box_map_new();
    all->idem = box_idem_new();
    box_list_init(&all->watches);
    all->defaults = defaults;
    all->run_dirfd = box_take_fd(&dirfd);
    configure(all, c);
    all->pool = box_pool_new(all, c->warm_pool);
    make_wardens(all, c);
    if (restore(all, err) < 0) {
        box_sessions_free(all);
        return -1;
    }
    box_loop_post(box_loops_get(all->loops, 0), begin, all);
    *out = all;
    return 0;
}

/* --- freeing ---------------------------------------------------------------------------------- */

/* What the home loop would have let go. */
static void strip(box_session *s)
{
    box_error why = {0};
    (void)box_fail(&why, BOX_SHUTTING_DOWN, "the server is shutting down"); /* always -1 */
    box_files_close(s, &why); /* those of a persistent session may be waiting for calls */
    box_forwards_close(s, &why);
    box_processes_drop(s);
    box_timer_free(s->forget_timer);
    s->forget_timer = NULL;
    box_agent_free(s->agent);
    s->agent = NULL;
    box_timer_free(s->timer);
    box_timer_free(s->keep_timer);
    s->timer = s->keep_timer = NULL;
    box_session_unrefp(&s->successor);
    box_slots_drop_held(s);
    box_cpu_groups_close(&s->cpu);
    box_closep(&s->cgroup_fd);
    box_closep(&s->memory_fd);
    box_closep(&s->memory_dir);
    box_closep(&s->pids_fd);
    box_closep(&s->channel_fd);
}

static void free_sessions(box_map *map)
{
    size_t at = 0;
    void *value;
    while (box_map_next(map, &at, &value))
        strip(value);
    at = 0;
    while (box_map_next(map, &at, &value))
        box_session_unref(value);
    box_map_free(map);
}

void box_sessions_free(box_sessions *all)
{
    if (all == NULL)
        return;
    for (size_t i = 0; i < all->n_wardens; i++)
        box_warden_free(all->wardens[i]);
    free(all->wardens);
    box_pool_free(all->pool);
    free_sessions(all->by_uid);
    free_sessions(all->by_key);
    size_t at = 0;
    void *value;
    while (box_map_next(all->tenants, &at, &value)) {
        box_tenancy *t = value;
        free(t->name);
        free(t);
    }
    box_map_free(all->tenants);
    box_idem_free(all->idem);
    box_ledger_free(all->ledger);
    box_timer_free(all->sweep);
    box_timer_free(all->drain_limit);
    box_closep(&all->run_dirfd);
    box_lock_done(&all->lock);
    free(all);
}

/* --- statistics ------------------------------------------------------------------------------- */

static void count_tenant(box_tenancy *t, box_sessions_stats *out)
{
    out->live = t->live;
    out->records = t->n_ended;
    for (box_list *at = t->sessions.next; at != &t->sessions; at = at->next) {
        const box_session *s = BOX_CONTAINER(at, box_session, of_tenant);
        out->running_execs += s->running_execs;
        out->queued_execs += s->queued_execs;
        out->running_processes += s->kept_alive;
    }
}

static void count_all(const box_tenancy *t, box_sessions_stats *out)
{
    out->records += t->n_ended;
    for (box_list *at = t->sessions.next; at != &t->sessions; at = at->next)
        out->running_processes += BOX_CONTAINER(at, box_session, of_tenant)->kept_alive;
}

void box_sessions_stats_get(box_sessions *all, const char *tenant, box_sessions_stats *out)
{
    box_lock_take(&all->lock);
    *out = (box_sessions_stats){.created_total = all->created_total,
                                .execs_total = all->execs_total,
                                .max_sessions = tenant != NULL ? all->max_sessions_per_tenant
                                                               : all->defaults.max_sessions,
                                .draining = all->draining};
    box_tenancy *t = tenant != NULL ? box_map_get(all->tenants, tenant) : NULL;
    if (tenant == NULL) {
        box_pool_stats_locked(all->pool, out);
        memcpy(out->states, all->states, sizeof out->states);
        for (size_t i = 0; i < BOX_SESSION_VERDICTS; i++)
            out->verdicts[i] = atomic_load(&all->verdicts[i]);
        out->live = all->live;
        out->running_execs = all->running_execs;
        out->queued_execs = all->queued_execs;
        size_t at = 0;
        void *value;
        while (box_map_next(all->tenants, &at, &value))
            count_all(value, out);
    } else if (t != NULL) {
        count_tenant(t, out);
    }
    box_lock_release(&all->lock);
}
