/* boxcli port-forward: local ports that lead to ports inside a session. */
#include <errno.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "args.h"
#include "base/alloc.h"
#include "base/fd.h"
#include "base/limits.h"
#include "console.h"
#include "port_link.h"
#include "port_listen.h"
#include "spec.h"

enum {
    MAX_PORTS = CLI_MAX_WORDS - 1,
    MAX_LISTENERS = 2 * MAX_PORTS,
    FIXED_POLLS = 2,  /* the channel, signals */
    STARVED_MS = 100, /* until descriptors are looked for again */
    OPT_ADDRESS = 0x700,
    OPT_WAIT,
};

typedef struct forwarder {
    cli *cli;
    char *session;
    const char *address; /* NULL: loopback */
    Google__Protobuf__Duration *wait;
    cli_listener listeners[MAX_LISTENERS];
    size_t n_listeners;
    box_list links; /* of cli_link */
    size_t n_links;
    int signals;
    bool starved; /* there was no descriptor for a connection */
    bool ended;
} forwarder;

/* --- listening -------------------------------------------------------------------------------- */

static void show(const forwarder *f, const cli_listener *l)
{
    bool six = strchr(l->address, ':') != NULL;
    if (f->cli->json)
        printf("{\"localAddress\":\"%s\",\"localPort\":%u,\"port\":%u}\n", l->address, l->local,
               l->remote);
    else
        printf("%s%s%s:%u -> port %u of %s\n", six ? "[" : "", l->address, six ? "]" : "", l->local,
               l->remote, f->session);
}

static int listen_all(forwarder *f, const cli_port *ports, size_t n)
{
    box_error err;
    for (size_t i = 0; i < n; i++) {
        int made = cli_port_listen(&ports[i], f->address, &f->listeners[f->n_listeners], &err);
        if (made < 0)
            return cli_fail(f->cli, &err);
        f->n_listeners += (size_t)made;
    }
    /* Told when all of them are there: a script may read one line and go on. */
    for (size_t i = 0; i < f->n_listeners; i++)
        show(f, &f->listeners[i]);
    return fflush(stdout) == 0 ? CLI_OK : cli_output_failed(f->cli, errno);
}

/* A connection the client gave up meanwhile is nothing to us; without descriptors it waits, and so
 * do we, or poll(2) would say so again and again. */
static void take_connection(forwarder *f, const cli_listener *l)
{
    box_error err;
    cli_link *link;
    int fd = accept4(l->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) {
        f->starved = errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM;
        return;
    }
    Box__V1__PortForwardStart start;
    box__v1__port_forward_start__init(&start);
    start.session_id = f->session;
    start.port = l->remote;
    start.wait = f->wait;
    if (cli_link_new(f->cli, &fd, &start, &link, &err) < 0) {
        (void)cli_fail(f->cli, &err);
        return;
    }
    box_list_append(&f->links, &link->link);
    f->n_links++;
}

/* --- the loop --------------------------------------------------------------------------------- */

static void reap(forwarder *f)
{
    for (box_list *at = f->links.next, *next; at != &f->links; at = next) {
        next = at->next;
        cli_link *l = BOX_CONTAINER(at, cli_link, link);
        const box_error *why;
        if (!cli_link_is_over(l, &why))
            continue;
        if (why != NULL)
            (void)cli_fail(f->cli, why);
        cli_link_free(l);
        f->n_links--;
    }
}

/* More connections than a session may have wait in the kernel. */
static size_t fill(forwarder *f, struct pollfd *fds)
{
    size_t n = 0;
    bool full = f->n_links >= BOX_MAX_FORWARDS || f->starved;
    for (size_t i = 0; i < f->n_listeners; i++)
        fds[n++] = (struct pollfd){.fd = full ? -1 : f->listeners[i].fd, .events = POLLIN};
    for (box_list *at = f->links.next; at != &f->links; at = at->next)
        fds[n++] = cli_link_poll(BOX_CONTAINER(at, cli_link, link));
    return n;
}

static void act(forwarder *f, const struct pollfd *fds)
{
    const struct pollfd *of_links = fds + f->n_listeners;
    for (box_list *at = f->links.next; at != &f->links; at = at->next, of_links++)
        cli_link_ready(BOX_CONTAINER(at, cli_link, link), of_links->revents);
    for (size_t i = 0; i < f->n_listeners && f->n_links < BOX_MAX_FORWARDS; i++) {
        if (fds[i].revents != 0)
            take_connection(f, &f->listeners[i]);
    }
}

