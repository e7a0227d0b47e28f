/* Box client library: channels.
 *
 * A channel is the way to one server: connections, made when a call needs one and made again when
 * lost. It may be used by several threads at once; the threads that wait drive the I/O, and no
 * event loop is needed. Programs with a loop of their own use box_channel_poll and callbacks
 * (box/call.h).
 *
 *     dns:///host:port    TLS (CA from options or BOX_CA), or clear text with plaintext = true;
 *                         "dns:" may be left out, the port is 5410 when absent, IPv6 in brackets
 *     ipv4:a.b.c.d:port,a.b.c.d:port    the same with addresses that need not be asked for; ipv6:
 *     unix:/path          Unix socket
 *     spawn:boxd ARGS     a private boxd (and warden) for as long as the channel lives
 *
 * Nothing here blocks but what says that it waits. A host that is no address is asked for in a
 * thread of its own, with all signals blocked, that ends with the answer.
 *
 * Threads: every function takes a channel, and a call, from any thread at any time, but for the
 * free functions, after which nobody may use what they freed; and box_channel_dispatch is for one
 * thread at a time. None of them may be used in a signal handler, or in the child of a fork. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "box/error.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The version of the library that is linked: "0.1.0". */
const char *box_version(void);

typedef struct box_channel box_channel;

/* Is there a connection? (grpc/grpc doc/connectivity-semantics-and-api.md) */
typedef enum box_channel_state {
    BOX_CHANNEL_IDLE,       /* none, and no call needs one */
    BOX_CHANNEL_CONNECTING, /* one is being made */
    BOX_CHANNEL_READY,      /* the server speaks HTTP/2 */
    BOX_CHANNEL_FAILED,     /* the last try failed; the next one follows after a pause */
    BOX_CHANNEL_CLOSED,     /* box_channel_free */
} box_channel_state;
/* "READY" */
const char *box_channel_state_name(box_channel_state state);

/* Where calls go when a name has several addresses. */
typedef enum box_balance {
    BOX_PICK_FIRST,  /* all to the first address that works */
    BOX_ROUND_ROBIN, /* to each in turn that works */
} box_balance;

/* Which failed calls are made again without the program's doing: those marked idempotent
 * (box_client_options) that got no part of an answer and ended with one of `codes`. The pauses
 * between attempts grow; the call's deadline spans all of them. A server may say how long to wait,
 * or that it wants no other attempt, in the trailer grpc-retry-pushback-ms. Zero: no retries. */
typedef struct box_retry_policy {
    uint32_t max_attempts;   /* with the first one, 2 to 5 */
    uint32_t codes;          /* bits, 1u << BOX_CODE_...; 0 = UNAVAILABLE alone */
    uint32_t first_pause_ms; /* 0 = 100 */
    uint32_t max_pause_ms;   /* 0 = 5000 */
    uint32_t factor_percent; /* from one pause to the next; 0 = 200 */
    /* Each failure takes a token, each success gives some thousandths of one back; at half of the
     * tokens no call is retried. 0 = 10 tokens, and 100 thousandths. */
    uint32_t throttle_tokens;
    uint32_t throttle_ratio_milli;
} box_retry_policy;

enum {
    BOX_KEEPALIVE_OFF = 0x7fffffff,     /* keepalive_ms: never */
    BOX_KEEPALIVE_MIN_MS = 10 * 1000,   /* less is taken for this */
    BOX_KEEPALIVE_USUAL_MS = 20 * 1000, /* keepalive_ms and keepalive_timeout_ms where they are 0 */
};

/* Zero is valid: everything by default. Strings are copied. */
typedef struct box_channel_options {
    const char *ca_file; /* PEM; NULL = the system's CAs */
    /* Client certificate and its key, PEM; NULL = none. Without key_file it is in cert_file. */
    const char *cert_file;
    const char *key_file;
    /* Sent as "authorization: Bearer"; never in clear text to a host that is not loopback: such a
     * channel, or call, is refused with VALIDATION. */
    const char *token;
    const char *server_name;  /* name to verify instead of the target's host */
    const char *user_agent;   /* goes before the library's own; NULL = none */
    bool plaintext;           /* dns:, ipv4: and ipv6: only */
    size_t max_message_bytes; /* received; 0 = 4 MiB */
    size_t max_send_bytes;    /* a larger message fails with MESSAGE_SIZE; 0 = 64 MiB, the most */
    uint32_t connect_timeout_ms; /* until the server speaks HTTP/2; 0 = 20 s */
    /* The pause after the first failed try to connect, and the longest: it grows by 1.6, each is
     * made up to 20 % longer or shorter, and it begins anew with a connection that worked. 0 = 1 s
     * and 120 s. */
    uint32_t reconnect_first_ms;
    uint32_t reconnect_max_ms;
    box_balance balance;
    box_retry_policy retry;
    /* A server from which no byte came for so long, while calls run, is asked with a PING; when
     * none comes within the timeout either, the connection is lost. By default (0) it is asked no
     * more often than stock servers bear (gRFC A8): once in 5 minutes unless it answers calls
     * meanwhile. Time doubles when a server complains about pings. */
    uint32_t keepalive_ms;
    uint32_t keepalive_timeout_ms;
    bool keepalive_without_calls;
    /* Told each change of the channel's state, in order, by whichever thread is in a function of
     * this library, with no lock held: it may start and cancel calls, but not wait for one, and not
     * free the channel. The channel moves only while somebody waits for a call, or polls. CLOSED
     * is the last, told before box_channel_free returns: it waits for a callback that runs. */
    void (*on_state)(void *arg, box_channel_state state);
    void *on_state_arg;
} box_channel_options;

/* target NULL = from the environment: BOX_ENDPOINT, with BOX_CA, BOX_CERT and BOX_KEY, and
 * BOX_TOKEN_FILE for what options leave NULL. Does not connect yet. */
int box_channel_new(const char *target, const box_channel_options *options, box_channel **out,
                    box_error *err) BOX_MUST_USE;
/* Cancels what runs (its calls are still to be freed; no event of theirs comes any more); a spawned
 * boxd is stopped and waited for. Not inside a callback. */
void box_channel_free(box_channel *channel);
box_channel_state box_channel_get_state(box_channel *channel);

#ifdef __cplusplus
}
#endif
