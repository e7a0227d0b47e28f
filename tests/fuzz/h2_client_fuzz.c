/* The client's core against a server that does what the input says. First byte as in
 * h2_server_fuzz.c: 1 the rest is the server's bytes as they are (2: after a SETTINGS frame), bits
 * 4 to 6 how they are cut. Else steps: below PEER_STEPS the server's (h2_script.h), above the
 * caller's. */
#include <assert.h>

#include "base/alloc.h"
#include "base/limits.h"
#include "fuzz.h"
#include "h2_script.h"

enum {
    RAW_BYTES = 1,
    WITH_SETTINGS = 2,
    SMALL_WINDOW = 4,
    PEER_STEPS = 0xb0,
    MAX_CALLS = 48,
    MAX_MESSAGE = 1024,
    LARGE_REQUEST = BOX_STREAM_HIGH_WATER_BYTES + 1000,
    MAX_LARGE = 40,
    DRAIN_ALL = 1 << 20,
};

/* What an owner does inside an event. */
typedef enum action {
    DO_NOTHING,
    DO_SEND,
    DO_SEND_LARGE,
    DO_HALF_CLOSE,
    DO_CANCEL,
    DO_CANCEL_OTHER,
    DO_PAUSE,
    DO_RESUME,
    DO_PAUSE_AND_RESUME,
    DO_REQUEST,
    N_ACTIONS,
} action;

typedef struct client client;

typedef struct call {
    client *all;
    box_h2_stream *stream; /* NULL once closed */
    bool paused;
    bool has_headers;
    bool closed;
    size_t max_message; /* the highest limit it has had: a message may have begun under that */
} call;

struct client {
    box_h2 *core;
    h2_script script;
    call calls[MAX_CALLS];
    size_t n_calls;
    action plan;
    unsigned large;
    box_time now;
    bool is_freed; /* box_h2_free runs: no new calls */
};

static void request(client *c)
{
    static const char *const paths[] = {"/t.S/Unary", "/t.S/Chat"};
    if (c->n_calls >= MAX_CALLS || c->is_freed)
        return;
    BOX_AUTO(box_metadata_done)
    box_metadata md = {0};
    box_error err = {0};
    int rc = box_metadata_add_text(&md, "x-a", "b", &err);
    assert(rc == 0);
    call *k = &c->calls[c->n_calls];
    *k = (call){.all = c, .max_message = MAX_MESSAGE};
    uint64_t timeout_ns = (c->n_calls & 1) != 0 ? 1000000000 : 0;
    if (box_h2_request_start(c->core, paths[c->n_calls & 1], &md, timeout_ns,
                             (box_encoding)(c->n_calls % BOX_ENCODINGS), k, &k->stream, &err) < 0)
        assert(err.reason != BOX_NONE);
    else
        c->n_calls++;
}

static void send(client *c, const call *k, size_t len)
{
    if (len > 1000 && c->large++ >= MAX_LARGE)
        return;
    BOX_AUTO(box_freep)
    uint8_t *bytes = box_alloc(len + 1);
    box_h2_message(k->stream, bytes, len);
}

static void pause(call *k, bool paused)
{
    k->paused = paused;
    box_h2_pause(k->stream, paused);
}

static void cancel(const call *k)
{
    box_error why = {0};
    (void)box_fail(&why, BOX_CANCELLED, "no longer wanted");
    box_h2_cancel(k->stream, &why);
    assert(k->closed);
}

static void perform(client *c, call *k, action what)
{
    if (k->stream == NULL)
        return;
    switch (what) {
    case DO_SEND:
        send(c, k, 20);
        break;
    case DO_SEND_LARGE:
        send(c, k, LARGE_REQUEST);
        break;
    case DO_HALF_CLOSE:
        box_h2_half_close(k->stream);
        break;
    case DO_CANCEL:
        cancel(k);
        break;
    case DO_CANCEL_OTHER:
        for (size_t i = 0; i < c->n_calls; i++) {
            if (&c->calls[i] != k && c->calls[i].stream != NULL) {
                cancel(&c->calls[i]);
                break;
            }
        }
        break;
    case DO_PAUSE:
        pause(k, true);
        break;
    case DO_RESUME:
        pause(k, false);
        break;
    case DO_PAUSE_AND_RESUME:
        pause(k, true);
        pause(k, false);
        break;
    case DO_REQUEST:
        request(c);
        break;
    default:
        break;
    }
}

