/* The server's core, from a connection's bytes to handlers: wire/h2 and rpc/call_h2 with a service
 * behind that does what the input says. No sockets, clock or threads; timers fire when told.
 *
 * First byte: 1 the rest is the peer's bytes as they are, 2 (with 1) after a preface; 4: few calls
 * and PINGs are let in, 8: little memory; bits 4 to 6: how the bytes are cut. Else steps follow:
 * below PEER_STEPS the peer's (h2_script.h), above what this side does. */
#include <assert.h>

#include "base/alloc.h"
#include "base/limits.h"
#include "base/list.h"
#include "box/v1/exec.pb-c.h"
#include "fuzz.h"
#include "h2_script.h"
#include "rpc/call_h2.h"

enum {
    RAW_BYTES = 1,
    WITH_PREFACE = 2,
    FEW = 4,
    LITTLE_MEMORY = 8,
    PEER_STEPS = 0xb0,
    MAX_KEPT = 64,
    MAX_MESSAGE = 1024,
    LARGE_ANSWER = BOX_STREAM_HIGH_WATER_BYTES + 1000,
    MAX_LARGE = 40, /* large answers in one run */
    DRAIN_ALL = 1 << 20,
};

struct box_timer {
    box_list link;
    bool armed;
    void (*fn)(void *arg);
    void *arg;
};

struct box_loop {
    box_list timers;
    box_time now;
};

/* What a handler does next. */
typedef enum action {
    DO_NOTHING,
    DO_ANSWER,
    DO_FAIL,
    DO_SEND,
    DO_SEND_LARGE,
    DO_FINISH,
    DO_FINISH_OTHER,
    DO_PAUSE,
    DO_RESUME,
    DO_PAUSE_AND_RESUME,
    DO_METADATA,
    DO_UNTIL_FULL,
    DO_NOT_IMPLEMENTED,
    DO_RELEASE,
    DO_COMPRESS,
    DO_NOT_COMPRESS,
    N_ACTIONS,
} action;

typedef struct server server;

/* A call a handler saw. It holds a reference until told to let go. */
typedef struct kept {
    server *all;
    box_call *call; /* NULL: a free place */
    bool ended;
} kept;

struct server {
    box_loop loop;
    box_rpc rpc;
    box_budget budget;
    box_rpc_connection *connection;
    h2_script script;
    kept kept[MAX_KEPT];
    action plan; /* what handlers do */
    unsigned large;
    unsigned depth; /* of handlers that end calls whose handlers end calls */
    int identities;
    bool refuse;
};

/* --- the loop: what rpc/call_h2 uses of it -------------------------------------------------------
 */

box_timer *box_timer_new(box_loop *l, void (*fn)(void *arg), void *arg)
{
    box_timer *t = box_alloc(sizeof *t);
    *t = (box_timer){.fn = fn, .arg = arg};
    box_list_append(&l->timers, &t->link);
    return t;
}

void box_timer_set(box_timer *t, box_time at)
{
    t->armed = at != BOX_TIME_NEVER;
}

void box_timer_free(box_timer *t)
{
    if (t == NULL)
        return;
    box_list_remove(&t->link);
    free(t);
}

box_time box_loop_now(const box_loop *l)
{
    return l->now;
}

static void fire_first(box_loop *l)
{
    if (box_list_empty(&l->timers))
        return;
    box_timer *t = BOX_CONTAINER(l->timers.next, box_timer, link);
    if (!t->armed)
        return;
    t->armed = false;
    t->fn(t->arg);
}

/* --- the service ---------------------------------------------------------------------------------
 */

static void send(box_call *call, size_t len)
{
    Box__V1__ExecResponse answer;
    box__v1__exec_response__init(&answer);
    BOX_AUTO(box_freep)
    uint8_t *bytes = box_alloc(len + 1);
    answer.stdout_data = (ProtobufCBinaryData){len, bytes};
    box_call_send(call, &answer.base);
}

static void send_large(server *f, box_call *call)
{
    if (f->large++ < MAX_LARGE)
        send(call, LARGE_ANSWER);
}

