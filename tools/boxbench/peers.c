#include "peers.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/limits.h"

enum { ANY_CPU = -1, SERVER_CPU = 0, CONNECT_TRIES = 200, CONNECT_PAUSE_MS = 20, FILE_BYTES = 64 };
enum { MESSAGE_PREFIX = 5, STREAM_MESSAGES = 64 };

static int path_in(char out[static PATH_MAX], const char *dir, const char *name, box_error *err)
{
    int n = snprintf(out, PATH_MAX, "%s/%s", dir, name);
    return n > 0 && n < PATH_MAX ? 0 : box_fail(err, BOX_VALIDATION, "%s: path too long", dir);
}

static int write_file(const char *path, const void *data, size_t len, box_error *err)
{
    BOX_AUTO(box_closep) int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    return fd < 0 ? box_fail_errno(err, "create %s", path) : box_fd_write_all(fd, data, len, err);
}

static int make_certificate(const bench_files *f, box_error *err)
{
    const char *const argv[] = {"openssl",
                                "req",
                                "-x509",
                                "-newkey",
                                "ec",
                                "-pkeyopt",
                                "ec_paramgen_curve:P-256",
                                "-nodes",
                                "-keyout",
                                f->key,
                                "-out",
                                f->cert,
                                "-days",
                                "2",
                                "-subj",
                                "/CN=localhost",
                                "-addext",
                                "subjectAltName=IP:127.0.0.1",
                                NULL};
    bench_process p;
    BOX_AUTO(box_buf_done) box_buf out = {0};
    if (bench_process_start(argv, SERVER_CPU, &p, err) < 0 ||
        bench_process_output(&p, &out, err) < 0)
        return box_wrap(err, "make a certificate");
    return 0;
}

/* StreamingOutputCallRequest{response_parameters: 64 times {size: 16384}}, with its prefix. */
static int write_output_request(const char *path, box_error *err)
{
    static const uint8_t parameters[] = {0x12, 4, 0x08, 0x80, 0x80, 0x01};
    uint8_t request[MESSAGE_PREFIX + STREAM_MESSAGES * sizeof parameters] = {0};
    size_t len = sizeof request - MESSAGE_PREFIX;
    request[3] = (uint8_t)(len >> 8);
    request[4] = (uint8_t)len;
    for (size_t i = 0; i < STREAM_MESSAGES; i++)
        memcpy(&request[MESSAGE_PREFIX + i * sizeof parameters], parameters, sizeof parameters);
    return write_file(path, request, sizeof request, err);
}

bool bench_has_openssl(void)
{
    const char *const argv[] = {"openssl", "version", NULL};
    bench_process p = {.out = -1};
    box_error err;
    BOX_AUTO(box_buf_done) box_buf unused = {0};
    bool has = bench_process_start(argv, ANY_CPU, &p, &err) == 0 &&
               bench_process_output(&p, &unused, &err) == 0;
    bench_process_stop(&p);
    return has;
}

int bench_files_make(bench_files *f, box_error *err)
{
    static const uint8_t empty[MESSAGE_PREFIX] = {0};
    static const uint8_t file[FILE_BYTES] = {0};
    char path[PATH_MAX];
    (void)snprintf(f->dir, sizeof f->dir, "/tmp/boxbench-XXXXXX");
    if (mkdtemp(f->dir) == NULL)
        return box_fail_errno(err, "make a temporary directory");
    if (path_in(f->cert, f->dir, "cert.pem", err) < 0 ||
        path_in(f->key, f->dir, "key.pem", err) < 0 ||
        path_in(f->empty, f->dir, "empty", err) < 0 ||
        path_in(f->output, f->dir, "output", err) < 0 || path_in(path, f->dir, "64", err) < 0 ||
        write_file(f->empty, empty, sizeof empty, err) < 0 ||
        write_output_request(f->output, err) < 0 || write_file(path, file, sizeof file, err) < 0)
        return -1;
    return make_certificate(f, err);
}

void bench_files_remove(const bench_files *f)
{
    static const char *const names[] = {"cert.pem", "key.pem", "empty", "output", "64", "times"};
    BOX_AUTO(box_closep) int dir = open(f->dir, O_DIRECTORY | O_CLOEXEC);
    for (size_t i = 0; dir >= 0 && i < BOX_COUNT(names); i++)
        (void)unlinkat(dir, names[i], 0);
    (void)rmdir(f->dir);
}

