#include "warm.h"

#include <fts.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/macros.h"
#include "box/v1/control.client.h"
#include "session_calls.h"

enum { PATIENCE_SECONDS = 30, LOOK_US = 200, CLEAN_LOOK_US = 20 };

static char true_path[] = "/usr/bin/true";

static void rest(long us)
{
    (void)nanosleep(&(struct timespec){.tv_nsec = us * 1000}, NULL); /* cut short is fine */
}

/* --- the pool --------------------------------------------------------------------------------- */

static int ask_pool(box_channel *channel, int *ready, int *size, box_error *err)
{
    Box__V1__GetStatusRequest request;
    box__v1__get_status_request__init(&request);
    Box__V1__GetStatusResponse *response = NULL;
    if (box_v1_control_service_get_status(channel, NULL, &request, &response, err) < 0)
        return -1;
    *ready = response->server != NULL ? response->server->warm_sandboxes : 0;
    *size = response->server != NULL ? response->server->warm_pool_size : 0;
    box__v1__get_status_response__free_unpacked(response, NULL);
    return 0;
}

int bench_warm_size(const load_target *t, int *size, box_error *err)
{
    box_channel *channel;
    int ready;
    if (box_channel_new(t->endpoint, NULL, &channel, err) < 0)
        return -1;
    int rc = ask_pool(channel, &ready, size, err);
    box_channel_free(channel);
    return rc;
}

/* What the last call left to be cleaned rests a moment too. */
static int wait_full(load_worker *w, box_error *err)
{
    box_time end = box_time_add(box_now(), PATIENCE_SECONDS * BOX_SECOND);
    int ready = 0;
    int size = 1;
    while (ready < size) {
        rest(LOOK_US);
        if (ask_pool(w->channel, &ready, &size, err) < 0)
            return -1;
        if (box_now() > end)
            return box_fail(err, BOX_DEADLINE, "the pool is not full after %d s", PATIENCE_SECONDS);
    }
    return 0;
}

static int run_alone(const load_target *t, load_plan plan, size_t calls, bench_case *out,
                     box_error *err)
{
    plan.connections = plan.threads_each = 1;
    plan.calls = calls;
    return load_run(t, &plan, out, err);
}

static int prepare_session(load_worker *w, box_error *err)
{
    bench_session_name(w);
    return bench_session_create(w, false, NULL, err);
}

static int call_true(load_worker *w, box_error *err)
{
    char *argv[] = {true_path};
    return bench_session_exec(w, argv, 1, NULL, err);
}

int bench_warm_exec(const load_target *t, size_t calls, bench_case *out, box_error *err)
{
    return run_alone(t,
                     (load_plan){.prepare = prepare_session,
                                 .before = wait_full,
                                 .call = call_true,
                                 .finish = bench_session_finish},
                     calls, out, err);
}

static int call_lifecycle(load_worker *w, box_error *err)
{
    bench_session_name(w);
    if (bench_session_create(w, false, NULL, err) < 0 || call_true(w, err) < 0)
        return -1;
    return bench_session_delete(w, err);
}

int bench_warm_lifecycle(const load_target *t, size_t calls, bench_case *out, box_error *err)
{
    return run_alone(
        t, (load_plan){.before = wait_full, .call = call_lifecycle, .finish = bench_session_finish},
        calls, out, err);
}

int bench_warm_run(const load_target *t, size_t calls, bench_case *out, box_error *err)
{
    return run_alone(t, (load_plan){.before = wait_full, .call = call_true}, calls, out, err);
}

/* --- what goes on behind the answer ----------------------------------------------------------- */

enum { MAX_GROUPS = 16 };

typedef struct groups {
    size_t count;
    char *paths[MAX_GROUPS];
} groups;

static void groups_done(groups *g)
{
    for (size_t i = 0; i < g->count; i++)
        free(g->paths[i]);
}

/* The sandbox's groups, one in each hierarchy, carry its uid. */
static void find_groups(const char *uid, groups *out)
{
    char root[] = "/sys/fs/cgroup";
    char *const roots[] = {root, NULL};
    FTS *tree = fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR, NULL);
    if (tree == NULL)
        return;
    for (FTSENT *e; (e = fts_read(tree)) != NULL && out->count < MAX_GROUPS;) {
        if (e->fts_info != FTS_D || strcmp(e->fts_name, uid) != 0)
            continue;
        out->paths[out->count++] = box_strdup(e->fts_path);
        (void)fts_set(tree, e, FTS_SKIP); /* cannot fail for a valid instruction */
    }
    (void)fts_close(tree); /* only read */
}

static int wait_gone(const groups *g, box_error *err)
{
    box_time end = box_time_add(box_now(), PATIENCE_SECONDS * BOX_SECOND);
    for (size_t i = 0; i < g->count; i++) {
        while (access(g->paths[i], F_OK) == 0) {
            if (box_now() > end)
                return box_fail(err, BOX_DEADLINE, "a sandbox is not removed after %d s",
                                PATIENCE_SECONDS);
            rest(CLEAN_LOOK_US);
        }
    }
    return 0;
}

static int clean_once(load_worker *w, bench_case *out, box_error *err)
{
    char uid[64];
    BOX_AUTO(groups_done) groups g = {0};
    bench_session_name(w);
    if (bench_session_create(w, true, uid, err) < 0)
        return -1;
    int rc = call_true(w, err);
    find_groups(uid, &g);
    box_time begin = box_now();
    if (bench_session_delete(w, err) < 0 || rc < 0 || wait_gone(&g, err) < 0)
        return -1;
    if (g.count > 0)
        bench_add(out, box_now() - begin);
    return 0;
}

int bench_clean(const load_target *t, size_t calls, bench_case *out, box_error *err)
{
    load_worker w = {0};
    if (box_channel_new(t->endpoint, NULL, &w.channel, err) < 0)
        return -1;
    box_time begin = box_now();
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < calls; i++)
        rc = clean_once(&w, out, err);
    out->wall_ns = box_now() - begin;
    box_channel_free(w.channel);
    return rc;
}
