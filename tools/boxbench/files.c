#include "files.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "attach.h"
#include "base/clock.h"
#include "box/v1/control.client.h"
#include "box/v1/file.client.h"
#include "box/v1/session.client.h"
#include "box/v1/types.fields.h"
#include "growth.h"
#include "peers.h"
#include "session_calls.h"
#include "tls_floor.h"

enum {
    SMALL_BYTES = 1024,
    PIECE_BYTES = 256 * 1024,
    PIECES = 256, /* 64 MiB */
    QUICK_PIECES = 16,
    CALLS = 3000,
    QUICK_CALLS = 100,
    ROUNDS = 3,
    FLOOR_MS = 1000,
    QUICK_FLOOR_MS = 200,
};

static char small_path[] = "small";
static char large_path[] = "large";

typedef struct figures {
    bench_case health;
    bench_case read;
    double openssl, tls; /* bytes a second, the best round; 0: there is no openssl here */
    double upload, download;
    bench_growth growth; /* of boxd, looked at in the middle of each stream */
} figures;

/* --- small calls ------------------------------------------------------------------------------ */

static int call_health(load_worker *w, box_error *err)
{
    Box__V1__HealthRequest request;
    Box__V1__HealthResponse *response = NULL;
    box__v1__health_request__init(&request);
    if (box_v1_control_service_health(w->channel, NULL, &request, &response, err) < 0)
        return -1;
    box__v1__health_response__free_unpacked(response, NULL);
    return 0;
}

static int call_read(load_worker *w, box_error *err)
{
    Box__V1__ReadFileRequest request;
    Box__V1__ReadFileResponse *response = NULL;
    box__v1__read_file_request__init(&request);
    request.session_id = w->session;
    request.path = small_path;
    if (box_v1_file_service_read_file(w->channel, NULL, &request, &response, err) < 0)
        return -1;
    size_t len = response->text != NULL ? strlen(response->text) : 0;
    box__v1__read_file_response__free_unpacked(response, NULL);
    return len == SMALL_BYTES ? 0 : box_fail(err, BOX_PROTOCOL, "another file was read");
}

static int write_small(load_worker *w, box_error *err)
{
    uint8_t data[SMALL_BYTES];
    Box__V1__WriteFileRequest request;
    Box__V1__WriteFileResponse *response = NULL;
    memset(data, 'x', sizeof data);
    box__v1__write_file_request__init(&request);
    request.session_id = w->session;
    request.path = small_path;
    request.data = (ProtobufCBinaryData){.data = data, .len = sizeof data};
    if (box_v1_file_service_write_file(w->channel, NULL, &request, &response, err) < 0)
        return -1;
    box__v1__write_file_response__free_unpacked(response, NULL);
    return 0;
}

/* A session with room for a file and the one that takes its place. */
static int prepare(load_worker *w, box_error *err)
{
    Box__V1__CreateSessionRequest request;
    Box__V1__CreateSessionResponse *response = NULL;
    Box__V1__SessionSpec spec;
    box__v1__create_session_request__init(&request);
    box__v1__session_spec__init(&spec);
    bench_session_name(w);
    box__v1__session_spec__set_workspace_limit_bytes(&spec, (int64_t)160 * 1024 * 1024);
    request.session_id = w->session;
    request.spec = &spec;
    if (box_v1_session_service_create_session(w->channel, NULL, &request, &response, err) < 0)
        return -1;
    box__v1__create_session_response__free_unpacked(response, NULL);
    return write_small(w, err);
}

/* --- streams ---------------------------------------------------------------------------------- */

static double rate_of(uint64_t bytes, box_time begin)
{
    return (double)bytes / ((double)(box_now() - begin) / (double)BOX_SECOND);
}

static int send_pieces(box_client_call *call, size_t pieces, bench_growth *growth, box_error *err)
{
    static uint8_t data[PIECE_BYTES];
    for (size_t i = 0; i < pieces; i++) {
        Box__V1__UploadFileRequest m;
        box__v1__upload_file_request__init(&m);
        m.request_case = BOX__V1__UPLOAD_FILE_REQUEST__REQUEST_DATA;
        m.data = (ProtobufCBinaryData){.data = data, .len = sizeof data};
        if (box_v1_file_service_upload_file_send(call, &m, err) < 0 ||
            (i == pieces / 2 && bench_growth_look(growth, err) < 0))
            return -1;
    }
    return 0;
}

