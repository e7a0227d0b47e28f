/* TLS between our client and our server in memory, with certificates made here. */
#include "wire/tls.h"

#include <setjmp.h>
#include <stdarg.h>
#include <unistd.h>

#include <cmocka.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include "base/alloc.h"
#include "temp_dir.h"

enum { WHOLE = 1 << 20, DAY = 86400, PATH = 128 };

/* --- certificates ----------------------------------------------------------------------------- */

typedef struct identity {
    EVP_PKEY *key;
    X509 *cert;
} identity;

typedef struct files {
    temp_dir dir;
    char ca[PATH], other_ca[PATH];
    char server_cert[PATH], server_key[PATH];
    char expired_cert[PATH], expired_key[PATH];
    char client_cert[PATH], client_key[PATH];
    char stranger_cert[PATH], stranger_key[PATH];
} files;

static void add_extension(X509 *cert, X509 *issuer, int nid, const char *value)
{
    X509V3_CTX ctx;
    X509V3_set_ctx(&ctx, issuer, cert, NULL, NULL, 0);
    X509_EXTENSION *ext = X509V3_EXT_conf_nid(NULL, &ctx, nid, value);
    assert_non_null(ext);
    assert_int_equal(X509_add_ext(cert, ext, -1), 1);
    X509_EXTENSION_free(ext);
}

/* issuer NULL: a CA that signs itself. names NULL: no subject alternative name. */
static identity make(const char *common_name, const identity *issuer, const char *names,
                     long valid_for)
{
    static long serial = 1;
    identity id = {.key = EVP_EC_gen("P-256"), .cert = X509_new()};
    assert_non_null(id.key);
    assert_non_null(id.cert);
    X509 *by = issuer != NULL ? issuer->cert : id.cert;
    X509_set_version(id.cert, X509_VERSION_3);
    ASN1_INTEGER_set(X509_get_serialNumber(id.cert), serial++);
    X509_gmtime_adj(X509_getm_notBefore(id.cert), -2 * DAY);
    X509_gmtime_adj(X509_getm_notAfter(id.cert), valid_for);
    X509_set_pubkey(id.cert, id.key);
    if (common_name != NULL)
        X509_NAME_add_entry_by_txt(X509_get_subject_name(id.cert), "CN", MBSTRING_UTF8,
                                   (const unsigned char *)common_name, -1, -1, 0);
    X509_set_issuer_name(id.cert, X509_get_subject_name(by));
    add_extension(id.cert, by, NID_basic_constraints, issuer != NULL ? "CA:FALSE" : "CA:TRUE");
    if (names != NULL)
        add_extension(id.cert, by, NID_subject_alt_name, names);
    assert_true(X509_sign(id.cert, issuer != NULL ? issuer->key : id.key, EVP_sha256()) > 0);
    return id;
}

static void identity_done(identity *id)
{
    EVP_PKEY_free(id->key);
    X509_free(id->cert);
}

static void write_pem(const files *f, const char *name, char path[PATH], const identity *id,
                      bool key)
{
    (void)snprintf(path, PATH, "%s/%s", f->dir.path, name);
    FILE *to = fopen(path, "we");
    assert_non_null(to);
    int rc = key ? PEM_write_PrivateKey(to, id->key, NULL, NULL, 0, NULL, NULL)
                 : PEM_write_X509(to, id->cert);
    assert_int_equal(rc, 1);
    assert_int_equal(fclose(to), 0);
}