static void add_metadata(box_call *call)
{
    static const char *const keys[] = {"x-a", "x-b-bin", "grpc-status", "UPPER"};
    const box_metadata *md = box_call_metadata(call);
    box_error err;
    for (size_t i = 0; i < BOX_COUNT(keys); i++) {
        if (box_call_add_header(call, keys[i], "some text", &err) < 0)
            assert(err.reason == BOX_VALIDATION || err.reason == BOX_MEMORY_BUDGET);
    }
    BOX_IGNORE(box_metadata_add_all(&call->trailers, md, &err)); /* too many is fine */
}

static int perform(server *f, box_call *call, action what, box_error *err);

static void finish_other(server *f, const box_call *call)
{
    box_error err = {0};
    for (size_t i = 0; i < MAX_KEPT; i++) {
        box_call *other = f->kept[i].call;
        if (other == NULL || other == call || !box_call_is_open(other))
            continue;
        (void)box_fail(&err, BOX_QUOTA, "ended by another");
        box_error_add(&err, "limit", "calls");
        box_call_finish(other, &err);
        return;
    }
}

static void release(server *f, const box_call *call)
{
    for (size_t i = 0; i < MAX_KEPT; i++) {
        if (f->kept[i].call == call && f->kept[i].ended) {
            box_call_unref(box_take(f->kept[i].call));
            return;
        }
    }
}

static void answer(box_call *call)
{
    send(call, 10);
    box_call_finish(call, NULL);
}

static void send_until_full(server *f, box_call *call)
{
    while (box_call_is_writable(call) && f->large < MAX_LARGE) {
        f->large++;
        send(call, LARGE_ANSWER / 3);
    }
}

/* As a handler returns: 0, -1 with *err, BOX_NOT_IMPLEMENTED. */
static int perform(server *f, box_call *call, action what, box_error *err)
{
    switch (what) {
    case DO_ANSWER:
        answer(call);
        break;
    case DO_FAIL:
        err->retry_ms = 0;
        (void)box_violation(err, "command.argv", "is no good");
        (void)box_violation(err, "spec.memory", "neither");
        err->retry_ms = 1500;
        return -1;
    case DO_SEND:
        send(call, 100);
        break;
    case DO_SEND_LARGE:
        send_large(f, call);
        break;
    case DO_FINISH:
        box_call_finish(call, NULL);
        break;
    case DO_FINISH_OTHER:
        finish_other(f, call);
        break;
    case DO_PAUSE:
        box_call_pause(call);
        break;
    case DO_RESUME:
        box_call_resume(call);
        break;
    case DO_PAUSE_AND_RESUME:
        box_call_pause(call);
        box_call_resume(call);
        break;
    case DO_METADATA:
        add_metadata(call);
        break;
    case DO_UNTIL_FULL:
        send_until_full(f, call);
        break;
    case DO_NOT_IMPLEMENTED:
        return BOX_NOT_IMPLEMENTED;
    case DO_RELEASE:
        release(f, call);
        break;
    case DO_COMPRESS:
        box_call_set_compress(call, BOX_COMPRESS_ALWAYS);
        break;
    case DO_NOT_COMPRESS:
        box_call_set_compress(call, BOX_COMPRESS_NEVER);
        break;
    default:
        break;
    }
    return 0;
}

static void on_end(box_call *call, void *arg, const box_error *why)
{
    kept *k = arg;
    assert(k->call == call && !k->ended);
    assert((unsigned)why->reason < BOX_REASON_COUNT);
    assert(!box_call_is_open(call));
    k->ended = true;
    send(call, 1); /* harmless now */
    box_call_finish(call, NULL);
    if (k->all->plan == DO_FINISH_OTHER)
        finish_other(k->all, call);
}

static void on_writable(box_call *call, void *arg)
{
    server *f = arg;
    box_error err = {0};
    assert(box_call_is_writable(call));
    if (perform(f, call, f->plan == DO_RELEASE ? DO_NOTHING : f->plan, &err) < 0)
        box_call_finish(call, &err);
}

static kept *find_place(server *f)
{
    for (size_t i = 0; i < MAX_KEPT; i++) {
        if (f->kept[i].call == NULL)
            return &f->kept[i];
    }
    return NULL;
}

