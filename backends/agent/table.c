#include "agent/table.h"

#include <assert.h>

void box_commands_init(box_commands *t)
{
    box_list_init(&t->live);
    box_list_init(&t->unused);
    t->touched = 0;
}

box_command *box_commands_add(box_commands *t, uint64_t id)
{
    box_command *c;
    if (!box_list_empty(&t->unused))
        c = BOX_CONTAINER(t->unused.next, box_command, link);
    else if (t->touched < BOX_COUNT(t->all))
        c = &t->all[t->touched++];
    else
        return NULL;
    box_list_remove(&c->link);
    *c = (box_command){
        .id = id, .state = BOX_COMMAND_STARTING, .slot = -1, .socket = -1, .terminal = {-1, -1}};
    box_list_append(&t->live, &c->link);
    return c;
}

void box_commands_remove(box_commands *t, box_command *c)
{
    assert(c->state != BOX_COMMAND_FREE);
    box_list_remove(&c->link);
    c->state = BOX_COMMAND_FREE;
    box_list_append(&t->unused, &c->link);
}

box_command *box_commands_after(box_commands *t, const box_command *c)
{
    const box_list *next = c == NULL ? t->live.next : c->link.next;
    if (next == &t->live)
        return NULL;
    return BOX_CONTAINER((uintptr_t)next, box_command, link);
}

box_command *box_commands_find(box_commands *t, uint64_t id)
{
    box_command *c = NULL;
    while ((c = box_commands_after(t, c)) != NULL && c->id != id)
        continue;
    return c;
}

box_command *box_commands_by_pid(box_commands *t, int32_t pid)
{
    box_command *c = NULL;
    while ((c = box_commands_after(t, c)) != NULL && c->pid != pid && c->reaper != pid)
        continue;
    return c;
}

box_command *box_commands_by_slot(box_commands *t, uint32_t slot)
{
    box_command *c = NULL;
    while ((c = box_commands_after(t, c)) != NULL && c->slot != (int32_t)slot)
        continue;
    return c;
}

uint32_t box_commands_open(box_commands *t)
{
    uint32_t open = 0;
    for (box_command *c = NULL; (c = box_commands_after(t, c)) != NULL;)
        open += c->state != BOX_COMMAND_KEPT && !c->own;
    return open;
}

int32_t box_commands_free_slot(box_commands *t)
{
    uint32_t used = 0;
    static_assert(BOX_AGENT_MAX_STARTING <= 32, "a bit per slot");
    for (box_command *c = NULL; (c = box_commands_after(t, c)) != NULL;) {
        if (c->slot >= 0)
            used |= 1u << c->slot;
    }
    for (int32_t slot = 0; slot < BOX_AGENT_MAX_STARTING; slot++) {
        if ((used & 1u << slot) == 0)
            return slot;
    }
    return -1;
}

box_time box_commands_next(box_commands *t)
{
    box_time next = BOX_TIME_NEVER;
    for (box_command *c = NULL; (c = box_commands_after(t, c)) != NULL;) {
        bool lives = c->state == BOX_COMMAND_STARTING || c->state == BOX_COMMAND_RUNNING;
        if (lives && !c->killing && c->deadline != 0 && c->deadline < next)
            next = c->deadline;
        if (c->tick != 0 && c->tick < next)
            next = c->tick;
    }
    return next;
}