static int set_up(void **state)
{
    files *f = box_alloc(sizeof *f);
    temp_dir_new(&f->dir);
    BOX_AUTO(identity_done) identity ca = make("Box test CA", NULL, NULL, 10 * DAY);
    BOX_AUTO(identity_done) identity other = make("Another CA", NULL, NULL, 10 * DAY);
    static const char names[] = "DNS:box.test,DNS:*.wild.test,IP:127.0.0.1,IP:::1";
    BOX_AUTO(identity_done) identity server = make("only.common.name", &ca, names, 10 * DAY);
    BOX_AUTO(identity_done) identity expired = make("box.test", &ca, names, -DAY);
    BOX_AUTO(identity_done) identity client = make("alice", &ca, NULL, 10 * DAY);
    BOX_AUTO(identity_done) identity stranger = make(NULL, &other, "URI:spiffe://x/y", 10 * DAY);
    write_pem(f, "ca.pem", f->ca, &ca, false);
    write_pem(f, "other.pem", f->other_ca, &other, false);
    write_pem(f, "server.pem", f->server_cert, &server, false);
    write_pem(f, "server.key", f->server_key, &server, true);
    write_pem(f, "expired.pem", f->expired_cert, &expired, false);
    write_pem(f, "expired.key", f->expired_key, &expired, true);
    write_pem(f, "client.pem", f->client_cert, &client, false);
    write_pem(f, "client.key", f->client_key, &client, true);
    write_pem(f, "stranger.pem", f->stranger_cert, &stranger, false);
    write_pem(f, "stranger.key", f->stranger_key, &stranger, true);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    files *f = *state;
    temp_dir_remove(&f->dir);
    free(f);
    return 0;
}

/* --- one connection --------------------------------------------------------------------------- */

typedef struct side {
    box_tls_context *context;
    box_tls *tls;
    box_buf got; /* plaintext */
    bool closed;
    bool failed;
    box_error err;
} side;

typedef struct wire {
    side client;
    side server;
} wire;

static void side_done(side *s)
{
    box_tls_free(s->tls);
    box_tls_context_free(s->context);
    box_buf_done(&s->got);
}

static void wire_done(wire *l)
{
    side_done(&l->client);
    side_done(&l->server);
}

typedef struct options {
    const char *cert, *key; /* the server's */
    const char *client_ca;
    box_tls_version min_version;
    box_tls_client_auth client_auth;
    const char *ca;
    const char *client_cert, *client_key;
    const char *name;
} options;

static options defaults(const files *f)
{
    return (options){.cert = f->server_cert, .key = f->server_key, .ca = f->ca, .name = "box.test"};
}

static wire wire_new(const options *o)
{
    wire l = {0};
    box_error err;
    box_tls_server_config config = {o->cert, o->key, o->client_ca, o->min_version, o->client_auth};
    if (box_tls_context_server(&config, &l.server.context, &err) < 0 ||
        box_tls_context_client(o->ca, o->client_cert, o->client_key, &l.client.context, &err) < 0 ||
        box_tls_new(l.server.context, NULL, &l.server.tls, &err) < 0 ||
        box_tls_new(l.client.context, o->name, &l.client.tls, &err) < 0)
        fail_msg("%s", err.msg);
    return l;
}

static size_t move(side *from, side *to, size_t chunk)
{
    size_t moved = 0;
    for (;;) {
        box_bytes pending = box_tls_pending(from->tls);
        size_t n = pending.len < chunk ? pending.len : chunk;
        if (n == 0)
            return moved;
        BOX_AUTO(box_freep) uint8_t *piece = box_alloc(n);
        memcpy(piece, pending.data, n);
        box_tls_consume(from->tls, n);
        moved += n;
        bool closed = false;
        if (!to->failed && box_tls_receive(to->tls, piece, n, &to->got, &closed, &to->err) < 0)
            to->failed = true;
        to->closed |= closed;
    }
}

static void run(wire *l, size_t chunk)
{
    while (move(&l->client, &l->server, chunk) + move(&l->server, &l->client, chunk) > 0)
        continue;
}

static void say(side *s, const char *text)
{
    box_error err;
    assert_int_equal(box_tls_write(s->tls, (const uint8_t *)text, strlen(text), &err), 0);
}

static void assert_got(const side *s, const char *text)
{
    assert_int_equal(box_buf_len(&s->got), strlen(text));
    assert_memory_equal(box_buf_data(&s->got), text, strlen(text));
}

static void assert_works(wire *l)
{
    run(l, WHOLE);
    if (l->client.failed || l->server.failed)
        fail_msg("%s / %s", l->client.err.msg, l->server.err.msg);
    assert_true(box_tls_is_ready(l->client.tls));
    assert_true(box_tls_is_ready(l->server.tls));
    say(&l->client, "ping");
    say(&l->server, "pong");
    run(l, WHOLE);
    assert_got(&l->server, "ping");
    assert_got(&l->client, "pong");
}

/* --- tests ------------------------------------------------------------------------------------ */

