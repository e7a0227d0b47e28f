#include "mcp.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/utf8.h"
#include "box/v1/exec.client.h"
#include "box/v1/types.fields.h"
#include "script.h"

static bool wants_one(const box_mcp *m)
{
    static const char *const manifests[] = {"requirements.txt", "pyproject.toml", "setup.py",
                                            "setup.cfg"};
    if (m->stage == NULL || m->server->no_environment)
        return false;
    for (size_t i = 0; i < BOX_COUNT(manifests); i++) {
        if (box_stage_has(m->stage, manifests[i]))
            return true;
    }
    return false;
}

/* "python3", or the command's own when that is a version of it by name. */
static const char *interpreter(const box_mcp_server *server)
{
    const char *word = server->argv[0];
    size_t digits = strlen("python3.");
    bool named = strncmp(word, "python3.", digits) == 0 && word[digits] != '\0' &&
                 strspn(word + digits, "0123456789") == strlen(word + digits);
    return named ? word : "python3";
}

/* stdout: the folder, PATH. */
static int take_answer(box_mcp *m, const ProtobufCBinaryData *out, box_error *err)
{
    BOX_AUTO(box_freep) char *text = box_alloc(out->len + 1);
    memcpy(text, out->data, out->len);
    char *rest = text;
    const char *venv = strsep(&rest, "\n");
    const char *path = rest != NULL ? strsep(&rest, "\n") : NULL;
    if (venv[0] == '\0')
        return 0;
    if (venv[0] != '/' || path == NULL || path[0] == '\0')
        return box_fail(err, BOX_PROTOCOL, "the interpreter's answer is not what was asked for");
    m->venv = box_strdup(venv);
    m->path = box_strdup(path);
    return 0;
}

/* The last line of what it said, for the error; all of it as a note. */
static int failed(const box_mcp *m, const Box__V1__ExecResponse *r, box_error *err)
{
    const ProtobufCBinaryData *said = &r->stderr_data;
    BOX_AUTO(box_freep) char *text = box_alloc(said->len + 1);
    if (said->len > 0)
        memcpy(text, said->data, said->len);
    box_utf8_scrub(text);
    size_t len = strlen(text);
    while (len > 0 && isspace((unsigned char)text[len - 1]))
        text[--len] = '\0';
    if (len > 0)
        box_mcp_note(m, "%s", text);
    const char *line = strrchr(text, '\n');
    if (r->verdict != NULL &&
        r->verdict->status == BOX__V1__VERDICT_STATUS__VERDICT_STATUS_TIMED_OUT)
        return box_fail(err, BOX_DEADLINE, "it was not made in time");
    return box_fail(err, BOX_VALIDATION, "it cannot be made: %s", line != NULL ? line + 1 : text);
}

static int run(box_mcp *m, Box__V1__Command *command, box_error *err)
{
    Google__Protobuf__Duration left;
    Box__V1__ExecRequest request;
    Box__V1__ExecResponse *r = NULL;
    box__v1__exec_request__init(&request);
    request.session_id = m->out.session_id;
    request.command = command;
    request.queue_timeout = command->timeout = box_mcp_left(m, &left);
    if (box_v1_exec_service_exec(m->channel, &m->options, &request, &r, err) < 0)
        return -1;
    bool done = r->verdict != NULL &&
                r->verdict->status == BOX__V1__VERDICT_STATUS__VERDICT_STATUS_COMPLETED &&
                box__v1__verdict__has_exit_code(r->verdict) && r->verdict->exit_code == 0;
    int rc = done ? take_answer(m, &r->stdout_data, err) : failed(m, r, err);
    box_mcp_free_message(r);
    return rc;
}

/* The variables that the server gets are pip's too: where it looks, whom it asks through. */
static void add_variables(const box_mcp_server *server, Box__V1__Command *command)
{
    command->env = box_alloc_array(server->n_env + 1, sizeof(void *));
    for (size_t i = 0; i < server->n_env; i++) {
        const char *equals = strchr(server->env[i], '=');
        Box__V1__Command__EnvEntry *e = box_alloc(sizeof *e);
        box__v1__command__env_entry__init(e);
        size_t len = (size_t)(equals - server->env[i]);
        e->key = box_alloc(len + 1);
        memcpy(e->key, server->env[i], len);
        e->value = box_strdup(equals + 1);
        command->env[command->n_env++] = e;
    }
}

static void free_variables(Box__V1__Command *command)
{
    for (size_t i = 0; i < command->n_env; i++)
        box_mcp_free_message(command->env[i]);
    free(command->env);
}

int box_mcp_environment(box_mcp *m, box_error *err)
{
    char folder[PATH_MAX + 32];
    if (!wants_one(m))
        return 0;
    (void)snprintf(folder, sizeof folder, "%s/.mcp/.environments", m->workspace);
    const char *argv[] = {interpreter(m->server),  "-c", box_script_venv, m->target, folder,
                          box_stage_hash(m->stage)};
    Box__V1__Command command;
    box__v1__command__init(&command);
    command.argv = (char **)(uintptr_t)argv;
    command.n_argv = BOX_COUNT(argv);
    add_variables(m->server, &command);
    int rc = run(m, &command, err);
    free_variables(&command);
    return rc;
}
