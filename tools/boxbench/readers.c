#include "readers.h"

#include <errno.h>
#include <poll.h>

#include "attach.h"
#include "base/clock.h"
#include "growth.h"
#include "session_calls.h"

/* READING of them take what comes. LOOK_MS: between two looks at boxd. */
enum { READERS = 100, READING = 3, LOOK_MS = 100, WAIT_SECONDS = 20 };

typedef struct reader {
    box_client_call *call;
    bool reads;
    bool began;
    bool ended;
} reader;

static void on_message(void *arg, box_client_call *call,
                       const Box__V1__AttachManagedProcessResponse *m)
{
    reader *r = arg;
    if (m->response_case != BOX__V1__ATTACH_MANAGED_PROCESS_RESPONSE__RESPONSE_STDOUT_DATA)
        return;
    r->began = true;
    if (!r->reads)
        box_client_pause(call, true);
}

static void on_done(void *arg, box_client_call *call, const box_error *status,
                    const box_metadata *trailers)
{
    reader *r = arg;
    (void)call;
    (void)status;
    (void)trailers;
    r->ended = true;
}

static int attach_all(load_worker *w, reader *readers, box_error *err)
{
    static const box_v1_process_service_attach_managed_process_events events = {
        .message = on_message, .done = on_done};
    for (int i = 0; i < READERS; i++) {
        readers[i].reads = i < READING;
        if (box_v1_process_service_attach_managed_process_start(
                w->channel, NULL, &events, &readers[i], &readers[i].call, err) < 0 ||
            bench_attach_start(w, readers[i].call, err) < 0)
            return -1;
    }
    return 0;
}

static bool all_began(const reader *readers)
{
    for (int i = 0; i < READERS; i++) {
        if (!readers[i].began)
            return false;
    }
    return true;
}

/* At least so long, and until all have something. */
static int watch(load_worker *w, const reader *readers, bench_growth *growth, uint64_t ns,
                 box_error *err)
{
    box_time begin = box_now();
    box_time look_at = begin;
    for (box_time now = begin;
         now - begin < ns || (!all_began(readers) && now - begin < WAIT_SECONDS * BOX_SECOND);
         now = box_now()) {
        struct pollfd p = {.fd = -1};
        int timeout;
        box_channel_poll(w->channel, &p.fd, &p.events, &timeout);
        if (poll(&p, 1, timeout < 0 || timeout > LOOK_MS ? LOOK_MS : timeout) < 0 && errno != EINTR)
            return box_fail_errno(err, "poll");
        box_channel_dispatch(w->channel);
        if (now < look_at)
            continue;
        look_at = box_time_add(now, LOOK_MS * BOX_MS);
        if (bench_growth_look(growth, err) < 0)
            return -1;
    }
    return 0;
}

static int check(const reader *readers, box_error *err)
{
    for (int i = 0; i < READERS; i++) {
        if (readers[i].ended)
            return box_fail(err, BOX_PROTOCOL, "reader %d ended", i);
    }
    return all_began(readers) ? 0 : box_fail(err, BOX_DEADLINE, "some got nothing");
}

int bench_readers(const load_target *t, uint64_t ns, double *grown, box_error *err)
{
    load_worker w = {0};
    bench_growth growth = {0};
    reader readers[READERS] = {0};
    if (box_channel_new(t->endpoint, NULL, &w.channel, err) < 0)
        return -1;
    bench_session_name(&w);
    int rc = bench_session_create(&w, false, NULL, err);
    rc = rc < 0 ? rc : bench_flood(&w, err);
    rc = rc < 0 ? rc : bench_growth_begin(&growth, t, err);
    rc = rc < 0 ? rc : attach_all(&w, readers, err);
    rc = rc < 0 ? rc : watch(&w, readers, &growth, ns, err);
    rc = rc < 0 ? rc : check(readers, err);
    *grown = growth.most;
    for (int i = 0; i < READERS; i++)
        box_client_free(readers[i].call);
    bench_growth_end(&growth);
    bench_session_finish(&w);
    box_channel_free(w.channel);
    return rc < 0 ? box_wrap(err, "readers") : 0;
}
