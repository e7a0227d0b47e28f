#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/fd.h"
#include "process_rig.h"

/* --- a call and what became of it ------------------------------------------------------------- */

static void on_done(void *arg, const box_process_info *info, bool flag, const box_error *err)
{
    process_call *c = arg;
    c->done++;
    c->flag = flag;
    if (err != NULL)
        c->error = *err;
    if (info == NULL)
        return;
    c->has_info = true;
    c->state = info->state;
    c->pid = info->pid;
    c->has_verdict = info->has_verdict;
    c->verdict = info->verdict;
    (void)snprintf(c->limit, sizeof c->limit, "%s",
                   info->verdict.limit != NULL ? info->verdict.limit : "");
}

void process_rig_drop(rig *r, process_call *c)
{
    box_process_call_drop(c->under_way);
    c->under_way = NULL;
    rig_settle(r);
}

static const char *const argv[] = {"server"};
static const box_command command = {.argv = argv, .argc = 1};

box_process_request process_rig_request(const char *id)
{
    return (box_process_request){.tenant = "t",
                                 .session_id = "s",
                                 .process_id = id,
                                 .command = &command,
                                 .restart = BOX_RESTART_NEVER};
}

void process_rig_ask(rig *r, process_call *c, const box_process_request *request)
{
    *c = (process_call){0};
    box_process_start(r->all, request, on_done, c, &c->under_way);
}

void process_rig_start_as(rig *r, process_call *c, const box_process_request *request)
{
    process_rig_ask(r, c, request);
    rig_settle(r);
}

void process_rig_start(rig *r, process_call *c, const char *id)
{
    const box_process_request request = process_rig_request(id);
    process_rig_start_as(r, c, &request);
}

void process_rig_stop(rig *r, process_call *c, const char *id)
{
    *c = (process_call){0};
    box_process_stop(r->all, "t", "s", id, false, 0, false, on_done, c, &c->under_way);
    rig_settle(r);
}

void process_rig_wait_for(rig *r, process_call *c, const char *id, bool ready, int64_t timeout_ns)
{
    *c = (process_call){0};
    box_process_wait(r->all, "t", "s", id, ready, timeout_ns > 0, timeout_ns, on_done, c,
                     &c->under_way);
    rig_settle(r);
}

void process_rig_get(rig *r, process_call *c, const char *id)
{
    *c = (process_call){0};
    box_process_get(r->all, "t", "s", id, on_done, c, &c->under_way);
    rig_settle(r);
    assert_int_equal(c->done, 1);
    process_rig_drop(r, c);
}

void process_rig_failed(const process_call *c, box_reason reason)
{
    assert_int_equal(c->done, 1);
    if (c->error.reason != reason)
        print_error("%s: %s\n", box_reason_name(c->error.reason), c->error.msg);
    assert_int_equal(c->error.reason, reason);
}

void process_rig_runs(const process_call *c)
{
    assert_int_equal(c->done, 1);
    assert_int_equal(c->error.reason, BOX_NONE);
    assert_int_equal(c->state, BOX_PROCESS_RUNNING);
}

/* --- the agent -------------------------------------------------------------------------------- */

fake_sandbox *process_rig_sandbox(rig *r)
{
    fake_sandbox *s = fake_warden_only(&r->warden);
    assert_non_null(s);
    return s;
}

fake_process *process_rig_newest(rig *r)
{
    fake_sandbox *s = process_rig_sandbox(r);
    assert_true(s->n_processes > 0);
    return &s->processes[s->n_processes - 1];
}

box_session_state process_rig_session_state(rig *r)
{
    box_session_info info = {0};
    box_error err = {0};
    if (box_session_get(r->all, "t", "s", &info, &err) < 0)
        return 0;
    box_session_state state = info.state;
    box_session_info_done(&info);
    return state;
}

