/* Creates whose prepared helper, or first process, is killed: nobody who asks may see it. The real
 * box-warden. */
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/fd.h"
#include "warden_client.h"

enum { ROUNDS = 50, PATIENCE_MS = 20000 };

static const box_warden_create plain;

/* What waits for a CREATE. */
typedef struct prepared {
    pid_t helper;
    pid_t first; /* of the sandbox */
    size_t count;
} prepared;

/* Counts one of the warden's children: a copy of it with a pid namespace of its own is a sandbox's
 * first process, without one a helper. */
static void look_at(pid_t pid, prepared *p)
{
    char path[48];
    char line[256];
    bool copy = false;
    size_t ids = 0;
    (void)snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    FILE *f = fopen(path, "re");
    while (f != NULL && fgets(line, sizeof line, f) != NULL) {
        copy = copy || strcmp(line, "Name:\tbox-warden\n") == 0;
        for (const char *at = line; strncmp(line, "NSpid:", 6) == 0 && *at != '\0'; at++)
            ids += *at == '\t' ? 1 : 0;
    }
    if (f != NULL)
        (void)fclose(f); /* only read */
    if (!copy || ids == 0)
        return;
    p->count++;
    *(ids == 1 ? &p->helper : &p->first) = pid;
}

static prepared children(const test_warden *w)
{
    char path[64];
    int pid;
    prepared p = {0};
    (void)snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)w->pid, (int)w->pid);
    FILE *f = fopen(path, "re");
    assert_non_null(f);
    while (fscanf(f, "%d", &pid) == 1)
        look_at(pid, &p);
    assert_int_equal(fclose(f), 0);
    return p;
}

static bool same(prepared a, prepared b)
{
    return a.helper == b.helper && a.first == b.first && a.count == b.count;
}

/* Other helpers of the warden have ended then. A look may miss some while others come and go, so
 * there are two. */
static prepared await_prepared(test_boxd *b, const test_warden *w)
{
    prepared before = {0};
    test_boxd_await_ready(b);
    test_warden_await_states(w, 1);
    for (int ms = 0; ms < PATIENCE_MS; ms++) {
        prepared p = children(w);
        if (p.count == 2 && p.helper != 0 && p.first != 0 && same(p, before))
            return p;
        before = p;
        (void)poll(NULL, 0, 1);
    }
    fail_msg("what is prepared is not to be seen");
    return before;
}

static void stop(pid_t pid)
{
    char path[48];
    char state = ' ';
    (void)snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    assert_int_equal(kill(pid, SIGSTOP), 0);
    for (int ms = 0; ms < PATIENCE_MS && state != 'T'; ms++) {
        FILE *f = fopen(path, "re");
        assert_non_null(f);
        assert_int_equal(fscanf(f, "%*d (%*[^)]) %c", &state), 1);
        assert_int_equal(fclose(f), 0);
        (void)poll(NULL, 0, state == 'T' ? 0 : 1);
    }
    assert_int_equal(state, 'T');
}

/* All that was sent before is read then. */
static void await_read(test_boxd *b)
{
    const box_uid nobody = box_uid_new();
    assert_int_equal(test_boxd_ask(b, BOX_WARDEN_ALIVE, &nobody).alive, BOX_DEAD);
}

static void await_reaped(pid_t pid)
{
    for (int ms = 0; ms < PATIENCE_MS && kill(pid, 0) == 0; ms++)
        (void)poll(NULL, 0, 1);
    assert_int_equal(kill(pid, 0), -1);
}

/* The three ways to lose it; then the sandbox is there all the same. */
static uint64_t ask_helper_killed(test_boxd *b, const test_warden *w, prepared p, test_box *box)
{
    stop(p.helper);
    uint64_t id = test_box_ask(b, w, plain, box);
    await_read(b);
    assert_int_equal(kill(p.helper, SIGKILL), 0);
    return id;
}

static uint64_t ask_first_killed(test_boxd *b, const test_warden *w, prepared p, test_box *box)
{
    stop(p.helper);
    uint64_t id = test_box_ask(b, w, plain, box);
    await_read(b);
    assert_int_equal(kill(p.first, SIGKILL), 0);
    await_reaped(p.first); /* while it dies its socket closes as by an exec, before anybody knows */
    assert_int_equal(kill(p.helper, SIGCONT), 0);
    return id;
}

static uint64_t ask_too_late(test_boxd *b, const test_warden *w, prepared p, test_box *box)
{
    assert_int_equal(kill(p.helper, SIGKILL), 0);
    await_reaped(p.helper);
    return test_box_ask(b, w, plain, box);
}

static uint64_t ask(int round, test_boxd *b, const test_warden *w, test_box *box)
{
    prepared p = await_prepared(b, w);
    if (round == 0)
        return ask_too_late(b, w, p, box);
    return round % 2 == 0 ? ask_first_killed(b, w, p, box) : ask_helper_killed(b, w, p, box);
}

static void creates_do_not_see_that_what_was_prepared_is_killed(void **state)
{
    (void)state;
    test_warden w;
    test_boxd b;
    test_box box;
    box_uid instance = box_uid_new();
    test_warden_init(&w, "standbys: 1\n");
    test_warden_start(&w);
    test_boxd_connect(&b, &w, &instance);
    for (int i = 0; i < ROUNDS; i++) {
        uint64_t id = ask(i, &b, &w, &box);
        if (!test_box_made(&b, id, &box))
            fail_msg("create %d: %s", i, box.answer.error.msg);
        if (i % 10 < 2)
            assert_string_equal(test_box_output(&box, "echo on"), "on");
        test_box_destroy(&b, &box);
    }
    test_warden_await_clean(&w);
    test_boxd_close(&b);
    test_warden_done(&w);
}

/* A DESTROY may come while it is made again. */
static void what_is_made_again_can_be_destroyed_meanwhile(void **state)
{
    (void)state;
    test_warden w;
    test_boxd b;
    test_box box;
    box_uid instance = box_uid_new();
    test_warden_init(&w, "standbys: 1\n");
    test_warden_start(&w);
    test_boxd_connect(&b, &w, &instance);
    for (int i = 1; i < 10; i++) {
        uint64_t id = ask(i, &b, &w, &box);
        const box_warden_target target = {.uid = box.uid};
        uint64_t end = test_boxd_send(&b, BOX_WARDEN_DESTROY, &target, sizeof target, -1);
        int fds[BOX_ANSWER_MAX_FDS];
        size_t n_fds;
        (void)test_box_made(&b, id, &box); /* made, or not any more */
        assert_int_equal(test_boxd_answer(&b, end, fds, &n_fds).error.reason, BOX_NONE);
        test_box_close(&box);
    }
    test_warden_await_clean(&w);
    test_boxd_close(&b);
    test_warden_done(&w);
}

int main(int argc, char **argv)
{
    int code = test_wardens_begin(argc, argv);
    if (code != 0)
        return code;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(creates_do_not_see_that_what_was_prepared_is_killed),
        cmocka_unit_test(what_is_made_again_can_be_destroyed_meanwhile),
    };
    return cmocka_run_group_tests_name("warden_again", tests, NULL, test_wardens_end);
}