int bench_free_port(unsigned *out, box_error *err)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof a;
    BOX_AUTO(box_closep) int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&a, len) < 0 ||
        getsockname(fd, (struct sockaddr *)&a, &len) < 0)
        return box_fail_errno(err, "find a free port");
    *out = ntohs(a.sin_port);
    return 0;
}

int bench_wait_connectable(unsigned port, box_error *err)
{
    const struct timespec pause = {.tv_nsec = CONNECT_PAUSE_MS * 1000000L};
    struct sockaddr_in a = {.sin_family = AF_INET,
                            .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                            .sin_port = htons((uint16_t)port)};
    for (int i = 0; i < CONNECT_TRIES; i++) {
        BOX_AUTO(box_closep) int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fd >= 0 && connect(fd, (struct sockaddr *)&a, sizeof a) == 0)
            return 0;
        (void)nanosleep(&pause, NULL);
    }
    return box_fail(err, BOX_RUNTIME_UNAVAILABLE, "nghttpd does not listen");
}

static int start_nghttpd(const bench_files *f, bench_peer *p, box_error *err)
{
    char port[16];
    if (bench_free_port(&p->port, err) < 0)
        return -1;
    (void)snprintf(port, sizeof port, "%u", p->port);
    const char *const argv[] = {"nghttpd",   "-n1", "-d",   f->dir,  "-a",
                                "127.0.0.1", port,  f->key, f->cert, NULL};
    if (bench_process_start(argv, SERVER_CPU, &p->process, err) < 0)
        return -1;
    return bench_wait_connectable(p->port, err);
}

/* Both print "ready tls=PORT ...". */
static int start_grpc(const char *const argv[], bench_peer *p, box_error *err)
{
    char line[128];
    if (bench_process_start(argv, SERVER_CPU, &p->process, err) < 0 ||
        bench_process_line(&p->process, line, sizeof line, err) < 0)
        return -1;
    const char *port = strstr(line, "tls=");
    p->port = port != NULL ? (unsigned)strtoul(port + strlen("tls="), NULL, 10) : 0;
    if (p->port == 0)
        return box_fail(err, BOX_INTERNAL, "%s said \"%s\"", p->name, line);
    return 0;
}

int bench_peer_start(bench_peer_kind kind, const char *dir, const bench_files *f, bench_peer *p,
                     box_error *err)
{
    static const char *const names[] = {"box", "grpcxx", "nghttpd"};
    char program[PATH_MAX];
    char bad[64];
    (void)snprintf(bad, sizeof bad, "bad_connections=%d", BOX_BAD_CONNECTIONS_PER_MINUTE);
    *p = (bench_peer){.name = names[kind], .process.out = -1};
    int rc = -1;
    if (kind == BENCH_NGHTTPD) {
        rc = start_nghttpd(f, p, err);
    } else if (kind == BENCH_GRPCXX) {
        const char *const argv[] = {program, f->cert, f->key, NULL};
        if (path_in(program, dir, "box-grpcxx-server", err) == 0)
            rc = start_grpc(argv, p, err);
    } else {
        const char *const argv[] = {program,
                                    "--tls",
                                    "127.0.0.1:0",
                                    "--cert",
                                    f->cert,
                                    "--key",
                                    f->key,
                                    "--loops",
                                    "1",
                                    "--net",
                                    "ping_min_interval=10000",
                                    "--net",
                                    bad,
                                    NULL};
        if (path_in(program, dir, "box-echo-server", err) == 0)
            rc = start_grpc(argv, p, err);
    }
    return rc < 0 ? box_wrap(err, "start %s", p->name) : 0;
}

int bench_find_servers(char out[static PATH_MAX], box_error *err)
{
    char self[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    if (n < 0)
        return box_fail_errno(err, "find this program");
    self[n] = '\0';
    int len = snprintf(out, PATH_MAX, "%s/../tests", dirname(self));
    return len < PATH_MAX ? 0 : box_fail(err, BOX_VALIDATION, "this program's path is too long");
}
