/* A channel with its lanes, connections and calls, against servers, a resolver and a clock that do
 * what the input says. First byte: the target and the options (set_up). Then steps: below
 * PEER_STEPS a server's frames (h2_script.h), above those of the world and of the program (the
 * table steps). After each the program's loop turns once and check() looks whether all still fits
 * together.
 *
 * What the library asks of the system is answered here (--wrap in CMakeLists.txt): connect,
 * getsockopt, the clock, the resolver. A connection is one end of a socket pair. */
#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "box/call.h"
#include "channel_fuzz.h"
#include "conn.h"
#include "echo.pb-c.h"
#include "fuzz.h"
#include "h2_script.h"
#include "resolve.h"
#include "wire/service.h"

enum {
    PEER_STEPS = 0x80,
    MAX_PEERS = 16,
    MAX_CALLS = 24,
    MAX_FDS = 256,
    N_ADDRESSES = 4,
    SMALL_BUFFER = 4096,
};

/* What comes of connecting to an address. */
typedef enum fate { AT_ONCE, REFUSED, LATER, LATE_REFUSED, N_FATES } fate;

/* What a callback of a call does. */
typedef enum action {
    DO_NOTHING,
    DO_CANCEL,
    DO_FREE,
    DO_FREE_OTHER,
    DO_START,
    DO_SEND,
    DO_PAUSE,
    N_ACTIONS,
} action;

typedef struct world world;

typedef struct peer {
    int fd; /* -1: nobody is connected to it */
    int client_fd;
    fate fate;
    bool is_pending; /* the client's end is not connected yet, as far as it knows */
    bool is_stalled; /* reads nothing */
    h2_script script;
} peer;

typedef struct started {
    world *world;
    box_client_call *call; /* NULL: freed */
    bool has_headers, is_done;
    bool is_starting; /* no event may come */
} started;

struct box_resolution {
    bool is_done;
    int wake;
    uint8_t found; /* addresses; 0xff: it failed */
};

struct world {
    box_time now;
    fate fates[N_ADDRESSES];
    peer peers[MAX_PEERS];
    bool is_refused[MAX_FDS]; /* by descriptor: what SO_ERROR says */
    box_resolution *resolution;
    box_channel *channel;
    started calls[MAX_CALLS];
    size_t n_calls;
    action plan;
    box_channel_state told;
    bool is_over; /* box_channel_free has returned */
};

/* The wrapped functions have nobody to ask but this: one run at a time. */
static world *the_world;

/* --- the system ----------------------------------------------------------------------------------
 */

box_time __wrap_box_now(void)
{
    return the_world->now;
}

static void peer_close(peer *p)
{
    if (p->fd < 0)
        return;
    box_closep(&p->fd);
    h2_script_done(&p->script);
}

static const h2_field normal[] = {{":status", "200"}, {"content-type", "application/grpc"}, {0}};
static const h2_field ok[] = {{"grpc-status", "0"}, {0}};
static const h2_field unavailable[] = {
    {":status", "200"}, {"content-type", "application/grpc"}, {"grpc-status", "14"}, {0}};
static const h2_field never[] = {{":status", "200"},
                                 {"content-type", "application/grpc"},
                                 {"grpc-status", "14"},
                                 {"grpc-retry-pushback-ms", "-1"},
                                 {0}};
static const h2_field html[] = {{":status", "503"}, {"content-type", "text/html"}, {0}};
static const h2_field *const heads[] = {normal, ok, unavailable, never, html};
static const h2_field fields[] = {
    {"grpc-status", "8"},
    {"grpc-status", "1"},
    {"grpc-retry-pushback-ms", "50"},
    {"x-text", "some text"},
};
static const h2_words words = {heads, BOX_COUNT(heads), fields, BOX_COUNT(fields)};

/* No EPOLLOUT until the peer reads: a connect(2) that takes its time. */
static void fill(int fd)
{
    static const uint8_t junk[SMALL_BUFFER];
    int size = SMALL_BUFFER;
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
    while (send(fd, junk, sizeof junk, MSG_DONTWAIT | MSG_NOSIGNAL) > 0)
        ;
}

static void peer_open(peer *p, int fd, fate f)
{
    int pair[2];
    int rc = socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair);
    assert(rc == 0);
    rc = dup3(pair[0], fd, O_CLOEXEC);
    assert(rc == fd);
    box_closep(&pair[0]);
    *p = (peer){.fd = pair[1], .client_fd = fd, .fate = f, .is_pending = f != AT_ONCE};
    h2_script_init(&p->script, &words, false, 0);
    if (p->is_pending)
        fill(fd);
}

static size_t index_of(const struct sockaddr *at)
{
    if (at->sa_family != AF_INET)
        return 0;
    const struct sockaddr_in *in = (const void *)at;
    return ntohl(in->sin_addr.s_addr) % N_ADDRESSES;
}

