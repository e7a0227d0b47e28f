#include "wire/tls.h"

#include <arpa/inet.h>
#include <limits.h>

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include "base/alloc.h"
#include "base/limits.h"

enum { READ_STEP = 16 * 1024 };

/* RFC 9113, appendix A forbids the rest in TLS 1.2; TLS 1.3's own are all fine. */
#define TLS_1_2_CIPHERS "ECDHE+AESGCM:ECDHE+CHACHA20"
#define TLS_GROUPS      "X25519:P-256:P-384"

struct box_tls_context {
    SSL_CTX *ctx;
    BIO_METHOD *method; /* moves bytes between OpenSSL and box_tls without another copy */
    bool server;
};

struct box_tls {
    SSL *ssl;
    bool server;
    bool ready;
    bool failed;
    const uint8_t *in; /* what box_tls_receive was given and OpenSSL did not take yet */
    size_t in_len;
    box_buf out;
    char *server_name;
    char *peer_name;
};

static const uint8_t alpn_h2[] = {2, 'h', '2'};

/* --- errors ------------------------------------------------------------------------------------
 */

/* OpenSSL's first queued error as text; the queue is empty afterwards. */
static const char *openssl_text(void)
{
    unsigned long code = ERR_peek_error();
    const char *text = code != 0 ? ERR_reason_error_string(code) : NULL;
    ERR_clear_error();
    return text != NULL ? text : "unknown error";
}

/* What a person can do about it. */
static const char *verify_hint(long result)
{
    switch (result) {
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_CERT_SIGNATURE_FAILURE:
        return " (check the CA file)";
    case X509_V_ERR_HOSTNAME_MISMATCH:
    case X509_V_ERR_IP_ADDRESS_MISMATCH:
        return " (the server's certificate names another host)";
    case X509_V_ERR_CERT_HAS_EXPIRED:
    case X509_V_ERR_CERT_NOT_YET_VALID:
        return " (check the certificate's dates and the clock)";
    default:
        return "";
    }
}

static int fail_session(box_tls *t, box_error *err)
{
    t->failed = true;
    unsigned long code = ERR_peek_error();
    long verify = SSL_get_verify_result(t->ssl);
    if (ERR_GET_REASON(code) == SSL_R_CERTIFICATE_VERIFY_FAILED && verify != X509_V_OK) {
        ERR_clear_error();
        return box_fail(err, BOX_RUNTIME_UNAVAILABLE, "certificate verify failed: %s%s",
                        X509_verify_cert_error_string(verify), verify_hint(verify));
    }
    const char *hint = "";
    if (ERR_GET_REASON(code) == SSL_R_WRONG_VERSION_NUMBER && !t->server)
        hint = " (the server does not speak TLS)";
    if (ERR_GET_REASON(code) == SSL_R_TLSV1_ALERT_NO_APPLICATION_PROTOCOL)
        hint = " (the server does not offer HTTP/2)";
    return box_fail(err, BOX_RUNTIME_UNAVAILABLE, "TLS: %s%s", openssl_text(), hint);
}

/* --- the bytes between OpenSSL and us ----------------------------------------------------------
 */

static int bio_read(BIO *bio, char *data, size_t size, size_t *n)
{
    box_tls *t = BIO_get_data(bio);
    BIO_clear_retry_flags(bio);
    *n = t->in_len < size ? t->in_len : size;
    if (*n == 0) {
        BIO_set_retry_read(bio);
        return 0;
    }
    memcpy(data, t->in, *n);
    t->in += *n;
    t->in_len -= *n;
    return 1;
}

static int bio_write(BIO *bio, const char *data, size_t size, size_t *n)
{
    box_tls *t = BIO_get_data(bio);
    box_error err;
    BIO_clear_retry_flags(bio);
    *n = 0;
    if (box_buf_add(&t->out, data, size, &err) < 0)
        return 0;
    *n = size;
    return 1;
}

static long bio_ctrl(BIO *bio, int command, long num, void *ptr)
{
    (void)bio, (void)num, (void)ptr;
    return command == BIO_CTRL_FLUSH; /* nothing is held back; nothing else is supported */
}

