/* boxcli mcp: the tools of a session for any client of the Model Context Protocol, on stdio.
 * Standard output carries the protocol and nothing else. */
#include <errno.h>
#include <poll.h>
#include <unistd.h>

#include "args.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/id.h"
#include "base/limits.h"
#include "base/list.h"
#include "box/v1/control.client.h"
#include "box/v1/session.client.h"
#include "box/v1/tool.client.h"
#include "mcp_message.h"
#include "spec.h"

enum { STDIN_STEP = 64 * 1024, EXTEND_SECONDS = 60 };

typedef struct mcp {
    cli *c;
    char *session; /* its id */
    bool own;      /* made here: it goes at the end */
    bool used;     /* a tool was called in it */
    Box__V1__SessionSpec *spec;
    mcp_lines lines;
    const char *version; /* NULL before initialize */
    box_list requests;   /* under way */
    size_t n;
    bool eof;
    box_time end_at;    /* eof: when what is under way is given up */
    box_time extend_at; /* own: when the session's idle end is put off again */
    box_client_call *extending;
    int output_errno;
} mcp;

/* A request under way. A tool's may take three calls: the tool, the session it needs, the tool. */
typedef struct request {
    box_list link;
    mcp *m;
    mcp_message message; /* owned */
    box_client_call *call;
    json_t *result; /* owned; came with the call's message */
    bool retried;
} request;

static void run_tool(request *r);

/* --- answers ---------------------------------------------------------------------------------- */

/* Takes the line. A client that does not read is waited for: it is the one that is served. */
static void put(mcp *m, char *line)
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

static void request_free(request *r)
{
    box_list_remove(&r->link);
    r->m->n--;
    box_client_free(r->call);
    json_decref(r->result);
    mcp_message_done(&r->message);
    free(r);
}

static void succeed(request *r, json_t *result)
{
    put(r->m, mcp_answer(r->message.id, result));
    request_free(r);
}

static void fail(request *r, int code, const char *text)
{
    put(r->m, mcp_error(r->message.id, code, text));
    request_free(r);
}

/* What a protocol's error says of one of Box. */
static void fail_with(request *r, const box_error *err)
{
    char text[BOX_ERROR_MSG + 64];
    (void)snprintf(text, sizeof text, "%s: %s", box_reason_name(err->reason), err->msg);
    fail(r, MCP_INTERNAL_ERROR, text);
}

/* The call is over; the next one may begin. */
static void drop_call(request *r)
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
    request *r = arg;
    (void)call;
    r->result = initialize_result(r->m, g->text);
}

/* A server that does not answer now may do so later: that is no reason not to begin. */
static void guidance_done(void *arg, box_client_call *call, const box_error *status,
                          const box_metadata *trailers)
{
    request *r = arg;
    (void)call;
    (void)status;
    (void)trailers;
    succeed(r, r->result != NULL ? box_take(r->result) : initialize_result(r->m, ""));
}

static void initialize(request *r)
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
    request *r = arg;
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

static void list_tools(request *r, char *session);

static void tools_done(void *arg, box_client_call *call, const box_error *status,
                       const box_metadata *trailers)
{
    static char any[] = "";
    request *r = arg;
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

static void list_tools(request *r, char *session)
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
    request *r = arg;
    (void)call;
    (void)trailers;
    if (status->reason != BOX_NONE) {
        succeed(r, mcp_tool_refusal(status));
        return;
    }
    drop_call(r);
    run_tool(r);
}

static void make_session(request *r)
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
    request *r = arg;
    bool failed = t->status != BOX__V1__TOOL_STATUS__TOOL_STATUS_SUCCESS;
    (void)call;
    r->result = mcp_tool_result(t->output, t->error, failed,
                                mcp_version_is_structured(r->m->version) ? t->result_json : NULL);
}