int __wrap_connect(int fd, const struct sockaddr *at, socklen_t len)
{
    world *w = the_world;
    fate f = w->fates[index_of(at)];
    (void)len;
    assert(fd >= 0 && fd < MAX_FDS);
    w->is_refused[fd] = false;
    for (size_t i = 0; i < MAX_PEERS && f != REFUSED; i++) {
        if (w->peers[i].fd >= 0)
            continue;
        peer_open(&w->peers[i], fd, f);
        errno = EINPROGRESS;
        return f == AT_ONCE ? 0 : -1;
    }
    errno = ECONNREFUSED;
    return -1;
}

int __wrap_getsockopt(int fd, int level, int name, void *value, socklen_t *len)
{
    if (level == SOL_SOCKET && name == SO_ERROR) {
        *(int *)value = the_world->is_refused[fd] ? ECONNREFUSED : 0;
        return 0;
    }
    return __real_getsockopt(fd, level, name, value, len);
}

int __wrap_box_resolve(const char *host, const char *port, int wake, box_resolution **out,
                       box_error *err)
{
    world *w = the_world;
    (void)host;
    (void)port;
    (void)err;
    assert(w->resolution == NULL);
    w->resolution = box_alloc(sizeof *w->resolution);
    *w->resolution = (box_resolution){.wake = wake};
    *out = w->resolution;
    return 0;
}

static void add_address(box_addresses *out, uint32_t number)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_port = htons(1),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK + 3 + number)};
    box_addresses_add(out, &at, sizeof at);
}

bool __wrap_box_resolution_take(box_resolution *r, box_addresses *out, int *rc, box_error *err)
{
    if (!r->is_done)
        return false;
    *rc = 0;
    if (r->found == 0xff)
        *rc = box_fail(err, BOX_RUNTIME_UNAVAILABLE, "no such name");
    for (uint32_t i = 0; i < N_ADDRESSES && r->found != 0xff; i++) {
        if ((r->found >> i & 1) != 0)
            add_address(out, (r->found & 0x10) != 0 ? N_ADDRESSES - 1 - i : i);
    }
    return true;
}

void __wrap_box_resolution_free(box_resolution *r)
{
    if (r != NULL)
        the_world->resolution = NULL;
    free(r);
}

/* --- the program's calls -------------------------------------------------------------------------
 */

static void start(world *w, uint8_t how);

static void call_free(started *k)
{
    if (k->call != NULL)
        box_client_free(box_take(k->call));
}

static void send_one(const started *k)
{
    Box__Test__V1__ChatRequest message = BOX__TEST__V1__CHAT_REQUEST__INIT;
    box_error err;
    if (box_client_send(k->call, &message.base, &err) < 0)
        assert(err.reason != BOX_NONE);
}

static void perform(started *k, action what, uint8_t how)
{
    world *w = k->world;
    if (k->call == NULL)
        return;
    switch (what) {
    case DO_CANCEL:
        box_client_cancel(k->call);
        break;
    case DO_FREE:
        call_free(k);
        break;
    case DO_FREE_OTHER:
        call_free(&w->calls[how % MAX_CALLS]);
        break;
    case DO_START:
        start(w, how);
        break;
    case DO_SEND:
        send_one(k);
        break;
    case DO_PAUSE:
        box_client_pause(k->call, (how & 1) != 0);
        break;
    default:
        break;
    }
}

static started *event_of(void *arg, const box_client_call *c)
{
    started *k = arg;
    assert(k->call == c && !k->is_done && !k->is_starting && !k->world->is_over);
    return k;
}

static void on_headers(void *arg, box_client_call *c, const box_metadata *metadata)
{
    started *k = event_of(arg, c);
    (void)metadata;
    assert(!k->has_headers);
    k->has_headers = true;
    perform(k, k->world->plan, 1);
}

static void on_message(void *arg, box_client_call *c, const ProtobufCMessage *message)
{
    started *k = event_of(arg, c);
    assert(message != NULL && k->has_headers);
    perform(k, k->world->plan, 2);
}

static void on_writable(void *arg, box_client_call *c)
{
    started *k = event_of(arg, c);
    perform(k, k->world->plan, 3);
}

static void on_done(void *arg, box_client_call *c, const box_error *status,
                    const box_metadata *trailers)
{
    started *k = event_of(arg, c);
    assert((unsigned)status->reason < BOX_REASON_COUNT);
    assert(trailers == NULL || trailers->count > 0);
    k->is_done = true;
    perform(k, k->world->plan, 4);
}

/* how: 1 with a deadline, 2 waits for a connection, 4 idempotent, 8 with its request; the rest: how
 * long. */