static void loop(forwarder *f)
{
    struct pollfd fds[FIXED_POLLS + MAX_LISTENERS + BOX_MAX_FORWARDS];
    while (!f->ended) {
        int timeout;
        fds[0] = (struct pollfd){.fd = -1};
        fds[1] = (struct pollfd){.fd = f->signals, .events = POLLIN};
        box_channel_poll(f->cli->channel, &fds[0].fd, &fds[0].events, &timeout);
        size_t n = fill(f, fds + FIXED_POLLS);
        if (f->starved && (timeout < 0 || timeout > STARVED_MS))
            timeout = STARVED_MS;
        f->starved = false;
        if (poll(fds, FIXED_POLLS + n, timeout) < 0) {
            if (errno != EINTR)
                return;
            continue;
        }
        f->ended = fds[1].revents != 0;
        act(f, fds + FIXED_POLLS);
        box_channel_dispatch(f->cli->channel);
        reap(f);
    }
}

static void done(forwarder *f)
{
    while (!box_list_empty(&f->links))
        cli_link_free(BOX_CONTAINER(f->links.next, cli_link, link));
    for (size_t i = 0; i < f->n_listeners; i++)
        box_closep(&f->listeners[i].fd);
    box_closep(&f->signals);
}

/* --- the command ------------------------------------------------------------------------------ */

typedef struct forward_args {
    cli_words words;
    const char *address;
    uint64_t wait_ns;
    cli_port ports[MAX_PORTS];
    size_t n_ports;
} forward_args;

static error_t parse(int key, char *arg, struct argp_state *state)
{
    forward_args *a = state->input;
    switch (key) {
    case OPT_ADDRESS:
        a->address = arg;
        return 0;
    case OPT_WAIT:
        a->wait_ns = cli_duration(state, "--wait", arg);
        return 0;
    case ARGP_KEY_ARG:
        if (state->arg_num > 0 && state->arg_num < CLI_MAX_WORDS &&
            !cli_port_parse(arg, &a->ports[a->n_ports++]))
            argp_error(state, "%s is no port, and no LOCAL:REMOTE", arg);
        return cli_words_take(&a->words, key, arg, state);
    default:
        return cli_words_take(&a->words, key, arg, state);
    }
}

/* A session that is not there is said before anybody connects. */
static int look(cli *c, char *session)
{
    box_error err;
    const box_client_options o = cli_options(c);
    Box__V1__GetSessionRequest request;
    box__v1__get_session_request__init(&request);
    request.session_id = session;
    Box__V1__GetSessionResponse *response;
    if (box_v1_session_service_get_session(c->channel, &o, &request, &response, &err) < 0)
        return cli_fail(c, &err);
    cli_message_free(response);
    return CLI_OK;
}

static int forward(cli *c, const forward_args *a)
{
    forwarder f = {.cli = c, .session = a->words.word[0], .address = a->address, .signals = -1};
    BOX_AUTO(box_freep)
    Google__Protobuf__Duration *wait = a->wait_ns > 0 ? cli_duration_message(a->wait_ns) : NULL;
    f.wait = wait;
    box_list_init(&f.links);
    if (cli_connect(c) < 0)
        return CLI_FAILED;
    int code = look(c, f.session);
    if (code == CLI_OK)
        code = listen_all(&f, a->ports, a->n_ports);
    if (code == CLI_OK) {
        f.signals = cli_open_signals(false);
        loop(&f);
        code = f.ended ? CLI_OK : CLI_FAILED;
    }
    done(&f);
    return code;
}

static int port_forward(cli *c, int argc, char **argv)
{
    static const struct argp_option options[] = {
        {.name = "address",
         .key = OPT_ADDRESS,
         .arg = "ADDRESS",
         .doc = "listen here instead of at 127.0.0.1 and ::1; others can then use your rights"},
        {.name = "wait",
         .key = OPT_WAIT,
         .arg = "TIME",
         .doc = "a connection waits this long for something to listen inside"},
        {0},
    };
    const struct argp parser = {
        .options = options,
        .parser = parse,
        .args_doc = "SESSION [LOCAL:]REMOTE...",
        .doc = "Local ports lead to ports on loopback inside the session, whatever network it has. "
               "LOCAL 0, or none before the colon: any that is free. Says where it listens, and "
               "goes on until a signal ends it."};
    forward_args a = {
        .words = {.doc = "SESSION [LOCAL:]REMOTE...", .min = 2, .max = CLI_MAX_WORDS}};
    cli_parse(&parser, argc, argv, &a);
    return forward(c, &a);
}

const cli_command cli_port_commands[] = {
    {"port-forward", NULL, "reach ports inside a session from here", port_forward},
    {0},
};
