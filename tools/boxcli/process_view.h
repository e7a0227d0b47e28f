/* Managed processes as text for people. */
#pragma once

#include "args.h"
#include "box/v1/process.box.h"

void cli_process_heading(const cli *c);
void cli_process_line(const Box__V1__ManagedProcess *p);
/* An answer: as JSON, or its process (NULL: nothing). An exit code. */
int cli_process_show(const cli *c, const ProtobufCMessage *response,
                     const Box__V1__ManagedProcess *p);
/* The second word, "" without one. */
char *cli_process_word(const cli_words *words);
/* "running"; false: no such state. */
bool cli_process_state_parse(const char *text, Box__V1__ProcessState *out);
