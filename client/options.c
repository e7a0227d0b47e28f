/* Where a channel's options come from, and what they may be. */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "internal.h"

enum {
    STOCK_MESSAGE_BYTES = 4 * 1024 * 1024,
    MAX_TOKEN_FILE_BYTES = 4096,
    /* With gRPC's prefix it must fit into a stream's queue. */
    MAX_SEND_BYTES = BOX_STREAM_UNSENT_BYTES - 5,
    /* grpc-conformance.md, 113 */
    CONNECT_MS = 20 * 1000,
    RECONNECT_FIRST_MS = 1000,
    RECONNECT_MAX_MS = 120 * 1000,
    RECONNECT_FACTOR_PERCENT = 160,
};

static uint32_t or_default(uint32_t value, uint32_t fallback)
{
    return value != 0 ? value : fallback;
}

static int read_token_file(const char *path, char **out, box_error *err)
{
    BOX_AUTO(box_closep)
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return box_fail(err, BOX_UNAUTHENTICATED, "cannot read the token file %s: %s", path,
                        strerror(errno));
    char text[MAX_TOKEN_FILE_BYTES + 1] = "";
    size_t len = 0;
    for (ssize_t n; len < MAX_TOKEN_FILE_BYTES; len += (size_t)n) {
        n = read(fd, text + len, MAX_TOKEN_FILE_BYTES - len);
        if (n < 0)
            return box_fail_errno(err, "read the token file %s", path);
        if (n == 0)
            break;
    }
    text[strcspn(text, " \t\r\n")] = '\0';
    if (*text == '\0' || len == MAX_TOKEN_FILE_BYTES)
        return box_fail(err, BOX_UNAUTHENTICATED, "the token file %s holds no token", path);
    *out = box_strdup(text);
    return 0;
}

const char *box_channel_environment(const char *name)
{
    const char *value = getenv(name);
    return value != NULL && *value != '\0' ? value : NULL;
}

static void take_keepalive(box_channel *c, const box_channel_options *o)
{
    uint32_t ms = or_default(o->keepalive_ms, BOX_KEEPALIVE_USUAL_MS);
    if (ms < BOX_KEEPALIVE_MIN_MS)
        ms = BOX_KEEPALIVE_MIN_MS;
    c->keepalive_is_usual = o->keepalive_ms == 0;
    c->keepalive_ns = o->keepalive_ms == BOX_KEEPALIVE_OFF ? BOX_TIME_NEVER : ms * BOX_MS;
    c->keepalive_timeout_ns = or_default(o->keepalive_timeout_ms, BOX_KEEPALIVE_USUAL_MS) * BOX_MS;
    c->keepalive_without_calls = o->keepalive_without_calls;
}

static int take_user_agent(box_channel *c, const char *own, box_error *err)
{
    enum { MAX_BYTES = 256 };
    char text[MAX_BYTES + sizeof "grpc-c-box/" BOX_VERSION + 1];
    if (own != NULL && strlen(own) > MAX_BYTES)
        return box_fail(err, BOX_VALIDATION, "user_agent is longer than %d bytes", MAX_BYTES);
    for (const char *p = own; p != NULL && *p != '\0'; p++) {
        if ((unsigned char)*p < 0x20 || (unsigned char)*p > 0x7e)
            return box_fail(err, BOX_VALIDATION, "user_agent is not printable ASCII");
    }
    (void)snprintf(text, sizeof text, "%s%s%s", own != NULL ? own : "", own != NULL ? " " : "",
                   "grpc-c-box/" BOX_VERSION);
    c->user_agent = box_strdup(text);
    return 0;
}

static int take_plain(box_channel *c, const box_channel_options *o, box_error *err)
{
    if (o->balance != BOX_PICK_FIRST && o->balance != BOX_ROUND_ROBIN)
        return box_fail(err, BOX_VALIDATION, "balance %d is not known", (int)o->balance);
    c->token = box_strdup_null(o->token);
    c->server_name = box_strdup_null(o->server_name);
    c->max_message_bytes = o->max_message_bytes != 0 ? o->max_message_bytes : STOCK_MESSAGE_BYTES;
    c->max_send_bytes = MAX_SEND_BYTES;
    if (o->max_send_bytes != 0 && o->max_send_bytes < c->max_send_bytes)
        c->max_send_bytes = o->max_send_bytes;
    c->connect_timeout_ms = or_default(o->connect_timeout_ms, CONNECT_MS);
    c->balance = o->balance;
    c->reconnect = (box_pauses){
        .first_ns = or_default(o->reconnect_first_ms, RECONNECT_FIRST_MS) * BOX_MS,
        .max_ns = or_default(o->reconnect_max_ms, RECONNECT_MAX_MS) * BOX_MS,
        .factor_percent = RECONNECT_FACTOR_PERCENT,
    };
    c->on_state = o->on_state;
    c->on_state_arg = o->on_state_arg;
    take_keepalive(c, o);
    if (take_user_agent(c, o->user_agent, err) < 0)
        return -1;
    return box_retry_init(&c->retry, &o->retry, err);
}

static int take_security(box_channel *c, const box_channel_options *o, const char *ca,
                         const char *cert, const char *key, box_error *err)
{
    c->is_private = c->target.kind != BOX_TARGET_DNS || !o->plaintext;
    if (c->target.kind != BOX_TARGET_DNS)
        return 0;
    if (cert == NULL && key != NULL && !o->plaintext)
        return box_fail(err, BOX_VALIDATION, "key file %s belongs to no certificate file", key);
    if (!o->plaintext)
        return box_tls_context_client(ca, cert, key, &c->tls, err);
    c->may_send_tokens = box_target_is_loopback(&c->target);
    if (c->token != NULL && !c->may_send_tokens)
        return box_fail(err, BOX_VALIDATION, "a token is not sent to %s without TLS",
                        c->target.host);
    return 0;
}

/* Values of the environment stand in only where the target came from there too: a token never goes
 * to a server it was not meant for. */
int box_channel_take_options(box_channel *c, const box_channel_options *o, bool from_environment,
                             box_error *err)
{
    const char *ca = o->ca_file;
    const char *cert = o->cert_file;
    const char *key = o->key_file;
    const char *token_file = NULL;
    /* A boxd of our own knows no token that was made elsewhere, and needs none. */
    if (from_environment && c->target.kind != BOX_TARGET_SPAWN) {
        ca = ca != NULL ? ca : box_channel_environment("BOX_CA");
        if (cert == NULL && key == NULL) { /* they belong together */
            cert = box_channel_environment("BOX_CERT");
            key = box_channel_environment("BOX_KEY");
        }
        token_file = o->token == NULL ? box_channel_environment("BOX_TOKEN_FILE") : NULL;
    }
    if (take_plain(c, o, err) < 0)
        return -1;
    if (token_file != NULL && read_token_file(token_file, &c->token, err) < 0)
        return -1;
    return take_security(c, o, ca, cert, key, err);
}
