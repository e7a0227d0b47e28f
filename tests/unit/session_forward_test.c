/* Connections to ports inside: session/forward.h, with a fake agent that gives real sockets. */
#include "session/forward.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/limits.h"
#include "session_rig.h"

/* A forward and what became of it. */
typedef struct opened {
    box_forward *forward;
    bool started, closed, done, deaf;
    char uid[BOX_UID_TEXT];
    box_error error;
    char data[64];
    size_t len;
    size_t received;
    unsigned room;
} opened;

static void on_started(void *arg, const char *uid)
{
    opened *l = arg;
    assert_false(l->started);
    l->started = true;
    (void)snprintf(l->uid, sizeof l->uid, "%s", uid);
}

static void on_data(void *arg, const uint8_t *data, size_t len)
{
    opened *l = arg;
    assert_true(l->started && !l->closed && !l->done && len > 0 && len <= BOX_FORWARD_CHUNK_BYTES);
    size_t room = sizeof l->data - l->len;
    memcpy(l->data + l->len, data, len < room ? len : room);
    l->len += len < room ? len : room;
    l->received += len;
}

static void on_closed(void *arg)
{
    opened *l = arg;
    assert_false(l->closed || l->done);
    l->closed = true;
}

static bool on_writable(void *arg)
{
    opened *l = arg;
    return !l->deaf;
}

static void on_room(void *arg)
{
    opened *l = arg;
    l->room++;
}

static void on_done(void *arg, const box_error *err)
{
    opened *l = arg;
    assert_false(l->done);
    l->done = true;
    if (err != NULL)
        l->error = *err;
}

static const box_forward_events events = {.started = on_started,
                                          .data = on_data,
                                          .closed = on_closed,
                                          .writable = on_writable,
                                          .room = on_room,
                                          .done = on_done};

static int try_open(rig *r, opened *l, const char *session, uint64_t wait_ns, box_error *err)
{
    *l = (opened){0};
    const box_forward_request request = {
        .tenant = "t", .session_id = session, .port = 80, .wait_ns = wait_ns};
    return box_forward_new(r->all, &request, &events, l, &l->forward, err);
}

static void open_link(rig *r, opened *l, const char *session, uint64_t wait_ns)
{
    box_error err;
    assert_int_equal(try_open(r, l, session, wait_ns, &err), 0);
    assert_false(l->done); /* never from inside */
    rig_settle(r);
}

static void create(rig *r, const char *id)
{
    answer a;
    rig_create(r, &a, id, NULL);
    assert_true(a.has_info);
    answer_free(&a);
}

/* Both ends of a connection on loopback. */
static void make_pair(int ends[2])
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof at;
    BOX_AUTO(box_closep) int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ends[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(listener, (struct sockaddr *)&at, sizeof at) < 0 || listen(listener, 1) < 0 ||
        getsockname(listener, (struct sockaddr *)&at, &len) < 0 ||
        connect(ends[0], (struct sockaddr *)&at, len) < 0)
        abort();
    ends[1] = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    assert_true(ends[1] >= 0);
}

/* The agent's answer to its last CONNECT; the program's end of it. */
static int connect_last(rig *r, fake_sandbox *s)
{
    int ends[2];
    make_pair(ends);
    fake_connect_answer(s, s->connect_id[s->connects - 1], ends[0], NULL);
    rig_settle(r);
    return ends[1];
}

static void refuse_last(rig *r, fake_sandbox *s)
{
    box_error err;
    (void)box_fail(&err, BOX_RUNTIME_UNAVAILABLE, "nothing listens");
    box_error_add(&err, "cause", "refused");
    fake_connect_answer(s, s->connect_id[s->connects - 1], -1, &err);
    rig_settle(r);
}

/* A link that stands; the program's end. */
static int stand(rig *r, opened *l)
{
    create(r, "s");
    open_link(r, l, "s", 0);
    int program = connect_last(r, fake_warden_only(&r->warden));
    assert_true(l->started);
    return program;
}

static void feed(rig *r, opened *l, const char *text)
{
    box_error err;
    bool room;
    assert_int_equal(box_forward_feed(l->forward, text, strlen(text), &room, &err), 0);
    assert_true(room);
    rig_settle(r);
}

static void assert_reads(int fd, const char *text)
{
    char data[64] = "";
    assert_int_equal(recv(fd, data, sizeof data - 1, 0), strlen(text));
    assert_string_equal(data, text);
}

static void assert_reset(int fd)
{
    char byte;
    assert_int_equal(recv(fd, &byte, 1, 0), -1);
    assert_int_equal(errno, ECONNRESET);
}

