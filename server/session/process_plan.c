/* From a request to what the agent is told. */
#include "base/alloc.h"
#include "base/fd.h"
#include "session/checker.h"
#include "session/process_impl.h"

/* --- checks ----------------------------------------------------------------------------------- */

static bool name_fits(const char *id)
{
    size_t len = strlen(id);
    for (size_t i = 0; i < len; i++) {
        if (!box_process_name_char(id[i]))
            return false;
    }
    return len <= BOX_MAX_PROCESS_ID_BYTES;
}

static void check_readiness(const box_readiness *r, box_checker *c)
{
    if ((r->stdout_line != NULL) + (r->tcp_port != 0) + (r->command != NULL) > 1)
        box_checker_add(c, "readiness.probe", "must be one thing");
    if (r->stdout_line != NULL) {
        size_t len = strlen(r->stdout_line);
        if (len < 1 || len > BOX_READY_LINE_BYTES || strchr(r->stdout_line, '\n') != NULL)
            box_checker_add(c, "readiness.stdout_line", "must be 1 to 1024 bytes of one line");
    }
    if (r->tcp_port > UINT16_MAX)
        box_checker_add(c, "readiness.tcp_port", "must be 1 to 65535");
    if (r->has_interval &&
        (r->interval_ns < (int64_t)(10 * BOX_MS) || r->interval_ns > 3600 * (int64_t)BOX_SECOND))
        box_checker_add(c, "readiness.interval", "must be 10 ms to 1 h");
    if (r->command != NULL)
        c->bad |= box_command_check(r->command, "spec.readiness.command.", c->err);
}

static void check_restart(const box_process_request *r, box_checker *c)
{
    int64_t most = 24 * 3600 * (int64_t)BOX_SECOND;
    if (r->max_restarts < 0)
        box_checker_add(c, "restart.max_restarts", "must not be negative (0 = no limit)");
    if (r->has_first_backoff && (r->first_backoff_ns <= 0 || r->first_backoff_ns > most))
        box_checker_add(c, "restart.first_backoff", "must be above 0 and at most 24 h");
    if (r->has_max_backoff && (r->max_backoff_ns <= 0 || r->max_backoff_ns > most))
        box_checker_add(c, "restart.max_backoff", "must be above 0 and at most 24 h");
}

/* What a session may be given; that it fits in its own is seen when it is found. */
static void check_limits(const box_process_request *r, box_checker *c)
{
    if (r->has_memory && r->memory_bytes < BOX_MIN_PROCESS_MEMORY_BYTES)
        box_checker_add(c, "memory_bytes", "must be at least 4 MiB");
    if (r->has_pids && r->pids < 1)
        box_checker_add(c, "pids_limit", "must be at least 1");
    if (r->has_cpu && r->cpu_millis < BOX_MIN_CPU_MILLIS)
        box_checker_add(c, "cpu_millis", "must be at least 10 (1000 = one core)");
}

/* A session without a number of its own has the warden's, which its kernel holds all the same. */
static int check_within(const box_process_request *r, const box_spec *session, box_error *err)
{
    box_checker c = {.prefix = "spec.", .err = err};
    if (r->has_memory && session->memory_bytes > 0 && r->memory_bytes > session->memory_bytes)
        box_checker_add(&c, "memory_bytes", "must not be more than the session's");
    if (r->has_pids && session->pids > 0 && r->pids > session->pids)
        box_checker_add(&c, "pids_limit", "must not be more than the session's");
    if (r->has_cpu && session->cpu_millis > 0 && r->cpu_millis > session->cpu_millis)
        box_checker_add(&c, "cpu_millis", "must not be more than the session's");
    return c.bad;
}

int box_process_check(const box_process_request *r, box_error *err)
{
    box_checker c = {.prefix = "spec.", .err = err};
    int64_t grace_most = BOX_MAX_STOP_GRACE_SECONDS * (int64_t)BOX_SECOND;
    if (!name_fits(r->process_id))
        c.bad |= box_violation(err, "process_id", "must be 1 to 64 of A-Z a-z 0-9 . _ -");
    if (r->command != NULL)
        c.bad |= box_command_check(r->command, "spec.", err);
    check_readiness(&r->readiness, &c);
    check_restart(r, &c);
    check_limits(r, &c);
    if (r->has_grace && (r->grace_ns < 0 || r->grace_ns > grace_most))
        box_checker_add(&c, "stop_grace", "must be 0 to 5 minutes");
    if (r->has_journal &&
        (r->journal_bytes < BOX_MIN_JOURNAL_BYTES || r->journal_bytes > BOX_MAX_JOURNAL_BYTES))
        box_checker_add(&c, "journal_limit_bytes", "must be 64 KiB to 16 MiB");
    if (r->has_ready_timeout && r->ready_timeout_ns <= 0)
        c.bad |= box_violation(err, "ready_timeout", "must be greater than 0");
    if (r->terminal &&
        (r->rows < 0 || r->rows > UINT16_MAX || r->columns < 0 || r->columns > UINT16_MAX))
        box_checker_add(&c, "terminal.size", "must be 0 to 65535");
    return c.bad;
}

