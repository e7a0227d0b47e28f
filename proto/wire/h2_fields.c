#include "base/alloc.h"
#include "base/limits.h"
#include "wire/codec.h"
#include "wire/h2_internal.h"
#include "wire/status.h"

enum { HEAD_FIELDS = 3 };

static h2_block *block_new(size_t max_fields, size_t text_bytes)
{
    size_t fields_bytes = max_fields * sizeof(nghttp2_nv);
    h2_block *b = box_alloc(sizeof *b + fields_bytes + text_bytes);
    b->fields = (nghttp2_nv *)(void *)(b + 1);
    b->text = (char *)(b + 1) + fields_bytes;
    return b;
}

/* nghttp2 only reads the strings but does not say const. */
static void add(h2_block *b, const char *name, size_t name_len, const char *value, size_t value_len,
                uint8_t flags)
{
    b->fields[b->count++] = (nghttp2_nv){
        .name = (uint8_t *)(uintptr_t)name,
        .namelen = name_len,
        .value = (uint8_t *)(uintptr_t)value,
        .valuelen = value_len,
        .flags = flags,
    };
    b->list_bytes += name_len + value_len + H2_FIELD_OVERHEAD;
}

/* Both are literals: nghttp2 need not copy them. */
static void add_literal(h2_block *b, const char *name, const char *value)
{
    add(b, name, strlen(name), value, strlen(value),
        NGHTTP2_NV_FLAG_NO_COPY_NAME | NGHTTP2_NV_FLAG_NO_COPY_VALUE);
}

static char *copy(h2_block *b, const char *text, size_t len)
{
    char *at = b->text;
    memcpy(at, text, len);
    b->text += len;
    return at;
}

static void add_copy(h2_block *b, const char *name, const char *value, size_t len, uint8_t flags)
{
    add(b, name, strlen(name), copy(b, value, len), len, flags | NGHTTP2_NV_FLAG_NO_COPY_NAME);
}

static size_t wire_size(const box_metadata_entry *e)
{
    bool binary = box_metadata_is_binary(e->key, strlen(e->key));
    return binary ? box_base64_size(e->value_len) : e->value_len;
}

static size_t metadata_text(const box_metadata *md)
{
    size_t bytes = 0;
    for (size_t i = 0; md != NULL && i < md->count; i++)
        bytes += strlen(md->entries[i].key) + wire_size(&md->entries[i]);
    return bytes;
}

static void add_metadata(h2_block *b, const box_metadata *md)
{
    for (size_t i = 0; md != NULL && i < md->count; i++) {
        const box_metadata_entry *e = &md->entries[i];
        size_t key_len = strlen(e->key);
        const char *key = copy(b, e->key, key_len);
        size_t len = wire_size(e);
        char *value = b->text;
        bool is_binary = box_metadata_is_binary(e->key, key_len);
        if (is_binary)
            box_base64_encode_raw(e->value, e->value_len, value);
        else if (len > 0)
            memcpy(value, e->value, len);
        b->text += len;
        /* May be a secret, and is seldom the same twice (grpc-conformance.md, 41). */
        add(b, key, key_len, value, len,
            is_binary ? NGHTTP2_NV_FLAG_NO_INDEX : NGHTTP2_NV_FLAG_NONE);
    }
}

static size_t metadata_count(const box_metadata *md)
{
    return md != NULL ? md->count : 0;
}

/* Pseudo-headers, grpc-timeout, protocol headers, then the application's (grpc-conformance.md, 8
 * and 24). The timeout changes with each call, so it is kept out of the peer's header table. */
h2_block *box_h2_block_request(const box_h2 *h, const char *path, const box_metadata *metadata,
                               uint64_t timeout_ns, box_encoding encoding)
{
    const box_h2_config *c = &h->config;
    size_t text = strlen(path) + strlen(c->authority) + strlen(c->user_agent) + strlen(c->scheme) +
                  BOX_TIMEOUT_TEXT + metadata_text(metadata);
    h2_block *b = block_new(10 + metadata_count(metadata), text);
    add_literal(b, ":method", "POST");
    add_copy(b, ":scheme", c->scheme, strlen(c->scheme), 0);
    add_copy(b, ":path", path, strlen(path), 0);
    add_copy(b, ":authority", c->authority, strlen(c->authority), 0);
    if (timeout_ns != 0) {
        char timeout[BOX_TIMEOUT_TEXT];
        box_timeout_format(timeout_ns, timeout);
        add_copy(b, "grpc-timeout", timeout, strlen(timeout), NGHTTP2_NV_FLAG_NO_INDEX);
    }
    add_literal(b, "te", "trailers");
    add_literal(b, "content-type", "application/grpc");
    add_copy(b, "user-agent", c->user_agent, strlen(c->user_agent), 0);
    if (encoding != BOX_IDENTITY)
        add_literal(b, "grpc-encoding", box_encoding_name(encoding));
    add_literal(b, "grpc-accept-encoding", BOX_ACCEPT_ENCODING);
    add_metadata(b, metadata);
    return b;
}

static void add_least_head(h2_block *b)
{
    add_literal(b, ":status", "200");
    add_literal(b, "content-type", "application/grpc");
}

