#include "tls_floor.h"

#include <arpa/inet.h>
#include <openssl/ssl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fd.h"

enum { PIECE_BYTES = 256 * 1024 };

static const char cipher[] = "TLS_AES_256_GCM_SHA384"; /* OpenSSL's first, and so Box's */

typedef struct end {
    SSL_CTX *ctx;
    SSL *ssl;
    int fd;
} end;

static void end_done(end *e)
{
    SSL_free(e->ssl);
    SSL_CTX_free(e->ctx);
    box_closep(&e->fd);
}

/* Over a connected socket, which it takes. */
static int end_init(end *e, int fd, const SSL_METHOD *method, const bench_files *f, box_error *err)
{
    *e = (end){.fd = fd};
    e->ctx = SSL_CTX_new(method);
    if (e->ctx == NULL || SSL_CTX_set_min_proto_version(e->ctx, TLS1_3_VERSION) != 1 ||
        SSL_CTX_set_ciphersuites(e->ctx, cipher) != 1)
        return box_fail(err, BOX_INTERNAL, "set TLS up");
    if (f != NULL && (SSL_CTX_use_certificate_file(e->ctx, f->cert, SSL_FILETYPE_PEM) != 1 ||
                      SSL_CTX_use_PrivateKey_file(e->ctx, f->key, SSL_FILETYPE_PEM) != 1))
        return box_fail(err, BOX_INTERNAL, "load the certificate");
    e->ssl = SSL_new(e->ctx);
    if (e->ssl == NULL || SSL_set_fd(e->ssl, fd) != 1)
        return box_fail(err, BOX_INTERNAL, "set TLS up");
    return 0;
}

/* Sends until the other end is gone. */
static void *serve(void *arg)
{
    end *e = arg;
    sigset_t pipe;
    (void)sigemptyset(&pipe);
    (void)sigaddset(&pipe, SIGPIPE);
    (void)pthread_sigmask(SIG_BLOCK, &pipe, NULL);
    BOX_AUTO(box_freep) uint8_t *data = box_alloc(PIECE_BYTES);
    if (SSL_accept(e->ssl) != 1)
        return NULL;
    while (SSL_write(e->ssl, data, PIECE_BYTES) > 0)
        continue;
    return NULL;
}

/* The first piece starts the clock. */
static int count(end *e, uint64_t ns, double *rate, box_error *err)
{
    BOX_AUTO(box_freep) uint8_t *data = box_alloc(PIECE_BYTES);
    uint64_t total = 0;
    box_time begin = 0;
    if (SSL_connect(e->ssl) != 1)
        return box_fail(err, BOX_INTERNAL, "the handshake failed");
    for (;;) {
        int n = SSL_read(e->ssl, data, PIECE_BYTES);
        if (n <= 0)
            return box_fail(err, BOX_INTERNAL, "nothing came");
        box_time now = box_now();
        if (begin == 0)
            begin = now;
        else
            total += (uint64_t)n;
        if (now - begin >= ns) {
            *rate = (double)total / ((double)(now - begin) / (double)BOX_SECOND);
            return 0;
        }
    }
}

/* Two ends of a TCP connection on loopback. */
static int connect_pair(int *a, int *b, box_error *err)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;
    BOX_AUTO(box_closep) int listening = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    BOX_AUTO(box_closep) int client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (listening < 0 || client < 0 || bind(listening, (struct sockaddr *)&at, len) < 0 ||
        listen(listening, 1) < 0 || getsockname(listening, (struct sockaddr *)&at, &len) < 0 ||
        connect(client, (struct sockaddr *)&at, len) < 0)
        return box_fail_errno(err, "connect to this program");
    *a = accept4(listening, NULL, NULL, SOCK_CLOEXEC);
    if (*a < 0)
        return box_fail_errno(err, "accept");
    *b = box_take_fd(&client);
    return 0;
}

int bench_tls_rate(const bench_files *f, uint64_t ns, double *rate, box_error *err)
{
    end server, client;
    pthread_t thread;
    int a = -1;
    int b = -1;
    if (connect_pair(&a, &b, err) < 0)
        return -1;
    int rc = end_init(&server, a, TLS_server_method(), f, err);
    rc |= end_init(&client, b, TLS_client_method(), NULL, err);
    if (rc == 0 && pthread_create(&thread, NULL, serve, &server) != 0) {
        rc = box_fail(err, BOX_INTERNAL, "start a thread");
    } else if (rc == 0) {
        rc = count(&client, ns, rate, err);
        end_done(&client); /* the other thread gets an error, also one that waits for room */
        (void)pthread_join(thread, NULL);
        end_done(&server);
        return rc;
    }
    end_done(&client);
    end_done(&server);
    return rc;
}