static kept *find_kept(server *f, const box_call *call)
{
    for (size_t i = 0; i < MAX_KEPT; i++) {
        if (f->kept[i].call == call)
            return &f->kept[i];
    }
    return NULL;
}

static int start(const void *handlers, box_call *call, const ProtobufCMessage *request,
                 box_error *err)
{
    (void)handlers;
    server *f = box_call_context(call);
    bool whole = call->method->kind == BOX_UNARY || call->method->kind == BOX_SERVER_STREAM;
    assert((request != NULL) == whole);
    assert(box_call_is_open(call));
    kept *k = find_place(f);
    if (k == NULL)
        return box_fail(err, BOX_RATE_LIMIT, "too many calls");
    *k = (kept){.all = f, .call = box_call_ref(call)};
    box_call_on_end(call, on_end, k);
    box_call_on_writable(call, on_writable, f);
    return perform(f, call, f->plan, err);
}

static int more(box_call *call, box_error *err)
{
    server *f = box_call_context(call);
    const kept *k = find_kept(f, call);
    assert(box_call_is_open(call));
    assert(k != NULL && !k->ended);
    return perform(f, call, f->plan, err);
}

static int message(const void *handlers, box_call *call, const ProtobufCMessage *request,
                   box_error *err)
{
    (void)handlers;
    assert(request->descriptor == &box__v1__exec_request__descriptor);
    return more(call, err);
}

static int half_close(const void *handlers, box_call *call, box_error *err)
{
    (void)handlers;
    return more(call, err);
}

#define METHOD(text, what)                                                                         \
    .path = "/t.S/" text, .name = (text), .kind = (what),                                          \
    .request = &box__v1__exec_request__descriptor, .response = &box__v1__exec_response__descriptor

static const box_method methods[] = {
    {METHOD("Unary", BOX_UNARY), .start = start},
    {METHOD("Stream", BOX_SERVER_STREAM), .start = start},
    {METHOD("Collect", BOX_CLIENT_STREAM), .start = start, .message = message,
     .half_close = half_close},
    {METHOD("Chat", BOX_BIDI), .start = start, .message = message, .half_close = half_close},
};
static const box_service_type type = {"t.S", methods, BOX_COUNT(methods)};

/* --- admission
 * ------------------------------------------------------------------------------------
 */

static int admit(void *arg, const box_peer *peer, const char *path, const box_metadata *metadata,
                 const void **identity, box_error *err)
{
    server *f = arg;
    assert(!peer->is_unix && path[0] == '/');
    if (f->refuse || box_metadata_get(metadata, "x-refuse") != NULL)
        return box_fail(err, BOX_UNAUTHENTICATED, "no");
    f->identities++;
    *identity = f;
    return 0;
}

static const char *tenant_of(const void *identity)
{
    return identity != NULL ? "t" : NULL;
}

static void release_identity(void *arg, const void *identity)
{
    server *f = arg;
    assert(identity == f && f->identities > 0);
    f->identities--;
}

static int check_identity(void *arg, const void *identity, box_error *err)
{
    const server *f = arg;
    assert(identity == f);
    return f->refuse ? box_fail(err, BOX_UNAUTHENTICATED, "revoked") : 0;
}

static int make_page(void *arg, const void *identity, box_buf *out, box_error *err)
{
    server *f = arg;
    assert(identity == f);
    return box_buf_printf(out, err, "%d\n", f->identities);
}

/* --- the peer ------------------------------------------------------------------------------------
 */

#define USUAL                                                                                      \
    {":method", "POST"},                                                                           \
    {                                                                                              \
        ":scheme", "http"                                                                          \
    }
#define GRPC                                                                                       \
    {"te", "trailers"},                                                                            \
    {                                                                                              \
        "content-type", "application/grpc"                                                         \
    }

static const h2_field unary[] = {USUAL, {":path", "/t.S/Unary"}, {":authority", "t"}, GRPC, {0}};
static const h2_field stream[] = {USUAL, {":path", "/t.S/Stream"}, {":authority", "t"}, GRPC, {0}};
static const h2_field collect[] = {
    USUAL, {":path", "/t.S/Collect"}, {":authority", "t"}, GRPC, {0}};
