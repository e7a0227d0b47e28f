#include "echo.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "store/certificates.h"

enum { MAX_ARGS = 32, READY_MS = 20000 };

extern char **environ;

/* --- the process ------------------------------------------------------------------------------ */

static void make_folder(echo_server *s)
{
    (void)snprintf(s->folder, sizeof s->folder, "/tmp/box-echo-XXXXXX");
    assert_non_null(mkdtemp(s->folder));
    (void)snprintf(s->ca, sizeof s->ca, "%s/%s", s->folder, BOX_DEV_CA_FILE);
    (void)snprintf(s->cert, sizeof s->cert, "%s/%s", s->folder, BOX_DEV_CERT_FILE);
    (void)snprintf(s->key, sizeof s->key, "%s/%s", s->folder, BOX_DEV_KEY_FILE);
    (void)snprintf(s->socket, sizeof s->socket, "%s/socket", s->folder);
    BOX_AUTO(box_closep) int fd = open(s->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool made;
    box_error err;
    assert_int_equal(box_dev_certificates(fd, &made, &err), 0);
}

static void remove_folder(const char *path)
{
    DIR *dir = opendir(path);
    for (struct dirent *e; dir != NULL && (e = readdir(dir)) != NULL;)
        (void)unlinkat(dirfd(dir), e->d_name, 0); /* "." and ".." refuse */
    if (dir != NULL)
        (void)closedir(dir);
    (void)rmdir(path);
}

static pid_t spawn(const char *const *argv, int out)
{
    pid_t pid;
    posix_spawn_file_actions_t actions;
    assert_int_equal(posix_spawn_file_actions_init(&actions), 0);
    assert_int_equal(posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO), 0);
    int rc = posix_spawn(&pid, argv[0], &actions, NULL, (char *const *)(uintptr_t)argv, environ);
    (void)posix_spawn_file_actions_destroy(&actions);
    assert_int_equal(rc, 0);
    return pid;
}

static void read_ready(echo_server *s, int fd)
{
    char line[128] = "";
    size_t len = 0;
    struct pollfd p = {.fd = fd, .events = POLLIN};
    while (strchr(line, '\n') == NULL && len < sizeof line - 1) {
        assert_int_equal(poll(&p, 1, READY_MS), 1);
        ssize_t n = read(fd, line + len, sizeof line - 1 - len);
        assert_true(n > 0);
        len += (size_t)n;
        line[len] = '\0';
    }
    assert_int_equal(sscanf(line, "ready tls=%u clear=%u", &s->tls_port, &s->clear_port), 2);
}

static void run(echo_server *s, const char *const *extra)
{
    char tls[32];
    char clear[32];
    const char *program = getenv("BOX_ECHO_SERVER");
    assert_non_null(program);
    (void)snprintf(tls, sizeof tls, "127.0.0.1:%u", s->tls_port);
    (void)snprintf(clear, sizeof clear, "127.0.0.1:%u", s->clear_port);
    /* A test that fails leaves no server behind: it goes with the thread that started it. */
    const char *argv[MAX_ARGS] = {
        "/usr/bin/setpriv", "--pdeathsig", "KILL",  program, "--tls",   tls,
        "--cert",           s->cert,       "--key", s->key,  "--clear", clear,
        "--unix",           s->socket,     NULL};
    size_t n = 14;
    for (; extra != NULL && *extra != NULL; extra++)
        argv[n++] = *extra;
    int out[2];
    assert_int_equal(pipe2(out, O_CLOEXEC), 0);
    s->pid = spawn(argv, out[1]);
    (void)close(out[1]);
    read_ready(s, out[0]);
    (void)close(out[0]);
}

void echo_server_start(echo_server *s, const char *const *extra)
{
    *s = (echo_server){0};
    make_folder(s);
    run(s, extra);
}

void echo_server_restart(echo_server *s)
{
    run(s, NULL);
}

static void end(echo_server *s, int signal)
{
    int status;
    if (s->pid == 0)
        return;
    (void)kill(s->pid, signal);
    assert_int_equal(waitpid(s->pid, &status, 0), s->pid);
    s->pid = 0;
    if (signal == SIGTERM) /* a sanitizer's report is an exit code */
        assert_int_equal(status, 0);
}

void echo_server_kill(echo_server *s)
{
    end(s, SIGKILL);
}

void echo_server_end(echo_server *s)
{
    end(s, SIGTERM);
}

