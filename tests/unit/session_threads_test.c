/* The session manager on real loops with a fake warden on a thread of its own: what the thread
 * sanitizer is to see. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/limits.h"
#include "fake_warden.h"
#include "session/exec.h"

enum { LOOPS = 3, CALLERS = 12, ROUNDS = 40 };

typedef struct stage {
    box_loops *loops;
    fake_warden warden;
    pthread_t thread;
    int wake[2]; /* closing wake[1] ends the warden's thread */
    box_sessions *all;
    char dir[64];
    atomic_uint left; /* callers that still have rounds */
    atomic_uint verdicts;
    atomic_uint errors;
    atomic_uint events;
} stage;

typedef struct caller {
    stage *stage;
    unsigned number;
    unsigned rounds;
    box_exec *exec;
    box_session_watch *watch;
    char id[16];
} caller;

static void *play_warden(void *arg)
{
    stage *s = arg;
    for (;;) {
        while (fake_warden_step(&s->warden))
            ;
        int fds[128];
        struct pollfd polls[129] = {{.fd = s->wake[0]}};
        unsigned n = fake_warden_fds(&s->warden, fds, 128);
        for (unsigned i = 0; i < n; i++)
            polls[i + 1] = (struct pollfd){.fd = fds[i], .events = POLLIN};
        (void)poll(polls, n + 1, 5); /* pipes of programs are looked at now and then */
        if (polls[0].revents != 0)
            return NULL;
    }
}

static void next_round(void *arg);

static void all_gone(void *arg)
{
    stage *s = arg;
    box_loops_stop(s->loops);
}

static void caller_ends(caller *c)
{
    stage *s = c->stage;
    box_session_watch_free(c->watch);
    c->watch = NULL;
    if (atomic_fetch_sub(&s->left, 1) == 1)
        box_sessions_drain(s->all, all_gone, s);
}

static void round_over(caller *c)
{
    if (++c->rounds == ROUNDS)
        caller_ends(c);
    else
        box_loop_post(box_loop_current(), next_round, c);
}

static void on_done(void *arg, const box_verdict *v, const box_error *err)
{
    caller *c = arg;
    if (v != NULL)
        atomic_fetch_add(&c->stage->verdicts, 1);
    if (err != NULL)
        atomic_fetch_add(&c->stage->errors, 1);
    box_exec_free(c->exec);
    c->exec = NULL;
    round_over(c);
}

static void on_deleted(void *arg, const box_session_info *info, const box_error *err)
{
    caller *c = arg;
    (void)info, (void)err; /* another caller may have been faster */
    round_over(c);
}

static void cancel_it(void *arg)
{
    caller *c = arg;
    if (c->exec == NULL)
        return; /* its session went first: on_done has gone on */
    box_exec_cancel(c->exec);
    c->exec = NULL;
    round_over(c);
}

static void run(caller *c, const char *session, const char *name, const char *word)
{
    static const box_exec_events events = {.done = on_done};
    const char *argv[] = {name, word};
    box_command command = {.argv = argv, .argc = 2};
    box_exec_request request = {.tenant = "t", .session_id = session, .command = &command};
    box_error err = {0};
    if (box_exec_start(c->stage->all, &request, &events, c, &c->exec, &err) < 0) {
        atomic_fetch_add(&c->stage->errors, 1);
        round_over(c);
        return;
    }
    if (strcmp(name, "hang") == 0)
        box_loop_post(box_loop_current(), cancel_it, c);
}

static void look(stage *s)
{
    box_session_info *infos;
    size_t n;
    bool more;
    box_session_filter filter = {0};
    box_session_list(s->all, "t", &filter, 0, NULL, 100, &infos, &n, &more);
    box_session_list_free(infos, n);
    box_sessions_stats stats;
    box_sessions_stats_get(s->all, NULL, &stats);
}

static void next_round(void *arg)
{
    caller *c = arg;
    look(c->stage);
    switch ((c->number + c->rounds) % 5) {
    case 0:
        run(c, "", "echo", "one-off");
        return;
    case 1:
        box_session_delete(c->stage->all, "t", "shared", true, on_deleted, c);
        return;
    case 2:
        run(c, "shared", "hang", "");
        return;
    case 3:
        run(c, "shared", "echo", "shared");
        return;
    default:
        run(c, c->id, "echo", "own");
    }
}

static void on_event(void *arg, box_watch_type type, const box_session_info *info, uint64_t lost)
{
    caller *c = arg;
    (void)type, (void)info, (void)lost;
    atomic_fetch_add(&c->stage->events, 1);
}

static bool on_writable(void *arg)
{
    (void)arg;
    return true;
}

static void on_ended(void *arg, const box_error *why)
{
    (void)arg, (void)why;
}

static void first_round(void *arg)
{
    static const box_session_watch_events events = {
        .event = on_event, .writable = on_writable, .ended = on_ended};
    caller *c = arg;
    box_session_watch_request request = {.tenant = "t", .include_existing = true};
    box_error err = {0};
    if (box_session_watch_new(c->stage->all, &request, &events, c, &c->watch, &err) < 0)
        abort();
    next_round(c);
}

static void callers_on_several_loops_share_sessions(void **state)
{
    (void)state;
    stage *s = calloc(1, sizeof *s);
    box_error err = {0};
    assert_int_equal(box_loops_new(LOOPS, 1, &s->loops, &err), 0);
    fake_warden_init(&s->warden);
    (void)snprintf(s->dir, sizeof s->dir, "/tmp/box-run-XXXXXX");
    assert_non_null(mkdtemp(s->dir));
    assert_int_equal(pipe(s->wake), 0);
    box_backend_config backend = {.name = "namespace", .fd = s->warden.peer};
    s->warden.peer = -1;
    box_sessions_config config = {.loops = s->loops,
                                  .run_dir = s->dir,
                                  .instance = box_uid_new(),
                                  .backends = &backend,
                                  .n_backends = 1};
    assert_int_equal(box_sessions_new(&config, &s->all, &err), 0);
    assert_int_equal(pthread_create(&s->thread, NULL, play_warden, s), 0);
    static caller callers[CALLERS];
    atomic_store(&s->left, CALLERS);
    for (unsigned i = 0; i < CALLERS; i++) {
        callers[i] = (caller){.stage = s, .number = i};
        (void)snprintf(callers[i].id, sizeof callers[i].id, "own-%u", i);
        box_loop_post(box_loops_get(s->loops, i % LOOPS), first_round, &callers[i]);
    }
    assert_int_equal(box_loops_run(s->loops, &err), 0);
    (void)close(s->wake[1]);
    assert_int_equal(pthread_join(s->thread, NULL), 0);
    (void)close(s->wake[0]);
    assert_true(atomic_load(&s->verdicts) > CALLERS * ROUNDS / 4);
    assert_true(atomic_load(&s->events) > 0);
    box_sessions_stats stats;
    box_sessions_stats_get(s->all, NULL, &stats);
    assert_int_equal(stats.live, 0);
    assert_int_equal(stats.running_execs, 0);
    assert_int_equal(stats.queued_execs, 0);
    box_sessions_free(s->all);
    box_loops_free(s->loops);
    assert_int_equal(fake_warden_count(&s->warden), 0);
    fake_warden_done(&s->warden);
    assert_int_equal(rmdir(s->dir), 0);
    free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(callers_on_several_loops_share_sessions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
