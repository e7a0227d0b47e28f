#include "live.h"

#include <stdlib.h>
#include <time.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "box/v1/control.client.h"
#include "memory.h"
#include "session_calls.h"

/* Pools are filled again, and what was freed is given back. */
enum { SETTLE_MS = 500 };

typedef struct memory {
    double resident; /* of boxd */
    double below;    /* of the warden and all below it */
    double kernel;
} memory;

int bench_resident(box_channel *channel, bool *known, double *out, box_error *err)
{
    Box__V1__GetStatusRequest request;
    box__v1__get_status_request__init(&request);
    Box__V1__GetStatusResponse *response = NULL;
    if (box_v1_control_service_get_status(channel, NULL, &request, &response, err) < 0)
        return -1;
    *known = response->server != NULL;
    *out = *known ? (double)response->server->resident_bytes : 0;
    box__v1__get_status_response__free_unpacked(response, NULL);
    return 0;
}

int bench_live_begin(const load_target *t, live_report *out, box_error *err)
{
    box_channel *channel;
    if (box_channel_new(t->endpoint, NULL, &channel, err) < 0)
        return -1;
    int rc = bench_resident(channel, &out->has_server, &out->resident_bytes, err);
    box_channel_free(channel);
    return rc;
}

static int look(box_channel *channel, pid_t warden, memory *out, box_error *err)
{
    bool known;
    (void)nanosleep(&(struct timespec){.tv_nsec = SETTLE_MS * 1000000L}, NULL);
    if (bench_resident(channel, &known, &out->resident, err) < 0)
        return -1;
    if (warden == 0)
        return 0;
    if (bench_kernel_bytes(&out->kernel, err) < 0)
        return -1;
    return bench_tree_pss_bytes(warden, &out->below, err);
}

static int make_one(load_worker *w, box_channel *channel, char uid[64], box_error *err)
{
    *w = (load_worker){.channel = channel};
    bench_session_name(w);
    return bench_session_create(w, true, uid, err);
}

/* The first one, made before, pays for what all share. */
static int make_all(load_worker *all, size_t wanted, live_report *out, box_error *err)
{
    pid_t warden;
    char uid[64];
    memory before = {0};
    memory after = {0};
    box_channel *channel = all[0].channel;
    if (make_one(&all[0], channel, uid, err) < 0)
        return -1;
    out->sessions = 1;
    warden = bench_warden_of(uid);
    out->has_processes = warden != 0;
    if (look(channel, warden, &before, err) < 0)
        return -1;
    box_time begin = box_now();
    while (out->sessions < wanted &&
           make_one(&all[out->sessions], channel, uid, &out->stopped_by) == 0)
        out->sessions++;
    out->seconds = (double)(box_now() - begin) / (double)BOX_SECOND;
    if (look(channel, warden, &after, err) < 0)
        return -1;
    double n = out->sessions > 1 ? (double)(out->sessions - 1) : 1;
    out->pss_bytes_each = (after.below - before.below + after.resident - before.resident) / n;
    out->kernel_bytes_each = (after.kernel - before.kernel) / n;
    return 0;
}

int bench_live_sessions(const load_target *t, size_t wanted, live_report *out, box_error *err)
{
    load_worker *all = box_alloc_array(wanted, sizeof *all);
    int rc = box_channel_new(t->endpoint, NULL, &all[0].channel, err);
    box_channel *channel = all[0].channel;
    if (rc == 0)
        rc = make_all(all, wanted, out, err);
    box_time begin = box_now();
    for (size_t i = 0; i < out->sessions; i++)
        bench_session_finish(&all[i]);
    out->delete_seconds = (double)(box_now() - begin) / (double)BOX_SECOND;
    box_channel_free(channel);
    free(all);
    return rc;
}
