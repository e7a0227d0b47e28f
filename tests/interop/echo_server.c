/* Serves box.test.v1.EchoService, boxtest.v1.TestService, health and reflection for tests.
 *
 *     box-echo-server [--tls ADDRESS --cert FILE --key FILE] [--clear ADDRESS] [--unix PATH]
 *                     [--loops N] [--max-message BYTES] [--token TOKEN] [--drain-seconds N]
 *                     [--net NAME=VALUE]... [--client-ca FILE [--client-request]] [--tls-1.3]
 *                     [--test-page TEXT] [--no-reflection]
 *
 * Prints "ready tls=PORT clear=PORT" when it serves. SIGTERM ends it gracefully. */
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "box_echo_descriptor_set.h"
#include "box_rpc_descriptor_set.h"
#include "echo_service.h"
#include "loop/loop.h"
#include "net/server.h"
#include "rpc/health.h"
#include "rpc/reflection.h"
#include "test_service.h"

typedef struct options {
    const char *tls, *cert, *key, *clear, *unix_path, *token, *client_ca, *test_page;
    box_tls_client_auth client_auth;
    box_tls_version min_version;
    unsigned loops;
    size_t max_message;
    size_t memory; /* 0 = no bound */
    bool no_reflection;
    uint32_t drain_seconds;
    box_net_life life;
    box_net_limits limits;
} options;

enum { N_SERVICES = 3 + BOX_REFLECTION_SERVICES };

typedef struct server {
    options options;
    box_loops *loops;
    box_tls_context *tls;
    box_health *health;
    box_reflection *reflection;
    echo_service *echo;
    test_service test;
    box_service services[N_SERVICES];
    size_t n_services;
    box_net *net;
    box_budget budget;
    int signal_fd;
    box_watch *signal_watch;
    uint16_t tls_port, clear_port;
} server;

/* --net: members of box_net_life (in ms) and box_net_limits by name. */
static int parse_net(options *o, const char *text)
{
    static const struct {
        const char *name;
        size_t at;
        bool is_duration;
    } known[] = {
        {"keepalive_time", offsetof(options, life.keepalive_time_ns), true},
        {"keepalive_timeout", offsetof(options, life.keepalive_timeout_ns), true},
        {"max_age", offsetof(options, life.max_age_ns), true},
        {"max_age_grace", offsetof(options, life.max_age_grace_ns), true},
        {"max_idle", offsetof(options, life.max_idle_ns), true},
        {"ping_min_interval", offsetof(options, limits.ping_min_interval_ns), true},
        {"connections", offsetof(options, limits.connections), false},
        {"connections_per_peer", offsetof(options, limits.connections_per_peer), false},
        {"bad_connections", offsetof(options, limits.bad_connections), false},
        {"connections_per_tenant", offsetof(options, limits.connections_per_tenant), false},
        {"calls_per_connection", offsetof(options, limits.calls_per_connection), false},
    };
    size_t len = strcspn(text, "=");
    for (size_t i = 0; i < BOX_COUNT(known) && text[len] == '='; i++) {
        char *to = (char *)o + known[i].at;
        if (strlen(known[i].name) != len || memcmp(known[i].name, text, len) != 0)
            continue;
        unsigned long value = strtoul(text + len + 1, NULL, 10);
        if (known[i].is_duration)
            *(uint64_t *)(void *)to = value * BOX_MS;
        else
            *(uint32_t *)(void *)to = (uint32_t)value;
        return 0;
    }
    return -1;
}