static void start(world *w, uint8_t how)
{
    static const box_client_events events = {
        .headers = on_headers, .message = on_message, .writable = on_writable, .done = on_done};
    static const box_method chat = {
        .path = "/box.test.v1.EchoService/Chat",
        .name = "Chat",
        .kind = BOX_BIDI,
        .request = &box__test__v1__chat_request__descriptor,
        .response = &box__test__v1__chat_response__descriptor,
    };
    Box__Test__V1__ChatRequest request = BOX__TEST__V1__CHAT_REQUEST__INIT;
    const box_client_options options = {
        .timeout_ns = (how & 1) != 0 ? (UINT64_C(1) << (how >> 4)) * 10 * BOX_MS : 0,
        .wait_for_ready = (how & 2) != 0,
        .idempotent = (how & 4) != 0,
    };
    box_error err;
    if (w->n_calls == MAX_CALLS)
        return;
    started *k = &w->calls[w->n_calls++];
    *k = (started){.world = w, .is_starting = true};
    if (box_client_start_events(w->channel, &chat, &options, (how & 8) != 0 ? &request.base : NULL,
                                &events, NULL, k, &k->call, &err) < 0)
        assert(err.reason != BOX_NONE && k->call == NULL);
    k->is_starting = false;
}

/* --- what must hold ------------------------------------------------------------------------------
 */

static size_t length(const box_list *head)
{
    size_t n = 0;
    for (const box_list *at = head->next; at != head; at = at->next)
        n++;
    return n;
}

static void check_conn(const box_channel *c, const box_conn *conn)
{
    if (conn->lane != NULL)
        assert(conn->lane->conn == conn);
    else
        assert(box_h2_stream_count(conn->h2) > 0);
    assert(!conn->is_busy);
    if (conn->state == BOX_CONN_READY)
        assert(c->soonest <= box_conn_alive_by(conn));
    else
        assert(c->soonest <= conn->connect_by && c->soonest <= conn->attempt_by);
}

/* A call is over, has a stream, or waits for one: it cannot get lost. */
static void check_call(const box_channel *c, const box_client_call *call)
{
    bool waits = box_list_linked(&call->place);
    assert(call->done ? !waits : waits != (call->stream != NULL));
    if (call->done || call->deadline == 0)
        return;
    assert(call->deadline > the_world->now && c->soonest <= call->deadline);
    assert(!call->is_delayed || c->soonest <= call->again_at);
}

static void check(const world *w)
{
    box_channel *c = w->channel;
    assert(length(&c->waiting) == c->n_queued[0] + c->n_queued[1]);
    assert(c->n_waiting == length(&c->waiting) + length(&c->delayed));
    for (box_list *at = c->conns.next; at != &c->conns; at = at->next)
        check_conn(c, BOX_CONTAINER(at, box_conn, link));
    for (box_list *at = c->calls.next; at != &c->calls; at = at->next)
        check_call(c, BOX_CONTAINER(at, box_client_call, link));
    for (size_t i = 0; i < c->n_lanes; i++) {
        const box_lane *lane = c->lanes[i];
        assert(lane->conn == NULL || lane->conn->lane == lane);
    }
    assert(w->told == box_channel_get_state(w->channel));
}

static void on_state(void *arg, box_channel_state state)
{
    world *w = arg;
    assert(state != w->told && w->told != BOX_CHANNEL_CLOSED);
    w->told = state;
}

/* --- steps ---------------------------------------------------------------------------------------
 */

static void peer_read(peer *p)
{
    uint8_t bytes[SMALL_BUFFER];
    ssize_t n;
    if (p->fd < 0 || p->is_pending || p->is_stalled)
        return;
    while ((n = recv(p->fd, bytes, sizeof bytes, MSG_DONTWAIT)) > 0)
        ;
    if (n == 0 || errno != EAGAIN)
        peer_close(p);
}

/* What does not fit gets lost: the client sees a stream that is broken. */
static void peer_write(peer *p)
{
    size_t len = box_buf_len(&p->script.out);
    ssize_t n = 0;
    if (len > 0)
        n = send(p->fd, box_buf_data(&p->script.out), len, MSG_NOSIGNAL | MSG_DONTWAIT);
    (void)n;
    box_buf_clear(&p->script.out);
}

static void step_peer(world *w, uint8_t kind, box_bytes *in)
{
    peer *p = &w->peers[fuzz_u8(in) % MAX_PEERS];
    if (p->fd < 0 || p->is_pending)
        return;
    h2_script_step(&p->script, kind, in);
    peer_write(p);
}

static void step_start(world *w, uint8_t b)
{
    start(w, b);
}

static void step_act(world *w, uint8_t b)
{
    perform(&w->calls[(b >> 3) % MAX_CALLS], (action)(b % 8 % N_ACTIONS), b);
}

