/* What the functional tests of the client library share: an echo server (tests/interop) in a
 * process of its own, over TLS, clear TCP and a Unix socket, and short forms of its calls. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <sys/types.h>

#include "base/clock.h"
#include "box/call.h"
#include "echo.client.h"

/* Sanitizers keep freed memory and their own books: sizes say nothing then. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define ECHO_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define ECHO_SANITIZED 1
#endif
#endif
#ifndef ECHO_SANITIZED
#define ECHO_SANITIZED 0
#endif

typedef enum echo_over { ECHO_TLS, ECHO_CLEAR, ECHO_UNIX } echo_over;

typedef struct echo_server {
    pid_t pid; /* 0: not running */
    char folder[32];
    char ca[64], cert[64], key[64], socket[64];
    unsigned tls_port, clear_port;
} echo_server;

/* Fails the test on any problem, and so do all functions here. extra: more arguments, NULL-ended,
 * or NULL. Ports stay the same after a kill. */
void echo_server_start(echo_server *s, const char *const *extra);
/* Again, at the same addresses. */
void echo_server_restart(echo_server *s);
void echo_server_kill(echo_server *s);
/* SIGTERM: calls that run are finished. */
void echo_server_end(echo_server *s);
/* The same, if it runs, and everything of it is removed. */
void echo_server_stop(echo_server *s);

/* The one that all tests of a program share, and cmocka's group fixtures for it. */
extern echo_server echo_shared;
int echo_shared_start(void **state);
int echo_shared_stop(void **state);

/* A test for each transport: the function asks echo_over_of(state) for it. */
#define ECHO_TEST_EACH(f)                                                                          \
    ECHO_TEST(f, "_over_tls", 0), ECHO_TEST(f, "_over_clear_tcp", 1),                              \
        ECHO_TEST(f, "_over_a_unix_socket", 2)
#define ECHO_TEST(f, over, i)                                                                      \
    {                                                                                              \
#f over, f, NULL, NULL, (void *)(uintptr_t)&echo_transports[i]                             \
    }
extern const echo_over echo_transports[3];
static inline echo_over echo_over_of(void **state)
{
    return *(const echo_over *)*state;
}

/* What box_channel_new takes, for that server; text has room for it. */
const char *echo_target(const echo_server *s, echo_over over, char text[96]);
box_channel *echo_channel(const echo_server *s, echo_over over, const box_channel_options *more);

/* Echo of one payload. 0 when it came back as it went, or -1 with *err. */
int echo_once(box_channel *c, const box_client_options *options, const void *payload, size_t len,
              box_error *err);
/* The same, answered after so long. */
int echo_sleep(box_channel *c, const box_client_options *options, uint32_t sleep_ms,
               box_error *err);
/* Waits until the condition holds; a limit of 20 s, not a pause. */
void echo_wait(bool (*condition)(void *arg), void *arg, const char *what);
/* Turns the channel's loop until *done. */
void echo_loop(box_channel *c, const bool *done);

Box__Test__V1__GetCountersResponse *echo_counters(box_channel *c);
uint64_t echo_own_rss_kib(void);
