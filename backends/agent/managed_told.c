/* Managed processes: what boxd is told of them. */
#include "agent/state.h"

static bool is_told(const box_managed *m)
{
    return !m->never_ran || m->report.state == BOX_MANAGED_FAILED;
}

uint32_t box_managed_told(const box_agent *a)
{
    uint32_t n = 0;
    for (box_managed *m = NULL; (m = box_processes_after(&a->processes, m)) != NULL;)
        n += is_told(m);
    return n;
}

void box_managed_greet(box_agent *a)
{
    for (box_managed *m = NULL; (m = box_processes_after(&a->processes, m)) != NULL;) {
        m->introduce_due = m->report_due = true;
        m->stdin_due = m->in >= 0 && m->began;
        m->watched = m->grew_due = false;
    }
}

static bool introduce(box_agent *a, box_managed *m)
{
    int fds[3] = {m->text_fd, m->journals[0].fd, m->journals[1].fd};
    if (!box_channel_send(a, BOX_AGENT_INTRODUCED, m->id, &m->conf, fds,
                          box_agent_introduced_fds(&m->conf)))
        return false;
    m->introduce_due = false;
    return true;
}

static bool report(box_agent *a, box_managed *m)
{
    box_agent_managed r = m->report;
    bool comes = m->stdin_due && m->in >= 0;
    r.flags |= (comes ? (uint32_t)BOX_MANAGED_STDIN_COMES : 0) |
               (m->stdin_over ? (uint32_t)BOX_MANAGED_STDIN_CLOSED : 0);
    if (!box_channel_send(a, BOX_AGENT_MANAGED, m->id, &r, &m->in, comes ? 1 : 0))
        return false;
    m->report_due = m->stdin_due = false;
    return true;
}

static bool tell_one(box_agent *a, box_managed *m)
{
    bool failed = m->report.state == BOX_MANAGED_FAILED;
    if (!is_told(m))
        return true; /* boxd waits for how its start goes */
    if (m->introduce_due && !failed && !introduce(a, m))
        return false;
    if (m->report_due && !report(a, m))
        return false;
    box_agent_ends ends = {{m->journals[0].end, m->journals[1].end}};
    if (m->grew_due && !box_channel_send(a, BOX_AGENT_GREW, m->id, &ends, NULL, 0))
        return false;
    m->grew_due = false;
    if (failed)
        box_managed_forget(a, m);
    return true;
}

void box_managed_flush(box_agent *a)
{
    box_managed *next;
    for (box_managed *m = box_processes_after(&a->processes, NULL); m != NULL; m = next) {
        next = box_processes_after(&a->processes, m);
        if (!tell_one(a, m))
            return;
    }
}
