/* Managed processes as text for people. */
#pragma once

#include "box/v1/process.box.h"
#include "cli.h"

void cli_process_heading(const cli *c);
void cli_process_line(const Box__V1__ManagedProcess *p);
/* All that matters of one. */
void cli_process_print(const Box__V1__ManagedProcess *p);
/* "running"; false: no such state. */
bool cli_process_state_parse(const char *text, Box__V1__ProcessState *out);
