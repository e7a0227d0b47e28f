/* The child that waits for the next START (zygote.h): when one is ordered, whose it becomes, and
 * when it is no longer there. */
#include <assert.h>
#include <errno.h>

#include "agent/state.h"
#include "base/fd.h"

/* Not at once again, unless a START wants it: the sandbox may be full of processes. */
static void rest(box_agent *a)
{
    a->standby_failed = true;
    box_sweep_soon(a, BOX_AGENT_SWEEP_MS);
}

static bool order(box_agent *a, box_error *err)
{
    uint32_t place = (uint32_t)(a->standby - a->standbys + 1) % BOX_STANDBYS;
    box_zygote_order o = {.place = place};
    box_tree *tree;
    assert(a->standby_tree == NULL && a->zygote.pid != 0);
    if (box_trees_take(&a->trees, &tree, err) < 0)
        return false;
    a->standby = &a->standbys[place];
    atomic_store(&a->standby->pid, 0);
    atomic_store(&a->standby->waits, 1);
    if (box_fd_send(a->zygote.orders, &o, sizeof o, &tree->dir, 1, err) < 0) {
        box_trees_give(&a->trees, tree);
        return false;
    }
    a->standby_tree = tree;
    a->standby_failed = a->standby_rests = false;
    a->standby_rest_at = box_after_ms(a, BOX_AGENT_STANDBY_MS);
    return true;
}

static void give_to(box_agent *a, box_command *c)
{
    a->standby_for = c;
    c->tree = a->standby_tree;
    c->tree->used = true;
}

int box_standby_need(box_agent *a, box_error *err)
{
    return a->standby_tree != NULL || order(a, err) ? 0 : -1;
}

void box_standby_take(box_agent *a, box_command *c)
{
    if (a->standby_for == NULL)
        give_to(a, c); /* else it is the turn of those that came before */
}

static void clear(box_agent *a)
{
    atomic_store(&a->standby->pid, 0);
    a->standby_tree = NULL;
    a->standby_for = NULL;
}

static box_command *next_waiting(box_agent *a)
{
    for (box_command *c = NULL; (c = box_commands_after(&a->table, c)) != NULL;) {
        if (c->state == BOX_COMMAND_STARTING && c->tree == NULL)
            return c;
    }
    return NULL;
}

/* The oldest START that waits gets the next child. Where none can be ordered its packet would be
 * taken by somebody else's, so all of them fail. */
static void go_on(box_agent *a)
{
    box_error err;
    box_command *c = next_waiting(a);
    if (c == NULL)
        return;
    if (order(a, &err))
        give_to(a, c);
    else
        (void)box_agent_replace_zygote(a, NULL); /* else the next START tries */
}

/* It is the command now, or has failed. */
static bool resolve(box_agent *a)
{
    box_command *c = a->standby_for;
    if (c == NULL || atomic_load(&a->standby->waits) != 0)
        return false;
    if (c->state == BOX_COMMAND_STARTING && box_slot_pid(a, c) == 0)
        return false; /* it ended before it took the START: it is reaped next */
    clear(a);
    box_life_answered(a, c);
    return true;
}

void box_standby_look(box_agent *a)
{
    if (resolve(a))
        go_on(a);
}

void box_standby_unborn(box_agent *a, const box_command *failed)
{
    box_tree *tree = a->standby_tree;
    box_command *c = a->standby_for;
    if (tree == NULL)
        return; /* of a zygote before */
    clear(a);
    if (failed == NULL)
        rest(a);
    if (c != NULL && c != failed)
        c->tree = NULL; /* its START came after the zygote looked */
    if (c == NULL || c != failed)
        box_trees_give(&a->trees, tree);
    go_on(a);
}

box_time box_standby_next(const box_agent *a)
{
    bool waits = a->standby_tree != NULL && a->standby_for == NULL;
    return waits ? a->standby_rest_at : BOX_TIME_NEVER;
}

/* Not while commands live: it has its place among what the sandbox may have of processes. */
void box_standby_tick(box_agent *a)
{
    const box_zygote_note rest = {.slot = BOX_ZYGOTE_REST};
    box_error err;
    if (a->now < box_standby_next(a))
        return;
    a->standby_rest_at = box_after_ms(a, BOX_AGENT_STANDBY_MS); /* not heard: once more */
    if (box_commands_after(&a->table, NULL) == NULL && atomic_load(&a->standby->pid) != 0 &&
        box_fd_send(a->zygote.starts, &rest, sizeof rest, NULL, 0, &err) == 0)
        a->standby_rest_at = BOX_TIME_NEVER;
}

/* It was told to. What came too late for it waits in the socket, so it is the next
 * child's, and was not begun. */
static void rested(box_agent *a)
{
    box_command *c = a->standby_for;
    box_tree *tree = a->standby_tree;
    if (c != NULL && c->state != BOX_COMMAND_STARTING) {
        (void)box_agent_replace_zygote(a, NULL); /* given up: nobody is to take its START */
        return;
    }
    if (c != NULL)
        c->tree = NULL;
    box_trees_leave(&a->trees, tree);
    clear(a);
    a->standby_rests = true;
    go_on(a);
}

bool box_standby_reaped(box_agent *a, const siginfo_t *info)
{
    int pid = info->si_pid;
    box_command *c = a->standby_for;
    if (a->standby_tree == NULL || atomic_load(&a->standby->pid) != pid)
        return false;
    bool took = c != NULL && c->state == BOX_COMMAND_STARTING && box_slot_pid(a, c) == pid;
    if (!took && info->si_code == CLD_EXITED && info->si_status == BOX_STANDBY_RESTED) {
        rested(a);
        return true;
    }
    if (c == NULL) {
        box_trees_leave(&a->trees, a->standby_tree);
        clear(a);
        rest(a);
        return true;
    }
    if (took)
        return false;
    if (c->state == BOX_COMMAND_STARTING) {
        (void)box_agent_replace_zygote(a, NULL); /* did it take the START along? Nobody knows */
    } else {                                     /* given up before */
        clear(a);
        go_on(a);
    }
    return true;
}

void box_standby_lost(box_agent *a)
{
    int pid = atomic_load(&a->standby->pid);
    box_command *c = a->standby_for;
    if (resolve(a) || a->standby_tree == NULL)
        return;
    bool has_begun = c != NULL && box_life_has_begun(a, c); /* box_life_zygote_gone sees it too */
    if (!has_begun && pid > 0 && (c == NULL || !c->reaped))
        (void)kill(pid, SIGKILL); /* our child: not reaped */
    if (c == NULL) {
        box_trees_leave(&a->trees, a->standby_tree);
        box_sweep_soon(a, BOX_AGENT_SWEEP_MS);
    }
    clear(a);
}

void box_standby_prepare(box_agent *a)
{
    box_error err;
    if (!a->reapers && a->zygote.ready && a->standby_tree == NULL && !a->standby_failed &&
        !a->standby_rests && !order(a, &err))
        rest(a);
}

void box_standby_renew(box_agent *a)
{
    box_trees_forget(&a->trees);
    if (a->standby_tree != NULL && a->standby_for == NULL && a->standby_tree->used)
        (void)box_agent_replace_zygote(a, NULL); /* nothing is lost: the next one is made anew */
}