/* --- events --------------------------------------------------------------------------------------
 */

static call *owner_of(const box_h2_stream *s)
{
    call *k = box_h2_stream_owner(s);
    assert(k->stream == s && !k->closed);
    return k;
}

static void on_headers(void *owner, box_h2_stream *s, const box_metadata *metadata)
{
    call *k = owner_of(s);
    assert(!k->has_headers && metadata->count <= BOX_MAX_METADATA_ENTRIES);
    k->has_headers = true;
    perform(owner, k, ((client *)owner)->plan);
}

static void on_message(void *owner, box_h2_stream *s, const uint8_t *data, size_t len)
{
    client *c = owner;
    call *k = owner_of(s);
    assert(k->has_headers && len <= k->max_message);
    assert(!k->paused || c->is_freed);
    uint8_t sum = 0;
    for (size_t i = 0; i < len; i++)
        sum ^= data[i];
    perform(c, k, c->plan);
    for (size_t i = 0; i < len; i++) /* still there, whatever the owner did */
        sum ^= data[i];
    assert(sum == 0);
}

static void on_writable(void *owner, box_h2_stream *s)
{
    perform(owner, owner_of(s), ((client *)owner)->plan);
}

static void on_closed(void *owner, box_h2_stream *s, const box_error *why,
                      const box_metadata *trailers)
{
    client *c = owner;
    call *k = owner_of(s);
    assert((unsigned)why->reason < BOX_REASON_COUNT);
    assert(trailers == NULL || trailers->count > 0);
    assert(!box_h2_was_refused(s) || !k->has_headers); /* else a retry would run it twice */
    assert(box_h2_was_sent(s) || !k->has_headers);
    k->stream = NULL;
    k->closed = true;
    if (c->plan == DO_CANCEL_OTHER || c->plan == DO_REQUEST) {
        call none = {.stream = s};
        perform(c, &none, c->plan);
    }
}

static void on_goaway(void *owner)
{
    client *c = owner;
    if (c->plan == DO_REQUEST)
        request(c);
}

static void limit(call *k, size_t max_bytes)
{
    if (k->stream == NULL)
        return;
    box_h2_limit_messages(k->stream, max_bytes);
    if (k->max_message < max_bytes)
        k->max_message = max_bytes;
}

/* What conn.c does beside calls. */
static void odd_step(client *c, call *k, uint8_t what)
{
    switch (what % 6) {
    case 0:
        c->now = box_time_add(c->now, (UINT64_C(1) << (what % 14)) * BOX_SECOND);
        box_h2_set_time(c->core, c->now);
        break;
    case 1:
        box_h2_ping(c->core);
        break;
    case 2:
        limit(k, (size_t)what * 8);
        break;
    case 3:
        if (k->stream != NULL)
            box_h2_set_compress(k->stream, BOX_COMPRESS_ALWAYS);
        break;
    case 4:
        if (box_h2_can_start(c->core))
            request(c);
        break;
    default:
        (void)box_h2_pinged_too_often(c->core);
        assert(box_h2_stream_count(c->core) <= c->n_calls);
        break;
    }
}

static const box_h2_events events = {
    .headers = on_headers,
    .message = on_message,
    .writable = on_writable,
    .closed = on_closed,
    .goaway = on_goaway,
};

/* --- the server ----------------------------------------------------------------------------------
 */

#define GRPC                                                                                       \
    {":status", "200"},                                                                            \
    {                                                                                              \
        "content-type", "application/grpc"                                                         \
    }

static const h2_field normal[] = {GRPC, {0}};
static const h2_field ok[] = {{"grpc-status", "0"}, {0}};
static const h2_field only[] = {GRPC, {"grpc-status", "5"}, {"grpc-message", "n%C3%B6"}, {0}};
static const h2_field quota[] = {{"grpc-status", "8"},
                                 {"grpc-status-details-bin",
                                  "CAgSAWEaPQoodHlwZS5nb29nbGVhcGlzLmNvbS9nb29nbGUucnBjLkVycm9ySW5m"
                                  "bxIRCgVRVU9UQRIDYm94GgMKAXg"},
                                 {0}};
