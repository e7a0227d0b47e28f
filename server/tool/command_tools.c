/* Tools that run a command: exec (box-behaviour.md, section 14.1), python_executor and
 * shell_executor (enclave.md, section 3). Output is looked at as it comes and not kept: what a
 * model is shown of it is small, and counts all of it. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/limits.h"
#include "tool/command_result.h"
#include "tool/tools.h"

typedef struct command_run {
    box_tool_run base;    /* first */
    const char *executor; /* python_executor, shell_executor; NULL: exec */
    box_exec *exec;
    box_tool_done done;
    void *arg;
    box_excerpt streams[2];
} command_run;

/* What an exec tool makes of its arguments. */
typedef struct command_args {
    box_command command;
    const char *stdin_text;
    box_env *env;      /* owned */
    const char **argv; /* owned */
} command_args;

static void command_args_done(command_args *a)
{
    free(a->env);
    free(a->argv);
}

/* --- the command ------------------------------------------------------------------------------ */

static void cancel(box_tool_run *base)
{
    command_run *run = (command_run *)base;
    box_exec_cancel(run->exec);
    free(run);
}

static void on_output(void *arg, int stream, const uint8_t *data, size_t len)
{
    command_run *run = arg;
    box_excerpt_add(&run->streams[stream], data, len);
}

/* However much comes, an excerpt takes the same memory: nobody has to wait. The command is read a
 * bounded part a turn of the loop (session/pump.c). */
static bool always_writable(void *arg)
{
    (void)arg;
    return true;
}

static void answer(command_run *run, const box_verdict *v)
{
    box_command_outcome o;
    box_excerpt_end(&run->streams[0]);
    box_excerpt_end(&run->streams[1]);
    box_command_outcome_fill(&o, v, run->streams);
    o.result.json = run->executor != NULL ? box_command_executor_json(&o, run->executor)
                                          : box_command_exec_json(&o);
    run->done(run->arg, &o.result, NULL);
    box_command_outcome_done(&o);
}

static void on_done(void *arg, const box_verdict *v, const box_error *err)
{
    command_run *run = arg;
    if (err != NULL)
        run->done(run->arg, NULL, err);
    else
        answer(run, v);
    box_exec_free(run->exec);
    free(run);
}

/* A violation of the command is one of the argument it came from. */
static int in_arguments(box_error *err)
{
    static const struct {
        const char *field, *argument;
    } names[] = {
        {"field:command.argv", "arguments.command"},
        {"field:command.shell_command", "arguments.command"},
        {"field:command.timeout", "arguments.timeout"},
        {"field:command.workdir", "arguments.workdir"},
        {"field:command.env", "arguments.env"},
    };
    if (err->reason != BOX_VALIDATION)
        return -1;
    box_error renamed = {0};
    const char *key, *value;
    for (size_t at = 0; box_error_next(err, &at, &key, &value);) {
        const char *field = strncmp(key, "field:", 6) == 0 ? key + 6 : key;
        for (size_t i = 0; i < BOX_COUNT(names); i++)
            field = strcmp(key, names[i].field) == 0 ? names[i].argument : field;
        BOX_IGNORE(box_violation(&renamed, field, "%s", value));
    }
    renamed.more += err->more;
    *err = renamed;
    return -1;
}

static int start(const box_tool_request *r, const char *executor, command_args *a,
                 box_tool_done done, void *arg, box_tool_run **out, box_error *err)
{
    static const box_exec_events events = {
        .output = on_output, .writable = always_writable, .done = on_done};
    if (!a->command.has_timeout && r->default_timeout_ns > 0) {
        a->command.has_timeout = true;
        a->command.timeout_ns = (int64_t)r->default_timeout_ns;
    }
    if (r->timeout_ns > 0) {
        a->command.has_timeout = true;
        a->command.timeout_ns = (int64_t)r->timeout_ns;
    }
    const box_exec_request request = {.tenant = r->tenant,
                                      .session_id = r->session_id,
                                      .spec = r->spec,
                                      .command = &a->command,
                                      .stdin_data = a->stdin_text,
                                      .stdin_len =
                                          a->stdin_text != NULL ? strlen(a->stdin_text) : 0,
                                      .stream = true,
                                      .idempotency_key = r->idempotency_key,
                                      .digest = r->digest};
    command_run *run = box_alloc(sizeof *run);
    run->base.cancel = cancel;
    run->executor = executor;
    run->done = done;
    run->arg = arg;
    if (box_exec_start(r->sessions, &request, &events, run, &run->exec, err) < 0) {
        free(run);
        return in_arguments(err);
    }
    *out = &run->base;
    return 0;
}

/* --- arguments -------------------------------------------------------------------------------- */

static const char *text(const json_t *arguments, const char *name)
{
    return json_string_value(json_object_get(arguments, name));
}

static bool is_blank(const char *s)
{
    return s[strspn(s, " \t\r\n\f\v")] == '\0';
}

static int take_text(const json_t *arguments, const char *name, const char **out, box_error *err)
{
    char field[64];
    *out = text(arguments, name);
    if (!is_blank(*out))
        return 0;
    (void)snprintf(field, sizeof field, "arguments.%s", name);
    return box_violation(err, field, "must not be blank");
}

/* Seconds; the schema has seen to its bounds. */
static void take_timeout(const json_t *arguments, const char *name, box_command *c)
{
    const json_t *v = json_object_get(arguments, name);
    if (v == NULL)
        return;
    c->has_timeout = true;
    c->timeout_ns = (int64_t)(json_number_value(v) * (double)BOX_SECOND);
}