/* --- building --------------------------------------------------------------------------------- */

/* The sealed text of a command, with what stands behind it. */
static int make_text(const box_command *command, const box_spec *session, box_bytes behind,
                     box_agent_text *out, int *fd, size_t *bytes, box_error *err)
{
    box_program program;
    if (box_program_init(&program, command, session, err) < 0)
        return -1;
    BOX_AUTO(box_buf_done)
    box_buf text = {.max_bytes = BOX_AGENT_TEXT_BYTES + BOX_PROCESS_RECORD_BYTES};
    box_agent_command c = {.argc = program.argc,
                           .argv = (const char *const *)program.argv,
                           .envc = program.envc,
                           .env = (const char *const *)program.env,
                           .workdir = program.workdir};
    int rc = box_agent_text_build(&c, &text, out, err);
    box_program_done(&program);
    if (rc < 0 || box_buf_add(&text, behind.data, behind.len, err) < 0)
        return -1;
    *bytes += box_buf_len(&text);
    return box_fd_memfd("box-process", box_buf_data(&text), box_buf_len(&text), fd, err);
}

static void fill_probe(const box_readiness *r, box_agent_manage *m)
{
    m->interval_ns = r->has_interval ? (uint64_t)r->interval_ns : BOX_READY_INTERVAL_MS * BOX_MS;
    if (r->stdout_line != NULL) {
        m->probe = BOX_READY_LINE;
        m->line_len = (uint32_t)strlen(r->stdout_line);
        memcpy(m->line, r->stdout_line, m->line_len);
    } else if (r->tcp_port != 0) {
        m->probe = BOX_READY_PORT;
        m->port = r->tcp_port;
    } else if (r->command != NULL) {
        m->probe = BOX_READY_COMMAND;
    }
}

static void fill_numbers(const box_process_request *r, box_agent_manage *m)
{
    m->restart = r->restart;
    m->max_restarts = (uint32_t)r->max_restarts;
    m->first_backoff_ns =
        r->has_first_backoff ? (uint64_t)r->first_backoff_ns : BOX_RESTART_FIRST_MS * BOX_MS;
    m->max_backoff_ns =
        r->has_max_backoff ? (uint64_t)r->max_backoff_ns : BOX_RESTART_LONGEST_SECONDS * BOX_SECOND;
    m->grace_ns = r->has_grace ? (uint64_t)r->grace_ns : BOX_STOP_GRACE_SECONDS * BOX_SECOND;
    uint64_t journal = r->has_journal ? (uint64_t)r->journal_bytes : BOX_DEFAULT_JOURNAL_BYTES;
    m->journal_bytes = (journal + 4095) / 4096 * 4096;
    m->flags = (r->terminal ? BOX_MANAGE_TERMINAL : 0) |
               (r->stop_on_detach ? (uint32_t)BOX_MANAGE_STOP_ON_DETACH : 0);
    m->limits.memory_bytes = r->has_memory ? (uint64_t)r->memory_bytes : 0;
    m->limits.pids = r->has_pids ? (uint32_t)r->pids : 0;
    m->limits.cpu_millis = r->has_cpu ? (uint32_t)r->cpu_millis : 0;
    m->rows = (uint16_t)r->rows;
    m->columns = (uint16_t)r->columns;
}

int box_process_plan_make(const box_process_request *r, const box_spec *session,
                          box_process_plan *out, box_error *err)
{
    *out = (box_process_plan){.fds = {-1, -1}};
    box_agent_manage *m = &out->manage;
    if (r->record.len > BOX_PROCESS_RECORD_BYTES)
        return box_violation(err, "spec", "has more than 2 MiB");
    if (check_within(r, session, err) != 0)
        return -1;
    (void)snprintf(m->name, sizeof m->name, "%s",
                   r->process_id[0] != '\0' ? r->process_id : "default");
    fill_numbers(r, m);
    fill_probe(&r->readiness, m);
    m->record_len = (uint32_t)r->record.len;
    static const box_bytes nothing;
    if (make_text(r->command, session, r->record, &m->text, &out->fds[0], &out->bytes, err) < 0 ||
        (r->readiness.command != NULL &&
         make_text(r->readiness.command, session, nothing, &m->probe_text, &out->fds[1],
                   &out->bytes, err) < 0)) {
        box_process_plan_done(out);
        return -1;
    }
    out->record = box_alloc(r->record.len + 1);
    if (r->record.len > 0)
        memcpy(out->record, r->record.data, r->record.len);
    out->record_len = r->record.len;
    out->bytes += r->record.len;
    return 0;
}

void box_process_plan_done(box_process_plan *p)
{
    box_closep(&p->fds[0]);
    box_closep(&p->fds[1]);
    free(p->record);
    p->record = NULL;
}
