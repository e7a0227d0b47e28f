/* TLS 1.2+ with ALPN h2, bytes in and bytes out (OpenSSL over memory BIOs): no sockets inside. A
 * context is shared by threads once set up; a session belongs to one. */
#pragma once

#include "base/buf.h"

typedef struct box_tls_context box_tls_context;
typedef struct box_tls box_tls;

typedef enum box_tls_version { BOX_TLS_1_2, BOX_TLS_1_3 } box_tls_version;

typedef enum box_tls_client_auth {
    BOX_TLS_CLIENT_REQUIRE, /* a client certificate, verified */
    BOX_TLS_CLIENT_REQUEST, /* verified if there is one */
    BOX_TLS_CLIENT_NONE,
} box_tls_client_auth;

typedef struct box_tls_server_config {
    const char *cert_file;      /* PEM chain */
    const char *key_file;       /* PEM */
    const char *client_ca_file; /* NULL: no client certificates */
    box_tls_version min_version;
    box_tls_client_auth client_auth; /* with client_ca_file */
} box_tls_server_config;

int box_tls_context_server(const box_tls_server_config *config, box_tls_context **out,
                           box_error *err) BOX_MUST_USE;
/* Reads the files again: sessions from now on use them, those there are go on as they began. On
 * failure nothing changes. Any thread. */
int box_tls_context_reload(box_tls_context *c, const box_tls_server_config *config, box_error *err)
    BOX_MUST_USE;
/* A new key for session tickets; those sealed with the one before the last are void. Every
 * BOX_TICKET_SECONDS / 2 or so. Any thread. */
int box_tls_context_rotate(box_tls_context *c, box_error *err) BOX_MUST_USE;
/* ca_file NULL = the system's; the chain and the host name are always verified. cert/key optional.
 */
int box_tls_context_client(const char *ca_file, const char *cert_file, const char *key_file,
                           box_tls_context **out, box_error *err) BOX_MUST_USE;
void box_tls_context_free(box_tls_context *c);

/* server_name: client only (SNI for names, IP SAN for literals without brackets). The context must
 * outlive it. A client's first flight is in box_tls_pending at once. */
int box_tls_new(box_tls_context *c, const char *server_name, box_tls **out, box_error *err)
    BOX_MUST_USE;
void box_tls_free(box_tls *t);

/* Ciphertext from the peer; plaintext is appended to out. -1: broken or refused (UNAVAILABLE for a
 * client with the verification text; alerts may be waiting in box_tls_pending). *closed:
 * close_notify came. */
int box_tls_receive(box_tls *t, const uint8_t *data, size_t len, box_buf *out, bool *closed,
                    box_error *err) BOX_MUST_USE;
/* Plaintext to the peer: taken whole once the handshake is done (box_tls_is_ready), else an error.
 */
int box_tls_write(box_tls *t, const uint8_t *data, size_t len, box_error *err) BOX_MUST_USE;
/* Ciphertext to send: borrowed until consumed. */
box_bytes box_tls_pending(const box_tls *t);
void box_tls_consume(box_tls *t, size_t len);
/* Nothing is sent for a while: gives back the memory of what was. */
void box_tls_rest(box_tls *t);
/* Handshake done, ALPN is h2. */
bool box_tls_is_ready(const box_tls *t);
/* Queues close_notify. */
void box_tls_close(box_tls *t);
/* Common name or first SAN of the verified client certificate, or NULL. */
const char *box_tls_peer_name(const box_tls *t);