static void take_env(const json_t *arguments, command_args *a)
{
    json_t *env = json_object_get(arguments, "env");
    const char *key;
    json_t *value;
    size_t n = 0;
    a->env = box_alloc_array(json_object_size(env) + 1, sizeof *a->env);
    json_object_foreach(env, key, value)
    {
        a->env[n++] = (box_env){key, json_string_value(value)};
    }
    a->command.env = a->env;
    a->command.n_env = n;
}

static int start_exec(const box_tool_request *r, box_tool_done done, void *arg, box_tool_run **out,
                      box_error *err)
{
    BOX_AUTO(command_args_done) command_args a = {0};
    if (take_text(r->arguments, "command", &a.command.shell_command, err) < 0)
        return -1;
    a.command.workdir = text(r->arguments, "workdir");
    take_timeout(r->arguments, "timeout_sec", &a.command);
    take_env(r->arguments, &a);
    return start(r, NULL, &a, done, arg, out, err);
}

/* The program comes on stdin, so there is no file to be left behind, and its size has no limit of
 * an argument's. */
static int start_python(const box_tool_request *r, box_tool_done done, void *arg,
                        box_tool_run **out, box_error *err)
{
    static const char *const python[] = {"python3", "-"};
    BOX_AUTO(command_args_done) command_args a = {0};
    if (take_text(r->arguments, "code", &a.stdin_text, err) < 0)
        return -1;
    a.command.argv = python;
    a.command.argc = BOX_COUNT(python);
    take_timeout(r->arguments, "timeout", &a.command);
    return start(r, "python_executor", &a, done, arg, out, err);
}

/* A text always goes to the shell, a list never does (known-bugs.md, H1). */
static int start_shell(const box_tool_request *r, box_tool_done done, void *arg, box_tool_run **out,
                       box_error *err)
{
    BOX_AUTO(command_args_done) command_args a = {0};
    const json_t *command = json_object_get(r->arguments, "command");
    if (json_is_string(command)) {
        if (take_text(r->arguments, "command", &a.command.shell_command, err) < 0)
            return -1;
    } else {
        a.command.argc = json_array_size(command);
        a.argv = box_alloc_array(a.command.argc, sizeof *a.argv);
        for (size_t i = 0; i < a.command.argc; i++)
            a.argv[i] = json_string_value(json_array_get(command, i));
        a.command.argv = a.argv;
    }
    take_timeout(r->arguments, "timeout", &a.command);
    return start(r, "shell_executor", &a, done, arg, out, err);
}

/* --- the tools -------------------------------------------------------------------------------- */

#define TIMEOUT                                                                                    \
    "{\"type\":\"integer\",\"minimum\":1,\"maximum\":86400,\"description\":\"Seconds after which " \
    "it "                                                                                          \
    "is killed; lowered to what the sandbox allows.\"}"

const box_tool box_command_tools[] = {
    {.name = "exec",
     .description =
         "Runs a shell command in the sandbox and returns its output. Files below the workspace "
         "stay for later calls. Long output is shown from both ends, with the number of characters "
         "left out between them.",
     .parameters =
         "{\"type\":\"object\",\"properties\":{"
         "\"command\":{\"type\":\"string\",\"minLength\":1,\"description\":\"Text for /bin/sh "
         "-c.\"},"
         "\"workdir\":{\"type\":\"string\",\"description\":\"Directory to start in, absolute; the "
         "workspace by default.\"},"
         "\"timeout_sec\":" TIMEOUT ","
         "\"env\":{\"type\":\"object\",\"additionalProperties\":{\"type\":\"string\"},"
         "\"description\":\"Environment variables.\"},"
         "\"description\":{\"type\":\"string\",\"description\":\"What the command is for; not "
         "looked at.\"}},"
         "\"required\":[\"command\"],\"additionalProperties\":false}",
     .need = BOX_TOOL_RUNS,
     .makes_session = true,
     .start = start_exec},
    {.name = "python_executor",
     .description = "Runs Python 3 code in the sandbox and returns what it printed. Each call is a "
                    "process of its own; files below the workspace stay.",
     .parameters = "{\"type\":\"object\",\"properties\":{"
                   "\"code\":{\"type\":\"string\",\"minLength\":1,\"description\":\"The "
                   "program.\"},"
                   "\"timeout\":" TIMEOUT "},"
                   "\"required\":[\"code\"],\"additionalProperties\":false}",
     .need = BOX_TOOL_RUNS,
     .makes_session = true,
     .start = start_python},
    {.name = "shell_executor",
     .description = "Runs a command in the sandbox and returns its output: a text by the shell, a "
                    "list of texts as a program and its arguments.",
     .parameters = "{\"type\":\"object\",\"properties\":{"
                   "\"command\":{\"type\":[\"string\",\"array\"],\"minLength\":1,\"minItems\":1,"
                   "\"items\":{\"type\":\"string\"},\"description\":\"Text for /bin/sh -c, or "
                   "program and arguments.\"},"
                   "\"timeout\":" TIMEOUT "},"
                   "\"required\":[\"command\"],\"additionalProperties\":false}",
     .need = BOX_TOOL_RUNS,
     .makes_session = true,
     .start = start_shell},
};
const size_t box_n_command_tools = BOX_COUNT(box_command_tools);