static void data_passes_however_it_is_cut(void **state)
{
    options o = defaults(*state);
    const size_t chunks[] = {1, 2, 5, 100, WHOLE};
    for (size_t i = 0; i < BOX_COUNT(chunks); i++) {
        BOX_AUTO(wire_done) wire l = wire_new(&o);
        run(&l, chunks[i]);
        assert_true(box_tls_is_ready(l.client.tls));
        assert_true(box_tls_is_ready(l.server.tls));
        assert_null(box_tls_peer_name(l.server.tls));
        say(&l.client, "hello ");
        say(&l.client, "server");
        run(&l, chunks[i]);
        assert_got(&l.server, "hello server");
        enum { SIZE = 300000 };
        BOX_AUTO(box_freep) uint8_t *large = box_alloc(SIZE);
        memset(large, 'x', SIZE);
        box_error err;
        assert_int_equal(box_tls_write(l.server.tls, large, SIZE, &err), 0);
        run(&l, chunks[i]);
        assert_int_equal(box_buf_len(&l.client.got), SIZE);
        assert_memory_equal(box_buf_data(&l.client.got), large, SIZE);
        box_tls_close(l.client.tls);
        run(&l, chunks[i]);
        assert_true(l.server.closed);
        assert_false(l.server.failed);
    }
}

static void names_and_addresses_are_verified(void **state)
{
    const struct {
        const char *name;
        bool ok;
    } rows[] = {
        {"box.test", true},       {"a.wild.test", true},
        {"127.0.0.1", true},      {"::1", true},
        {"BOX.TEST", true},       {"other.test", false},
        {"127.0.0.2", false},     {"only.common.name", false},
        {"a.b.wild.test", false}, {"box.test.evil", false},
    };
    for (size_t i = 0; i < BOX_COUNT(rows); i++) {
        options o = defaults(*state);
        o.name = rows[i].name;
        BOX_AUTO(wire_done) wire l = wire_new(&o);
        if (rows[i].ok) {
            assert_works(&l);
            continue;
        }
        run(&l, WHOLE);
        assert_true(l.client.failed);
        assert_false(box_tls_is_ready(l.client.tls));
        assert_int_equal(l.client.err.reason, BOX_RUNTIME_UNAVAILABLE);
        assert_non_null(strstr(l.client.err.msg, "certificate verify failed: "));
        assert_non_null(strstr(l.client.err.msg, "names another host"));
        assert_true(l.server.failed); /* told by an alert */
    }
}

static void a_wrong_ca_is_said_plainly(void **state)
{
    const files *f = *state;
    options o = defaults(f);
    o.ca = f->other_ca;
    BOX_AUTO(wire_done) wire l = wire_new(&o);
    run(&l, WHOLE);
    assert_int_equal(l.client.err.reason, BOX_RUNTIME_UNAVAILABLE);
    assert_string_equal(l.client.err.msg, "certificate verify failed: unable to get local issuer "
                                          "certificate (check the CA file)");
}

static void an_expired_certificate_is_refused(void **state)
{
    const files *f = *state;
    options o = defaults(f);
    o.cert = f->expired_cert;
    o.key = f->expired_key;
    BOX_AUTO(wire_done) wire l = wire_new(&o);
    run(&l, WHOLE);
    assert_true(l.client.failed);
    assert_non_null(strstr(l.client.err.msg, "certificate has expired"));
}

static void a_client_certificate_may_be_optional(void **state)
{
    const files *f = *state;
    options o = defaults(f);
    o.client_ca = f->ca;
    o.client_auth = BOX_TLS_CLIENT_REQUEST;
    BOX_AUTO(wire_done) wire none = wire_new(&o);
    assert_works(&none);
    assert_null(box_tls_peer_name(none.server.tls));
    o.client_cert = f->client_cert;
    o.client_key = f->client_key;
    BOX_AUTO(wire_done) wire good = wire_new(&o);
    assert_works(&good);
    assert_string_equal(box_tls_peer_name(good.server.tls), "alice");
    o.client_cert = f->stranger_cert;
    o.client_key = f->stranger_key;
    BOX_AUTO(wire_done) wire bad = wire_new(&o);
    run(&bad, WHOLE);
    assert_true(bad.server.failed);
    o.client_auth = BOX_TLS_CLIENT_NONE;
    BOX_AUTO(wire_done) wire unasked = wire_new(&o);
    assert_works(&unasked);
    assert_null(box_tls_peer_name(unasked.server.tls));
}

