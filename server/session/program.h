/* box_program: a checked command as the agent gets it: texts of its own, with the base environment
 * and the working directory filled in. */
#pragma once

#include "session/command.h"

typedef struct box_program {
    char **argv;
    size_t argc;
    char **env; /* "K=V": PATH, HOME, LANG, USER, then the command's; a key of the command wins */
    size_t envc;
    char *workdir;
} box_program;

/* Of a command that box_command_check found right. */
void box_program_init(box_program *p, const box_command *cmd);
void box_program_done(box_program *p);
