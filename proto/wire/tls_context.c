#include "base/alloc.h"
#include "wire/tls_internal.h"

/* RFC 9113, appendix A forbids the rest in TLS 1.2; TLS 1.3's own are all fine. */
#define TLS_1_2_CIPHERS "ECDHE+AESGCM:ECDHE+CHACHA20"
#define TLS_GROUPS      "X25519:P-256:P-384"

static const uint8_t alpn_h2[] = {2, 'h', '2'};

const char *box_tls_openssl_text(void)
{
    unsigned long code = ERR_peek_error();
    const char *text = code != 0 ? ERR_reason_error_string(code) : NULL;
    if (text == NULL && ERR_SYSTEM_ERROR(code)) /* a file that cannot be opened: errno */
        text = strerror(ERR_GET_REASON(code));
    ERR_clear_error();
    return text != NULL ? text : "unknown error";
}

/* --- contexts --------------------------------------------------------------------------------- */

void box_tls_context_free(box_tls_context *c)
{
    if (c == NULL)
        return;
    SSL_CTX_free(c->ctx);
    BIO_meth_free(c->method);
    OPENSSL_cleanse(c->tickets, sizeof c->tickets);
    pthread_mutex_destroy(&c->lock);
    free(c);
}

static void context_freep(box_tls_context **c)
{
    box_tls_context_free(*c);
}

/* A server takes HTTP/2 or refuses the handshake (grpc-conformance.md, 130). */
static int select_alpn(SSL *ssl, const unsigned char **out, unsigned char *out_len,
                       const unsigned char *in, unsigned in_len, void *arg)
{
    (void)ssl, (void)arg;
    for (unsigned at = 0; at < in_len && in[at] < in_len - at; at += in[at] + 1u) {
        if (in[at] == 2 && memcmp(in + at + 1, "h2", 2) == 0) {
            *out = in + at + 1;
            *out_len = 2;
            return SSL_TLSEXT_ERR_OK;
        }
    }
    return SSL_TLSEXT_ERR_ALERT_FATAL;
}

static void ctx_freep(SSL_CTX **ctx)
{
    SSL_CTX_free(*ctx);
}

/* NULL on failure. */
static SSL_CTX *ctx_new(bool server, box_tls_version min, box_error *err)
{
    ERR_clear_error();
    BOX_AUTO(ctx_freep)
    SSL_CTX *ctx = SSL_CTX_new(server ? TLS_server_method() : TLS_client_method());
    if (ctx == NULL ||
        SSL_CTX_set_min_proto_version(ctx, min == BOX_TLS_1_3 ? TLS1_3_VERSION : TLS1_2_VERSION) !=
            1 ||
        SSL_CTX_set_cipher_list(ctx, TLS_1_2_CIPHERS) != 1 ||
        SSL_CTX_set1_groups_list(ctx, TLS_GROUPS) != 1) {
        (void)box_fail(err, BOX_INTERNAL, "cannot set up TLS: %s", box_tls_openssl_text());
        return NULL;
    }
    SSL_CTX_set_options(ctx, SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION);
    SSL_CTX_set_mode(ctx, SSL_MODE_RELEASE_BUFFERS); /* idle connections keep no 32 KiB */
    return box_take(ctx);
}

/* NULL on failure; without a ctx. */
static box_tls_context *context_new(bool server, box_error *err)
{
    BOX_AUTO(context_freep) box_tls_context *c = box_alloc(sizeof *c);
    pthread_mutex_init(&c->lock, NULL);
    c->server = server;
    c->method = box_tls_bio_method_new();
    if (c->method == NULL) {
        (void)box_fail(err, BOX_INTERNAL, "cannot set up TLS: %s", box_tls_openssl_text());
        return NULL;
    }
    return box_take(c);
}

static int use_certificate(SSL_CTX *ctx, const char *cert, const char *key, box_error *err)
{
    if (SSL_CTX_use_certificate_chain_file(ctx, cert) != 1)
        return box_fail(err, BOX_VALIDATION, "cannot use certificate file %s: %s", cert,
                        box_tls_openssl_text());
    if (SSL_CTX_use_PrivateKey_file(ctx, key, SSL_FILETYPE_PEM) != 1)
        return box_fail(err, BOX_VALIDATION, "cannot use key file %s: %s", key,
                        box_tls_openssl_text());
    if (SSL_CTX_check_private_key(ctx) != 1)
        return box_fail(err, BOX_VALIDATION, "key %s does not belong to certificate %s: %s", key,
                        cert, box_tls_openssl_text());
    return 0;
}

