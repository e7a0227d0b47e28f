#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "grpc/health/v1/health.pb-c.h"
#include "rpc/health.h"

/* A call whose answers are kept, and which is writable or not as the test says. */
typedef struct fake_call {
    box_call base; /* first */
    int statuses[8];
    int n_statuses;
    bool full;
    bool ended;
    box_error end;
} fake_call;

static void fake_send(box_call *call, const uint8_t *message, size_t len)
{
    fake_call *c = (fake_call *)call;
    Grpc__Health__V1__HealthCheckResponse *m =
        grpc__health__v1__health_check_response__unpack(NULL, len, message);
    assert_non_null(m);
    c->statuses[c->n_statuses++] = (int)m->status;
    grpc__health__v1__health_check_response__free_unpacked(m, NULL);
}

static void fake_finish(box_call *call, const box_error *err)
{
    fake_call *c = (fake_call *)call;
    c->ended = true;
    c->end = err == NULL ? (box_error){0} : *err;
}

static bool fake_is_writable(const box_call *call)
{
    return !((const fake_call *)call)->full;
}

static void fake_pause(box_call *call, bool paused)
{
    (void)call, (void)paused;
}

static void fake_destroy(box_call *call)
{
    (void)call; /* part of the fixture */
}

static const box_call_ops fake_ops = {.send = fake_send,
                                      .finish = fake_finish,
                                      .is_writable = fake_is_writable,
                                      .pause = fake_pause,
                                      .destroy = fake_destroy};

typedef struct fixture {
    box_loops *loops;
    box_health *health;
    box_service service;
    fake_call call;
} fixture;

static int set_up(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    box_error err;
    assert_int_equal(box_loops_new(1, 1, &f->loops, &err), 0);
    f->health = box_health_new(f->loops);
    f->service = box_health_service(f->health);
    box_health_set(f->health, "", BOX_HEALTH_SERVING);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    fixture *f = *state;
    box_loops_free(f->loops);
    box_health_free(f->health);
    free(f);
    return 0;
}

static void ask(fixture *f, const char *path, const char *name)
{
    const box_service *service;
    const box_method *method;
    assert_true(box_service_find(&f->service, 1, path, &service, &method));
    Grpc__Health__V1__HealthCheckRequest request = GRPC__HEALTH__V1__HEALTH_CHECK_REQUEST__INIT;
    request.service = (char *)(uintptr_t)name;
    uint8_t bytes[64];
    size_t len = grpc__health__v1__health_check_request__pack(&request, bytes);
    box_metadata none = {0};
    f->call = (fake_call){0};
    box_call_init(&f->call.base, &fake_ops, service, method, NULL, &none, 0);
    box_call_deliver_start(&f->call.base);
    box_call_deliver_message(&f->call.base, bytes, len);
    box_call_deliver_half_close(&f->call.base);
}

static void drop(fixture *f)
{
    box_error gone;
    (void)box_fail(&gone, BOX_CANCELLED, "gone");
    box_call_deliver_end(&f->call.base, &gone);
}

static void check_answers_what_was_set_and_not_found_else(void **state)
{
    fixture *f = *state;
    ask(f, "/grpc.health.v1.Health/Check", "");
    assert_int_equal(f->call.statuses[0], BOX_HEALTH_SERVING);
    assert_int_equal(f->call.end.reason, BOX_NONE);
    drop(f);
    ask(f, "/grpc.health.v1.Health/Check", "none");
    assert_int_equal(f->call.n_statuses, 0);
    assert_int_equal(box_error_code(&f->call.end), BOX_CODE_NOT_FOUND);
    drop(f);
    box_health_drain(f->health);
    box_health_set(f->health, "", BOX_HEALTH_SERVING); /* for good */
    ask(f, "/grpc.health.v1.Health/Check", "");
    assert_int_equal(f->call.statuses[0], BOX_HEALTH_NOT_SERVING);
    drop(f);
}

/* Steps run on the loop, each after what the one before has posted. */
typedef void (*step)(fixture *f);

typedef struct script {
    fixture *f;
    const step *steps;
    size_t n;
} script;

static void next_step(void *arg)
{
    script *s = arg;
    if (s->n == 0) {
        box_loops_stop(s->f->loops);
        return;
    }
    s->n--;
    (*s->steps++)(s->f);
    box_loop_post(box_loops_get(s->f->loops, 0), next_step, s);
}

static void play(fixture *f, const step *steps, size_t n)
{
    script s = {f, steps, n};
    box_error err;
    box_loop_post(box_loops_get(f->loops, 0), next_step, &s);
    assert_int_equal(box_loops_run(f->loops, &err), 0);
}

static void watch_later(fixture *f)
{
    ask(f, "/grpc.health.v1.Health/Watch", "later");
}

static void set_same(fixture *f)
{
    assert_int_equal(f->call.n_statuses, 2);
    box_health_set(f->health, "later", BOX_HEALTH_SERVING);
}

static void set_serving(fixture *f)
{
    box_health_set(f->health, "later", BOX_HEALTH_SERVING);
}

static void set_not_serving(fixture *f)
{
    box_health_set(f->health, "later", BOX_HEALTH_NOT_SERVING);
}

static void a_watch_hears_each_change_once(void **state)
{
    fixture *f = *state;
    static const step steps[] = {watch_later, set_serving, set_same, set_not_serving, drop};
    play(f, steps, BOX_COUNT(steps));
    assert_int_equal(f->call.n_statuses, 3);
    assert_int_equal(f->call.statuses[0], 3); /* SERVICE_UNKNOWN, and the call stays */
    assert_int_equal(f->call.statuses[1], BOX_HEALTH_SERVING);
    assert_int_equal(f->call.statuses[2], BOX_HEALTH_NOT_SERVING);
    assert_false(f->call.ended);
}

static void stop_reading(fixture *f)
{
    f->call.full = true;
}

static void read_again(fixture *f)
{
    f->call.full = false;
    box_call_deliver_writable(&f->call.base);
}

static void a_slow_watcher_gets_the_latest_only(void **state)
{
    fixture *f = *state;
    static const step steps[] = {watch_later,     stop_reading, set_serving,
                                 set_not_serving, read_again,   drop};
    play(f, steps, BOX_COUNT(steps));
    assert_int_equal(f->call.n_statuses, 2);
    assert_int_equal(f->call.statuses[1], BOX_HEALTH_NOT_SERVING);
}

static void drain_health(fixture *f)
{
    box_health_drain(f->health);
}

static void a_drain_tells_watchers_and_ends_them(void **state)
{
    fixture *f = *state;
    static const step steps[] = {watch_later, set_serving, drain_health, drop};
    play(f, steps, BOX_COUNT(steps));
    assert_int_equal(f->call.n_statuses, 3);
    assert_int_equal(f->call.statuses[2], BOX_HEALTH_NOT_SERVING);
    assert_true(f->call.ended);
    assert_int_equal(f->call.end.reason, BOX_SHUTTING_DOWN);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(check_answers_what_was_set_and_not_found_else),
        TEST(a_watch_hears_each_change_once),
        TEST(a_slow_watcher_gets_the_latest_only),
        TEST(a_drain_tells_watchers_and_ends_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
