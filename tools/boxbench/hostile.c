#include "hostile.h"

#include <jansson.h>
#include <libgen.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "attacks.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "box/channel.h"
#include "box/v1/control.client.h"
#include "memory.h"
#include "peers.h"
#include "stats.h"

enum { SECONDS = 2, CALLS_PER_LOOK = 200, MAX_ATTACKS = 32, CLIENT_CPU = 1 };
#define KIB 1024.0

typedef struct outcome {
    bench_case idle; /* just before it: the machine may have other work */
    bench_case calls;
    double grown_bytes; /* most memory during it, less that before */
    uint64_t connections, ended, sent_bytes;
} outcome;

typedef struct hostile {
    bool quick;
    bench_files files;
    bench_peer server;
    box_tls_context *tls;
    box_channel *honest;
    outcome outcomes[MAX_ATTACKS];
} hostile;

/* Any method will do: the server does not know it, and says so. */
static int call_once(box_channel *channel, bench_case *out, box_error *err)
{
    Box__V1__HealthRequest request;
    Box__V1__HealthResponse *response = NULL;
    box__v1__health_request__init(&request);
    box_time begin = box_now();
    int rc = box_v1_control_service_health(channel, NULL, &request, &response, err);
    bench_add(out, box_now() - begin);
    box__v1__health_response__free_unpacked(response, NULL);
    return rc == 0 || err->reason == BOX_UNIMPLEMENTED ? 0 : -1;
}

/* Calls one after another for some time, and the server's memory now and then. */
static int call_for(hostile *h, bench_case *out, double *most_bytes, box_error *err)
{
    box_time begin = box_now();
    box_time end = begin + (h->quick ? BOX_SECOND / 4 : SECONDS * BOX_SECOND);
    while (box_now() < end) {
        double bytes = 0;
        if (bench_pss_bytes(h->server.process.pid, &bytes, err) < 0)
            return -1;
        *most_bytes = bytes > *most_bytes ? bytes : *most_bytes;
        for (int i = 0; i < CALLS_PER_LOOK; i++) {
            if (call_once(h->honest, out, err) < 0)
                return -1;
        }
    }
    out->wall_ns = box_now() - begin;
    return 0;
}

static int measure_attack(hostile *h, size_t i, box_error *err)
{
    const attack *what = &bench_attacks[i];
    outcome *o = &h->outcomes[i];
    attacker a = {.what = what, .tls = h->tls, .port = h->server.port, .address = (unsigned)i + 1};
    pthread_t thread;
    double before = 0, most = 0;
    o->calls.name = what->name;
    if (call_for(h, &o->idle, &most, err) < 0 ||
        bench_pss_bytes(h->server.process.pid, &before, err) < 0)
        return -1;
    most = 0;
    if (pthread_create(&thread, NULL, bench_attack, &a) != 0)
        return box_fail_errno(err, "start an attacker");
    int rc = call_for(h, &o->calls, &most, err);
    atomic_store(&a.stop, true);
    (void)pthread_join(thread, NULL);
    o->grown_bytes = most > before ? most - before : 0;
    o->connections = a.connections;
    o->ended = a.ended;
    o->sent_bytes = a.sent_bytes;
    return rc < 0 ? box_wrap(err, "%s", what->name) : 0;
}

static int start(hostile *h, const char *dir, box_error *err)
{
    char target[64];
    if (sysconf(_SC_NPROCESSORS_ONLN) < 2)
        return box_fail(err, BOX_QUOTA, "--hostile needs two processors: one serves");
    cpu_set_t client;
    CPU_ZERO(&client);
    CPU_SET(CLIENT_CPU, &client);
    (void)sched_setaffinity(0, sizeof client, &client); /* less noise, no more */
    if (bench_files_make(&h->files, err) < 0 ||
        bench_peer_start(BENCH_BOX, dir, &h->files, &h->server, err) < 0 ||
        box_tls_context_client(h->files.cert, NULL, NULL, &h->tls, err) < 0)
        return -1;
    (void)snprintf(target, sizeof target, "dns:///127.0.0.1:%u", h->server.port);
    const box_channel_options options = {.ca_file = h->files.cert};
    return box_channel_new(target, &options, &h->honest, err);
}