static int upload(load_worker *w, size_t pieces, bench_growth *growth, double *rate, box_error *err)
{
    box_client_call *call = NULL;
    Box__V1__UploadFileRequest m;
    Box__V1__UploadFileStart start;
    Box__V1__UploadFileResponse *response = NULL;
    box_time begin = box_now();
    box__v1__upload_file_request__init(&m);
    box__v1__upload_file_start__init(&start);
    start.session_id = w->session;
    start.path = large_path;
    m.request_case = BOX__V1__UPLOAD_FILE_REQUEST__REQUEST_START;
    m.start = &start;
    if (box_v1_file_service_upload_file(w->channel, NULL, &call, err) < 0)
        return -1;
    int rc = box_v1_file_service_upload_file_send(call, &m, err);
    rc = rc < 0 ? rc : send_pieces(call, pieces, growth, err);
    rc = rc < 0 ? rc : box_v1_file_service_upload_file_finish(call, &response, err);
    box_client_free(call);
    if (rc < 0)
        return -1;
    *rate = rate_of((uint64_t)response->received_bytes, begin);
    box__v1__upload_file_response__free_unpacked(response, NULL);
    return 0;
}

static int receive(box_client_call *call, uint64_t look_at, bench_growth *growth, uint64_t *bytes,
                   box_error *err)
{
    for (;;) {
        Box__V1__DownloadFileResponse *m = NULL;
        int rc = box_v1_file_service_download_file_receive(call, &m, err);
        if (rc <= 0)
            return rc;
        if (m->response_case == BOX__V1__DOWNLOAD_FILE_RESPONSE__RESPONSE_DATA)
            *bytes += m->data.len;
        box__v1__download_file_response__free_unpacked(m, NULL);
        if (*bytes >= look_at) {
            look_at = UINT64_MAX;
            if (bench_growth_look(growth, err) < 0)
                return -1;
        }
    }
}

static int download(load_worker *w, size_t pieces, bench_growth *growth, double *rate,
                    box_error *err)
{
    box_client_call *call = NULL;
    Box__V1__DownloadFileRequest request;
    uint64_t bytes = 0;
    box_time begin = box_now();
    box__v1__download_file_request__init(&request);
    request.session_id = w->session;
    request.path = large_path;
    if (box_v1_file_service_download_file(w->channel, NULL, &request, &call, err) < 0)
        return -1;
    int rc = receive(call, (uint64_t)pieces * PIECE_BYTES / 2, growth, &bytes, err);
    box_client_free(call);
    if (rc == 0 && bytes != (uint64_t)pieces * PIECE_BYTES)
        return box_fail(err, BOX_PROTOCOL, "another file was read");
    *rate = rate_of(bytes, begin);
    return rc;
}

/* --- all of it -------------------------------------------------------------------------------- */

static void keep_best(double *best, double rate)
{
    *best = rate > *best ? rate : *best;
}

static int measure_small(const load_target *t, bool quick, figures *f, box_error *err)
{
    load_plan plan = {.connections = 1,
                      .threads_each = 1,
                      .calls = quick ? QUICK_CALLS : CALLS,
                      .call = call_health};
    if (load_run(t, &plan, &f->health, err) < 0)
        return -1;
    plan.call = call_read;
    plan.prepare = prepare;
    plan.finish = bench_session_finish;
    return load_run(t, &plan, &f->read, err);
}

static int measure_floors(const bench_files *files, bool quick, figures *f, box_error *err)
{
    uint64_t ns = (quick ? QUICK_FLOOR_MS : FLOOR_MS) * BOX_MS;
    double openssl = 0;
    double tls = 0;
    if (bench_openssl_rate(files, ns, &openssl, err) < 0)
        return box_wrap(err, "openssl");
    if (bench_tls_rate(files, ns, &tls, err) < 0)
        return box_wrap(err, "TLS");
    keep_best(&f->openssl, openssl);
    keep_best(&f->tls, tls);
    return 0;
}

