/* What a tool that ran a command answers. */
#pragma once

#include "tool/excerpt.h"
#include "tool/tool.h"

/* The outcome of a command, with what it borrows from. */
typedef struct box_command_outcome {
    box_tool_result result;
    box_buf output; /* result.output */
    char
        error[BOX_ERROR_MSG + 64]; /* result.error; a whole message of an error and what it is of */
    box_buf texts[2];              /* stdout and stderr, each cut by itself */
    bool cut[2];
} box_command_outcome;

/* Everything but result.json. The excerpts were ended. To be freed by box_command_outcome_done. */
void box_command_outcome_fill(box_command_outcome *o, const box_verdict *v,
                              const box_excerpt streams[2]);
/* Frees result.json too. */
void box_command_outcome_done(box_command_outcome *o);

/* result.json of the tool exec: the fields of box-behaviour.md, section 14.1. */
json_t *box_command_exec_json(const box_command_outcome *o);
/* Of python_executor and shell_executor: those of enclave.md, section 3, and the exit code. */
json_t *box_command_executor_json(const box_command_outcome *o, const char *tool);
