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

/* NULL on failure. */
static box_tls_context *context_new(bool server, box_tls_version min, box_error *err)
{
    BOX_AUTO(context_freep) box_tls_context *c = box_alloc(sizeof *c);
    ERR_clear_error();
    c->server = server;
    c->method = box_tls_bio_method_new();
    c->ctx = SSL_CTX_new(server ? TLS_server_method() : TLS_client_method());
    if (c->ctx == NULL || c->method == NULL ||
        SSL_CTX_set_min_proto_version(c->ctx,
                                      min == BOX_TLS_1_3 ? TLS1_3_VERSION : TLS1_2_VERSION) != 1 ||
        SSL_CTX_set_cipher_list(c->ctx, TLS_1_2_CIPHERS) != 1 ||
        SSL_CTX_set1_groups_list(c->ctx, TLS_GROUPS) != 1) {
        (void)box_fail(err, BOX_INTERNAL, "cannot set up TLS: %s", box_tls_openssl_text());
        return NULL;
    }
    SSL_CTX_set_options(c->ctx, SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION);
    SSL_CTX_set_mode(c->ctx, SSL_MODE_RELEASE_BUFFERS); /* idle connections keep no 32 KiB */
    return box_take(c);
}

static int use_certificate(box_tls_context *c, const char *cert, const char *key, box_error *err)
{
    if (SSL_CTX_use_certificate_chain_file(c->ctx, cert) != 1)
        return box_fail(err, BOX_VALIDATION, "cannot use certificate file %s: %s", cert,
                        box_tls_openssl_text());
    if (SSL_CTX_use_PrivateKey_file(c->ctx, key, SSL_FILETYPE_PEM) != 1)
        return box_fail(err, BOX_VALIDATION, "cannot use key file %s: %s", key,
                        box_tls_openssl_text());
    if (SSL_CTX_check_private_key(c->ctx) != 1)
        return box_fail(err, BOX_VALIDATION, "key %s does not belong to certificate %s: %s", key,
                        cert, box_tls_openssl_text());
    return 0;
}

/* Client certificates: required, verified, and the accepted issuers are named in the handshake. */
static int require_client(box_tls_context *c, const char *ca, box_error *err)
{
    STACK_OF(X509_NAME) *names = SSL_load_client_CA_file(ca);
    if (names == NULL || SSL_CTX_load_verify_file(c->ctx, ca) != 1) {
        sk_X509_NAME_pop_free(names, X509_NAME_free);
        return box_fail(err, BOX_VALIDATION, "cannot use client CA file %s: %s", ca,
                        box_tls_openssl_text());
    }
    SSL_CTX_set_client_CA_list(c->ctx, names);
    SSL_CTX_set_verify(c->ctx, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
    return 0;
}

int box_tls_context_server(const box_tls_server_config *config, box_tls_context **out,
                           box_error *err)
{
    static const unsigned char session_context[] = "boxd"; /* resumption with client certificates */
    BOX_AUTO(context_freep) box_tls_context *c = context_new(true, config->min_version, err);
    if (c == NULL || use_certificate(c, config->cert_file, config->key_file, err) < 0)
        return -1;
    if (config->client_ca_file != NULL && require_client(c, config->client_ca_file, err) < 0)
        return -1;
    SSL_CTX_set_alpn_select_cb(c->ctx, select_alpn, NULL);
    if (SSL_CTX_set_session_id_context(c->ctx, session_context, sizeof session_context - 1) != 1)
        return box_fail(err, BOX_INTERNAL, "cannot set up TLS: %s", box_tls_openssl_text());
    *out = box_take(c);
    return 0;
}

int box_tls_context_client(const char *ca_file, const char *cert_file, const char *key_file,
                           box_tls_context **out, box_error *err)
{
    BOX_AUTO(context_freep) box_tls_context *c = context_new(false, BOX_TLS_1_2, err);
    if (c == NULL)
        return -1;
    if (ca_file != NULL && SSL_CTX_load_verify_file(c->ctx, ca_file) != 1)
        return box_fail(err, BOX_VALIDATION, "cannot use CA file %s: %s", ca_file,
                        box_tls_openssl_text());
    if (ca_file == NULL && SSL_CTX_set_default_verify_paths(c->ctx) != 1)
        return box_fail(err, BOX_VALIDATION, "cannot load the system's CAs: %s",
                        box_tls_openssl_text());
    if (cert_file != NULL &&
        use_certificate(c, cert_file, key_file != NULL ? key_file : cert_file, err) < 0)
        return -1;
    SSL_CTX_set_verify(c->ctx, SSL_VERIFY_PEER, NULL);
    if (SSL_CTX_set_alpn_protos(c->ctx, alpn_h2, sizeof alpn_h2) != 0) /* 0 is success here */
        return box_fail(err, BOX_INTERNAL, "cannot set up TLS: %s", box_tls_openssl_text());
    *out = box_take(c);
    return 0;
}
