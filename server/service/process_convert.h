/* Between box.v1's messages and the session manager's structs: managed processes. */
#pragma once

#include "box/v1/process.pb-c.h"
#include "service/exec_convert.h"
#include "session/process.h"

/* A request with what it borrows from; the texts stay the message's. */
typedef struct box_process_request_view {
    box_process_request request;
    box_command command;
    box_env *env; /* owned, */
    uint8_t *record;
    box_command_view probe;
} box_process_request_view;

/* Of StartManagedProcess; all but the tenant. Violations name "spec.FIELD". *out is to be done in
 * any case. */
int box_convert_process(const Box__V1__StartManagedProcessRequest *message,
                        box_process_request_view *out, box_error *err) BOX_MUST_USE;
void box_process_request_view_done(box_process_request_view *v);

/* A process as a message; borrows from info. */
typedef struct box_process_view {
    Box__V1__ManagedProcess message;
    Box__V1__ManagedProcess *record; /* owned: spec and env_keys */
    box_verdict_view verdict;
    Box__V1__JournalRange journals[2];
    Google__Protobuf__Timestamp created, started, exited, ready, next, measured;
    Box__V1__SessionUsage usage;
    Google__Protobuf__Duration cpu;
    char uid[BOX_UID_TEXT];
} box_process_view;

void box_view_process(box_process_view *v, box_process_info *info);
void box_process_view_done(box_process_view *v);