static int parse_options(int argc, char **argv, options *o)
{
    static const struct option known[] = {{"tls", required_argument, NULL, 't'},
                                          {"cert", required_argument, NULL, 'c'},
                                          {"key", required_argument, NULL, 'k'},
                                          {"clear", required_argument, NULL, 'p'},
                                          {"unix", required_argument, NULL, 'u'},
                                          {"loops", required_argument, NULL, 'l'},
                                          {"max-message", required_argument, NULL, 'm'},
                                          {"token", required_argument, NULL, 'a'},
                                          {"drain-seconds", required_argument, NULL, 'd'},
                                          {"net", required_argument, NULL, 'n'},
                                          {"client-ca", required_argument, NULL, 'C'},
                                          {"client-request", no_argument, NULL, 'R'},
                                          {"no-reflection", no_argument, NULL, 'r'},
                                          {"tls-1.3", no_argument, NULL, '3'},
                                          {"test-page", required_argument, NULL, 'g'},
                                          {"memory", required_argument, NULL, 'b'},
                                          {0}};
    *o = (options){.drain_seconds = 5};
    for (int c; (c = getopt_long(argc, argv, "", known, NULL)) != -1;) {
        switch (c) {
        case 't':
            o->tls = optarg;
            break;
        case 'c':
            o->cert = optarg;
            break;
        case 'k':
            o->key = optarg;
            break;
        case 'p':
            o->clear = optarg;
            break;
        case 'u':
            o->unix_path = optarg;
            break;
        case 'a':
            o->token = optarg;
            break;
        case 'l':
            o->loops = (unsigned)strtoul(optarg, NULL, 10);
            break;
        case 'm':
            o->max_message = strtoul(optarg, NULL, 10);
            break;
        case 'b':
            o->memory = strtoul(optarg, NULL, 10);
            break;
        case 'd':
            o->drain_seconds = (uint32_t)strtoul(optarg, NULL, 10);
            break;
        case 'r':
            o->no_reflection = true;
            break;
        case 'g':
            o->test_page = optarg;
            break;
        case 'C':
            o->client_ca = optarg;
            break;
        case 'R':
            o->client_auth = BOX_TLS_CLIENT_REQUEST;
            break;
        case '3':
            o->min_version = BOX_TLS_1_3;
            break;
        case 'n':
            if (parse_net(o, optarg) < 0)
                return -1;
            break;
        default:
            return -1;
        }
    }
    return optind == argc ? 0 : -1;
}

/* With --token: everything but Check of health needs it, or a Unix peer of our own user. */
static int admit(void *arg, const box_peer *peer, const char *path, const box_metadata *metadata,
                 const void **identity, box_error *err)
{
    const options *o = arg;
    if (peer->is_unix && peer->uid == geteuid()) {
        *identity = "peer";
        return 0;
    }
    if (o->token == NULL || strcmp(path, "/grpc.health.v1.Health/Check") == 0)
        return 0;
    const char *sent = box_metadata_get(metadata, "authorization");
    if (sent == NULL || strncasecmp(sent, "Bearer ", 7) != 0 || strcmp(sent + 7, o->token) != 0)
        return box_fail(err, BOX_UNAUTHENTICATED, "a valid token is needed");
    *identity = "token";
    return 0;
}

static void stop_loops(void *arg)
{
    server *s = arg;
    box_watch_free(box_take(s->signal_watch));
    box_loops_stop(s->loops);
}

static box_tls_server_config tls_config(const options *o)
{
    return (box_tls_server_config){.cert_file = o->cert,
                                   .key_file = o->key,
                                   .client_ca_file = o->client_ca,
                                   .client_auth = o->client_auth,
                                   .min_version = o->min_version};
}

/* SIGHUP; boxd itself does it on a worker. */
static void reload(server *s)
{
    const box_tls_server_config config = tls_config(&s->options);
    box_error err;
    if (box_tls_context_reload(s->tls, &config, &err) < 0)
        box_log(BOX_ERROR, "tls.reload_failed", BOX_ERR(&err));
    else
        box_log(BOX_INFO, "tls.reloaded");
}

static void on_signal(void *arg, int events)
{
    (void)events;
    server *s = arg;
    struct signalfd_siginfo info;
    if (read(s->signal_fd, &info, sizeof info) != (ssize_t)sizeof info)
        return;
    if (info.ssi_signo == SIGHUP) {
        reload(s);
        return;
    }
    box_health_drain(s->health);
    box_net_drain(s->net, stop_loops, s);
}

static void on_started(void *arg)
{
    server *s = arg;
    printf("ready tls=%u clear=%u\n", s->tls_port, s->clear_port);
    (void)fflush(stdout);
}

