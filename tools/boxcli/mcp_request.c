#include "mcp_request.h"

#include <errno.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/limits.h"
#include "box/v1/control.client.h"
#include "box/v1/tool.client.h"

static void run_tool(mcp_request *r);

/* --- answers ---------------------------------------------------------------------------------- */

void mcp_put(mcp *m, char *line)
{
    size_t len = strlen(line);
    for (size_t at = 0; at < len && m->output_errno == 0;) {
        ssize_t n = write(STDOUT_FILENO, line + at, len - at);
        if (n > 0)
            at += (size_t)n;
        else if (n < 0 && errno != EINTR)
            m->output_errno = errno;
    }
    free(line);
}

void mcp_request_free(mcp_request *r)
{
    box_list_remove(&r->link);
    r->m->n--;
    box_client_free(r->call);
    json_decref(r->result);
    mcp_message_done(&r->message);
    free(r);
}

static void succeed(mcp_request *r, json_t *result)
{
    mcp_put(r->m, mcp_answer(r->message.id, result));
    mcp_request_free(r);
}

static void fail(mcp_request *r, int code, const char *text)
{
    mcp_put(r->m, mcp_error(r->message.id, code, text));
    mcp_request_free(r);
}

/* What a protocol's error says of one of Box. */
static void fail_with(mcp_request *r, const box_error *err)
{
    char text[BOX_ERROR_MSG + 64];
    (void)snprintf(text, sizeof text, "%s: %s", box_reason_name(err->reason), err->msg);
    fail(r, MCP_INTERNAL_ERROR, text);
}

/* The call is over; the next one may begin. */
static void drop_call(mcp_request *r)
{
    box_client_free(r->call);
    r->call = NULL;
}

static bool lacks_session(const box_error *status)
{
    return status->reason == BOX_SESSION_NOT_FOUND || status->reason == BOX_SESSION_NOT_RUNNING;
}

/* --- initialize ------------------------------------------------------------------------------- */

static json_t *initialize_result(const mcp *m, const char *instructions)
{
    return mcp_initialize_result(m->version, BOX_VERSION, instructions);
}

static void guidance_came(void *arg, box_client_call *call, const Box__V1__GetGuidanceResponse *g)
{
    mcp_request *r = arg;
    (void)call;
    r->result = initialize_result(r->m, g->text);
}

/* A server that does not answer now may do so later: that is no reason not to begin. */
static void guidance_done(void *arg, box_client_call *call, const box_error *status,
                          const box_metadata *trailers)
{
    mcp_request *r = arg;
    (void)call;
    (void)status;
    (void)trailers;
    succeed(r, r->result != NULL ? box_take(r->result) : initialize_result(r->m, ""));
}

static void initialize(mcp_request *r)
{
    static const box_v1_control_service_get_guidance_events events = {.message = guidance_came,
                                                                      .done = guidance_done};
    mcp *m = r->m;
    box_error err;
    Box__V1__GetGuidanceRequest g;
    box__v1__get_guidance_request__init(&g);
    if (m->version != NULL) {
        fail(r, MCP_INVALID_REQUEST, "initialize came twice");
        return;
    }
    m->version =
        mcp_version(json_string_value(json_object_get(r->message.params, "protocolVersion")));
    box_client_options o = cli_options(m->c);
    if (box_v1_control_service_get_guidance_start(m->c->channel, &o, &g, &events, r, &r->call,
                                                  &err) < 0)
        succeed(r, initialize_result(m, ""));
}

/* --- tools/list ------------------------------------------------------------------------------- */

static void tools_came(void *arg, box_client_call *call, const Box__V1__ListToolsResponse *response)
{
    mcp_request *r = arg;
    json_t *tools = json_array();
    (void)call;
    for (size_t i = 0; i < response->n_tools; i++) {
        const Box__V1__Tool *t = response->tools[i];
        json_t *tool = mcp_tool(t->name, t->description, t->parameters_json, t->read_only);
        if (tool != NULL && json_array_append_new(tools, tool) < 0)
            abort(); /* only without memory */
    }
    r->result = json_pack("{s:o}", "tools", tools);
}

static void list_tools(mcp_request *r, char *session);

static void tools_done(void *arg, box_client_call *call, const box_error *status,
                       const box_metadata *trailers)
{
    static char any[] = "";
    mcp_request *r = arg;
    (void)call;
    (void)trailers;
    if (status->reason == BOX_NONE) {
        succeed(r, box_take(r->result));
    } else if (status->reason == BOX_SESSION_NOT_FOUND && !r->retried) {
        r->retried = true; /* it is made when a tool is called */
        drop_call(r);
        list_tools(r, any);
    } else {
        fail_with(r, status);
    }
}

static void list_tools(mcp_request *r, char *session)
{
    static const box_v1_tool_service_list_tools_events events = {.message = tools_came,
                                                                 .done = tools_done};
    box_error err;
    Box__V1__ListToolsRequest l;
    box__v1__list_tools_request__init(&l);
    l.session_id = session;
    box_client_options o = cli_options(r->m->c);
    if (box_v1_tool_service_list_tools_start(r->m->c->channel, &o, &l, &events, r, &r->call, &err) <
        0)
        fail_with(r, &err);
}

/* --- tools/call ------------------------------------------------------------------------------- */