/* A new session of the same contexts. */
static void connect_again(wire *l, const options *o)
{
    box_error err;
    side *sides[] = {&l->client, &l->server};
    for (size_t i = 0; i < BOX_COUNT(sides); i++) {
        box_tls_free(sides[i]->tls);
        sides[i]->tls = NULL;
        sides[i]->failed = false;
        box_buf_clear(&sides[i]->got);
    }
    assert_int_equal(box_tls_new(l->server.context, NULL, &l->server.tls, &err), 0);
    assert_int_equal(box_tls_new(l->client.context, o->name, &l->client.tls, &err), 0);
}

static void what_is_read_again_holds_for_new_sessions(void **state)
{
    const files *f = *state;
    options o = defaults(f);
    box_error err = {0};
    BOX_AUTO(wire_done) wire l = wire_new(&o);
    assert_works(&l);
    const box_tls_server_config expired = {.cert_file = f->expired_cert,
                                           .key_file = f->expired_key};
    assert_int_equal(box_tls_context_reload(l.server.context, &expired, &err), 0);
    say(&l.server, " more"); /* the old one lives */
    run(&l, WHOLE);
    assert_got(&l.client, "pong more");
    connect_again(&l, &o);
    run(&l, WHOLE);
    assert_non_null(strstr(l.client.err.msg, "certificate has expired"));

    const box_tls_server_config broken = {.cert_file = f->server_cert, .key_file = f->client_key};
    const box_tls_server_config good = {
        .cert_file = f->server_cert, .key_file = f->server_key, .client_ca_file = f->ca};
    assert_int_equal(box_tls_context_reload(l.server.context, &broken, &err), -1);
    connect_again(&l, &o);
    run(&l, WHOLE);
    assert_true(l.client.failed); /* still the expired one */
    assert_int_equal(box_tls_context_reload(l.server.context, &good, &err), 0);
    connect_again(&l, &o);
    run(&l, WHOLE);
    assert_true(l.server.failed); /* now wants a certificate */
}

/* Lengths of the records in what waits to be sent. */
static size_t records(const side *s, size_t *largest)
{
    enum { HEAD = 5 };
    box_bytes b = box_tls_pending(s->tls);
    size_t n = 0;
    *largest = 0;
    for (size_t at = 0; at + HEAD <= b.len; n++) {
        size_t len = (size_t)b.data[at + 3] << 8 | b.data[at + 4];
        *largest = len > *largest ? len : *largest;
        at += HEAD + len;
    }
    return n;
}

static void records_are_small_first_and_then_large(void **state)
{
    options o = defaults(*state);
    BOX_AUTO(wire_done) wire l = wire_new(&o);
    assert_works(&l);
    enum { SIZE = 64 * 1024 };
    BOX_AUTO(box_freep) uint8_t *bytes = box_alloc(SIZE);
    box_error err;
    size_t largest;
    assert_int_equal(box_tls_write(l.server.tls, bytes, 10000, &err), 0);
    assert_in_range(records(&l.server, &largest), 7, 9);
    assert_in_range(largest, 1000, 1450);
    run(&l, WHOLE);
    assert_int_equal(box_tls_write(l.server.tls, bytes, SIZE, &err), 0); /* the rest of the small */
    run(&l, WHOLE);
    assert_int_equal(box_tls_write(l.server.tls, bytes, SIZE, &err), 0);
    assert_int_equal(records(&l.server, &largest), 4);
    run(&l, WHOLE);
    assert_int_equal(box_buf_len(&l.client.got), 4 + 10000 + 2 * SIZE);
}

static void client_certificates_are_verified_and_named(void **state)
{
    const files *f = *state;
    options o = defaults(f);
    o.client_ca = f->ca;
    o.client_cert = f->client_cert;
    o.client_key = f->client_key;
    BOX_AUTO(wire_done) wire l = wire_new(&o);
    assert_works(&l);
    assert_string_equal(box_tls_peer_name(l.server.tls), "alice");

    o.client_ca = f->other_ca;
    o.client_cert = f->stranger_cert;
    o.client_key = f->stranger_key;
    BOX_AUTO(wire_done) wire named = wire_new(&o);
    assert_works(&named);
    assert_string_equal(box_tls_peer_name(named.server.tls), "spiffe://x/y");
}