static void tool_done(void *arg, box_client_call *call, const box_error *status,
                      const box_metadata *trailers)
{
    request *r = arg;
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

static void run_tool(request *r)
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

static void call_tool(request *r)
{
    const json_t *arguments = json_object_get(r->message.params, "arguments");
    if (!json_is_string(json_object_get(r->message.params, "name")))
        fail(r, MCP_INVALID_PARAMS, "name: which tool?");
    else if (arguments != NULL && !json_is_object(arguments))
        fail(r, MCP_INVALID_PARAMS, "arguments must be an object");
    else
        run_tool(r);
}

/* --- what comes ------------------------------------------------------------------------------- */

static request *find(const mcp *m, const json_t *id)
{
    for (const box_list *at = m->requests.next; at != &m->requests; at = at->next) {
        request *r = BOX_CONTAINER((box_list *)(uintptr_t)at, request, link);
        if (id != NULL && json_equal(r->message.id, id))
            return r;
    }
    return NULL;
}

static void begin(request *r)
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

static void add_request(mcp *m, mcp_message *message)
{
    const char *problem = m->n >= BOX_MCP_MAX_REQUESTS   ? "too many requests at once"
                          : find(m, message->id) != NULL ? "a request of this id is under way"
                                                         : NULL;
    if (problem != NULL) {
        put(m, mcp_error(message->id, MCP_INVALID_REQUEST, problem));
        mcp_message_done(message);
        return;
    }
    request *r = box_alloc(sizeof *r);
    r->m = m;
    r->message = *message;
    *message = (mcp_message){0};
    box_list_append(&m->requests, &r->link);
    m->n++;
    begin(r);
}

/* A request that was cancelled is not answered. */
static void notice(mcp *m, const mcp_message *message)
{
    if (strcmp(message->method, "notifications/cancelled") != 0)
        return;
    request *r = find(m, json_object_get(message->params, "requestId"));
    if (r != NULL && strcmp(r->message.method, "initialize") != 0)
        request_free(r);
}

static void on_line(void *arg, char *line, size_t len)
{
    mcp *m = arg;
    mcp_message message;
    if (line == NULL) {
        put(m, mcp_error(NULL, MCP_INVALID_REQUEST, "the message is too large"));
        return;
    }
    if (line[strspn(line, " \t\r")] == '\0' && strlen(line) == len)
        return; /* nothing */
    mcp_message_parse(line, len, &message);
    if (message.kind == MCP_REQUEST)
        add_request(m, &message);
    else if (message.kind == MCP_NOTIFICATION)
        notice(m, &message);
    else if (message.kind == MCP_WRONG)
        put(m, mcp_error(message.id, message.code, message.why));
    mcp_message_done(&message);
}

/* --- the loop --------------------------------------------------------------------------------- */

static void read_stdin(mcp *m)
{
    char data[STDIN_STEP];
    ssize_t n = read(STDIN_FILENO, data, sizeof data);
    if (n > 0) {
        mcp_lines_add(&m->lines, data, (size_t)n, on_line, m);
    } else if (n == 0 || (errno != EINTR && errno != EAGAIN)) {
        m->eof = true;
        m->end_at = box_time_add(box_now(), BOX_MCP_GRACE_SECONDS * BOX_SECOND);
    }
}

static void extended(void *arg, box_client_call *call, const box_error *status,
                     const box_metadata *trailers)
{
    mcp *m = arg;
    (void)status; /* one that is gone is made anew when a tool needs it */
    (void)trailers;
    m->extending = NULL;
    box_client_free(call);
}

/* The client is there, so its session is in use. */
static void extend(mcp *m)
{
    static const box_v1_session_service_extend_session_events events = {.done = extended};
    box_error err;
    if (!m->own || !m->used || m->extending != NULL || box_now() < m->extend_at)
        return;
    Box__V1__ExtendSessionRequest e;
    box__v1__extend_session_request__init(&e);
    e.session_id = m->session;
    m->extend_at = box_time_add(box_now(), EXTEND_SECONDS * BOX_SECOND);
    box_client_options o = cli_options(m->c);
    BOX_IGNORE(box_v1_session_service_extend_session_start(m->c->channel, &o, &e, &events, m,
                                                           &m->extending, &err));
}

static int sooner(int timeout_ms, box_time when)
{
    int left = (int)((box_time_left(when, box_now()) + BOX_MS - 1) / BOX_MS);
    return timeout_ms < 0 || left < timeout_ms ? left : timeout_ms;
}

static bool goes_on(const mcp *m)
{
    if (m->output_errno != 0)
        return false;
    return !m->eof || (m->n > 0 && box_now() < m->end_at);
}

static void loop(mcp *m)
{
    while (goes_on(m)) {
        /* Of stdout only that its reader went away is asked (poll(2): POLLERR of a pipe, POLLHUP of
         * a socket). */
        struct pollfd fds[3] = {{.fd = -1},
                                {.fd = m->eof ? -1 : STDIN_FILENO, .events = POLLIN},
                                {.fd = STDOUT_FILENO}};
        int timeout;
        box_channel_poll(m->c->channel, &fds[0].fd, &fds[0].events, &timeout);
        if (m->eof)
            timeout = sooner(timeout, m->end_at);
        else if (m->own && m->used)
            timeout = sooner(timeout, m->extend_at);
        if (poll(fds, 3, timeout) < 0 && errno != EINTR)
            break;
        if ((fds[2].revents & (POLLERR | POLLHUP)) != 0)
            m->output_errno = EPIPE;
        if (fds[1].revents != 0)
            read_stdin(m);
        extend(m);
        box_channel_dispatch(m->c->channel);
    }
}

static void end(mcp *m)
{
    box_error err;
    Box__V1__DeleteSessionResponse *response = NULL;
    for (box_list *at = m->requests.next; at != &m->requests;) {
        request *r = BOX_CONTAINER(at, request, link);
        at = at->next;
        request_free(r);
    }
    box_client_free(m->extending);
    mcp_lines_done(&m->lines);
    if (!m->own || !m->used)
        return;
    Box__V1__DeleteSessionRequest d;
    box__v1__delete_session_request__init(&d);
    d.session_id = m->session;
    d.allow_missing = true;
    box_client_options o = cli_options(m->c);
    /* One that cannot be deleted now goes by its idle end. */
    BOX_IGNORE(box_v1_session_service_delete_session(m->c->channel, &o, &d, &response, &err));
    cli_message_free(response);
}

/* --- the command ------------------------------------------------------------------------------ */

enum { OPT_SESSION = 0x460 };

typedef struct mcp_args {
    cli_words words;
    cli_spec_args spec;
    char *session;
} mcp_args;

static error_t parse(int key, char *arg, struct argp_state *state)
{
    mcp_args *a = state->input;
    if (key == ARGP_KEY_INIT)
        state->child_inputs[0] = &a->spec;
    if (key == OPT_SESSION)
        a->session = arg;
    if (key == OPT_SESSION && *arg == '\0')
        argp_error(state, "--session must not be empty");
    if (key == ARGP_KEY_INIT || key == OPT_SESSION)
        return 0;
    return cli_words_take(&a->words, key, arg, state);
}

static int serve(cli *c, int argc, char **argv)
{
    static const struct argp_option options[] = {
        {.name = "session",
         .key = OPT_SESSION,
         .arg = "SESSION",
         .doc = "work in this one, and keep it (else one that goes with the client)"},
        {0},
    };
    static const struct argp_child children[] = {{.argp = &cli_spec_argp}, {0}};
    const struct argp parser = {
        .options = options,
        .parser = parse,
        .doc = "Offers a session's tools to a client of the Model Context Protocol that starts it "
               "as its server, on standard input and output. The session is made when a tool is "
               "first called.",
        .children = children};
    mcp_args a = {.words = {.max = 0}};
    char uid[BOX_UID_TEXT];
    char own[BOX_UID_TEXT + 8];
    mcp m = {.c = c};
    cli_parse(&parser, argc, argv, &a);
    BOX_AUTO(cli_message_freep) Box__V1__SessionSpec *spec = a.spec.spec;
    box_uid random = box_uid_new();
    box_uid_text(&random, uid);
    (void)snprintf(own, sizeof own, "mcp-%s", uid);
    m.own = a.session == NULL;
    m.session = m.own ? own : a.session;
    m.spec = spec;
    box_list_init(&m.requests);
    if (cli_connect(c) < 0)
        return CLI_FAILED;
    loop(&m);
    end(&m);
    return m.output_errno != 0 ? cli_output_failed(c, m.output_errno) : CLI_OK;
}

const cli_command cli_mcp_commands[] = {
    {"mcp", NULL, "tools for an MCP client, on stdio", serve},
    {0},
};