static void bytes_go_both_ways_and_each_direction_ends_apart(void **state)
{
    rig *r = *state;
    opened l;
    BOX_AUTO(box_closep) int program = stand(r, &l);
    char byte;
    assert_int_equal(fake_warden_only(&r->warden)->connect_port[0], 80);
    feed(r, &l, "question");
    assert_reads(program, "question");
    box_forward_end(l.forward);
    rig_settle(r);
    assert_int_equal(recv(program, &byte, 1, 0), 0);
    assert_int_equal(send(program, "answer", 6, 0), 6);
    rig_settle(r);
    assert_memory_equal(l.data, "answer", 6);
    assert_false(l.done);
    box_closep(&program);
    rig_settle(r);
    assert_true(l.closed && l.done);
    assert_int_equal(l.error.reason, BOX_NONE);
    box_forward_free(l.forward);
}

/* SO_LINGER would make close(2) wait for a program that reads nothing. */
static void an_agent_cannot_make_the_end_wait(void **state)
{
    rig *r = *state;
    opened l;
    int ends[2];
    struct linger linger = {.l_onoff = 1, .l_linger = 60};
    socklen_t len = sizeof linger;
    create(r, "s");
    open_link(r, &l, "s", 0);
    make_pair(ends);
    BOX_AUTO(box_closep) int agents = fcntl(ends[0], F_DUPFD_CLOEXEC, 0);
    BOX_AUTO(box_closep) int program = box_take_fd(&ends[1]);
    assert_int_equal(setsockopt(agents, SOL_SOCKET, SO_LINGER, &linger, sizeof linger), 0);
    fake_connect_answer(fake_warden_only(&r->warden), fake_warden_only(&r->warden)->connect_id[0],
                        ends[0], NULL);
    rig_settle(r);
    box_forward_end(l.forward);
    box_closep(&program);
    rig_settle(r);
    assert_true(l.closed && l.done);
    assert_int_equal(getsockopt(agents, SOL_SOCKET, SO_LINGER, &linger, &len), 0);
    assert_int_equal(linger.l_onoff, 0);
    box_forward_free(l.forward);
}

static void what_is_fed_early_goes_first_and_the_end_behind_it(void **state)
{
    rig *r = *state;
    opened l;
    create(r, "s");
    open_link(r, &l, "s", 0);
    feed(r, &l, "early");
    box_forward_end(l.forward);
    assert_false(l.started);
    BOX_AUTO(box_closep) int program = connect_last(r, fake_warden_only(&r->warden));
    assert_true(l.started);
    char byte;
    assert_reads(program, "early");
    assert_int_equal(recv(program, &byte, 1, 0), 0);
    box_forward_free(l.forward);
    rig_settle(r);
}

static void one_that_is_cut_off_is_reset(void **state)
{
    rig *r = *state;
    opened l;
    BOX_AUTO(box_closep) int program = stand(r, &l);
    box_forward_free(l.forward);
    rig_settle(r);
    assert_reset(program);
    assert_false(l.done);
}

static void the_programs_last_words_come_before_its_reset(void **state)
{
    rig *r = *state;
    opened l;
    const struct linger now = {.l_onoff = 1};
    BOX_AUTO(box_closep) int program = stand(r, &l);
    l.deaf = true; /* so that the reset is there before anything is read */
    assert_int_equal(send(program, "words", 5, 0), 5);
    assert_int_equal(setsockopt(program, SOL_SOCKET, SO_LINGER, &now, sizeof now), 0);
    box_closep(&program);
    feed(r, &l, "too late");
    l.deaf = false;
    box_forward_resume(l.forward);
    rig_settle(r);
    assert_memory_equal(l.data, "words", 5);
    assert_true(l.done);
    assert_int_equal(l.error.reason, BOX_RUNTIME_UNAVAILABLE);
    assert_string_equal(box_error_get(&l.error, "cause"), "reset");
    assert_string_equal(box_error_get(&l.error, "port"), "80");
    box_forward_free(l.forward);
}

static void a_slow_caller_stops_the_program(void **state)
{
    rig *r = *state;
    opened l;
    BOX_AUTO(box_closep) int program = stand(r, &l);
    static char block[65536];
    l.deaf = true;
    size_t sent = 0;
    for (ssize_t n; (n = send(program, block, sizeof block, MSG_DONTWAIT)) > 0; rig_settle(r))
        sent += (size_t)n;
    assert_int_equal(l.received, 0);
    l.deaf = false;
    box_forward_resume(l.forward);
    rig_settle(r);
    assert_in_range(l.received, 1, sent);
    box_forward_free(l.forward);
    rig_settle(r);
}

