/* Box client library: channels.
 *
 * A channel is a connection (made when first needed, made again when lost) to one server. It may be
 * used by several threads at once; the threads that wait drive the I/O, so no hidden thread exists
 * and no event loop is needed. Programs with a loop of their own use box_channel_poll and callbacks
 * (box/call.h).
 *
 *     dns:///host:port    TLS (CA from options or BOX_CA), or clear text with plaintext = true;
 *                         "dns:" may be left out, the port is 5410 when absent, IPv6 in brackets
 *     unix:/path          Unix socket
 *     spawn:boxd ARGS     a private boxd (and warden) for as long as the channel lives
 *
 * The name is resolved when a connection is made, and that alone blocks whoever starts the call. */
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

/* Zero is valid: everything by default. Strings are copied. */
typedef struct box_channel_options {
    const char *ca_file; /* PEM; NULL = the system's CAs */
    /* Client certificate and its key, PEM; NULL = none. Without key_file it is in cert_file. */
    const char *cert_file;
    const char *key_file;
    /* Sent as "authorization: Bearer"; never in clear text to a host that is not loopback: such a
     * channel, or call, is refused with VALIDATION. */
    const char *token;
    const char *server_name;     /* name to verify instead of the target's host */
    bool plaintext;              /* dns: only */
    size_t max_message_bytes;    /* received; 0 = 4 MiB */
    uint32_t connect_timeout_ms; /* until the server speaks HTTP/2; 0 = 20 s */
} box_channel_options;

/* target NULL = from the environment: BOX_ENDPOINT, with BOX_CA, BOX_CERT and BOX_KEY, and
 * BOX_TOKEN_FILE for what options leave NULL. Does not connect yet. */
int box_channel_new(const char *target, const box_channel_options *options, box_channel **out,
                    box_error *err) BOX_MUST_USE;
/* Cancels what runs (its calls are still to be freed; no event of theirs comes any more); a spawned
 * boxd is stopped and waited for. Not inside a callback. */
void box_channel_free(box_channel *channel);

#ifdef __cplusplus
}
#endif