static const h2_field interim[] = {{":status", "103"}, {0}};
static const h2_field html[] = {{":status", "502"}, {"content-type", "text/html"}, {0}};
static const h2_field *const heads[] = {normal, ok, normal, ok, only, quota, interim, html};

static const h2_field fields[] = {
    {"grpc-status", "13"},
    {"grpc-status", "-1"},
    {"grpc-status", "99"},
    {"grpc-message", "%"},
    {"grpc-message", "a%00b%ff"},
    {"grpc-status-details-bin", "!"},
    {"grpc-encoding", "gzip"},
    {":status", "200"},
    {":status", "101"},
    {":status", "999"},
    {"content-type", "application/grpc+proto"},
    {"content-type", "text/html"},
    {"content-length", "7"},
    {"x-text", "some text"},
    {"x-b-bin", "AAEC,AwQ="},
    {"x-b-bin", "!"},
    {"te", "trailers"},
    {":path", "/"},
    {"grpc-encoding", "deflate"},
    {"grpc-accept-encoding", "gzip"},
};
static const h2_words words = {heads, BOX_COUNT(heads), fields, BOX_COUNT(fields)};

/* --- a run ---------------------------------------------------------------------------------------
 */

static void local_step(client *c, uint8_t kind, box_bytes *in)
{
    call *k = &c->calls[fuzz_u8(in) % MAX_CALLS];
    uint8_t what = fuzz_u8(in);
    switch (kind % 5) {
    case 0:
        (void)h2_script_drain(&c->script, c->core, (size_t)what * 64);
        break;
    case 1:
        c->plan = (action)(what % N_ACTIONS);
        break;
    case 2:
        request(c);
        break;
    case 3:
        odd_step(c, k, what);
        break;
    default:
        perform(c, k, (action)(what % N_ACTIONS));
        break;
    }
}

static void run_steps(client *c, box_bytes *in)
{
    bool whole = true;
    while (in->len > 0 && whole) {
        uint8_t kind = fuzz_u8(in);
        if (kind < PEER_STEPS) {
            h2_script_step(&c->script, kind, in);
            whole = h2_script_feed(&c->script, c->core);
        } else {
            local_step(c, kind, in);
        }
    }
}

static void run_bytes(client *c, box_bytes in, bool with_settings)
{
    if (!with_settings)
        box_buf_clear(&c->script.out);
    h2_script_bytes(&c->script, in);
    (void)h2_script_feed(&c->script, c->core); /* broken or not, it is ended next */
}

static void set_up(client *c, uint8_t first)
{
    static const size_t chunks[] = {0, 1, 7, 16, 100, 9, 33, 0};
    const box_h2_config config = {
        .scheme = "http",
        .authority = "t",
        .user_agent = "grpc-c-box/fuzz",
        .max_message_bytes = MAX_MESSAGE,
        .stream_window_bytes = (first & SMALL_WINDOW) != 0 ? 100 : 0,
        .connection_window_bytes = (first & SMALL_WINDOW) != 0 ? 65535 : 0,
    };
    c->core = box_h2_new(&config, &events, c);
    h2_script_init(&c->script, &words, false, chunks[first >> 4 & 7]);
    for (int i = 0; i < 3; i++)
        request(c);
    send(c, &c->calls[0], 5);
    box_h2_half_close(c->calls[0].stream);
    (void)h2_script_drain(&c->script, c->core, DRAIN_ALL);
}

static void tear_down(client *c)
{
    while (h2_script_drain(&c->script, c->core, DRAIN_ALL) > 0)
        ;
    c->plan = DO_NOTHING;
    c->is_freed = true;
    box_h2_free(c->core);
    for (size_t i = 0; i < c->n_calls; i++)
        assert(c->calls[i].closed);
    h2_script_done(&c->script);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    client c = {0};
    box_bytes in = {data, size};
    uint8_t first = fuzz_u8(&in);
    set_up(&c, first);
    if ((first & RAW_BYTES) != 0)
        run_bytes(&c, in, (first & WITH_SETTINGS) != 0);
    else
        run_steps(&c, &in);
    tear_down(&c);
    return 0;
}