static void a_slow_program_stops_the_caller(void **state)
{
    rig *r = *state;
    opened l;
    BOX_AUTO(box_closep) int program = stand(r, &l);
    static char block[65536];
    box_error err;
    bool room = true;
    size_t fed = 0;
    for (; room && fed < 64 * sizeof block * 16; fed += sizeof block)
        assert_int_equal(box_forward_feed(l.forward, block, sizeof block, &room, &err), 0);
    assert_false(room);
    assert_int_equal(l.room, 0);
    size_t taken = 0;
    for (int i = 0; i < 10000 && taken < fed; i++) {
        ssize_t n = recv(program, block, sizeof block, MSG_DONTWAIT);
        taken += n > 0 ? (size_t)n : 0;
        rig_settle(r);
    }
    assert_int_equal(taken, fed);
    assert_int_equal(l.room, 1);
    box_forward_free(l.forward);
    rig_settle(r);
}

static void a_refusal_is_an_error_or_waited_for(void **state)
{
    rig *r = *state;
    opened l;
    create(r, "s");
    fake_sandbox *s = fake_warden_only(&r->warden);
    open_link(r, &l, "s", 0);
    refuse_last(r, s);
    assert_true(l.done);
    assert_string_equal(box_error_get(&l.error, "cause"), "refused");
    box_forward_free(l.forward);
    open_link(r, &l, "s", BOX_SECOND);
    unsigned before = s->connects;
    for (int i = 0; i < 3; i++) {
        refuse_last(r, s);
        assert_false(l.done);
        rig_wait(r, BOX_FORWARD_RETRY_MS * BOX_MS);
    }
    assert_int_equal(s->connects, before + 3);
    rig_wait(r, BOX_SECOND);
    refuse_last(r, s);
    assert_true(l.done);
    box_forward_free(l.forward);
}

static void what_the_agent_gives_must_be_a_connection(void **state)
{
    rig *r = *state;
    create(r, "s");
    fake_sandbox *s = fake_warden_only(&r->warden);
    for (int i = 0; i < 3; i++) {
        int ends[2];
        opened l;
        int made = i == 0   ? pipe2(ends, O_CLOEXEC)
                   : i == 1 ? socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends)
                            : socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        assert_true(made >= 0);
        if (i == 2) {
            ends[0] = made;
            ends[1] = -1;
        }
        open_link(r, &l, "s", 0);
        fake_connect_answer(s, s->connect_id[s->connects - 1], ends[0], NULL);
        rig_settle(r);
        assert_true(l.done && !l.started);
        assert_int_equal(l.error.reason, BOX_INTERNAL);
        box_forward_free(l.forward);
        box_closep(&ends[1]);
    }
}

static void answers_nobody_waits_for_are_nothing(void **state)
{
    rig *r = *state;
    opened l;
    BOX_AUTO(box_closep) int program = stand(r, &l);
    fake_sandbox *s = fake_warden_only(&r->warden);
    BOX_AUTO(box_closep) int again = connect_last(r, s); /* it was answered */
    char byte;
    assert_int_equal(recv(again, &byte, 1, 0), 0);
    feed(r, &l, "still");
    assert_reads(program, "still");
    opened gone;
    open_link(r, &gone, "s", 0);
    box_forward_free(gone.forward);
    rig_settle(r);
    BOX_AUTO(box_closep) int late = connect_last(r, s);
    assert_int_equal(recv(late, &byte, 1, 0), 0);
    assert_false(gone.started);
    box_forward_free(l.forward);
    rig_settle(r);
}

static void a_session_has_so_many_counted_until_the_agent_answers(void **state)
{
    rig *r = *state;
    static opened links[BOX_MAX_FORWARDS];
    opened more;
    create(r, "s");
    fake_sandbox *s = fake_warden_only(&r->warden);
    for (size_t i = 0; i < BOX_MAX_FORWARDS; i++)
        open_link(r, &links[i], "s", 0);
    for (size_t i = 0; i < BOX_MAX_FORWARDS; i++)
        box_forward_free(links[i].forward);
    rig_settle(r);
    open_link(r, &more, "s", 0);
    assert_true(more.done);
    assert_int_equal(more.error.reason, BOX_QUOTA);
    assert_string_equal(box_error_get(&more.error, "limit"), "forwards");
    assert_true(more.error.retry_ms > 0);
    box_forward_free(more.forward);
    refuse_last(r, s);
    open_link(r, &more, "s", 0);
    assert_false(more.done);
    box_forward_free(more.forward);
}