static void a_missing_or_strange_client_certificate_is_refused(void **state)
{
    const files *f = *state;
    for (int strange = 0; strange < 2; strange++) {
        options o = defaults(f);
        o.client_ca = f->ca;
        if (strange != 0) {
            o.client_cert = f->stranger_cert;
            o.client_key = f->stranger_key;
        }
        BOX_AUTO(wire_done) wire l = wire_new(&o);
        run(&l, WHOLE);
        assert_true(l.server.failed);
        assert_false(box_tls_is_ready(l.server.tls));
        assert_true(l.client.failed); /* TLS 1.3: after it thought it was connected */
        assert_int_equal(l.client.err.reason, BOX_RUNTIME_UNAVAILABLE);
    }
}

/* A plain OpenSSL client that offers what the row says; true when the handshake succeeded. */
static bool foreign_client(const files *f, const unsigned char *alpn, unsigned alpn_len,
                           int max_version, const char *ciphers, box_tls_version min_version)
{
    options o = defaults(f);
    o.min_version = min_version;
    BOX_AUTO(wire_done) wire l = wire_new(&o);
    SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
    SSL_CTX_set_security_level(ctx, 0);
    SSL_CTX_set_min_proto_version(ctx, TLS1_VERSION);
    SSL_CTX_set_max_proto_version(ctx, max_version);
    if (ciphers != NULL)
        assert_int_equal(SSL_CTX_set_cipher_list(ctx, ciphers), 1);
    SSL *ssl = SSL_new(ctx);
    BIO *in = BIO_new(BIO_s_mem()), *out = BIO_new(BIO_s_mem());
    SSL_set_bio(ssl, in, out);
    if (alpn != NULL)
        assert_int_equal(SSL_set_alpn_protos(ssl, alpn, alpn_len), 0);
    bool done = false;
    for (int i = 0; i < 10 && !l.server.failed; i++) {
        uint8_t data[16384];
        done = SSL_connect(ssl) == 1;
        int n = BIO_read(out, data, sizeof data);
        bool closed;
        if (n > 0 && box_tls_receive(l.server.tls, data, (size_t)n, &l.server.got, &closed,
                                     &l.server.err) < 0)
            l.server.failed = true;
        box_bytes pending = box_tls_pending(l.server.tls);
        if (pending.len > 0)
            BIO_write(in, pending.data, (int)pending.len);
        box_tls_consume(l.server.tls, pending.len);
    }
    bool ready = done && box_tls_is_ready(l.server.tls);
    SSL_free(ssl);
    SSL_CTX_free(ctx);
    return ready;
}

static void only_http2_and_modern_tls_are_served(void **state)
{
    static const unsigned char h2[] = "\2h2", both[] = "\10http/1.1\2h2", old[] = "\10http/1.1";
    const struct {
        const unsigned char *alpn;
        unsigned len;
        int max;
        const char *ciphers;
        box_tls_version min;
        bool ok;
    } rows[] = {
        {h2, 3, TLS1_3_VERSION, NULL, BOX_TLS_1_2, true},
        {both, 12, TLS1_3_VERSION, NULL, BOX_TLS_1_2, true},
        {h2, 3, TLS1_2_VERSION, NULL, BOX_TLS_1_2, true},
        {old, 9, TLS1_3_VERSION, NULL, BOX_TLS_1_2, false},
        {NULL, 0, TLS1_3_VERSION, NULL, BOX_TLS_1_2, false},
        {h2, 3, TLS1_1_VERSION, NULL, BOX_TLS_1_2, false},
        {h2, 3, TLS1_2_VERSION, NULL, BOX_TLS_1_3, false},
        {h2, 3, TLS1_2_VERSION, "ECDHE-ECDSA-AES128-SHA", BOX_TLS_1_2, false},
        {h2, 3, TLS1_2_VERSION, "ECDHE-ECDSA-AES256-SHA384", BOX_TLS_1_2, false},
        {h2, 3, TLS1_2_VERSION, "ECDHE-ECDSA-CHACHA20-POLY1305", BOX_TLS_1_2, true},
    };
    for (size_t i = 0; i < BOX_COUNT(rows); i++) {
        if (foreign_client(*state, rows[i].alpn, rows[i].len, rows[i].max, rows[i].ciphers,
                           rows[i].min) != rows[i].ok)
            fail_msg("row %zu", i);
    }
}

