#include "mcp.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/id.h"
#include "box/v1/session.client.h"
#include "box/v1/types.fields.h"

/* The most that every backend has (SessionSpec.workspace_limit_bytes). */
enum { WORKSPACE_MIB = 256, PARALLEL = 8 };

/* Does it live? An answer that there is none is one. */
static int lives(const box_mcp *m, bool *out, box_error *err)
{
    Box__V1__GetSessionRequest request;
    Box__V1__GetSessionResponse *r = NULL;
    box__v1__get_session_request__init(&request);
    request.session_id = (char *)(uintptr_t)m->out.session_id;
    *out = false;
    if (box_v1_session_service_get_session(m->channel, &m->options, &request, &r, err) < 0)
        return err->reason == BOX_SESSION_NOT_FOUND ? 0 : -1;
    if (r->session != NULL)
        *out = r->session->state == BOX__V1__SESSION_STATE__SESSION_STATE_RUNNING ||
               r->session->state == BOX__V1__SESSION_STATE__SESSION_STATE_STARTING ||
               r->session->state == BOX__V1__SESSION_STATE__SESSION_STATE_CREATED;
    box_mcp_free_message(r);
    return 0;
}

/* Only what is set is compared with a session that exists: the defaults are for a new one. */
static void add_defaults(Box__V1__SessionSpec *spec)
{
    if (!box__v1__session_spec__has_persistent(spec))
        box__v1__session_spec__set_persistent(spec, true);
    if (!box__v1__session_spec__has_workspace_limit_bytes(spec) && spec->host_path[0] == '\0')
        box__v1__session_spec__set_workspace_limit_bytes(spec, WORKSPACE_MIB * INT64_C(1048576));
    if (!box__v1__session_spec__has_max_parallel_execs(spec))
        box__v1__session_spec__set_max_parallel_execs(spec, PARALLEL);
}

static int create(box_mcp *m, bool is_new, box_error *err)
{
    Box__V1__SessionSpec spec;
    Box__V1__CreateSessionRequest request;
    Box__V1__CreateSessionResponse *r = NULL;
    box__v1__session_spec__init(&spec);
    box__v1__create_session_request__init(&request);
    if (m->server->spec != NULL)
        spec = *m->server->spec;
    if (is_new)
        add_defaults(&spec);
    request.session_id = m->out.session_id;
    request.spec = &spec;
    if (box_v1_session_service_create_session(m->channel, &m->options, &request, &r, err) < 0)
        return -1;
    const char *place =
        r->session != NULL && r->session->spec != NULL && r->session->spec->mount_path[0] != '\0'
            ? r->session->spec->mount_path
            : "/workspace";
    (void)snprintf(m->workspace, sizeof m->workspace, "%s", place);
    if (r->created)
        box_mcp_note(m, "session %s is new", m->out.session_id);
    box_mcp_free_message(r);
    return 0;
}

int box_mcp_session(box_mcp *m, box_error *err)
{
    bool living;
    if (lives(m, &living, err) < 0)
        return -1;
    if (create(m, !living, err) == 0)
        return 0;
    /* Somebody made it meanwhile, with other defaults: what was not asked for is not compared. */
    bool again = err->reason == BOX_SESSION_CONFLICT && !living;
    return again ? create(m, false, err) : -1;
}