static BIO_METHOD *method_new(void)
{
    BIO_METHOD *m = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "box_tls");
    if (m == NULL)
        return NULL;
    BIO_meth_set_read_ex(m, bio_read);
    BIO_meth_set_write_ex(m, bio_write);
    BIO_meth_set_ctrl(m, bio_ctrl);
    return m;
}

/* --- contexts ----------------------------------------------------------------------------------
 */

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

static int context_new(bool server, box_tls_version min, box_tls_context **out, box_error *err)
{
    BOX_AUTO(context_freep)
    box_tls_context *c = box_alloc(sizeof *c);
    ERR_clear_error();
    c->server = server;
    c->method = method_new();
    c->ctx = SSL_CTX_new(server ? TLS_server_method() : TLS_client_method());
    if (c->ctx == NULL || c->method == NULL ||
        SSL_CTX_set_min_proto_version(c->ctx,
                                      min == BOX_TLS_1_3 ? TLS1_3_VERSION : TLS1_2_VERSION) != 1 ||
        SSL_CTX_set_cipher_list(c->ctx, TLS_1_2_CIPHERS) != 1 ||
        SSL_CTX_set1_groups_list(c->ctx, TLS_GROUPS) != 1)
        return box_fail(err, BOX_INTERNAL, "cannot set up TLS: %s", openssl_text());
    SSL_CTX_set_options(c->ctx, SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION);
    SSL_CTX_set_mode(c->ctx, SSL_MODE_RELEASE_BUFFERS); /* idle connections keep no 32 KiB */
    *out = box_take(c);
    return 0;
}

static int use_certificate(box_tls_context *c, const char *cert, const char *key, box_error *err)
{
    if (SSL_CTX_use_certificate_chain_file(c->ctx, cert) != 1)
        return box_fail(err, BOX_VALIDATION, "cannot use certificate file %s: %s", cert,
                        openssl_text());
    if (SSL_CTX_use_PrivateKey_file(c->ctx, key, SSL_FILETYPE_PEM) != 1)
        return box_fail(err, BOX_VALIDATION, "cannot use key file %s: %s", key, openssl_text());
    if (SSL_CTX_check_private_key(c->ctx) != 1)
        return box_fail(err, BOX_VALIDATION, "key %s does not belong to certificate %s: %s", key,
                        cert, openssl_text());
    return 0;
}