static int watch_signals(server *s, box_error *err)
{
    sigset_t mask;
    sigemptyset(&mask);
    sigaddset(&mask, SIGTERM);
    sigaddset(&mask, SIGINT);
    sigaddset(&mask, SIGHUP);
    (void)signal(SIGPIPE, SIG_IGN);
    pthread_sigmask(SIG_BLOCK, &mask, NULL);
    s->signal_fd = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
    if (s->signal_fd < 0)
        return box_fail_errno(err, "signalfd");
    if (box_watch_new(box_loops_get(s->loops, 0), s->signal_fd, on_signal, s, &s->signal_watch,
                      err) < 0)
        return -1;
    box_watch_set(s->signal_watch, BOX_READABLE);
    return 0;
}

static int make_services(server *s, box_error *err)
{
    const box_descriptor_set sets[] = {box_echo_descriptor_set, box_rpc_descriptor_set};
    if (box_reflection_new(sets, BOX_COUNT(sets), &s->reflection, err) < 0)
        return -1;
    s->health = box_health_new(s->loops);
    s->echo = echo_service_new();
    s->services[0] = echo_service_of(s->echo);
    s->test =
        (test_service){.health = s->health, .ended = echo_service_count_end, .ended_arg = s->echo};
    s->services[1] = test_service_of(&s->test);
    s->services[2] = box_health_service(s->health);
    box_reflection_services(s->reflection, &s->services[3]);
    s->n_services = s->options.no_reflection ? N_SERVICES - BOX_REFLECTION_SERVICES : N_SERVICES;
    box_reflection_set_listed(s->reflection, s->services, s->n_services);
    box_health_set(s->health, "", BOX_HEALTH_SERVING);
    box_health_set(s->health, "box.test.v1.EchoService", BOX_HEALTH_SERVING);
    box_health_set(s->health, "boxtest.v1.TestService", BOX_HEALTH_SERVING);
    return 0;
}

static int listen_all(server *s, box_error *err)
{
    const options *o = &s->options;
    const box_tls_server_config tls = tls_config(o);
    if (o->tls != NULL && (box_tls_context_server(&tls, &s->tls, err) < 0 ||
                           box_net_listen_tcp(s->net, o->tls, s->tls, &s->tls_port, err) < 0))
        return -1;
    if (o->clear != NULL && box_net_listen_tcp(s->net, o->clear, NULL, &s->clear_port, err) < 0)
        return -1;
    return o->unix_path == NULL ? 0 : box_net_listen_unix(s->net, o->unix_path, err);
}

static int start(server *s, box_error *err)
{
    if (box_loops_new(s->options.loops, 0, &s->loops, err) < 0 || watch_signals(s, err) < 0 ||
        make_services(s, err) < 0)
        return -1;
    s->budget.max_bytes = s->options.memory;
    const box_net_config config = {
        .loops = s->loops,
        .services = s->services,
        .n_services = s->n_services,
        .admit = {.arg = &s->options, .admit = admit},
        .max_message_bytes = s->options.max_message,
        .budget = s->options.memory > 0 ? &s->budget : NULL,
        .test_page = s->options.test_page,
        .drain_ns = s->options.drain_seconds * BOX_SECOND,
        .life = s->options.life,
        .limits = s->options.limits,
    };
    if (box_net_new(&config, &s->net, err) < 0)
        return -1;
    echo_service_set_net(s->echo, s->net);
    if (listen_all(s, err) < 0)
        return -1;
    box_loop_post(box_loops_get(s->loops, 0), on_started, s);
    return box_loops_run(s->loops, err);
}

static void server_done(server *s)
{
    box_net_free(s->net);
    box_watch_free(s->signal_watch);
    box_loops_free(s->loops);
    box_reflection_free(s->reflection);
    box_health_free(s->health);
    echo_service_free(s->echo);
    box_tls_context_free(s->tls);
    box_closep(&s->signal_fd);
}

int main(int argc, char **argv)
{
    server s = {.signal_fd = -1};
    if (parse_options(argc, argv, &s.options) < 0) {
        (void)fputs("box-echo-server: see the comment in its source for options\n", stderr);
        return 2;
    }
    box_log_setup(BOX_DEBUG, BOX_LOG_TEXT);
    box_error err = {0};
    int rc = start(&s, &err);
    if (rc < 0)
        box_log(BOX_ERROR, "echo_server.failed", BOX_ERR(&err));
    server_done(&s);
    return rc < 0 ? 1 : 0;
}
