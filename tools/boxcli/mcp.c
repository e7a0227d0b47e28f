/* boxcli mcp: the tools of a session for any client of the Model Context Protocol, on stdio.
 * Standard output carries the protocol and nothing else. */
#include <errno.h>
#include <poll.h>
#include <unistd.h>

#include "args.h"
#include "base/id.h"
#include "base/limits.h"
#include "mcp_request.h"
#include "spec.h"

enum { STDIN_STEP = 64 * 1024, EXTEND_SECONDS = 60 };

/* --- what comes ------------------------------------------------------------------------------- */

/* A request that was cancelled is not answered. */
static void notice(mcp *m, const mcp_message *message)
{
    if (strcmp(message->method, "notifications/cancelled") != 0)
        return;
    mcp_request *r = mcp_request_find(m, json_object_get(message->params, "requestId"));
    if (r != NULL && strcmp(r->message.method, "initialize") != 0)
        mcp_request_free(r);
}

static void on_line(void *arg, char *line, size_t len)
{
    mcp *m = arg;
    mcp_message message;
    if (line == NULL) {
        mcp_put(m, mcp_error(NULL, MCP_INVALID_REQUEST, "the message is too large"));
        return;
    }
    if (line[strspn(line, " \t\r")] == '\0' && strlen(line) == len)
        return; /* nothing */
    mcp_message_parse(line, len, &message);
    if (message.kind == MCP_REQUEST)
        mcp_request_add(m, &message);
    else if (message.kind == MCP_NOTIFICATION)
        notice(m, &message);
    else if (message.kind == MCP_WRONG)
        mcp_put(m, mcp_error(message.id, message.code, message.why));
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
        mcp_request *r = BOX_CONTAINER(at, mcp_request, link);
        at = at->next;
        mcp_request_free(r);
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
