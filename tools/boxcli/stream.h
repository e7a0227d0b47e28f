/* One ExecStream between this terminal and a command: stdin, stdout, stderr, signals, exit code. */
#pragma once

#include "box/v1/exec.client.h"
#include "box/v1/types.fields.h"
#include "cli.h"

/* Runs it to its end; with start->terminal this program's terminal is lent to it. An exit code. */
int cli_stream(cli *c, Box__V1__ExecStart *start);

/* The exit code that a verdict means; says on stderr what an exit code cannot. NULL:
 * CLI_BOX_FAILED. */
int cli_verdict_code(const cli *c, const Box__V1__Verdict *verdict);
/* The same for a call that failed: 125, 126 or 127, after saying why. */
int cli_stream_failed(const cli *c, const box_error *err);
