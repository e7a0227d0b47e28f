#include "session/command.h"

#include "base/alloc.h"
#include "base/limits.h"
#include "base/map.h"
#include "session/checker.h"
#include "session/program.h"

/* Adds one text with its NUL to *total; false when it alone is too long for execve(2). */
static bool count(size_t len, uint64_t *total)
{
    *total += len + 1;
    return len < BOX_MAX_ARG_BYTES;
}

static void check_argv(box_checker *c, const box_command *cmd, uint64_t *total)
{
    if ((cmd->argc > 0) == (cmd->shell_command != NULL)) {
        box_checker_add(c, "argv", "exactly one of argv and shell_command must be set");
        return;
    }
    if (cmd->shell_command != NULL) {
        if (cmd->shell_command[0] == '\0')
            box_checker_add(c, "shell_command", "is empty");
        if (!count(strlen(cmd->shell_command), total))
            box_checker_add(c, "shell_command", "longer than 131071 bytes");
        return;
    }
    if (cmd->argc > BOX_MAX_ARGS) {
        box_checker_add(c, "argv", "more than 65536 arguments");
        return;
    }
    if (cmd->argv[0][0] == '\0')
        box_checker_add(c, "argv", "the program's name is empty");
    bool fits = true;
    for (size_t i = 0; i < cmd->argc; i++)
        fits &= count(strlen(cmd->argv[i]), total);
    if (!fits)
        box_checker_add(c, "argv", "an argument is longer than 131071 bytes");
}

static void check_env(box_checker *c, const box_command *cmd, uint64_t *total)
{
    if (cmd->n_env > BOX_MAX_ENV) {
        box_checker_add(c, "env", "more than 65536 entries");
        return;
    }
    bool fits = true;
    bool named = true;
    for (size_t i = 0; i < cmd->n_env; i++) {
        const char *key = cmd->env[i].key;
        named &= key[0] != '\0' && strchr(key, '=') == NULL;
        fits &= count(strlen(key) + 1 + strlen(cmd->env[i].value), total);
    }
    if (!named)
        box_checker_add(c, "env", "a key is empty or holds '='");
    if (!fits)
        box_checker_add(c, "env", "an entry is longer than 131071 bytes");
}

static void check_numbers(box_checker *c, const box_command *cmd)
{
    if (cmd->has_timeout && cmd->timeout_ns <= 0)
        box_checker_add(c, "timeout", "must be greater than 0 (absent = the profile's default)");
    if (cmd->has_idle_timeout && cmd->idle_timeout_ns <= 0)
        box_checker_add(c, "idle_timeout", "must be greater than 0 (absent = none)");
    if (cmd->has_output_limit &&
        (cmd->output_limit_bytes < 0 || cmd->output_limit_bytes > BOX_MAX_OUTPUT_LIMIT_BYTES))
        box_checker_add(c, "output_limit_bytes", "must be 0 to 7 MiB (a stream)");
    if (cmd->has_output_kill && cmd->output_kill_bytes <= 0)
        box_checker_add(c, "output_kill_bytes", "must be greater than 0 (absent = never)");
}

int box_command_check(const box_command *cmd, const char *prefix, box_error *err)
{
    box_checker c = {.prefix = prefix, .err = err};
    uint64_t total = 0;
    check_argv(&c, cmd, &total);
    check_env(&c, cmd, &total);
    if (total > BOX_MAX_ARGV_ENV_BYTES - BOX_BASE_ENV_BYTES)
        box_checker_add(&c, "argv", "arguments and environment together have more than 2 MiB");
    if (cmd->workdir != NULL && cmd->workdir[0] != '\0') {
        if (cmd->workdir[0] != '/')
            box_checker_add(&c, "workdir", "must be absolute");
        if (strlen(cmd->workdir) > 4095) /* PATH_MAX with its NUL */
            box_checker_add(&c, "workdir", "longer than 4095 bytes");
    }
    check_numbers(&c, cmd);
    return c.bad;
}

/* --- the program as the agent gets it --------------------------------------------------------- */

/* Design section 6: fixed PATH, HOME=/home, LANG=C.UTF-8. */
static const char *const base_env[] = {
    "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME=/home",
    "LANG=C.UTF-8",
    "USER=box",
};

static void add(char **array, size_t *n, const char *text)
{
    array[(*n)++] = box_strdup(text);
}