static const h2_field chat[] = {USUAL, {":path", "/t.S/Chat"}, {":authority", "t"}, GRPC, {0}};
static const h2_field no_method[] = {USUAL, {":path", "/t.S/None"}, GRPC, {0}};
static const h2_field get[] = {{":method", "GET"}, {":scheme", "http"}, {":path", "/"}, {0}};
static const h2_field get_page[] = {
    {":method", "GET"}, {":scheme", "http"}, {":path", "/page"}, {0}};
static const h2_field head_request[] = {
    {":method", "HEAD"}, {":scheme", "http"}, {":path", "/"}, {0}};
static const h2_field no_type[] = {USUAL, {":path", "/t.S/Unary"}, {0}};
static const h2_field no_path[] = {USUAL, GRPC, {0}};
static const h2_field *const heads[] = {unary,        stream,  collect,   chat,
                                        unary,        chat,    no_method, get,
                                        head_request, no_type, no_path,   get_page};

static const h2_field fields[] = {
    {"grpc-timeout", "1S"},
    {"grpc-timeout", "0n"},
    {"grpc-timeout", "99999999H"},
    {"grpc-timeout", "x"},
    {"grpc-encoding", "gzip"},
    {"grpc-encoding", "identity"},
    {"grpc-accept-encoding", "identity,gzip"},
    {"user-agent", "t"},
    {"authorization", "Bearer box_x"},
    {"x-text", "some text"},
    {"x-refuse", ""},
    {"a-bin", "AAEC,AwQ="},
    {"a-bin", "!"},
    {"host", "h"},
    {"content-length", "5"},
    {"connection", "close"},
    {"te", "gzip"},
    {":path", "/t.S/Chat"},
    {":status", "200"},
    {":protocol", "websocket"},
    {"content-type", "application/grpc+proto"},
    {"content-type", "application/grpc+json; a=b"},
    {"content-type", "text/plain"},
    {"priority", "u=0, i"},
    {"x-space", "  a b  "},
    {"grpc-status-details-bin", "AA"},
    {"grpc-encoding", "deflate"},
    {"grpc-accept-encoding", "deflate, x"},
    {":path", "/page"},
};
static const h2_words words = {heads, BOX_COUNT(heads), fields, BOX_COUNT(fields)};

/* --- a run ---------------------------------------------------------------------------------------
 */

static void note_output(void *arg)
{
    (void)arg;
}

static box_h2 *core(const server *f)
{
    return box_rpc_connection_h2(f->connection);
}

/* Time goes on, by up to some hours; net/ looks after the connection. False: it is to be closed. */
static bool pass_time(server *f, uint8_t how)
{
    f->loop.now = box_time_add(f->loop.now, (UINT64_C(1) << (how % 14)) * BOX_SECOND);
    box_h2_set_time(core(f), f->loop.now);
    bool lives = box_rpc_connection_sweep(f->connection, f->loop.now);
    if ((how & 0x10) != 0)
        box_h2_ping(core(f));
    assert(lives || box_h2_header_since(core(f)) != 0);
    return lives;
}

/* What net/ asks after each step. */
static void look(const server *f)
{
    const box_rpc_connection *c = f->connection;
    bool has_calls = box_rpc_connection_has_calls(c);
    assert(has_calls == (box_rpc_connection_idle_since(c) == BOX_TIME_NEVER));
    assert(!has_calls || box_h2_stream_count(core(f)) > 0);
    assert(!box_rpc_connection_is_quick(c) || f->rpc.calls_open == 0);
    assert(box_rpc_connection_is_known(c) || f->identities == 0);
    (void)box_h2_is_costly(core(f));
}