static void a_tenant_has_so_many(void **state)
{
    rig *r = *state;
    static opened links[BOX_MAX_FORWARDS_PER_TENANT];
    char id[] = "s0";
    opened more;
    for (size_t i = 0; i < BOX_MAX_FORWARDS_PER_TENANT; i++) {
        id[1] = (char)('0' + i / BOX_MAX_FORWARDS);
        if (i % BOX_MAX_FORWARDS == 0)
            create(r, id);
        open_link(r, &links[i], id, 0);
        assert_false(links[i].done);
    }
    create(r, "last");
    open_link(r, &more, "last", 0);
    assert_true(more.done);
    assert_string_equal(box_error_get(&more.error, "limit"), "forwards_per_tenant");
    box_forward_free(more.forward);
    answer a = {0};
    box_session_delete(r->all, "t", "s0", false, answer_done, &a);
    rig_wait(r, 2 * BOX_SECOND);
    answer_free(&a);
    assert_true(links[0].done);
    open_link(r, &more, "last", 0);
    assert_false(more.done);
    box_forward_free(more.forward);
    for (size_t i = 0; i < BOX_MAX_FORWARDS_PER_TENANT; i++)
        box_forward_free(links[i].forward);
}

static void it_ends_with_its_session(void **state)
{
    rig *r = *state;
    opened l, waiting;
    BOX_AUTO(box_closep) int program = stand(r, &l);
    open_link(r, &waiting, "s", BOX_SECOND * 3600);
    refuse_last(r, fake_warden_only(&r->warden));
    answer a = {0};
    box_session_stop(r->all, "t", "s", answer_done, &a);
    rig_wait(r, 2 * BOX_SECOND);
    answer_free(&a);
    assert_true(l.done && waiting.done);
    assert_int_equal(l.error.reason, BOX_SESSION_NOT_RUNNING);
    assert_int_equal(waiting.error.reason, BOX_SESSION_NOT_RUNNING);
    assert_reset(program);
    box_forward_free(l.forward);
    box_forward_free(waiting.forward);
    box_error err;
    assert_int_equal(try_open(r, &l, "s", 0, &err), -1);
    assert_int_equal(err.reason, BOX_SESSION_NOT_RUNNING);
    assert_int_equal(try_open(r, &l, "none", 0, &err), -1);
    assert_int_equal(err.reason, BOX_SESSION_NOT_FOUND);
}

static void it_ends_with_a_sandbox_that_is_lost(void **state)
{
    rig *r = *state;
    opened l;
    BOX_AUTO(box_closep) int program = stand(r, &l);
    fake_sandbox_die(&r->warden, fake_warden_only(&r->warden), true);
    rig_wait(r, 2 * BOX_SECOND);
    assert_true(l.done);
    assert_int_equal(l.error.reason, BOX_SESSION_BROKEN);
    assert_reset(program);
    box_forward_free(l.forward);
}

static void an_open_one_keeps_the_session_from_ending_idle(void **state)
{
    rig *r = *state;
    opened l;
    BOX_AUTO(box_closep) int program = stand(r, &l);
    rig_wait(r, 2 * BOX_SESSION_IDLE_SECONDS * BOX_SECOND);
    assert_false(l.done);
    feed(r, &l, "still here");
    assert_reads(program, "still here");
    box_forward_free(l.forward);
    rig_wait(r, 2 * BOX_SESSION_IDLE_SECONDS * BOX_SECOND);
    box_error err;
    assert_int_equal(try_open(r, &l, "s", 0, &err), -1);
    assert_string_equal(box_error_get(&err, "stop_reason"), "idle");
}

int main(void)
{
#define RIG_TEST(name) cmocka_unit_test_setup_teardown(name, rig_set_up, rig_tear_down)
    const struct CMUnitTest tests[] = {
        RIG_TEST(bytes_go_both_ways_and_each_direction_ends_apart),
        RIG_TEST(an_agent_cannot_make_the_end_wait),
        RIG_TEST(what_is_fed_early_goes_first_and_the_end_behind_it),
        RIG_TEST(one_that_is_cut_off_is_reset),
        RIG_TEST(the_programs_last_words_come_before_its_reset),
        RIG_TEST(a_slow_caller_stops_the_program),
        RIG_TEST(a_slow_program_stops_the_caller),
        RIG_TEST(a_refusal_is_an_error_or_waited_for),
        RIG_TEST(what_the_agent_gives_must_be_a_connection),
        RIG_TEST(answers_nobody_waits_for_are_nothing),
        RIG_TEST(a_session_has_so_many_counted_until_the_agent_answers),
        RIG_TEST(a_tenant_has_so_many),
        RIG_TEST(it_ends_with_its_session),
        RIG_TEST(it_ends_with_a_sandbox_that_is_lost),
        RIG_TEST(an_open_one_keeps_the_session_from_ending_idle),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