static void session_done(void *arg, box_client_call *call, const box_error *status,
                         const box_metadata *trailers)
{
    mcp_request *r = arg;
    (void)call;
    (void)trailers;
    if (status->reason != BOX_NONE) {
        succeed(r, mcp_tool_refusal(status));
        return;
    }
    drop_call(r);
    run_tool(r);
}

static void make_session(mcp_request *r)
{
    static const box_v1_session_service_create_session_events events = {.done = session_done};
    const mcp *m = r->m;
    box_error err;
    Box__V1__CreateSessionRequest c;
    box__v1__create_session_request__init(&c);
    c.session_id = m->session;
    c.spec = m->spec;
    box_client_options o = cli_options(m->c);
    if (box_v1_session_service_create_session_start(m->c->channel, &o, &c, &events, r, &r->call,
                                                    &err) < 0)
        succeed(r, mcp_tool_refusal(&err));
}

static void tool_came(void *arg, box_client_call *call, const Box__V1__CallToolResponse *t)
{
    mcp_request *r = arg;
    bool failed = t->status != BOX__V1__TOOL_STATUS__TOOL_STATUS_SUCCESS;
    (void)call;
    r->result = mcp_tool_result(t->output, t->error, failed,
                                mcp_version_is_structured(r->m->version) ? t->result_json : NULL);
}

static void tool_done(void *arg, box_client_call *call, const box_error *status,
                      const box_metadata *trailers)
{
    mcp_request *r = arg;
    (void)call;
    (void)trailers;
    if (status->reason == BOX_NONE) {
        succeed(r, box_take(r->result));
    } else if (lacks_session(status) && !r->retried) {
        r->retried = true;
        drop_call(r);
        make_session(r);
    } else {
        succeed(r, mcp_tool_refusal(status));
    }
}

/* Those of which tool.proto says that they make a missing session, and so take its spec. */
static bool makes_session(const char *tool)
{
    static const char *const names[] = {"exec", "python_executor", "shell_executor"};
    for (size_t i = 0; i < BOX_COUNT(names); i++) {
        if (strcmp(tool, names[i]) == 0)
            return true;
    }
    return false;
}

static void run_tool(mcp_request *r)
{
    static const box_v1_tool_service_call_tool_events events = {.message = tool_came,
                                                                .done = tool_done};
    mcp *m = r->m;
    box_error err;
    const json_t *arguments = json_object_get(r->message.params, "arguments");
    BOX_AUTO(box_freep) char *text = json_dumps(arguments, JSON_COMPACT); /* NULL: there are none */
    Box__V1__CallToolRequest c;
    box__v1__call_tool_request__init(&c);
    c.session_id = m->session;
    c.tool = (char *)(uintptr_t)json_string_value(json_object_get(r->message.params, "name"));
    c.spec = makes_session(c.tool) ? m->spec : NULL;
    if (text != NULL)
        c.arguments_json = text;
    m->used = true;
    box_client_options o = cli_options(m->c);
    o.timeout_ns = 0; /* the tool has its own, and the client can cancel it */
    if (box_v1_tool_service_call_tool_start(m->c->channel, &o, &c, &events, r, &r->call, &err) < 0)
        succeed(r, mcp_tool_refusal(&err));
}

static void call_tool(mcp_request *r)
{
    const json_t *arguments = json_object_get(r->message.params, "arguments");
    if (!json_is_string(json_object_get(r->message.params, "name")))
        fail(r, MCP_INVALID_PARAMS, "name: which tool?");
    else if (arguments != NULL && !json_is_object(arguments))
        fail(r, MCP_INVALID_PARAMS, "arguments must be an object");
    else
        run_tool(r);
}

/* --- beginning -------------------------------------------------------------------------------- */

mcp_request *mcp_request_find(const mcp *m, const json_t *id)
{
    for (const box_list *at = m->requests.next; at != &m->requests; at = at->next) {
        mcp_request *r = BOX_CONTAINER((box_list *)(uintptr_t)at, mcp_request, link);
        if (id != NULL && json_equal(r->message.id, id))
            return r;
    }
    return NULL;
}

static void begin(mcp_request *r)
{
    const char *method = r->message.method;
    if (strcmp(method, "ping") == 0)
        succeed(r, json_object());
    else if (strcmp(method, "initialize") == 0)
        initialize(r);
    else if (r->m->version == NULL)
        fail(r, MCP_INVALID_REQUEST, "initialize comes first");
    else if (strcmp(method, "tools/list") == 0)
        list_tools(r, r->m->session);
    else if (strcmp(method, "tools/call") == 0)
        call_tool(r);
    else
        fail(r, MCP_METHOD_NOT_FOUND,
             "no such method: there are initialize, ping, tools/list and "
             "tools/call");
}

void mcp_request_add(mcp *m, mcp_message *message)
{
    const char *problem = m->n >= BOX_MCP_MAX_REQUESTS ? "too many requests at once"
                          : mcp_request_find(m, message->id) != NULL
                              ? "a request of this id is under way"
                              : NULL;
    if (problem != NULL) {
        mcp_put(m, mcp_error(message->id, MCP_INVALID_REQUEST, problem));
        mcp_message_done(message);
        return;
    }
    mcp_request *r = box_alloc(sizeof *r);
    r->m = m;
    r->message = *message;
    *message = (mcp_message){0};
    box_list_append(&m->requests, &r->link);
    m->n++;
    begin(r);
}
