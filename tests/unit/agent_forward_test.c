/* Connections to ports inside: agent/forward.h, with listeners of the test's own on loopback. */
#include "agent/forward.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "agent/connect.h"
#include "base/fd.h"

/* A socket bound to a free port of loopback; it listens when backlog >= 0. */
static int bound_to(bool v6, int backlog, uint16_t *port)
{
    struct sockaddr_in four = {.sin_family = AF_INET,
                               .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
    struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    struct sockaddr *address = v6 ? (struct sockaddr *)&six : (struct sockaddr *)&four;
    socklen_t len = v6 ? sizeof six : sizeof four;
    int fd = socket(v6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, address, len) < 0 || getsockname(fd, address, &len) < 0 ||
        (backlog >= 0 && listen(fd, backlog) < 0)) {
        box_closep(&fd);
        return -1;
    }
    *port = ntohs(v6 ? six.sin6_port : four.sin_port);
    return fd;
}

static box_agent_forward *begin(box_agent_forwards *all, uint64_t id, uint16_t port)
{
    box_agent_connect c = {.port = port};
    assert_int_equal(box_agent_forward_begin(all, id, &c, BOX_SECOND), 0);
    return box_agent_forward_due(all);
}

static void a_port_that_listens_is_reached_at_once(void **state)
{
    (void)state;
    box_agent_forwards all = {0};
    uint16_t port;
    BOX_AUTO(box_closep) int listener = bound_to(false, 4, &port);
    assert_true(listener >= 0);
    box_agent_forward *f = begin(&all, 7, port);
    assert_non_null(f);
    assert_int_equal(f->id, 7);
    assert_int_equal(f->error.reason, BOX_NONE);
    BOX_AUTO(box_closep) int peer = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    assert_int_equal(write(f->fd, "x", 1), 1);
    char byte = 0;
    assert_int_equal(read(peer, &byte, 1), 1);
    box_agent_forward_told(&all, f);
    assert_int_equal(all.count, 0);
    assert_int_equal(read(peer, &byte, 1), 0); /* nobody else has it */
}

/* Or acknowledgements are delayed: see the limit. */
static void segments_are_smaller_than_the_buffers(void **state)
{
    (void)state;
    box_agent_forwards all = {0};
    uint16_t port;
    int segment = 0, buffer = 0;
    socklen_t len = sizeof segment;
    BOX_AUTO(box_closep) int listener = bound_to(false, 4, &port);
    assert_true(listener >= 0);
    box_agent_forward *f = begin(&all, 1, port);
    assert_int_equal(getsockopt(f->fd, IPPROTO_TCP, TCP_MAXSEG, &segment, &len), 0);
    assert_in_range(segment, 1, BOX_FORWARD_SEGMENT_BYTES);
    const int buffers[] = {SO_SNDBUF, SO_RCVBUF};
    for (size_t i = 0; i < BOX_COUNT(buffers); i++) {
        assert_int_equal(getsockopt(f->fd, SOL_SOCKET, buffers[i], &buffer, &len), 0);
        assert_in_range(buffer, 2 * segment + 1, 2 * BOX_FORWARD_SOCKET_BYTES);
    }
    box_agent_forward_told(&all, f);
}

static void a_program_that_listens_on_ipv6_alone_is_found(void **state)
{
    (void)state;
    box_agent_forwards all = {0};
    uint16_t port;
    BOX_AUTO(box_closep) int listener = bound_to(true, 4, &port);
    if (listener < 0) {
        print_message("no IPv6 on loopback here\n");
        skip();
    }
    box_agent_forward *f = begin(&all, 1, port);
    assert_non_null(f);
    assert_int_equal(f->error.reason, BOX_NONE);
    box_agent_forward_told(&all, f);
}

