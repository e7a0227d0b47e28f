/* Handshakes while many wait: each step (a signature, a key exchange: as much as a hundred frames)
 * is made by a worker, so that the calls of others wait for none of them. */
#include <assert.h>
#include <errno.h>
#include <sys/socket.h>

#include "base/alloc.h"
#include "net/connection.h"

/* One step. While it runs, the session is the worker's and the connection does not touch it; it is
 * the step's to free when the connection has gone meanwhile. */
struct handshake_step {
    net_loop *nl;
    connection *c; /* NULL: closed meanwhile */
    box_tls *tls;
    box_buf plain; /* what came behind the handshake's last message */
    bool closed;
    int rc;
    box_error err;
    size_t len;
    uint8_t data[BOX_SMALL_READ_BYTES];
};

BOX_WORKER static void step_run(void *arg)
{
    handshake_step *s = arg;
    s->rc = box_tls_receive(s->tls, s->data, s->len, &s->plain, &s->closed, &s->err);
}

/* It no longer waits for a worker. */
static void leave_queue(connection *c)
{
    if (c->is_queued)
        atomic_fetch_sub(&c->nl->net->handshakes_waiting, 1);
    c->is_queued = false;
}

BOX_LOOP static void step_end(handshake_step *s)
{
    connection *c = s->c;
    if (c != NULL) {
        assert(c->state == STATE_HANDSHAKE && c->step == s);
        c->step = NULL;
        leave_queue(c);
        atomic_fetch_sub(&s->nl->waiting, 1);
        box_connection_took(c, s->rc, s->closed, &s->plain, &s->err);
        if (c->state != STATE_CLOSED)
            box_connection_look_again(c);
    } else {
        box_tls_free(s->tls);
    }
    box_buf_done(&s->plain);
    free(s);
}

static void start_steps(net_loop *nl);

BOX_LOOP static void on_step_done(void *arg)
{
    handshake_step *s = arg;
    net_loop *nl = s->nl;
    nl->steps--;
    step_end(s);
    start_steps(nl);
}

static void step_start(connection *c, handshake_step *s)
{
    net_loop *nl = c->nl;
    box_error err;
    c->step = s;
    box_connection_look_again(c);
    if (box_loop_offload(nl->loop, step_run, on_step_done, s, &err) == 0) {
        nl->steps++;
        return;
    }
    step_run(s); /* the workers have too much to do, or have stopped: it is made here */
    step_end(s);
}

/* What came is read only now, so that what waits costs no memory. */
static void next_step(connection *c)
{
    handshake_step *s = box_alloc(sizeof *s);
    *s = (handshake_step){.nl = c->nl, .c = c, .tls = c->tls};
    box_buf_init(&s->plain, 2 * BOX_READ_BYTES);
    ssize_t n = box_connection_read(c, s->data, sizeof s->data);
    if (n > 0) {
        s->len = (size_t)n;
        step_start(c, s);
        return;
    }
    free(s);
    leave_queue(c);
    atomic_fetch_sub(&c->nl->waiting, 1);
    if (c->state != STATE_CLOSED)
        box_connection_look_again(c);
}

static void start_steps(net_loop *nl)
{
    while (nl->steps < BOX_HANDSHAKE_STEPS && !box_list_empty(&nl->handshakes)) {
        connection *c = BOX_CONTAINER(nl->handshakes.next, connection, turn.link);
        box_list_remove(&c->turn.link);
        next_step(c);
    }
}

void box_handshake_wait(connection *c)
{
    net_loop *nl = c->nl;
    atomic_fetch_add(&nl->net->handshakes_queued, 1);
    atomic_fetch_add(&nl->net->handshakes_waiting, 1);
    c->is_queued = true;
    atomic_fetch_add(&nl->waiting, 1);
    box_list_append(&nl->handshakes, &c->turn.link);
    box_connection_look_again(c);
    start_steps(nl);
}

void box_handshake_leave(connection *c)
{
    leave_queue(c);
    if (c->step == NULL)
        return;
    atomic_fetch_sub(&c->nl->waiting, 1);
    c->step->c = NULL;
    c->step = NULL;
    c->tls = NULL; /* the step's */
}
