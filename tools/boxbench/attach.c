#include "attach.h"

#include <errno.h>
#include <jansson.h>
#include <poll.h>
#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "box/v1/process.client.h"
#include "box/v1/process.fields.h"
#include "peers.h"
#include "readers.h"
#include "session_calls.h"
#include "tls_floor.h"

enum { ROUNDS = 3, ROUND_MS = 2000, QUICK_MS = 200, ANY_CPU = -1, READ_BYTES = 256 * 1024 };

/* --- the floor: openssl s_server to s_client -------------------------------------------------- */

/* Reads for so long; bytes a second. The first piece starts the clock. */
static int count_bytes(int fd, uint64_t ns, double *rate, box_error *err)
{
    static uint8_t data[READ_BYTES];
    uint64_t total = 0;
    box_time begin = 0;
    for (;;) {
        ssize_t n = read(fd, data, sizeof data);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return box_fail(err, BOX_RUNTIME_UNAVAILABLE, "openssl sent nothing");
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

static int start_shell(const char *script, bench_process *out, box_error *err)
{
    const char *const argv[] = {"sh", "-c", script, NULL};
    return bench_process_start(argv, ANY_CPU, out, err);
}

/* -nbio: else s_server waits for the client's word where it took a handshake's end for one, and
 * nothing comes. */
int bench_openssl_rate(const bench_files *f, uint64_t ns, double *rate, box_error *err)
{
    char text[2 * PATH_MAX + 256];
    unsigned port;
    bench_process server = {.out = -1};
    bench_process client = {.out = -1};
    if (bench_free_port(&port, err) < 0)
        return -1;
    (void)snprintf(
        text, sizeof text,
        "exec openssl s_server -quiet -nbio -accept 127.0.0.1:%u -cert %s -key %s </dev/zero", port,
        f->cert, f->key);
    int rc = start_shell(text, &server, err);
    if (rc == 0)
        rc = bench_wait_connectable(port, err);
    (void)snprintf(text, sizeof text,
                   "exec openssl s_client -quiet -connect 127.0.0.1:%u </dev/null", port);
    if (rc == 0)
        rc = start_shell(text, &client, err);
    if (rc == 0)
        rc = count_bytes(client.out, ns, rate, err);
    bench_process_stop(&client);
    bench_process_stop(&server);
    return rc;
}

/* --- Box -------------------------------------------------------------------------------------- */

typedef struct counting {
    uint64_t bytes;
    box_time begin; /* of the first piece */
    box_time last;
    bool done;
    box_error status;
} counting;

static void on_message(void *arg, box_client_call *call,
                       const Box__V1__AttachManagedProcessResponse *m)
{
    counting *c = arg;
    (void)call;
    if (m->response_case != BOX__V1__ATTACH_MANAGED_PROCESS_RESPONSE__RESPONSE_STDOUT_DATA)
        return;
    c->last = box_now();
    if (c->begin == 0)
        c->begin = c->last;
    else
        c->bytes += m->stdout_data->data.len;
}

static void on_done(void *arg, box_client_call *call, const box_error *status,
                    const box_metadata *trailers)
{
    counting *c = arg;
    (void)call;
    (void)trailers;
    c->done = true;
    c->status = *status;
}

int bench_flood(load_worker *w, box_error *err)
{
    static char cat[] = "cat";
    static char zero[] = "/dev/zero";
    char *argv[] = {cat, zero};
    Box__V1__ProcessSpec spec;
    box__v1__process_spec__init(&spec);
    spec.argv = argv;
    spec.n_argv = 2;
    Box__V1__StartManagedProcessRequest request;
    box__v1__start_managed_process_request__init(&request);
    request.session_id = w->session;
    request.spec = &spec;
    Box__V1__StartManagedProcessResponse *response = NULL;
    if (box_v1_process_service_start_managed_process(w->channel, NULL, &request, &response, err) <
        0)
        return -1;
    box__v1__start_managed_process_response__free_unpacked(response, NULL);
    return 0;
}

int bench_attach_start(load_worker *w, box_client_call *call, box_error *err)
{
    Box__V1__AttachStart start;
    box__v1__attach_start__init(&start);
    Box__V1__AttachManagedProcessRequest m;
    box__v1__attach_managed_process_request__init(&m);
    start.session_id = w->session;
    m.request_case = BOX__V1__ATTACH_MANAGED_PROCESS_REQUEST__REQUEST_START;
    m.start = &start;
    return box_v1_process_service_attach_managed_process_send(call, &m, err);
}

static int receive(load_worker *w, counting *c, uint64_t ns, box_error *err)
{
    while (!c->done && (c->begin == 0 || c->last - c->begin < ns)) {
        struct pollfd p = {.fd = -1};
        int timeout;
        box_channel_poll(w->channel, &p.fd, &p.events, &timeout);
        if (poll(&p, 1, timeout) < 0 && errno != EINTR)
            return box_fail_errno(err, "poll");
        box_channel_dispatch(w->channel);
    }
    if (!c->done)
        return 0;
    *err = c->status;
    return err->reason != BOX_NONE ? -1 : box_fail(err, BOX_PROTOCOL, "the process ended");
}

static int attach(load_worker *w, uint64_t ns, double *rate, box_error *err)
{
    static const box_v1_process_service_attach_managed_process_events events = {
        .message = on_message, .done = on_done};
    counting c = {0};
    box_client_call *call = NULL;
    if (box_v1_process_service_attach_managed_process_start(w->channel, NULL, &events, &c, &call,
                                                            err) < 0)
        return -1;
    int rc = bench_attach_start(w, call, err);
    if (rc == 0)
        rc = receive(w, &c, ns, err);
    box_client_cancel(call);
    box_client_free(call);
    if (rc == 0)
        *rate = (double)c.bytes / ((double)(c.last - c.begin) / (double)BOX_SECOND);
    return rc;
}

static int measure_box(const load_target *t, uint64_t ns, double *rate, box_error *err)
{
    load_worker w = {0};
    if (box_channel_new(t->endpoint, NULL, &w.channel, err) < 0)
        return -1;
    bench_session_name(&w);
    int rc = bench_session_create(&w, false, NULL, err);
    if (rc == 0)
        rc = bench_flood(&w, err);
    if (rc == 0)
        rc = attach(&w, ns, rate, err);
    bench_session_finish(&w);
    box_channel_free(w.channel);
    return rc;
}

/* --- all of it -------------------------------------------------------------------------------- */

typedef struct figures {
    double openssl, tls, attach; /* bytes a second; the best round: noise only makes them worse */
    double grown_bytes;          /* boxd's, with many readers */
} figures;

static void keep_best(double *best, double rate)
{
    *best = rate > *best ? rate : *best;
}

/* Rounds alternate: what the machine does meanwhile hits all alike. */
static int measure(const load_target *t, const bench_files *files, bool quick, figures *f,
                   box_error *err)
{
    uint64_t ns = (quick ? QUICK_MS : ROUND_MS) * BOX_MS;
    for (int i = 0; i < ROUNDS; i++) {
        double openssl = 0;
        double tls = 0;
        double attach_rate = 0;
        if (bench_openssl_rate(files, ns, &openssl, err) < 0)
            return box_wrap(err, "openssl");
        if (bench_tls_rate(files, ns, &tls, err) < 0)
            return box_wrap(err, "TLS");
        if (measure_box(t, ns, &attach_rate, err) < 0)
            return box_wrap(err, "attach");
        keep_best(&f->openssl, openssl);
        keep_best(&f->tls, tls);
        keep_best(&f->attach, attach_rate);
    }
    return bench_readers(t, ns, &f->grown_bytes, err);
}

static void report(const figures *f, bool json)
{
    const double mib = 1024 * 1024;
    if (!json) {
        printf("%-28s %10.1f MiB/s\n%-28s %10.1f MiB/s\n%-28s %10.1f MiB/s\n\n", "openssl",
               f->openssl / mib, "tls", f->tls / mib, "attach", f->attach / mib);
        bench_target("attach_to_openssl", f->attach / f->openssl, ">= 0.6");
        bench_target("attach_to_tls", f->attach / f->tls, "none");
        bench_target("readers_grown MiB", f->grown_bytes / mib, "< 64");
        return;
    }
    json_t *root =
        json_pack("{s:{s:f, s:f, s:f, s:f}, s:{s:f, s:f}}", "attach", "openssl_bytes_per_second",
                  f->openssl, "tls_bytes_per_second", f->tls, "bytes_per_second", f->attach,
                  "readers_grown_bytes", f->grown_bytes, "ratios", "attach_to_openssl",
                  f->attach / f->openssl, "attach_to_tls", f->attach / f->tls);
    (void)json_dumpf(root, stdout, JSON_INDENT(2));
    printf("\n");
    json_decref(root);
}

int bench_attach(const load_target *t, bool quick, bool json, box_error *err)
{
    bench_files files = {.dir = ""};
    figures f = {0};
    int rc = bench_files_make(&files, err);
    if (rc == 0)
        rc = measure(t, &files, quick, &f, err);
    if (rc == 0)
        report(&f, json);
    bench_files_remove(&files);
    return rc;
}
