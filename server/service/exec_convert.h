/* Between box.v1's messages and the session manager's structs: commands and verdicts. */
#pragma once

#include "service/session_convert.h"
#include "session/exec.h"

/* A command with the arrays it borrows from; the texts stay the message's. */
typedef struct box_command_view {
    box_command command;
    box_env *env; /* owned */
} box_command_view;

/* message NULL is a violation. Violations name "command.FIELD". terminal NULL: it runs on none;
 * else it says what TERM is, where the command does not. *out is to be done in any case. */
int box_convert_command(const Box__V1__Command *message, const Box__V1__Terminal *terminal,
                        box_command_view *out, box_error *err) BOX_MUST_USE;
void box_command_view_done(box_command_view *v);

/* *tree: KILL to all it started; else the main process. */
int box_convert_scope(const Box__V1__Signal *message, bool *tree, box_error *err) BOX_MUST_USE;

typedef struct box_verdict_view {
    Box__V1__Verdict message;
    Box__V1__OutputReport reports[2];
    Google__Protobuf__Timestamp started;
    Google__Protobuf__Duration wall, cpu, queued;
    char *limits[3];
} box_verdict_view;

/* Borrows from v. stream: ExecStream, where all bytes were sent. */
void box_view_verdict(box_verdict_view *out, const box_verdict *v, bool stream);
