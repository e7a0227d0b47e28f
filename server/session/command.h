/* box_command: what to run, as the caller said it, and its check. */
#pragma once

#include <stdbool.h>

#include "base/buf.h"

typedef struct box_env {
    const char *key;
    const char *value;
} box_env;

typedef enum box_leftovers {
    BOX_LEFTOVERS_DEFAULT, /* keep in a session, kill in a one-off run */
    BOX_LEFTOVERS_KEEP,
    BOX_LEFTOVERS_KILL,
} box_leftovers;

/* Everything is borrowed. Zero of an optional number is told from absence by its has_ flag. */
typedef struct box_command {
    const char *const *argv; /* exactly one of argv and shell_command */
    size_t argc;
    const char *shell_command; /* /bin/sh -c */
    const char *workdir;       /* NULL or "" = /workspace */
    const box_env *env;
    size_t n_env;
    box_leftovers leftovers;
    bool has_timeout;
    bool has_idle_timeout;
    bool has_output_limit;
    bool has_output_kill;
    int64_t timeout_ns; /* absent: the profile's, 30 s */
    int64_t idle_timeout_ns;
    int64_t output_limit_bytes; /* kept per stream; absent: 1 MiB */
    int64_t output_kill_bytes;  /* of both streams together */
} box_command;

/* VALIDATION with every violation; prefix ("command.") stands before the field names. */
int box_command_check(const box_command *c, const char *prefix, box_error *err) BOX_MUST_USE;