/* Client certificates: required, verified, and the accepted issuers are named in the handshake. */
static int require_client(box_tls_context *c, const char *ca, box_error *err)
{
    STACK_OF(X509_NAME) *names = SSL_load_client_CA_file(ca);
    if (names == NULL || SSL_CTX_load_verify_file(c->ctx, ca) != 1) {
        sk_X509_NAME_pop_free(names, X509_NAME_free);
        return box_fail(err, BOX_VALIDATION, "cannot use client CA file %s: %s", ca,
                        openssl_text());
    }
    SSL_CTX_set_client_CA_list(c->ctx, names);
    SSL_CTX_set_verify(c->ctx, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
    return 0;
}

int box_tls_context_server(const box_tls_server_config *config, box_tls_context **out,
                           box_error *err)
{
    static const unsigned char session_context[] = "boxd"; /* resumption with client certificates */
    BOX_AUTO(context_freep)
    box_tls_context *c = NULL;
    if (context_new(true, config->min_version, &c, err) < 0 ||
        use_certificate(c, config->cert_file, config->key_file, err) < 0)
        return -1;
    if (config->client_ca_file != NULL && require_client(c, config->client_ca_file, err) < 0)
        return -1;
    SSL_CTX_set_alpn_select_cb(c->ctx, select_alpn, NULL);
    if (SSL_CTX_set_session_id_context(c->ctx, session_context, sizeof session_context - 1) != 1)
        return box_fail(err, BOX_INTERNAL, "cannot set up TLS: %s", openssl_text());
    *out = box_take(c);
    return 0;
}

int box_tls_context_client(const char *ca_file, const char *cert_file, const char *key_file,
                           box_tls_context **out, box_error *err)
{
    BOX_AUTO(context_freep)
    box_tls_context *c = NULL;
    if (context_new(false, BOX_TLS_1_2, &c, err) < 0)
        return -1;
    if (ca_file != NULL && SSL_CTX_load_verify_file(c->ctx, ca_file) != 1)
        return box_fail(err, BOX_VALIDATION, "cannot use CA file %s: %s", ca_file, openssl_text());
    if (ca_file == NULL && SSL_CTX_set_default_verify_paths(c->ctx) != 1)
        return box_fail(err, BOX_VALIDATION, "cannot load the system's CAs: %s", openssl_text());
    if (cert_file != NULL &&
        use_certificate(c, cert_file, key_file != NULL ? key_file : cert_file, err) < 0)
        return -1;
    SSL_CTX_set_verify(c->ctx, SSL_VERIFY_PEER, NULL);
    if (SSL_CTX_set_alpn_protos(c->ctx, alpn_h2, sizeof alpn_h2) != 0) /* 0 is success here */
        return box_fail(err, BOX_INTERNAL, "cannot set up TLS: %s", openssl_text());
    *out = box_take(c);
    return 0;
}

/* --- sessions ----------------------------------------------------------------------------------
 */

void box_tls_free(box_tls *t)
{
    if (t == NULL)
        return;
    SSL_free(t->ssl);
    box_buf_done(&t->out);
    free(t->server_name);
    OPENSSL_free(t->peer_name);
    free(t);
}

static void tls_freep(box_tls **t)
{
    box_tls_free(*t);
}

/* Names are matched against subject alternative names only, never the common name. */
static int expect_host(box_tls *t, const char *name)
{
    struct in6_addr unused;
    X509_VERIFY_PARAM *param = SSL_get0_param(t->ssl);
    if (inet_pton(AF_INET, name, &unused) == 1 || inet_pton(AF_INET6, name, &unused) == 1)
        return X509_VERIFY_PARAM_set1_ip_asc(param, name);
    X509_VERIFY_PARAM_set_hostflags(param, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS |
                                               X509_CHECK_FLAG_NEVER_CHECK_SUBJECT);
    return SSL_set1_host(t->ssl, name) == 1 && SSL_set_tlsext_host_name(t->ssl, name) == 1;
}

/* The common name, else the first DNS, mail or URI name, as UTF-8 without NUL; OPENSSL_free it. */
static char *certificate_name(X509 *cert)
{
    const ASN1_STRING *found = NULL;
    X509_NAME *subject = X509_get_subject_name(cert);
    int at = X509_NAME_get_index_by_NID(subject, NID_commonName, -1);
    if (at >= 0)
        found = X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, at));
    GENERAL_NAMES *names = X509_get_ext_d2i(cert, NID_subject_alt_name, NULL, NULL);
    for (int i = 0; found == NULL && i < sk_GENERAL_NAME_num(names); i++) {
        int type;
        void *value = GENERAL_NAME_get0_value(sk_GENERAL_NAME_value(names, i), &type);
        if (type == GEN_DNS || type == GEN_EMAIL || type == GEN_URI)
            found = value;
    }
    unsigned char *text = NULL;
    int len = found != NULL ? ASN1_STRING_to_UTF8(&text, found) : -1;
    if (len >= 0 && strlen((char *)text) != (size_t)len) {
        OPENSSL_free(text); /* a NUL inside: nobody's name */
        text = NULL;
    }
    GENERAL_NAMES_free(names);
    return len >= 0 ? (char *)text : NULL;
}

static int become_ready(box_tls *t, box_error *err)
{
    const unsigned char *protocol;
    unsigned len;
    SSL_get0_alpn_selected(t->ssl, &protocol, &len);
    if (len != 2 || memcmp(protocol, "h2", 2) != 0) {
        t->failed = true;
        return box_fail(err, BOX_RUNTIME_UNAVAILABLE,
                        "TLS: the peer did not agree on HTTP/2 (ALPN h2)");
    }
    t->ready = true;
    X509 *cert = t->server ? SSL_get1_peer_certificate(t->ssl) : NULL;
    if (cert != NULL && SSL_get_verify_result(t->ssl) == X509_V_OK)
        t->peer_name = certificate_name(cert);
    X509_free(cert);
    return 0;
}

