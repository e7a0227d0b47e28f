#include "net/server.h"

#include <assert.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "net/internal.h"

/* --- life ------------------------------------------------------------------------------------- */

static void loop_start(void *arg)
{
    net_loop *nl = arg;
    if (!nl->draining)
        box_accept_start(nl);
}

static void loop_init(net_loop *nl, box_net *n, box_loop *loop)
{
    nl->net = n;
    nl->loop = loop;
    nl->read_bytes = box_alloc(BOX_READ_BYTES);
    /* OpenSSL may hold one record of 16 KiB from before. */
    box_buf_init(&nl->plain, 2 * BOX_READ_BYTES);
    box_buf_init(&nl->to_seal, 2 * BOX_SEND_BYTES);
    box_list_init(&nl->connections);
    box_list_init(&nl->handshakes);
    box_loop_post(loop, loop_start, nl);
}

int box_net_new(const box_net_config *config, box_net **out, box_error *err)
{
    (void)err;
    unsigned n_loops = box_loops_count(config->loops);
    box_net *n = box_alloc(sizeof *n + n_loops * sizeof n->loops[0]);
    n->config = *config;
    n->rpc.services = config->services;
    n->rpc.n_services = config->n_services;
    n->rpc.admit = config->admit;
    n->rpc.max_message_bytes = config->max_message_bytes;
    n->rpc.budget = config->budget;
    n->rpc.test_page = config->test_page;
    n->rpc.page = config->page;
    n->rpc.counts = box_call_counts_new(config->services, config->n_services);
    n->rpc.max_calls = config->limits.calls_per_connection;
    n->rpc.ping_min_interval_ns = config->limits.ping_min_interval_ns;
    n->rpc.permit_ping_without_calls = config->limits.permit_ping_without_calls;
    n->rpc.tenants = box_tally_new(config->limits.connections_per_tenant);
    n->peers = box_tally_new(config->limits.connections_per_peer);
    n->penalty = box_penalty_new(config->limits.bad_connections);
    if (n->config.limits.connections == 0)
        n->config.limits.connections = BOX_MAX_CONNECTIONS;
    n->n_loops = n_loops;
    atomic_init(&n->loops_listening, n_loops);
    for (unsigned i = 0; i < n_loops; i++)
        loop_init(&n->loops[i], n, box_loops_get(config->loops, i));
    *out = n;
    return 0;
}

static void loop_recheck(void *arg)
{
    box_connection_recheck_all(arg);
}

void box_net_recheck(box_net *n)
{
    for (unsigned i = 0; i < n->n_loops; i++)
        box_loop_post(n->loops[i].loop, loop_recheck, &n->loops[i]);
}

void box_net_free(box_net *n)
{
    if (n == NULL)
        return;
    for (unsigned i = 0; i < n->n_loops; i++) {
        net_loop *nl = &n->loops[i];
        box_accept_stop(nl);
        box_timer_free(nl->drain_timer);
        nl->drained = true; /* nobody is left to be told */
        box_connection_event_all(nl, EVENT_FORCE);
        box_connection_reap_all(nl);
        box_buf_done(&nl->plain);
        box_buf_done(&nl->to_seal);
        free(nl->read_bytes);
    }
    for (unsigned i = 0; i < n->n_listeners; i++)
        box_listener_done(&n->listeners[i]);
    box_tally_free(n->peers);
    box_penalty_free(n->penalty);
    box_tally_free(n->rpc.tenants);
    box_call_counts_free(n->rpc.counts);
    free(n);
}

void box_net_stats_get(const box_net *n, box_net_stats *out)
{
    *out = (box_net_stats){
        .connections_open = atomic_load(&n->connections_open),
        .connections_total = atomic_load(&n->connections_total),
        .calls_open = atomic_load(&n->rpc.calls_open),
        .calls_total = atomic_load(&n->rpc.calls_total),
        .ended_badly = atomic_load(&n->ended_badly),
        .holds = atomic_load(&n->holds),
        .refused_held = atomic_load(&n->refused_held),
        .refused_peer = atomic_load(&n->refused_peer),
        .handshakes_queued = atomic_load(&n->handshakes_queued),
        .handshakes_waiting = atomic_load(&n->handshakes_waiting),
    };
}

unsigned box_net_waiting(const box_net *n, unsigned loop)
{
    assert(loop < n->n_loops);
    return atomic_load(&n->loops[loop].waiting);
}

box_call_counts *box_net_call_counts(const box_net *n)
{
    return n->rpc.counts;
}

/* --- listeners -------------------------------------------------------------------------------- */

