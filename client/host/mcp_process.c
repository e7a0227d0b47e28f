#include "mcp.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "box/project.h"
#include "box/v1/process.client.h"

/* How often another caller may be faster before it is an error. */
enum { TRIES = 4 };

/* --- what is to run --------------------------------------------------------------------------- */

static char *inside(const box_mcp *m, const char *word)
{
    const char *root = m->stage != NULL ? box_stage_root(m->stage) : NULL;
    return root == NULL ? box_strdup(word) : box_project_rewrite(word, root, m->target);
}

static void add_argv(const box_mcp *m, Box__V1__ProcessSpec *spec)
{
    const box_mcp_server *server = m->server;
    spec->argv = box_alloc_array(server->argc, sizeof *spec->argv);
    for (size_t i = 0; i < server->argc; i++)
        spec->argv[spec->n_argv++] = inside(m, server->argv[i]);
    /* Debian's python3 has no second name; a virtual environment has. */
    if (m->venv == NULL && strcmp(spec->argv[0], "python") == 0) {
        free(spec->argv[0]);
        spec->argv[0] = box_strdup("python3");
    }
}

static void add_variable(Box__V1__ProcessSpec *spec, const char *name, size_t len, char *value)
{
    Box__V1__ProcessSpec__EnvEntry *e = box_alloc(sizeof *e);
    box__v1__process_spec__env_entry__init(e);
    e->key = box_alloc(len + 1);
    memcpy(e->key, name, len);
    e->value = value;
    spec->env[spec->n_env++] = e;
}

static bool is_named(const box_mcp_server *server, const char *name)
{
    size_t len = strlen(name);
    for (size_t i = 0; i < server->n_env; i++) {
        if (strncmp(server->env[i], name, len) == 0 && server->env[i][len] == '=')
            return true;
    }
    return false;
}

static void add_env(const box_mcp *m, Box__V1__ProcessSpec *spec)
{
    const box_mcp_server *server = m->server;
    const char *root = m->stage != NULL ? box_stage_root(m->stage) : NULL;
    spec->env = box_alloc_array(server->n_env + 2, sizeof *spec->env);
    for (size_t i = 0; i < server->n_env; i++) {
        const char *equals = strchr(server->env[i], '=');
        char *mapped = root != NULL ? box_project_map(equals + 1, root, m->target) : NULL;
        add_variable(spec, server->env[i], (size_t)(equals - server->env[i]),
                     mapped != NULL ? mapped : box_strdup(equals + 1));
    }
    if (m->venv != NULL && !is_named(server, "VIRTUAL_ENV"))
        add_variable(spec, "VIRTUAL_ENV", strlen("VIRTUAL_ENV"), box_strdup(m->venv));
    if (m->venv != NULL && !is_named(server, "PATH"))
        add_variable(spec, "PATH", strlen("PATH"), box_strdup(m->path));
}

static Box__V1__ProcessSpec *spec_new(const box_mcp *m)
{
    Box__V1__ProcessSpec *spec = box_alloc(sizeof *spec);
    box__v1__process_spec__init(spec);
    add_argv(m, spec);
    add_env(m, spec);
    if (m->target[0] != '\0')
        spec->workdir = box_strdup(m->target);
    spec->stop_on_detach = m->server->stop_on_detach;
    return spec;
}

/* --- what runs -------------------------------------------------------------------------------- */

static bool has_key(const Box__V1__ManagedProcess *p, const char *key)
{
    for (size_t i = 0; i < p->n_env_keys; i++) {
        if (strcmp(p->env_keys[i], key) == 0)
            return true;
    }
    return false;
}

static bool is_same(const Box__V1__ManagedProcess *p, const Box__V1__ProcessSpec *spec)
{
    const Box__V1__ProcessSpec *has = p->spec;
    if (has == NULL || has->n_argv != spec->n_argv || p->n_env_keys != spec->n_env ||
        strcmp(has->workdir, spec->workdir) != 0 || has->stop_on_detach != spec->stop_on_detach)
        return false;
    for (size_t i = 0; i < spec->n_argv; i++) {
        if (strcmp(has->argv[i], spec->argv[i]) != 0)
            return false;
    }
    for (size_t i = 0; i < spec->n_env; i++) {
        if (!has_key(p, spec->env[i]->key))
            return false;
    }
    return true;
}

typedef struct found {
    bool runs;
    bool same;
} found;

static int look(const box_mcp *m, const Box__V1__ProcessSpec *spec, found *out, box_error *err)
{
    Box__V1__GetManagedProcessRequest request;
    Box__V1__GetManagedProcessResponse *r = NULL;
    box__v1__get_managed_process_request__init(&request);
    request.session_id = (char *)(uintptr_t)m->out.session_id;
    request.process_id = (char *)(uintptr_t)m->out.process_id;
    *out = (found){0};
    if (box_v1_process_service_get_managed_process(m->channel, &m->options, &request, &r, err) < 0)
        return err->reason == BOX_PROCESS_NOT_FOUND ? 0 : -1;
    const Box__V1__ManagedProcess *p = r->process;
    out->runs = p != NULL && p->state != BOX__V1__PROCESS_STATE__PROCESS_STATE_EXITED;
    out->same =
        out->runs && p->state != BOX__V1__PROCESS_STATE__PROCESS_STATE_STOPPING && is_same(p, spec);
    box_mcp_free_message(r);
    return 0;
}

static int start(const box_mcp *m, Box__V1__ProcessSpec *spec, bool replace, box_error *err)
{
    Box__V1__StartManagedProcessRequest request;
    Box__V1__StartManagedProcessResponse *r = NULL;
    box__v1__start_managed_process_request__init(&request);
    request.session_id = (char *)(uintptr_t)m->out.session_id;
    request.process_id = (char *)(uintptr_t)m->out.process_id;
    request.spec = spec;
    request.replace = replace;
    int rc =
        box_v1_process_service_start_managed_process(m->channel, &m->options, &request, &r, err);
    box_mcp_free_message(r);
    return rc;
}

static int start_or_use(box_mcp *m, Box__V1__ProcessSpec *spec, box_error *err)
{
    for (int i = 0;; i++) {
        found has;
        if (look(m, spec, &has, err) < 0)
            return -1;
        if (has.same && !m->server->replace)
            return 0;
        if (has.runs)
            box_mcp_note(m, "%s is replaced", m->out.process_id);
        if (start(m, spec, has.runs, err) == 0) {
            m->out.started = true;
            return 0;
        }
        if (err->reason != BOX_PROCESS_CONFLICT || i == TRIES)
            return -1;
    }
}

int box_mcp_process(box_mcp *m, box_error *err)
{
    Box__V1__ProcessSpec *spec = spec_new(m);
    m->out.started = false;
    int rc = start_or_use(m, spec, err);
    box_mcp_free_message(spec);
    return rc;
}