static void a_peer_without_tls_is_refused(void **state)
{
    options o = defaults(*state);
    static const uint8_t clear[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    for (size_t chunk = 1; chunk < sizeof clear; chunk++) {
        BOX_AUTO(wire_done) wire l = wire_new(&o);
        box_error err;
        bool closed;
        int server = 0, client = 0;
        for (size_t at = 0; at < sizeof clear; at += chunk) {
            size_t n = sizeof clear - at < chunk ? sizeof clear - at : chunk;
            server |= box_tls_receive(l.server.tls, clear + at, n, &l.server.got, &closed, &err);
            if (client == 0)
                client = box_tls_receive(l.client.tls, clear + at, n, &l.client.got, &closed, &err);
            if (client < 0)
                assert_int_equal(err.reason, BOX_RUNTIME_UNAVAILABLE);
        }
        assert_int_equal(server, -1);
        assert_int_equal(client, -1);
        assert_int_equal(box_tls_receive(l.server.tls, clear, 1, &l.server.got, &closed, &err), -1);
    }
}

static void writing_needs_a_handshake(void **state)
{
    options o = defaults(*state);
    BOX_AUTO(wire_done) wire l = wire_new(&o);
    box_error err;
    assert_int_equal(box_tls_write(l.client.tls, (const uint8_t *)"x", 1, &err), -1);
    assert_int_equal(box_tls_write(l.server.tls, (const uint8_t *)"x", 1, &err), -1);
    box_tls_close(l.server.tls); /* harmless */
    assert_works(&l);
}

static void bad_files_are_named(void **state)
{
    const files *f = *state;
    box_tls_context *c = NULL;
    box_error err;
    const box_tls_server_config rows[] = {
        {"/nowhere/cert.pem", f->server_key, NULL, BOX_TLS_1_2, 0},
        {f->server_cert, "/nowhere/key.pem", NULL, BOX_TLS_1_2, 0},
        {f->server_cert, f->client_key, NULL, BOX_TLS_1_2, 0}, /* of another certificate */
        {f->server_key, f->server_key, NULL, BOX_TLS_1_2, 0},  /* no certificate inside */
        {f->server_cert, f->server_key, "/nowhere/ca.pem", BOX_TLS_1_2, 0},
    };
    for (size_t i = 0; i < BOX_COUNT(rows); i++) {
        assert_int_equal(box_tls_context_server(&rows[i], &c, &err), -1);
        assert_int_equal(err.reason, BOX_VALIDATION);
        assert_null(c);
        bool missing = strstr(err.msg, "/nowhere/") != NULL;
        assert_int_equal(strstr(err.msg, ": No such file or directory") != NULL, missing);
        assert_int_equal(missing, i != 2 && i != 3);
        assert_null(strstr(err.msg, "unknown"));
    }
    assert_int_equal(box_tls_context_client("/nowhere/ca.pem", NULL, NULL, &c, &err), -1);
    assert_int_equal(err.reason, BOX_VALIDATION);
    assert_non_null(strstr(err.msg, "/nowhere/ca.pem: No such file or directory"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(data_passes_however_it_is_cut),
        cmocka_unit_test(names_and_addresses_are_verified),
        cmocka_unit_test(a_wrong_ca_is_said_plainly),
        cmocka_unit_test(an_expired_certificate_is_refused),
        cmocka_unit_test(a_client_certificate_may_be_optional),
        cmocka_unit_test(what_is_read_again_holds_for_new_sessions),
        cmocka_unit_test(records_are_small_first_and_then_large),
        cmocka_unit_test(client_certificates_are_verified_and_named),
        cmocka_unit_test(a_missing_or_strange_client_certificate_is_refused),
        cmocka_unit_test(only_http2_and_modern_tls_are_served),
        cmocka_unit_test(a_peer_without_tls_is_refused),
        cmocka_unit_test(writing_needs_a_handshake),
        cmocka_unit_test(bad_files_are_named),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