/* Client certificates: verified, and the accepted issuers are named in the handshake. */
static int ask_client(SSL_CTX *ctx, const char *ca, bool require, box_error *err)
{
    STACK_OF(X509_NAME) *names = SSL_load_client_CA_file(ca);
    if (names == NULL || SSL_CTX_load_verify_file(ctx, ca) != 1) {
        sk_X509_NAME_pop_free(names, X509_NAME_free);
        return box_fail(err, BOX_VALIDATION, "cannot use client CA file %s: %s", ca,
                        box_tls_openssl_text());
    }
    SSL_CTX_set_client_CA_list(ctx, names);
    SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER | (require ? SSL_VERIFY_FAIL_IF_NO_PEER_CERT : 0),
                       NULL);
    return 0;
}

/* A ticket stands for the certificate its client once showed: it counts only where the same is
 * asked of clients. */
static int set_session_context(SSL_CTX *ctx, const box_tls_server_config *config)
{
    char text[32];
    bool asks = config->client_ca_file != NULL;
    (void)snprintf(text, sizeof text, "boxd %d", asks ? (int)config->client_auth : -1);
    return SSL_CTX_set_session_id_context(ctx, (const unsigned char *)text, (unsigned)strlen(text));
}

static SSL_CTX *server_ctx(box_tls_context *c, const box_tls_server_config *config, box_error *err)
{
    BOX_AUTO(ctx_freep) SSL_CTX *ctx = ctx_new(true, config->min_version, err);
    if (ctx == NULL || use_certificate(ctx, config->cert_file, config->key_file, err) < 0)
        return NULL;
    if (config->client_ca_file != NULL && config->client_auth != BOX_TLS_CLIENT_NONE &&
        ask_client(ctx, config->client_ca_file, config->client_auth == BOX_TLS_CLIENT_REQUIRE,
                   err) < 0)
        return NULL;
    SSL_CTX_set_alpn_select_cb(ctx, select_alpn, NULL);
    if (set_session_context(ctx, config) != 1 || box_tls_tickets_use(ctx, c) != 1) {
        (void)box_fail(err, BOX_INTERNAL, "cannot set up TLS: %s", box_tls_openssl_text());
        return NULL;
    }
    return box_take(ctx);
}

int box_tls_context_server(const box_tls_server_config *config, box_tls_context **out,
                           box_error *err)
{
    BOX_AUTO(context_freep) box_tls_context *c = context_new(true, err);
    if (c == NULL || box_tls_tickets_rotate(c, true, err) < 0)
        return -1;
    c->ctx = server_ctx(c, config, err);
    if (c->ctx == NULL)
        return -1;
    *out = box_take(c);
    return 0;
}

int box_tls_context_reload(box_tls_context *c, const box_tls_server_config *config, box_error *err)
{
    SSL_CTX *ctx = server_ctx(c, config, err);
    if (ctx == NULL)
        return -1;
    /* The CA may no longer vouch for those who have tickets. */
    if (config->client_ca_file != NULL && box_tls_tickets_rotate(c, true, err) < 0) {
        SSL_CTX_free(ctx);
        return -1;
    }
    pthread_mutex_lock(&c->lock);
    SSL_CTX *old = c->ctx;
    c->ctx = ctx;
    pthread_mutex_unlock(&c->lock);
    SSL_CTX_free(old); /* sessions hold references of their own */
    return 0;
}

int box_tls_context_rotate(box_tls_context *c, box_error *err)
{
    return box_tls_tickets_rotate(c, false, err);
}

int box_tls_context_client(const char *ca_file, const char *cert_file, const char *key_file,
                           box_tls_context **out, box_error *err)
{
    BOX_AUTO(context_freep) box_tls_context *c = context_new(false, err);
    if (c == NULL || (c->ctx = ctx_new(false, BOX_TLS_1_2, err)) == NULL)
        return -1;
    if (ca_file != NULL && SSL_CTX_load_verify_file(c->ctx, ca_file) != 1)
        return box_fail(err, BOX_VALIDATION, "cannot use CA file %s: %s", ca_file,
                        box_tls_openssl_text());
    if (ca_file == NULL && SSL_CTX_set_default_verify_paths(c->ctx) != 1)
        return box_fail(err, BOX_VALIDATION, "cannot load the system's CAs: %s",
                        box_tls_openssl_text());
    if (cert_file != NULL &&
        use_certificate(c->ctx, cert_file, key_file != NULL ? key_file : cert_file, err) < 0)
        return -1;
    SSL_CTX_set_verify(c->ctx, SSL_VERIFY_PEER, NULL);
    if (SSL_CTX_set_alpn_protos(c->ctx, alpn_h2, sizeof alpn_h2) != 0) /* 0 is success here */
        return box_fail(err, BOX_INTERNAL, "cannot set up TLS: %s", box_tls_openssl_text());
    *out = box_take(c);
    return 0;
}