void echo_server_stop(echo_server *s)
{
    end(s, SIGTERM);
    remove_folder(s->folder);
}

/* --- what tests share ------------------------------------------------------------------------- */

echo_server echo_shared;
const echo_over echo_transports[3] = {ECHO_TLS, ECHO_CLEAR, ECHO_UNIX};

int echo_shared_start(void **state)
{
    (void)state;
    echo_server_start(&echo_shared, NULL);
    return 0;
}

int echo_shared_stop(void **state)
{
    (void)state;
    echo_server_stop(&echo_shared);
    return 0;
}

/* --- channels --------------------------------------------------------------------------------- */

const char *echo_target(const echo_server *s, echo_over over, char text[96])
{
    if (over == ECHO_UNIX)
        (void)snprintf(text, 96, "unix:%s", s->socket);
    else
        (void)snprintf(text, 96, "dns:///127.0.0.1:%u",
                       over == ECHO_TLS ? s->tls_port : s->clear_port);
    return text;
}

box_channel *echo_channel(const echo_server *s, echo_over over, const box_channel_options *more)
{
    char target[96];
    box_channel_options o = more != NULL ? *more : (box_channel_options){0};
    box_channel *c;
    box_error err;
    if (over == ECHO_TLS && o.ca_file == NULL)
        o.ca_file = s->ca;
    o.plaintext = over == ECHO_CLEAR;
    if (box_channel_new(echo_target(s, over, target), &o, &c, &err) < 0)
        fail_msg("%s: %s", target, err.msg);
    return c;
}

/* --- calls ------------------------------------------------------------------------------------ */

int echo_once(box_channel *c, const box_client_options *options, const void *payload, size_t len,
              box_error *err)
{
    Box__Test__V1__EchoRequest request;
    Box__Test__V1__EchoResponse *response = NULL;
    box__test__v1__echo_request__init(&request);
    request.payload = (ProtobufCBinaryData){len, (uint8_t *)(uintptr_t)payload};
    if (box_test_v1_echo_service_echo(c, options, &request, &response, err) < 0)
        return -1;
    int same = response->payload.len == len &&
               (len == 0 || memcmp(response->payload.data, payload, len) == 0);
    box__test__v1__echo_response__free_unpacked(response, NULL);
    return same ? 0 : box_fail(err, BOX_UNKNOWN, "another payload came back");
}

int echo_sleep(box_channel *c, const box_client_options *options, uint32_t sleep_ms, box_error *err)
{
    Box__Test__V1__EchoRequest request;
    Box__Test__V1__EchoResponse *response = NULL;
    box__test__v1__echo_request__init(&request);
    request.sleep_ms = sleep_ms;
    if (box_test_v1_echo_service_echo(c, options, &request, &response, err) < 0)
        return -1;
    box__test__v1__echo_response__free_unpacked(response, NULL);
    return 0;
}

void echo_wait(bool (*condition)(void *arg), void *arg, const char *what)
{
    box_time end_at = box_time_add(box_now(), 20 * BOX_SECOND);
    while (!condition(arg)) {
        if (box_now() > end_at)
            fail_msg("did not happen: %s", what);
        (void)nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
    }
}

void echo_loop(box_channel *c, const bool *done)
{
    box_time end_at = box_time_add(box_now(), 60 * BOX_SECOND);
    while (!*done) {
        struct pollfd p;
        int timeout;
        box_channel_poll(c, &p.fd, &p.events, &timeout);
        if (timeout < 0 || timeout > 1000)
            timeout = 1000;
        assert_true(poll(&p, 1, timeout) >= 0);
        box_channel_dispatch(c);
        assert_true(box_now() < end_at);
    }
}

Box__Test__V1__GetCountersResponse *echo_counters(box_channel *c)
{
    Box__Test__V1__GetCountersRequest request;
    Box__Test__V1__GetCountersResponse *response = NULL;
    box_error err;
    box__test__v1__get_counters_request__init(&request);
    if (box_test_v1_echo_service_get_counters(c, NULL, &request, &response, &err) < 0)
        fail_msg("counters: %s", err.msg);
    return response;
}

uint64_t echo_own_rss_kib(void)
{
    struct rusage usage;
    (void)getrusage(RUSAGE_SELF, &usage); /* cannot fail for RUSAGE_SELF */
    return (uint64_t)usage.ru_maxrss;
}
