#include "agent/state.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"

enum { PID = 4321, OTHER_PID = 4322 };

typedef struct fixture {
    box_agent *a;
    int orders; /* the zygote's ends */
    int starts;
} fixture;

/* Groups that need no kernel: spare ones. */
static void add_spare(box_agent *a)
{
    box_tree *t = &a->trees.all[a->trees.touched++];
    t->dir = t->procs = t->stat = -1;
    t->dir = open("/", O_PATH | O_CLOEXEC);
    assert_true(t->dir >= 0);
    box_list_append(&a->trees.spare, &t->link);
    a->trees.n_spare++;
}

static void connect_pair(int *agent, int *zygote)
{
    int pair[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair),
                     0);
    *agent = pair[0];
    *zygote = pair[1];
}

static int make(void **state)
{
    fixture *f = box_alloc(sizeof *f);
    box_agent *a = f->a = box_alloc(sizeof *a);
    box_trees_init(&a->trees, -1, false);
    box_commands_init(&a->table);
    a->slots = box_alloc_array(BOX_AGENT_MAX_STARTING, sizeof *a->slots);
    a->standbys = box_alloc_array(BOX_STANDBYS, sizeof *a->standbys);
    a->standby = a->standbys;
    a->now = BOX_SECOND;
    a->zygote.pid = 1;
    a->zygote.ready = true;
    connect_pair(&a->zygote.orders, &f->orders);
    connect_pair(&a->zygote.starts, &f->starts);
    for (int i = 0; i < 3; i++)
        add_spare(a);
    *state = f;
    return 0;
}

static int drop(void **state)
{
    fixture *f = *state;
    for (uint32_t i = 0; i < f->a->trees.touched; i++)
        (void)close(f->a->trees.all[i].dir); /* -1 when it was left */
    (void)close(f->orders);
    (void)close(f->starts);
    (void)close(f->a->zygote.orders);
    (void)close(f->a->zygote.starts);
    free(f->a->slots);
    free(f->a->standbys);
    free(f->a);
    free(f);
    return 0;
}

/* An order arrived at the zygote, which makes the child. */
static bool ordered(fixture *f, int pid)
{
    box_zygote_order order;
    int cgroup = -1;
    size_t n_fds = 1;
    box_error err;
    if (box_fd_receive(f->orders, &order, sizeof order, &cgroup, &n_fds, &err) != sizeof order)
        return false;
    (void)close(cgroup);
    atomic_store(&f->a->standbys[order.place].pid, pid);
    return true;
}

static bool told_to_rest(fixture *f)
{
    box_zygote_note note;
    return recv(f->starts, &note, sizeof note, 0) == sizeof note && note.slot == BOX_ZYGOTE_REST;
}

static bool reaped(fixture *f, int pid, int status)
{
    siginfo_t info = {.si_code = CLD_EXITED};
    info.si_pid = pid; /* of a union's members an initialiser keeps the last */
    info.si_status = status;
    atomic_store(&f->a->standby->waits, 0); /* the kernel does (CLONE_CHILD_CLEARTID) */
    return box_standby_reaped(f->a, &info);
}

static void pass_standby_time(fixture *f)
{
    f->a->now = box_time_add(f->a->now, (BOX_AGENT_STANDBY_MS + 1) * BOX_MS);
    box_standby_tick(f->a);
}

static void nobody_is_ready_after_a_while_until_the_next_start(void **state)
{
    fixture *f = *state;
    box_error err;
    box_standby_prepare(f->a);
    assert_true(ordered(f, PID));
    assert_true(box_standby_next(f->a) > f->a->now);
    box_standby_tick(f->a);
    assert_false(told_to_rest(f));
    pass_standby_time(f);
    assert_true(told_to_rest(f));
    assert_int_equal(box_standby_next(f->a), BOX_TIME_NEVER);
    assert_true(reaped(f, PID, BOX_STANDBY_RESTED));
    box_standby_prepare(f->a);
    assert_false(ordered(f, OTHER_PID));
    assert_int_equal(box_standby_need(f->a, &err), 0);
    assert_true(ordered(f, OTHER_PID));
}

static void it_stays_while_a_command_lives(void **state)
{
    fixture *f = *state;
    box_standby_prepare(f->a);
    assert_true(ordered(f, PID));
    box_commands_add(&f->a->table, 7)->state = BOX_COMMAND_RUNNING;
    pass_standby_time(f);
    assert_false(told_to_rest(f));
    assert_true(box_standby_next(f->a) > f->a->now);
}

static void a_start_behind_the_rest_is_the_next_ones(void **state)
{
    fixture *f = *state;
    box_error err;
    box_standby_prepare(f->a);
    assert_true(ordered(f, PID));
    pass_standby_time(f);
    box_command *c = box_commands_add(&f->a->table, 7);
    c->slot = 0;
    assert_int_equal(box_standby_need(f->a, &err), 0); /* one waits, as far as is known */
    box_standby_take(f->a, c);
    assert_true(reaped(f, PID, BOX_STANDBY_RESTED));
    assert_int_equal(c->state, BOX_COMMAND_STARTING);
    assert_true(ordered(f, OTHER_PID));
    assert_ptr_equal(f->a->standby_for, c);
    assert_ptr_equal(f->a->standby_tree, c->tree);
    assert_false(ordered(f, PID));
}

static void a_command_may_end_with_that_code(void **state)
{
    fixture *f = *state;
    box_error err;
    box_standby_prepare(f->a);
    assert_true(ordered(f, PID));
    box_command *c = box_commands_add(&f->a->table, 7);
    c->slot = 0;
    assert_int_equal(box_standby_need(f->a, &err), 0);
    box_standby_take(f->a, c);
    atomic_store(&f->a->slots[0].pid, PID); /* it has taken its START */
    assert_false(reaped(f, PID, BOX_STANDBY_RESTED));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(nobody_is_ready_after_a_while_until_the_next_start, make,
                                        drop),
        cmocka_unit_test_setup_teardown(it_stays_while_a_command_lives, make, drop),
        cmocka_unit_test_setup_teardown(a_start_behind_the_rest_is_the_next_ones, make, drop),
        cmocka_unit_test_setup_teardown(a_command_may_end_with_that_code, make, drop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