/* A stream's journal with nothing in it. */
static int journal_of(uint64_t capacity)
{
    const box_journal_header empty = {.claim_not = ~UINT64_C(0), .end_not = ~UINT64_C(0)};
    int fd = memfd_create("journal", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, (off_t)(BOX_JOURNAL_HEADER_BYTES + capacity)), 0);
    assert_int_equal(pwrite(fd, &empty, sizeof empty, 0), sizeof empty);
    assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL), 0);
    return fd;
}

void process_rig_introduce(rig *r, fake_process *p)
{
    box_error err;
    for (int i = 0; i < 2; i++) {
        box_closep(&p->journals[i]);
        p->journals[i] = journal_of(p->conf.journal_bytes);
        p->ends[i] = 0;
    }
    const int fds[3] = {p->text_fd, p->journals[0], p->journals[1]};
    assert_int_equal(box_agent_send_with(process_rig_sandbox(r)->fd, BOX_AGENT_INTRODUCED, p->id,
                                         &p->conf, fds, 3, &err),
                     0);
    rig_settle(r);
}

void process_rig_write(rig *r, fake_process *p, int stream, const void *data, size_t len)
{
    uint64_t ring = p->conf.journal_bytes;
    uint64_t end = p->ends[stream];
    int fd = p->journals[stream];
    for (size_t i = 0; i < len; i++) {
        off_t at = (off_t)(BOX_JOURNAL_HEADER_BYTES + (end + i) % ring);
        assert_int_equal(pwrite(fd, (const uint8_t *)data + i, 1, at), 1);
    }
    end = p->ends[stream] += len;
    const box_journal_header h = {.claim = end, .claim_not = ~end, .end = end, .end_not = ~end};
    assert_int_equal(pwrite(fd, &h, sizeof h, 0), sizeof h);
    box_error err;
    const box_agent_ends ends = {{p->ends[0], p->ends[1]}};
    assert_int_equal(box_agent_send(process_rig_sandbox(r)->fd, BOX_AGENT_GREW, p->id, &ends, &err),
                     0);
    rig_settle(r);
}

void process_rig_report_with(rig *r, uint64_t id, box_agent_managed m, int stdin_fd)
{
    box_error err;
    m.flags |= stdin_fd >= 0 ? (uint32_t)BOX_MANAGED_STDIN_COMES : 0;
    assert_int_equal(box_agent_send_with(process_rig_sandbox(r)->fd, BOX_AGENT_MANAGED, id, &m,
                                         &stdin_fd, stdin_fd >= 0 ? 1 : 0, &err),
                     0);
    rig_settle(r);
}

void process_rig_report(rig *r, const fake_process *p, box_managed_state state)
{
    process_rig_report_with(
        r, p->id, (box_agent_managed){.state = state, .pid = state < 3 ? 9 : 0, .runs = 1}, -1);
}

void process_rig_run(rig *r)
{
    process_rig_introduce(r, process_rig_newest(r));
    process_rig_report(r, process_rig_newest(r), BOX_MANAGED_RUNNING);
}

void process_rig_fail_to_run(rig *r)
{
    box_agent_managed m = {.state = BOX_MANAGED_FAILED};
    (void)box_fail(&m.error, BOX_FILE_NOT_FOUND, "no command server");
    process_rig_report_with(r, process_rig_newest(r)->id, m, -1);
}

void process_rig_end(rig *r, const fake_process *p, box_agent_run_exit exit)
{
    process_rig_report_with(r, p->id,
                            (box_agent_managed){.state = BOX_MANAGED_EXITED,
                                                .flags = BOX_MANAGED_HAS_EXIT,
                                                .runs = 1,
                                                .exited_ns = 5,
                                                .exit = exit},
                            -1);
}

int process_rig_set_up(void **state)
{
    rig *r = calloc(1, sizeof *r);
    answer a;
    rig_init(r, NULL);
    rig_create(r, &a, "s", NULL);
    assert_int_equal(a.error.reason, BOX_NONE);
    answer_free(&a);
    *state = r;
    return 0;
}

void process_rig_start_and_run(rig *r, const char *id)
{
    process_call c;
    process_rig_start(r, &c, id);
    process_rig_run(r);
    process_rig_runs(&c);
    process_rig_drop(r, &c);
}