static int next_listener(box_net *n, box_listener **out, box_error *err)
{
    if (n->n_listeners == BOX_MAX_LISTENERS)
        return box_fail(err, BOX_VALIDATION, "at most %d listeners", BOX_MAX_LISTENERS);
    *out = &n->listeners[n->n_listeners];
    return 0;
}

int box_net_listen_tcp(box_net *n, const char *address, box_tls_context *tls, uint16_t *port,
                       box_error *err)
{
    box_listener *l = NULL;
    if (next_listener(n, &l, err) < 0 || box_listener_tcp(address, tls, l, port, err) < 0)
        return -1;
    n->n_listeners++;
    return 0;
}

int box_net_listen_unix(box_net *n, const char *path, box_error *err)
{
    box_listener *l = NULL;
    if (next_listener(n, &l, err) < 0 || box_listener_unix(path, l, err) < 0)
        return -1;
    n->n_listeners++;
    return 0;
}

typedef struct adoption {
    net_loop *nl;
    int fd;
    void (*closed)(void *arg);
    void *arg;
} adoption;

static void adopt(void *arg)
{
    BOX_AUTO(box_freep) adoption *a = arg;
    const net_origin from = {.address = "unix", .is_unix = true};
    box_connection_start(a->nl, a->fd, &from, NULL, a->closed, a->arg);
}

int box_net_adopt(box_net *n, int fd, void (*closed)(void *arg), void *arg, box_error *err)
{
    if (box_fd_set_nonblocking(fd, err) < 0) {
        close(fd);
        return -1;
    }
    adoption *a = box_alloc(sizeof *a);
    *a = (adoption){.nl = &n->loops[0], .fd = fd, .closed = closed, .arg = arg};
    box_loop_post(n->loops[0].loop, adopt, a);
    return 0;
}

/* --- drain ------------------------------------------------------------------------------------ */

static void on_loop_drained(void *arg)
{
    box_net *n = arg;
    if (++n->loops_drained == n->n_loops && n->done != NULL)
        n->done(n->done_arg);
}

void box_net_loop_check_drained(net_loop *nl)
{
    if (!nl->draining || nl->drained || !box_list_empty(&nl->connections))
        return;
    nl->drained = true;
    box_timer_free(box_take(nl->drain_timer));
    box_loop_post(nl->net->loops[0].loop, on_loop_drained, nl->net);
}

enum { DRAIN_STEPS = 4 };

/* When the next step of a drain comes. After the last one no connection is left. */
static box_time next_step_at(const box_net *n, unsigned step)
{
    const uint64_t goaway_ns = BOX_GOAWAY_WAIT_MS * BOX_MS;
    const uint64_t drain_ns = n->config.drain_ns;
    const uint64_t wait_ns[DRAIN_STEPS - 1] = {
        goaway_ns,
        drain_ns > goaway_ns ? drain_ns - goaway_ns : 0,
        BOX_CANCEL_WAIT_MS * BOX_MS,
    };
    return step < DRAIN_STEPS - 1 ? box_time_add(box_now(), wait_ns[step]) : BOX_TIME_NEVER;
}

static void drain_step(void *arg)
{
    static const connection_event events[DRAIN_STEPS] = {EVENT_DRAIN, EVENT_DRAIN_FINISH,
                                                         EVENT_CANCEL, EVENT_FORCE};
    net_loop *nl = arg;
    unsigned step = nl->drain_step++;
    assert(step < DRAIN_STEPS);
    box_timer_set(nl->drain_timer, next_step_at(nl->net, step));
    box_connection_event_all(nl, events[step]);
    box_net_loop_check_drained(nl);
}

static void loop_drain(void *arg)
{
    net_loop *nl = arg;
    nl->draining = true;
    box_accept_stop(nl);
    if (atomic_fetch_sub(&nl->net->loops_listening, 1) == 1) {
        for (unsigned i = 0; i < nl->net->n_listeners; i++)
            box_listener_done(&nl->net->listeners[i]);
    }
    nl->drain_timer = box_timer_new(nl->loop, drain_step, nl);
    /* In the next turn: what health watchers were told has gone by then (grpc-conformance.md, 147),
     * and a GOAWAY would overtake it. */
    box_timer_set(nl->drain_timer, box_now());
}

void box_net_drain(box_net *n, void (*done)(void *arg), void *arg)
{
    if (atomic_exchange(&n->draining, true))
        return;
    n->done = done; /* loop 0 reads it after the posts below */
    n->done_arg = arg;
    for (unsigned i = 0; i < n->n_loops; i++)
        box_loop_post(n->loops[i].loop, loop_drain, &n->loops[i]);
}
