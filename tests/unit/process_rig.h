/* Managed processes of a session "s", and the agent's side of them, which the test plays. */
#pragma once

#include "session/process.h"
#include "session_rig.h"

typedef struct process_call {
    box_process_call *under_way;
    unsigned done;
    bool flag;
    bool has_info;
    box_process_state state;
    int32_t pid;
    bool has_verdict;
    box_verdict verdict; /* without pointers */
    char limit[32];
    box_error error;
} process_call;

void process_rig_drop(rig *r, process_call *c);
box_process_request process_rig_request(const char *id);
/* A start that is not settled yet. */
void process_rig_ask(rig *r, process_call *c, const box_process_request *request);
/* Calls, settled. */
void process_rig_start_as(rig *r, process_call *c, const box_process_request *request);
void process_rig_start(rig *r, process_call *c, const char *id);
void process_rig_stop(rig *r, process_call *c, const char *id);
void process_rig_wait_for(rig *r, process_call *c, const char *id, bool ready, int64_t timeout_ns);
void process_rig_get(rig *r, process_call *c, const char *id);
void process_rig_failed(const process_call *c, box_reason reason);
void process_rig_runs(const process_call *c);
fake_sandbox *process_rig_sandbox(rig *r);
/* The process that was ordered last. */
fake_process *process_rig_newest(rig *r);
box_session_state process_rig_session_state(rig *r);
/* What the agent says, settled. */
void process_rig_introduce(rig *r, fake_process *p);
void process_rig_report_with(rig *r, uint64_t id, box_agent_managed m, int stdin_fd);
void process_rig_report(rig *r, const fake_process *p, box_managed_state state);
/* It runs, it never ran, it ended. */
void process_rig_run(rig *r);
void process_rig_fail_to_run(rig *r);
void process_rig_end(rig *r, const fake_process *p, box_agent_run_exit exit);
/* CMocka's fixture: a rig with the session "s". */
int process_rig_set_up(void **state);
/* Started and told to run. */
void process_rig_start_and_run(rig *r, const char *id);
/* Output: into its journal, and GREW. */
void process_rig_write(rig *r, fake_process *p, int stream, const void *data, size_t len);