static int handshake(box_tls *t, box_error *err)
{
    ERR_clear_error();
    int rc = SSL_do_handshake(t->ssl);
    if (rc == 1)
        return become_ready(t, err);
    return SSL_get_error(t->ssl, rc) == SSL_ERROR_WANT_READ ? 0 : fail_session(t, err);
}

int box_tls_new(box_tls_context *c, const char *server_name, box_tls **out, box_error *err)
{
    BOX_AUTO(tls_freep)
    box_tls *t = box_alloc(sizeof *t);
    ERR_clear_error();
    t->server = c->server;
    box_buf_init(&t->out, BOX_TLS_PENDING_BYTES);
    t->ssl = SSL_new(c->ctx);
    BIO *bio = BIO_new(c->method);
    if (t->ssl == NULL || bio == NULL) {
        BIO_free(bio);
        return box_fail(err, BOX_INTERNAL, "cannot set up TLS: %s", openssl_text());
    }
    BIO_set_data(bio, t);
    BIO_set_init(bio, 1);
    SSL_set_bio(t->ssl, bio, bio); /* takes bio */
    if (c->server) {
        SSL_set_accept_state(t->ssl);
    } else {
        SSL_set_connect_state(t->ssl);
        if (server_name == NULL || !expect_host(t, server_name))
            return box_fail(err, BOX_VALIDATION, "'%s' is not a host name or address",
                            server_name != NULL ? server_name : "");
        if (handshake(t, err) < 0)
            return -1;
    }
    *out = box_take(t);
    return 0;
}

/* One step of SSL_read: 1 data came, 0 no more now, -1 failed. */
static int read_some(box_tls *t, box_buf *out, bool *closed, box_error *err)
{
    uint8_t *room;
    if (box_buf_reserve(out, READ_STEP, &room, err) < 0) {
        t->failed = true;
        return -1;
    }
    ERR_clear_error();
    int n = SSL_read(t->ssl, room, READ_STEP);
    if (n > 0) {
        box_buf_commit(out, (size_t)n);
        return 1;
    }
    switch (SSL_get_error(t->ssl, n)) {
    case SSL_ERROR_WANT_READ:
        return 0;
    case SSL_ERROR_ZERO_RETURN:
        *closed = true;
        return 0;
    default:
        return fail_session(t, err);
    }
}

int box_tls_receive(box_tls *t, const uint8_t *data, size_t len, box_buf *out, bool *closed,
                    box_error *err)
{
    *closed = false;
    if (t->failed)
        return box_fail(err, BOX_RUNTIME_UNAVAILABLE, "TLS: the connection has failed");
    t->in = data;
    t->in_len = len;
    if (!t->ready && handshake(t, err) < 0)
        return -1;
    int rc = t->ready ? 1 : 0;
    while (rc > 0)
        rc = read_some(t, out, closed, err);
    t->in = NULL;
    t->in_len = 0;
    return rc;
}

int box_tls_write(box_tls *t, const uint8_t *data, size_t len, box_error *err)
{
    if (!t->ready || t->failed)
        return box_fail(err, BOX_RUNTIME_UNAVAILABLE, "TLS: the connection is not ready");
    ERR_clear_error();
    while (len > 0) {
        size_t n;
        if (SSL_write_ex(t->ssl, data, len < INT_MAX ? len : INT_MAX, &n) != 1)
            return fail_session(t, err);
        data += n;
        len -= n;
    }
    return 0;
}

box_bytes box_tls_pending(const box_tls *t)
{
    size_t len = box_buf_len(&t->out);
    return (box_bytes){.data = len > 0 ? box_buf_data(&t->out) : NULL, .len = len};
}

void box_tls_consume(box_tls *t, size_t len)
{
    box_buf_consume(&t->out, len);
}

bool box_tls_is_ready(const box_tls *t)
{
    return t->ready;
}

void box_tls_close(box_tls *t)
{
    if (!t->ready || t->failed)
        return;
    (void)SSL_shutdown(t->ssl); /* 0: the peer's close_notify is not here yet, nor waited for */
    ERR_clear_error();
}

const char *box_tls_peer_name(const box_tls *t)
{
    return t->peer_name;
}