static void step_half_close(world *w, uint8_t b)
{
    const started *k = &w->calls[b % MAX_CALLS];
    box_error err;
    if (k->call != NULL && box_client_half_close(k->call, &err) < 0)
        assert(err.reason != BOX_NONE);
}

static void step_time(world *w, uint8_t b)
{
    w->now = box_time_add(w->now, (UINT64_C(1) << (b % 20)) * BOX_MS);
}

static void step_fate(world *w, uint8_t b)
{
    w->fates[b % N_ADDRESSES] = (fate)(b / N_ADDRESSES % N_FATES);
}

static void step_settle(world *w, uint8_t b)
{
    peer *p = &w->peers[b % MAX_PEERS];
    if (p->fd < 0 || !p->is_pending)
        return;
    p->is_pending = false;
    w->is_refused[p->client_fd] = p->fate == LATE_REFUSED;
    if (p->fate == LATE_REFUSED)
        peer_close(p);
}

static void step_hang_up(world *w, uint8_t b)
{
    peer_close(&w->peers[b % MAX_PEERS]);
}

static void step_resolved(world *w, uint8_t b)
{
    const uint64_t one = 1;
    if (w->resolution == NULL || w->resolution->is_done)
        return;
    w->resolution->is_done = true;
    w->resolution->found = b;
    ssize_t n = write(w->resolution->wake, &one, sizeof one);
    assert(n == (ssize_t)sizeof one);
}

static void step_plan(world *w, uint8_t b)
{
    w->plan = (action)(b % N_ACTIONS);
}

/* The server's SETTINGS alone. */
static void step_greet(world *w, uint8_t b)
{
    peer *p = &w->peers[b % MAX_PEERS];
    if (p->fd >= 0 && !p->is_pending)
        peer_write(p);
}

static void step_stall(world *w, uint8_t b)
{
    peer *p = &w->peers[b % MAX_PEERS];
    p->is_stalled = !p->is_stalled;
}

typedef void step(world *w, uint8_t b);

static step *const steps[] = {
    step_start,   step_act,      step_half_close, step_time,  step_fate,  step_settle,
    step_hang_up, step_resolved, step_plan,       step_greet, step_stall, step_start,
};

static void turn(world *w)
{
    int fd;
    int timeout;
    short events;
    box_channel_poll(w->channel, &fd, &events, &timeout);
    box_channel_dispatch(w->channel);
    check(w);
    for (size_t i = 0; i < MAX_PEERS; i++)
        peer_read(&w->peers[i]);
}

static void set_up(world *w, uint8_t first)
{
    static const char *const targets[] = {"unix:/nowhere",
                                          "ipv4:127.0.0.4:1,127.0.0.5:1,127.0.0.6:1,127.0.0.7:1",
                                          "dns:///name:1", "ipv4:127.0.0.4:1"};
    const box_channel_options options = {
        .plaintext = first % 4 != 0,
        .balance = (first & 4) != 0 ? BOX_ROUND_ROBIN : BOX_PICK_FIRST,
        .retry.max_attempts = (first & 8) != 0 ? 3 : 0,
        .keepalive_ms = (first & 16) != 0 ? BOX_KEEPALIVE_MIN_MS : 0,
        .keepalive_without_calls = (first & 32) != 0,
        .connect_timeout_ms = (first & 64) != 0 ? 3000 : 0,
        .on_state = on_state,
        .on_state_arg = w,
    };
    box_error err;
    w->now = 1000 * BOX_SECOND;
    for (size_t i = 0; i < MAX_PEERS; i++)
        w->peers[i].fd = -1;
    int rc = box_channel_new(targets[first % 4], &options, &w->channel, &err);
    assert(rc == 0);
    w->channel->random = 1; /* the same input does the same again */
}

static void tear_down(world *w)
{
    box_channel_free(w->channel);
    w->is_over = true;
    assert(w->told == BOX_CHANNEL_CLOSED && w->resolution == NULL);
    for (size_t i = 0; i < w->n_calls; i++)
        call_free(&w->calls[i]);
    for (size_t i = 0; i < MAX_PEERS; i++)
        peer_close(&w->peers[i]);
}

static int lowest_fd(void)
{
    int fd = open("/", O_PATH | O_CLOEXEC);
    assert(fd >= 0);
    (void)close(fd);
    return fd;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    world w = {0};
    box_bytes in = {data, size};
    int before = lowest_fd();
    the_world = &w;
    set_up(&w, fuzz_u8(&in));
    while (in.len > 0) {
        uint8_t kind = fuzz_u8(&in);
        if (kind < PEER_STEPS)
            step_peer(&w, kind, &in);
        else
            steps[kind % BOX_COUNT(steps)](&w, fuzz_u8(&in));
        turn(&w);
    }
    tear_down(&w);
    assert(lowest_fd() == before); /* none was left open */
    the_world = NULL;
    return 0;
}
