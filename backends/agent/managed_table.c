#include <assert.h>

#include "agent/managed.h"
#include "base/fd.h"

void box_processes_init(box_processes *t)
{
    box_list_init(&t->live);
    box_list_init(&t->unused);
    t->touched = 0;
}

box_managed *box_processes_add(box_processes *t, uint64_t id)
{
    box_managed *m;
    if (!box_list_empty(&t->unused))
        m = BOX_CONTAINER(t->unused.next, box_managed, link);
    else if (t->touched < BOX_COUNT(t->all))
        m = &t->all[t->touched++];
    else
        return NULL;
    box_list_remove(&m->link);
    *m = (box_managed){.id = id,
                       .text_fd = -1,
                       .probe_fd = -1,
                       .journals = {{.fd = -1}, {.fd = -1}},
                       .out = {-1, -1},
                       .limits = {.dirs = {-1, -1, -1}, .entries = {-1, -1, -1}},
                       .in = -1,
                       .probe_socket = -1,
                       .never_ran = true};
    box_list_append(&t->live, &m->link);
    return m;
}

void box_processes_remove(box_processes *t, box_managed *m)
{
    assert(m->run == NULL && m->probe_run == NULL);
    box_closep(&m->text_fd);
    box_closep(&m->probe_fd);
    box_closep(&m->in);
    box_closep(&m->probe_socket);
    for (int i = 0; i < 2; i++) {
        box_closep(&m->out[i]);
        box_journal_close(&m->journals[i]);
    }
    box_list_remove(&m->link);
    m->id = 0;
    box_list_append(&t->unused, &m->link);
}

box_managed *box_processes_after(const box_processes *t, const box_managed *m)
{
    const box_list *next = m == NULL ? t->live.next : m->link.next;
    if (next == &t->live)
        return NULL;
    return BOX_CONTAINER((uintptr_t)next, box_managed, link);
}

box_managed *box_processes_find(box_processes *t, uint64_t id)
{
    box_managed *m = NULL;
    while ((m = box_processes_after(t, m)) != NULL && m->id != id)
        continue;
    return m;
}

uint64_t box_restart_pause(uint64_t first_ns, uint64_t longest_ns, uint32_t row)
{
    uint64_t pause = first_ns;
    for (uint32_t i = 0; i < row && pause < longest_ns; i++)
        pause = pause > longest_ns / 2 ? longest_ns : pause * 2;
    return pause < longest_ns ? pause : longest_ns;
}

uint32_t box_restart_row(uint32_t row, uint64_t ran_ns)
{
    return ran_ns >= BOX_RESTART_GOOD_RUN_SECONDS * BOX_SECOND ? 0 : row;
}

bool box_restart_wanted(const box_agent_manage *conf, uint32_t row, bool succeeded)
{
    if (conf->max_restarts != 0 && row >= conf->max_restarts)
        return false;
    return conf->restart == BOX_RESTART_ALWAYS ||
           (conf->restart == BOX_RESTART_ON_FAILURE && !succeeded);
}