static void add_head(h2_block *b)
{
    add_least_head(b);
    add_literal(b, "grpc-accept-encoding", BOX_ACCEPT_ENCODING);
}

h2_block *box_h2_block_headers(const box_metadata *metadata, box_encoding encoding)
{
    h2_block *b = block_new(HEAD_FIELDS + 1 + metadata_count(metadata), metadata_text(metadata));
    add_head(b);
    b->names_encoding = encoding != BOX_IDENTITY;
    if (b->names_encoding)
        add_literal(b, "grpc-encoding", box_encoding_name(encoding));
    add_metadata(b, metadata);
    return b;
}

/* How much of a status is said, most first. */
typedef enum detail_level { SAY_ALL, SAY_NO_DETAILS, SAY_NO_TEXT, SAY_CODE } detail_level;

/* grpc-message and grpc-status-details-bin in their wire form; empty when there are none. */
typedef struct status_text {
    box_buf message;
    box_buf details;
} status_text;

static void status_text_done(status_text *t)
{
    box_buf_done(&t->message);
    box_buf_done(&t->details);
}

/* What cannot be written down is left out: a status without its text is still a status. */
static void status_text_fill(status_text *t, const box_error *err)
{
    box_error ignored;
    BOX_AUTO(box_buf_done) box_buf raw = {0};
    if (box_percent_encode(err->msg, &t->message, &ignored) < 0)
        box_buf_clear(&t->message);
    if (box_status_encode(err, &raw, &ignored) < 0 ||
        box_base64_encode(box_buf_data(&raw), box_buf_len(&raw), &t->details, &ignored) < 0)
        box_buf_clear(&t->details);
}

/* Fields of the headers that trailers-only answers carry too: there is no message to be encoded. */
static void add_only(h2_block *b, const h2_block *only)
{
    for (size_t i = 0; i < only->count; i++) {
        if (i == HEAD_FIELDS && only->names_encoding)
            continue;
        b->fields[b->count++] = only->fields[i];
        b->list_bytes += only->fields[i].namelen + only->fields[i].valuelen + H2_FIELD_OVERHEAD;
    }
}

static h2_block *block_status(int code, const status_text *t, const h2_block *only,
                              const box_metadata *trailers, detail_level level)
{
    char number[12];
    (void)snprintf(number, sizeof number, "%d", code);
    size_t text = strlen(number) + box_buf_len(&t->message) + box_buf_len(&t->details) +
                  metadata_text(trailers);
    h2_block *b = block_new(
        HEAD_FIELDS + 3 + metadata_count(trailers) + (only != NULL ? only->count : 0), text);
    if (only != NULL && level < SAY_CODE)
        add_only(b, only);
    else if (only != NULL)
        add_least_head(b);
    add_copy(b, "grpc-status", number, strlen(number), 0);
    if (level < SAY_NO_TEXT && box_buf_len(&t->message) > 0)
        add_copy(b, "grpc-message", (const char *)box_buf_data(&t->message),
                 box_buf_len(&t->message), NGHTTP2_NV_FLAG_NO_INDEX);
    bool has_own =
        trailers != NULL && box_metadata_get(trailers, "grpc-status-details-bin") != NULL;
    if (level < SAY_NO_DETAILS && box_buf_len(&t->details) > 0 && !has_own)
        add_copy(b, "grpc-status-details-bin", (const char *)box_buf_data(&t->details),
                 box_buf_len(&t->details), NGHTTP2_NV_FLAG_NO_INDEX);
    if (level < SAY_CODE)
        add_metadata(b, trailers);
    return b;
}

h2_block *box_h2_block_status(const box_error *err, const h2_block *only,
                              const box_metadata *trailers, size_t limit_bytes)
{
    BOX_AUTO(status_text_done) status_text t = {0};
    box_code code = err != NULL ? box_error_code(err) : BOX_CODE_OK;
    if (code > BOX_CODE_UNAUTHENTICATED)
        code = BOX_CODE_UNKNOWN;
    if (code != BOX_CODE_OK)
        status_text_fill(&t, err);
    h2_block *b = block_status((int)code, &t, only, trailers, SAY_ALL);
    for (detail_level level = SAY_NO_DETAILS; level <= SAY_CODE; level++) {
        if (b->list_bytes <= limit_bytes)
            break;
        free(b);
        b = block_status((int)code, &t, only, trailers, level);
    }
    return b;
}

h2_block *box_h2_block_plain(int status, size_t length)
{
    char number[24];
    h2_block *b = block_new(4, 2 * sizeof number);
    (void)snprintf(number, sizeof number, "%d", status);
    add_copy(b, ":status", number, strlen(number), 0);
    add_literal(b, "content-type", "text/plain; version=0.0.4; charset=utf-8"); /* Prometheus's */
    (void)snprintf(number, sizeof number, "%zu", length);
    add_copy(b, "content-length", number, strlen(number), 0);
    if (status == 405)
        add_literal(b, "allow", "POST");
    if (status == 401)
        add_literal(b, "www-authenticate", "Bearer");
    return b;
}