static void a_port_without_a_listener_says_refused(void **state)
{
    (void)state;
    box_agent_forwards all = {0};
    uint16_t port;
    BOX_AUTO(box_closep) int holder = bound_to(false, -1, &port); /* so that nobody listens there */
    assert_true(holder >= 0);
    box_agent_forward *f = begin(&all, 1, port);
    assert_non_null(f);
    assert_int_equal(f->fd, -1);
    assert_int_equal(f->error.reason, BOX_RUNTIME_UNAVAILABLE);
    assert_string_equal(box_error_get(&f->error, "cause"), "refused");
    char text[8];
    (void)snprintf(text, sizeof text, "%u", port);
    assert_string_equal(box_error_get(&f->error, "port"), text);
}

static void a_full_listener_is_given_up_in_time(void **state)
{
    (void)state;
    box_agent_forwards all = {0};
    uint16_t port;
    BOX_AUTO(box_closep) int listener = bound_to(false, 0, &port);
    assert_true(listener >= 0);
    struct pollfd polls[BOX_MAX_FORWARDS];
    uint64_t id = 1;
    /* The queue takes one or two; then no connection is answered any more. */
    int held[8];
    int n = 0;
    box_agent_forward *f;
    while ((f = begin(&all, id++, port)) != NULL && n < 8) {
        held[n++] = box_take_fd(&f->fd);
        box_agent_forward_told(&all, f);
    }
    assert_null(f);
    assert_int_equal(box_agent_forward_polls(&all, polls), 1);
    box_time late = box_agent_forward_next(&all);
    assert_int_equal(late, box_time_add(BOX_SECOND, BOX_FORWARD_CONNECT_SECONDS * BOX_SECOND));
    box_agent_forward_tick(&all, late - 1);
    assert_null(box_agent_forward_due(&all));
    box_agent_forward_tick(&all, late);
    f = box_agent_forward_due(&all);
    assert_non_null(f);
    assert_string_equal(box_error_get(&f->error, "cause"), "timeout");
    assert_int_equal(box_agent_forward_polls(&all, polls), 0);
    assert_int_equal(box_agent_forward_next(&all), BOX_TIME_NEVER);
    while (n > 0)
        box_closep(&held[--n]);
}

static void a_number_in_use_and_one_too_many_break_the_protocol(void **state)
{
    (void)state;
    box_agent_forwards all = {0};
    uint16_t port;
    BOX_AUTO(box_closep) int listener = bound_to(false, BOX_MAX_FORWARDS, &port);
    assert_true(listener >= 0);
    box_agent_connect c = {.port = port};
    for (uint64_t id = 1; id <= BOX_MAX_FORWARDS; id++)
        assert_int_equal(box_agent_forward_begin(&all, id, &c, 0), 0);
    assert_int_equal(box_agent_forward_begin(&all, BOX_MAX_FORWARDS + 1, &c, 0), -1);
    box_agent_forward_told(&all, box_agent_forward_due(&all));
    assert_int_equal(box_agent_forward_begin(&all, 2, &c, 0), -1);
    assert_int_equal(box_agent_forward_begin(&all, BOX_MAX_FORWARDS + 1, &c, 0), 0);
    box_agent_forwards_drop(&all);
    assert_int_equal(all.count, 0);
}

static void a_connection_to_itself_is_none(void **state)
{
    (void)state;
    uint16_t port;
    struct sockaddr_in self = {.sin_family = AF_INET,
                               .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
    int fd = bound_to(false, -1, &port);
    assert_true(fd >= 0);
    self.sin_port = htons(port);
    assert_int_equal(connect(fd, (struct sockaddr *)&self, sizeof self), 0);
    assert_int_equal(box_connect_look(fd, port), -1);
    assert_int_equal(errno, ECONNREFUSED);
    box_closep(&fd);
    /* The port is free at once. */
    fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&self, sizeof self), 0);
    box_closep(&fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_port_that_listens_is_reached_at_once),
        cmocka_unit_test(segments_are_smaller_than_the_buffers),
        cmocka_unit_test(a_program_that_listens_on_ipv6_alone_is_found),
        cmocka_unit_test(a_port_without_a_listener_says_refused),
        cmocka_unit_test(a_full_listener_is_given_up_in_time),
        cmocka_unit_test(a_number_in_use_and_one_too_many_break_the_protocol),
        cmocka_unit_test(a_connection_to_itself_is_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
