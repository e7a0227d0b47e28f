#include "wire/tls.h"

#include <arpa/inet.h>
#include <limits.h>

#include <openssl/x509v3.h>

#include "base/alloc.h"
#include "base/limits.h"
#include "wire/tls_internal.h"

enum { READ_STEP = 16 * 1024 };

struct box_tls {
    SSL *ssl;
    bool server;
    bool ready;
    bool failed;
    const uint8_t *in; /* what box_tls_receive was given and OpenSSL did not take yet */
    size_t in_len;
    box_buf out;
    char *peer_name;
    size_t written; /* plaintext, up to BOX_TLS_SMALL_BYTES */
};

/* --- errors ----------------------------------------------------------------------------------- */

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

/* Alerts come as numbers of RFC 8446, section 6.2; a client gets these for its own certificate. */
static const char *alert_hint(int reason)
{
    switch (reason) {
    case SSL_R_TLSV13_ALERT_CERTIFICATE_REQUIRED:
        return " (the server requires a client certificate)";
    case SSL_R_SSLV3_ALERT_BAD_CERTIFICATE:
    case SSL_R_SSLV3_ALERT_UNSUPPORTED_CERTIFICATE:
    case SSL_R_SSLV3_ALERT_CERTIFICATE_REVOKED:
    case SSL_R_SSLV3_ALERT_CERTIFICATE_EXPIRED:
    case SSL_R_SSLV3_ALERT_CERTIFICATE_UNKNOWN:
    case SSL_R_TLSV1_ALERT_UNKNOWN_CA:
        return " (the server does not accept the client certificate)";
    case SSL_R_WRONG_VERSION_NUMBER:
        return " (the server does not speak TLS)";
    case SSL_R_TLSV1_ALERT_NO_APPLICATION_PROTOCOL:
        return " (the server does not offer HTTP/2)";
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
    const char *hint = t->server ? "" : alert_hint(ERR_GET_REASON(code));
    return box_fail(err, BOX_RUNTIME_UNAVAILABLE, "TLS: %s%s", box_tls_openssl_text(), hint);
}

/* --- the bytes between OpenSSL and us --------------------------------------------------------- */

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

BIO_METHOD *box_tls_bio_method_new(void)
{
    BIO_METHOD *m = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "box_tls");
    if (m == NULL)
        return NULL;
    BIO_meth_set_read_ex(m, bio_read);
    BIO_meth_set_write_ex(m, bio_write);
    BIO_meth_set_ctrl(m, bio_ctrl);
    return m;
}

/* --- sessions --------------------------------------------------------------------------------- */

void box_tls_free(box_tls *t)
{
    if (t == NULL)
        return;
    SSL_free(t->ssl);
    box_buf_done(&t->out);
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

/* The context may be reloaded by another thread. */
static SSL *ssl_new(box_tls_context *c)
{
    pthread_mutex_lock(&c->lock);
    SSL_CTX *ctx = c->ctx;
    SSL_CTX_up_ref(ctx);
    pthread_mutex_unlock(&c->lock);
    SSL *ssl = SSL_new(ctx);
    SSL_CTX_free(ctx);
    return ssl;
}

int box_tls_new(box_tls_context *c, const char *server_name, box_tls **out, box_error *err)
{
    BOX_AUTO(tls_freep) box_tls *t = box_alloc(sizeof *t);
    ERR_clear_error();
    t->server = c->server;
    box_buf_init(&t->out, BOX_TLS_PENDING_BYTES);
    t->ssl = ssl_new(c);
    BIO *bio = BIO_new(c->method);
    if (t->ssl == NULL || bio == NULL) {
        BIO_free(bio);
        return box_fail(err, BOX_INTERNAL, "cannot set up TLS: %s", box_tls_openssl_text());
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
    int rc = t->ready ? 1 : handshake(t, err);
    if (rc == 0 && t->ready)
        rc = 1;
    while (rc > 0)
        rc = read_some(t, out, closed, err);
    t->in = NULL;
    t->in_len = 0;
    return rc;
}

/* The second follows the first down, but not up again. */
static void set_record_size(box_tls *t, long bytes)
{
    SSL_set_max_send_fragment(t->ssl, bytes);
    SSL_set_split_send_fragment(t->ssl, bytes);
}

/* A record can be used only when it is there whole: small ones first, so that a slow start of TCP
 * does not hold up the first answer, then large ones, which cost less. */
static size_t next_piece(box_tls *t, size_t len)
{
    if (t->written == BOX_TLS_SMALL_BYTES)
        return len < INT_MAX ? len : INT_MAX;
    size_t small = BOX_TLS_SMALL_BYTES - t->written;
    if (t->written == 0)
        set_record_size(t, BOX_TLS_SMALL_RECORD_BYTES);
    return len < small ? len : small;
}

static void note_written(box_tls *t, size_t n)
{
    if (t->written == BOX_TLS_SMALL_BYTES)
        return;
    t->written += n;
    if (t->written == BOX_TLS_SMALL_BYTES)
        set_record_size(t, SSL3_RT_MAX_PLAIN_LENGTH);
}

int box_tls_write(box_tls *t, const uint8_t *data, size_t len, box_error *err)
{
    if (!t->ready || t->failed)
        return box_fail(err, BOX_RUNTIME_UNAVAILABLE, "TLS: the connection is not ready");
    ERR_clear_error();
    while (len > 0) {
        size_t n;
        if (SSL_write_ex(t->ssl, data, next_piece(t, len), &n) != 1)
            return fail_session(t, err);
        note_written(t, n);
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
    /* The handshake sent more than an idle connection ever needs again. */
    if (t->ready && t->written == 0)
        box_tls_rest(t);
}

void box_tls_rest(box_tls *t)
{
    if (box_buf_len(&t->out) == 0)
        box_buf_done(&t->out);
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