/* What main.c and net/ do, and handlers at some other time. */
static bool local_step(server *f, uint8_t kind, box_bytes *in)
{
    box_error err = {0};
    kept *k = &f->kept[fuzz_u8(in) % MAX_KEPT];
    uint8_t what = fuzz_u8(in);
    switch (kind % 10) {
    case 0:
        (void)h2_script_drain(&f->script, core(f), (size_t)what * 64);
        break;
    case 1:
    case 2:
        f->plan = (action)(what % N_ACTIONS);
        break;
    case 3:
        fire_first(&f->loop);
        break;
    case 4:
        box_h2_drain(core(f), NULL);
        break;
    case 5:
        box_h2_drain_finish(core(f));
        break;
    case 6:
        (void)box_fail(&err, BOX_SHUTTING_DOWN, "going away");
        box_rpc_connection_end_calls(f->connection, &err);
        break;
    case 7:
        f->refuse = (what & 1) != 0;
        box_rpc_connection_recheck(f->connection);
        break;
    case 8:
        return pass_time(f, what);
    default:
        if (k->call != NULL && perform(f, k->call, (action)(what % N_ACTIONS), &err) == -1)
            box_call_finish(k->call, &err);
        break;
    }
    return true;
}

static void run_steps(server *f, box_bytes *in)
{
    bool whole = true;
    while (in->len > 0 && whole) {
        uint8_t kind = fuzz_u8(in);
        if (kind < PEER_STEPS) {
            h2_script_step(&f->script, kind, in);
            whole = h2_script_feed(&f->script, core(f));
        } else {
            whole = local_step(f, kind, in);
        }
        look(f);
    }
}

static void run_bytes(server *f, box_bytes in, bool with_preface)
{
    if (!with_preface)
        box_buf_clear(&f->script.out);
    h2_script_bytes(&f->script, in);
    (void)h2_script_feed(&f->script, core(f)); /* broken or not, it is ended next */
}

static void set_up(server *f, const box_service *service, uint8_t first)
{
    static const box_peer peer = {.address = "127.0.0.1:1"};
    static const size_t chunks[] = {0, 1, 7, 16, 100, 9, 33, 0};
    const bool few = (first & FEW) != 0;
    box_list_init(&f->loop.timers);
    f->loop.now = BOX_SECOND;
    f->budget.max_bytes = (first & LITTLE_MEMORY) != 0 ? BOX_CONNECTION_FREE_BYTES : 1 << 30;
    f->rpc =
        (box_rpc){.services = service,
                  .n_services = 1,
                  .admit = {.arg = f,
                            .admit = admit,
                            .release = release_identity,
                            .check = check_identity,
                            .tenant = tenant_of},
                  .max_message_bytes = MAX_MESSAGE,
                  .max_calls = few ? 3 : 0,
                  .ping_min_interval_ns = few ? 10 * BOX_SECOND : 0,
                  .tenants = box_tally_new(1),
                  .budget = &f->budget,
                  .page = {.path = "/page", .method = "/t.S/Unary", .make = make_page, .arg = f},
                  .counts = box_call_counts_new(service, 1)};
    f->connection = box_rpc_connection_new(&f->rpc, &f->loop, &peer, note_output, f);
    f->plan = DO_ANSWER;
    h2_script_init(&f->script, &words, true, chunks[first >> 4 & 7]);
}

static void tear_down(server *f)
{
    while (h2_script_drain(&f->script, core(f), DRAIN_ALL) > 0)
        ;
    f->plan = DO_NOTHING;
    box_rpc_connection_end(f->connection);
    for (size_t i = 0; i < MAX_KEPT; i++) {
        assert(f->kept[i].call == NULL || f->kept[i].ended);
        box_call_unref(f->kept[i].call);
    }
    assert(box_list_empty(&f->loop.timers));
    assert(f->rpc.calls_open == 0 && f->identities == 0);
    assert(atomic_load(&f->budget.used) == 0);
    box_call_counts_free(f->rpc.counts);
    box_tally_free(f->rpc.tenants);
    h2_script_done(&f->script);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    server f = {0};
    const box_service service = {&type, &type, &f};
    box_bytes in = {data, size};
    uint8_t first = fuzz_u8(&in);
    set_up(&f, &service, first);
    if ((first & RAW_BYTES) != 0)
        run_bytes(&f, in, (first & WITH_PREFACE) != 0);
    else
        run_steps(&f, &in);
    tear_down(&f);
    return 0;
}
