/* The bytes of managed processes: pipes and terminals on one side, journals on the other. */
#include <errno.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/state.h"
#include "agent/terminal.h"
#include "base/fd.h"
#include "base/tty.h"

/* --- before a run ----------------------------------------------------------------------------- */

/* The command's user opens /dev/stdout: the inode must let it (sandbox-facts.md, section 6). */
static int make_pipe(int *ours, int *theirs, bool ours_writes, box_error *err)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0)
        return box_fail_errno(err, "make a pipe");
    *ours = ends[ours_writes ? 1 : 0];
    *theirs = ends[ours_writes ? 0 : 1];
    if (fchmod(*theirs, 0666) < 0)
        return box_fail_errno(err, "set a pipe's mode");
    return box_fd_set_nonblocking(*ours, err);
}

static int open_pipes(box_managed *m, int theirs[3], box_error *err)
{
    if (make_pipe(&m->in, &theirs[0], true, err) < 0)
        return -1;
    for (int i = 0; i < 2; i++) {
        if (make_pipe(&m->out[i], &theirs[i + 1], false, err) < 0)
            return -1;
    }
    return 0;
}

static int open_terminal(box_managed *m, int theirs[3], box_error *err)
{
    if (box_terminal_open(m->conf.rows, m->conf.columns, &m->in, theirs, err) < 0)
        return -1;
    m->out[0] = fcntl(m->in, F_DUPFD_CLOEXEC, 0);
    return m->out[0] < 0 ? box_fail_errno(err, "duplicate a descriptor") : 0;
}

int box_managed_open_streams(box_managed *m, int theirs[3], box_error *err)
{
    bool terminal = (m->conf.flags & BOX_MANAGE_TERMINAL) != 0;
    int rc = terminal ? open_terminal(m, theirs, err) : open_pipes(m, theirs, err);
    if (rc < 0) {
        for (int i = 0; i < 3; i++)
            box_closep(&theirs[i]);
    }
    return rc;
}

/* --- stdin ------------------------------------------------------------------------------------ */

void box_managed_close_stdin(box_managed *m)
{
    box_closep(&m->in);
    m->stdin_due = false;
}

void box_managed_end_stdin(box_managed *m)
{
    m->stdin_over = m->report_due = true;
    if ((m->conf.flags & BOX_MANAGE_TERMINAL) == 0)
        box_managed_close_stdin(m);
    else if (m->in >= 0)
        (void)box_tty_end_input(m->in); /* a full terminal does not read it either */
}

void box_managed_resize(box_managed *m, const box_agent_resize *size)
{
    m->conf.rows = size->rows;
    m->conf.columns = size->columns;
    if (m->in >= 0 && (m->conf.flags & BOX_MANAGE_TERMINAL) != 0)
        box_tty_resize(m->in, size->rows, size->columns);
}

/* --- output ----------------------------------------------------------------------------------- */

static void grew(box_agent *a, box_managed *m)
{
    if (m->watched &&
        (m->journals[0].end > m->watch.end[0] || m->journals[1].end > m->watch.end[1])) {
        m->watched = false;
        m->grew_due = true;
    }
    box_ready_grew(a, m);
}

/* false: there is nothing more now. */
static bool read_one(box_managed *m, int i)
{
    ssize_t n = box_journal_take(&m->journals[i], m->out[i]);
    if (n < 0 && errno == EAGAIN)
        return false;
    if (n <= 0)
        box_closep(&m->out[i]); /* its end, or a terminal nobody has open (EIO) */
    return n > 0;
}

static void read_some(box_agent *a, box_managed *m, int i)
{
    uint64_t before = m->journals[i].end;
    for (int n = 0; n < BOX_AGENT_READS_A_ROUND && read_one(m, i); n++)
        continue;
    if (m->journals[i].end != before)
        grew(a, m);
}

nfds_t box_managed_polls(box_agent *a, struct pollfd *polls)
{
    nfds_t count = 0;
    for (box_managed *m = NULL; (m = box_processes_after(&a->processes, m)) != NULL;) {
        for (int i = 0; i < 2 && m->began; i++) {
            if (m->out[i] >= 0)
                polls[count++] = (struct pollfd){.fd = m->out[i], .events = POLLIN};
        }
    }
    return count;
}

void box_managed_read(box_agent *a, const struct pollfd *polls, nfds_t count)
{
    nfds_t at = 0;
    for (box_managed *m = NULL; (m = box_processes_after(&a->processes, m)) != NULL;) {
        for (int i = 0; i < 2 && m->began; i++) {
            if (at == count || m->out[i] < 0 || polls[at].fd != m->out[i])
                continue;
            if (polls[at++].revents != 0)
                read_some(a, m, i);
        }
    }
}

void box_managed_drain(box_agent *a, box_managed *m)
{
    for (int i = 0; i < 2; i++) {
        int left = 0;
        uint64_t before = m->journals[i].end;
        /* A writer that could not be killed does not keep us: what is there now is read. */
        if (m->out[i] >= 0 && ioctl(m->out[i], FIONREAD, &left) < 0)
            left = 0;
        while (m->out[i] >= 0 && read_one(m, i) &&
               m->journals[i].end - before < (uint64_t)left + BOX_MIN_JOURNAL_BYTES)
            continue;
        box_closep(&m->out[i]);
        if (m->journals[i].end != before)
            grew(a, m);
    }
}