/* Rounds alternate: what the machine does meanwhile hits all alike. */
static int measure_rounds(load_worker *w, const bench_files *files, bool quick, figures *f,
                          box_error *err)
{
    size_t pieces = quick ? QUICK_PIECES : PIECES;
    for (int i = 0; i < ROUNDS; i++) {
        double up = 0;
        double down = 0;
        if (files != NULL && measure_floors(files, quick, f, err) < 0)
            return -1;
        if (upload(w, pieces, &f->growth, &up, err) < 0 ||
            download(w, pieces, &f->growth, &down, err) < 0)
            return -1;
        keep_best(&f->upload, up);
        keep_best(&f->download, down);
    }
    return 0;
}

/* The floors need the program, for a certificate too. */
static int measure_beside_openssl(load_worker *w, bool quick, figures *f, box_error *err)
{
    bench_files files = {.dir = ""};
    if (!bench_has_openssl())
        return measure_rounds(w, NULL, quick, f, err);
    int rc = bench_files_make(&files, err);
    rc = rc < 0 ? rc : measure_rounds(w, &files, quick, f, err);
    bench_files_remove(&files);
    return rc;
}

static int measure_streams(const load_target *t, bool quick, figures *f, box_error *err)
{
    load_worker w = {0};
    if (box_channel_new(t->endpoint, NULL, &w.channel, err) < 0)
        return -1;
    int rc = prepare(&w, err);
    rc = rc < 0 ? rc : bench_growth_begin(&f->growth, t, err);
    rc = rc < 0 ? rc : measure_beside_openssl(&w, quick, f, err);
    bench_growth_end(&f->growth);
    bench_session_finish(&w);
    box_channel_free(w.channel);
    return rc;
}

/* The floor is openssl's programs, as for --attach; the bare TLS rate is there to compare. */
static void report_json(figures *f, double read)
{
    json_t *rates = json_pack("{s:f, s:f}", "upload", f->upload, "download", f->download);
    json_t *ratios = json_pack("{s:f}", "read_to_health", read);
    if (f->openssl > 0) {
        (void)json_object_set_new(rates, "openssl", json_real(f->openssl));
        (void)json_object_set_new(rates, "tls", json_real(f->tls));
        (void)json_object_set_new(ratios, "upload_to_openssl", json_real(f->upload / f->openssl));
        (void)json_object_set_new(ratios, "download_to_openssl",
                                  json_real(f->download / f->openssl));
        (void)json_object_set_new(ratios, "upload_to_tls", json_real(f->upload / f->tls));
        (void)json_object_set_new(ratios, "download_to_tls", json_real(f->download / f->tls));
    }
    json_t *root = json_pack("{s:o, s:o, s:o, s:f, s:o}", "health", bench_json(&f->health), "read",
                             bench_json(&f->read), "bytes_per_second", rates, "boxd_grown_bytes",
                             f->growth.most, "ratios", ratios);
    (void)json_dumpf(root, stdout, JSON_INDENT(2));
    printf("\n");
    json_decref(root);
}

static void print_rate(const char *name, double rate)
{
    printf("%-28s %10.1f MiB/s\n", name, rate / (1024 * 1024));
}

static void report(figures *f, bool json)
{
    double read = bench_percentile_us(&f->read, 50) / bench_percentile_us(&f->health, 50);
    if (json) {
        report_json(f, read);
        return;
    }
    bench_print(&f->health);
    bench_print(&f->read);
    if (f->openssl > 0) {
        print_rate("openssl", f->openssl);
        print_rate("tls", f->tls);
    }
    print_rate("upload", f->upload);
    print_rate("download", f->download);
    printf("\n");
    bench_target("read_to_health", read, "<= 2");
    if (f->openssl > 0) {
        bench_target("upload_to_openssl", f->upload / f->openssl, ">= 0.5");
        bench_target("download_to_openssl", f->download / f->openssl, ">= 0.5");
        bench_target("upload_to_tls", f->upload / f->tls, "none");
        bench_target("download_to_tls", f->download / f->tls, "none");
    }
    bench_target("boxd_grown MiB", f->growth.most / (1024 * 1024), "< 32");
}

int bench_files_calls(const load_target *t, bool quick, bool json, box_error *err)
{
    figures f = {.health = {.name = "health.c1"}, .read = {.name = "file.read"}};
    int rc = measure_small(t, quick, &f, err);
    rc = rc < 0 ? rc : measure_streams(t, quick, &f, err);
    if (rc == 0)
        report(&f, json);
    bench_done(&f.health);
    bench_done(&f.read);
    return rc;
}