static void add_env(box_program *p, const char *key, const char *value)
{
    size_t size = strlen(key) + strlen(value) + 2;
    char *entry = box_alloc(size);
    (void)snprintf(entry, size, "%s=%s", key, value);
    p->env[p->envc++] = entry;
}

/* Who sets a variable: the command before the session, and of two entries with one key the later
 * one (protobuf's rule for maps). The values are the entries. */
static box_map *env_owners(const box_command *cmd, const box_spec *session)
{
    box_map *owners = box_map_new();
    for (size_t i = 0; i < session->n_env; i++)
        (void)box_map_put(owners, session->env[i].key, &session->env[i]); /* the later one stays */
    for (size_t i = 0; i < cmd->n_env; i++)
        (void)box_map_put(owners, cmd->env[i].key, (void *)(uintptr_t)&cmd->env[i]); /* likewise */
    return owners;
}

/* Twice the same key would leave it to the program which one counts. */
static void init_env(box_program *p, const box_command *cmd, const box_spec *session)
{
    p->env = box_alloc_array(BOX_COUNT(base_env) + session->n_env + cmd->n_env, sizeof *p->env);
    if (session->n_env + cmd->n_env == 0) { /* most commands */
        for (size_t i = 0; i < BOX_COUNT(base_env); i++)
            add(p->env, &p->envc, base_env[i]);
        return;
    }
    box_map *owners = env_owners(cmd, session);
    for (size_t i = 0; i < BOX_COUNT(base_env); i++) {
        if (box_map_get_bytes(owners, base_env[i], strcspn(base_env[i], "=")) == NULL)
            add(p->env, &p->envc, base_env[i]);
    }
    for (size_t i = 0; i < session->n_env; i++) {
        if (box_map_get(owners, session->env[i].key) == &session->env[i])
            add_env(p, session->env[i].key, session->env[i].value);
    }
    for (size_t i = 0; i < cmd->n_env; i++) {
        if (box_map_get(owners, cmd->env[i].key) == &cmd->env[i])
            add_env(p, cmd->env[i].key, cmd->env[i].value);
    }
    box_map_free(owners);
}

static void init_argv(box_program *p, const box_command *cmd)
{
    bool shell = cmd->shell_command != NULL;
    p->argv = box_alloc_array(shell ? 3 : cmd->argc, sizeof *p->argv);
    if (shell) {
        add(p->argv, &p->argc, "/bin/sh");
        add(p->argv, &p->argc, "-c");
        add(p->argv, &p->argc, cmd->shell_command);
    }
    for (size_t i = 0; i < cmd->argc; i++)
        add(p->argv, &p->argc, cmd->argv[i]);
}

int box_program_init(box_program *p, const box_command *cmd, const box_spec *session,
                     box_error *err)
{
    *p = (box_program){0};
    init_argv(p, cmd);
    init_env(p, cmd, session);
    bool named = cmd->workdir != NULL && cmd->workdir[0] != '\0';
    p->workdir = box_strdup(named ? cmd->workdir : session->workdir);
    uint64_t total = 0;
    for (size_t i = 0; i < p->argc; i++)
        total += strlen(p->argv[i]) + 1;
    for (size_t i = 0; i < p->envc; i++)
        total += strlen(p->env[i]) + 1;
    if (total <= BOX_MAX_ARGV_ENV_BYTES && p->envc <= BOX_MAX_ENV)
        return 0;
    box_program_done(p);
    return box_violation(err, "env",
                         "arguments and environment together have more than 2 MiB or 65536 "
                         "variables");
}

size_t box_program_bytes(const box_program *p)
{
    enum { EACH = 16 + sizeof(char *) /* of the allocator, and the pointer */ };
    size_t bytes = strlen(p->workdir);
    for (size_t i = 0; i < p->argc; i++)
        bytes += strlen(p->argv[i]) + EACH;
    for (size_t i = 0; i < p->envc; i++)
        bytes += strlen(p->env[i]) + EACH;
    return bytes;
}

void box_program_done(box_program *p)
{
    for (size_t i = 0; i < p->argc; i++)
        free(p->argv[i]);
    for (size_t i = 0; i < p->envc; i++)
        free(p->env[i]);
    free(p->argv);
    free(p->env);
    free(p->workdir);
    *p = (box_program){0};
}
