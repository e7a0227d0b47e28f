/* When is a managed process ready: a text on stdout, a port that accepts, a command that exits 0.
 */
#include <fcntl.h>

#include "agent/connect.h"
#include "agent/state.h"
#include "base/fd.h"

static bool looks(const box_managed *m)
{
    return m->began && !m->stopping && (m->report.flags & BOX_MANAGED_READY) == 0;
}

static void is_ready(box_agent *a, box_managed *m)
{
    m->report.flags |= BOX_MANAGED_READY;
    m->report.ready_ns = box_wall_ns();
    m->report_due = true;
    box_ready_end(a, m);
}

static void try_later(const box_agent *a, box_managed *m)
{
    m->probe_at = box_time_add(a->now, m->conf.interval_ns);
}

/* --- a line ----------------------------------------------------------------------------------- */

void box_ready_grew(box_agent *a, box_managed *m)
{
    if (m->conf.probe == BOX_READY_LINE && looks(m) &&
        box_journal_find(&m->journals[0], &m->search_at, m->conf.line, m->conf.line_len))
        is_ready(a, m);
}

/* --- a port ----------------------------------------------------------------------------------- */

/* Loopback answers within connect, unless the listener's queue is full. */
static void try_port(box_agent *a, box_managed *m)
{
    for (int i = 0; i < 2; i++) {
        uint16_t port = (uint16_t)m->conf.port;
        if (m->probe_socket < 0)
            m->probe_socket = box_connect_begin(port, m->probe_v6);
        int is = m->probe_socket < 0 ? -1 : box_connect_look(m->probe_socket, port);
        if (is == 0)
            break;
        box_closep(&m->probe_socket);
        if (is > 0) {
            is_ready(a, m);
            return;
        }
        m->probe_v6 = !m->probe_v6;
    }
    try_later(a, m);
}

/* --- a command -------------------------------------------------------------------------------- */

static void start_probe(box_agent *a, box_managed *m)
{
    box_agent_start start = {.timeout_ns = BOX_READY_PROBE_SECONDS * BOX_SECOND,
                             .flags = BOX_START_KILL_LEFTOVERS | BOX_START_TEXT_IN_MEMFD,
                             .argc = m->conf.probe_text.argc,
                             .envc = m->conf.probe_text.envc,
                             .text_len = m->conf.probe_text.len};
    BOX_AUTO(box_closep) int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    int fds[4] = {null, null, null, m->probe_fd};
    if (null >= 0)
        m->probe_run = box_life_start_own(a, box_managed_new_id(a), &start, fds, 4);
    m->probe_at = 0;
    if (m->probe_run == NULL)
        try_later(a, m);
}

static void look_at_probe(box_agent *a, box_managed *m)
{
    box_command *c = m->probe_run;
    if (c->state != BOX_COMMAND_ENDED && c->state != BOX_COMMAND_FAILED)
        return;
    bool succeeded = c->state == BOX_COMMAND_ENDED && c->exit.signal == 0 && c->exit.exit_code == 0;
    m->probe_run = NULL;
    box_end_let_go(a, c);
    if (succeeded)
        is_ready(a, m);
    else
        try_later(a, m);
}

/* --- all of them ------------------------------------------------------------------------------ */

void box_ready_begin(box_agent *a, box_managed *m)
{
    m->report.flags &= ~(uint32_t)BOX_MANAGED_READY;
    m->report.ready_ns = 0;
    m->search_at = m->journals[0].end;
    m->probe_v6 = false;
    if (m->conf.probe == BOX_READY_RUNS)
        is_ready(a, m);
    else if (m->conf.probe != BOX_READY_LINE)
        m->probe_at = a->now;
}

void box_ready_tick(box_agent *a, box_managed *m)
{
    if (m->probe_run != NULL)
        look_at_probe(a, m);
    if (m->probe_at == 0 || a->now < m->probe_at)
        return;
    if (!looks(m))
        m->probe_at = 0;
    else if (m->conf.probe == BOX_READY_PORT)
        try_port(a, m);
    else
        start_probe(a, m);
}

void box_ready_end(box_agent *a, box_managed *m)
{
    m->probe_at = 0;
    box_closep(&m->probe_socket);
    if (m->probe_run == NULL)
        return;
    m->probe_run->abandoned = true;
    a->abandoned++;
    box_end_kill(a, m->probe_run, BOX_CAUSE_CANCELLED);
    m->probe_run = NULL;
}
