/* box_program: a checked command as the agent gets it: texts of its own, with the base environment
 * and the working directory filled in. */
#pragma once

#include "session/command.h"
#include "session/spec.h"

typedef struct box_program {
    char **argv;
    size_t argc;
    char **env; /* "K=V" */
    size_t envc;
    char *workdir;
} box_program;

/* Of a command that box_command_check found right. The environment is PATH, HOME, LANG, USER, over
 * them the session's, over that the command's. VALIDATION when session and command together are
 * more than BOX_MAX_ARGV_ENV_BYTES; *p is then empty. */
int box_program_init(box_program *p, const box_command *cmd, const box_spec *session,
                     box_error *err) BOX_MUST_USE;
void box_program_done(box_program *p);
/* About what it takes in memory. */
size_t box_program_bytes(const box_program *p);