static int measure(hostile *h, const char *dir, box_error *err)
{
    double unused = 0;
    bench_case warm = {0};
    if (start(h, dir, err) < 0)
        return -1;
    int rc = call_for(h, &warm, &unused, err);
    bench_done(&warm);
    if (rc < 0)
        return -1;
    for (size_t i = 0; i < bench_n_attacks; i++) {
        if (measure_attack(h, i, err) < 0)
            return -1;
    }
    return 0;
}

static double ratio_of(outcome *o)
{
    return bench_percentile_us(&o->calls, 99) / bench_percentile_us(&o->idle, 99);
}

static double megabits(const outcome *o)
{
    return (double)o->sent_bytes * 8 / 1e6 / ((double)o->calls.wall_ns / (double)BOX_SECOND);
}

static void report_table(hostile *h)
{
    printf("%-15s %8s %8s %8s %8s %8s %10s %8s %8s %8s  %s\n", "attack", "idle p50", "idle p99",
           "p50 us", "p99 us", "p99 x", "grown KiB", "conns", "ended", "Mbit/s", "what");
    for (size_t i = 0; i < bench_n_attacks; i++) {
        outcome *o = &h->outcomes[i];
        printf("%-15s %8.0f %8.0f %8.0f %8.0f %8.2f %10.0f %8llu %8llu %8.1f  %s\n",
               bench_attacks[i].name, bench_percentile_us(&o->idle, 50),
               bench_percentile_us(&o->idle, 99), bench_percentile_us(&o->calls, 50),
               bench_percentile_us(&o->calls, 99), ratio_of(o), o->grown_bytes / KIB,
               (unsigned long long)o->connections, (unsigned long long)o->ended, megabits(o),
               bench_attacks[i].meaning);
    }
}

static void report_json(hostile *h)
{
    json_t *all = json_object();
    for (size_t i = 0; i < bench_n_attacks; i++) {
        outcome *o = &h->outcomes[i];
        json_object_set_new(
            all, bench_attacks[i].name,
            json_pack("{s:o, s:o, s:f, s:f, s:I, s:I, s:I}", "idle", bench_json(&o->idle), "calls",
                      bench_json(&o->calls), "p99_to_idle", ratio_of(o), "grown_bytes",
                      o->grown_bytes, "connections", (json_int_t)o->connections, "ended",
                      (json_int_t)o->ended, "sent_bytes", (json_int_t)o->sent_bytes));
    }
    json_t *root = json_pack("{s:o}", "hostile", all);
    (void)json_dumpf(root, stdout, JSON_INDENT(2));
    printf("\n");
    json_decref(root);
}

static void hostile_done(hostile *h)
{
    box_channel_free(h->honest);
    box_tls_context_free(h->tls);
    bench_process_stop(&h->server.process);
    bench_files_remove(&h->files);
    for (size_t i = 0; i < bench_n_attacks; i++) {
        bench_done(&h->outcomes[i].idle);
        bench_done(&h->outcomes[i].calls);
    }
    free(h);
}

int bench_hostile(const char *dir, bool quick, bool json, box_error *err)
{
    char beside[PATH_MAX];
    if (dir == NULL && bench_find_servers(beside, err) < 0)
        return -1;
    hostile *h = box_alloc(sizeof *h);
    h->quick = quick;
    h->server.process.out = -1;
    int rc = measure(h, dir != NULL ? dir : beside, err);
    if (rc == 0 && json)
        report_json(h);
    else if (rc == 0)
        report_table(h);
    hostile_done(h);
    return rc;
}
