#include <strings.h>

#include "base/alloc.h"
#include "base/limits.h"
#include "wire/codec.h"
#include "wire/h2_internal.h"
#include "wire/status.h"

enum { NO_STATUS = -1 };

/* --- collecting ------------------------------------------------------------------------------- */

static void drop(nghttp2_rcbuf **at)
{
    if (*at != NULL)
        nghttp2_rcbuf_decref(*at);
    *at = NULL;
}

static void keep(nghttp2_rcbuf **at, nghttp2_rcbuf *value)
{
    drop(at);
    nghttp2_rcbuf_incref(value);
    *at = value;
}

/* nghttp2 ends its buffers with a NUL and lets no NUL into a value. */
static const char *text_of(nghttp2_rcbuf *buf)
{
    return buf != NULL ? (const char *)nghttp2_rcbuf_get_buf(buf).base : "";
}

void box_h2_head_reset(h2_head *head)
{
    box_metadata_done(&head->metadata);
    drop(&head->path);
    drop(&head->authority);
    drop(&head->host);
    drop(&head->content_type);
    drop(&head->message);
    box_buf_done(&head->details);
    free(head->error);
    *head = (h2_head){.grpc_status = NO_STATUS};
}

static void set_error(h2_head *head, const box_error *err)
{
    if (head->error != NULL)
        return;
    head->error = box_alloc(sizeof *head->error);
    *head->error = *err;
}

typedef void take_field(h2_head *head, nghttp2_rcbuf *buf, const char *value, size_t len);

static void take_method(h2_head *head, nghttp2_rcbuf *buf, const char *value, size_t len)
{
    (void)buf;
    head->is_post = len == 4 && memcmp(value, "POST", 4) == 0;
    head->is_get = len == 3 && memcmp(value, "GET", 3) == 0;
    head->is_head = len == 4 && memcmp(value, "HEAD", 4) == 0;
}

static void take_path(h2_head *head, nghttp2_rcbuf *buf, const char *value, size_t len)
{
    (void)value, (void)len;
    keep(&head->path, buf);
}

static void take_authority(h2_head *head, nghttp2_rcbuf *buf, const char *value, size_t len)
{
    (void)value, (void)len;
    keep(&head->authority, buf);
}

static void take_host(h2_head *head, nghttp2_rcbuf *buf, const char *value, size_t len)
{
    (void)value, (void)len;
    keep(&head->host, buf);
}

static void ignore_field(h2_head *head, nghttp2_rcbuf *buf, const char *value, size_t len)
{
    (void)head, (void)buf, (void)value, (void)len;
}

/* "application/grpc", then the end, parameters, or "+subtype" (grpc-conformance.md, 12 to 15). */
static h2_content_type content_type(const char *value, size_t len)
{
    static const char base[] = "application/grpc";
    static const char proto[] = "+proto";
    if (len < sizeof base - 1 || strncasecmp(value, base, sizeof base - 1) != 0)
        return H2_TYPE_OTHER;
    const char *rest = value + sizeof base - 1;
    if (strncasecmp(rest, proto, sizeof proto - 1) == 0)
        rest += sizeof proto - 1;
    if (*rest == '\0' || *rest == ';' || *rest == ' ')
        return H2_TYPE_PROTO;
    return *rest == '+' ? H2_TYPE_SUBTYPE : H2_TYPE_OTHER;
}

static void take_content_type(h2_head *head, nghttp2_rcbuf *buf, const char *value, size_t len)
{
    keep(&head->content_type, buf);
    head->type = content_type(value, len);
}

static void take_timeout(h2_head *head, nghttp2_rcbuf *buf, const char *value, size_t len)
{
    (void)buf;
    box_error err;
    uint64_t ns;
    if (box_timeout_parse(value, len, &ns, &err) == 0) {
        head->timeout_ns = ns != 0 ? ns : 1;
        return;
    }
    (void)box_fail(&err, BOX_PROTOCOL, "bad grpc-timeout '%.20s'", value);
    set_error(head, &err);
}

static void take_encoding(h2_head *head, nghttp2_rcbuf *buf, const char *value, size_t len)
{
    (void)buf;
    head->encoding = box_encoding_parse(value, len);
}

static void take_accepted(h2_head *head, nghttp2_rcbuf *buf, const char *value, size_t len)
{
    (void)buf;
    head->accepts |= box_encodings_parse(value, len);
}

/* Digits only; anything else is UNKNOWN (grpc-conformance.md, 72). */
static int number(const char *value, size_t len)
{
    int n = 0;
    if (len == 0 || len > 6)
        return BOX_CODE_UNKNOWN;
    for (size_t i = 0; i < len; i++) {
        if (value[i] < '0' || value[i] > '9')
            return BOX_CODE_UNKNOWN;
        n = n * 10 + (value[i] - '0');
    }
    return n;
}

static void take_http_status(h2_head *head, nghttp2_rcbuf *buf, const char *value, size_t len)
{
    (void)buf;
    head->http_status = number(value, len);
}

static void take_grpc_status(h2_head *head, nghttp2_rcbuf *buf, const char *value, size_t len)
{
    (void)buf;
    head->grpc_status = number(value, len);
}

static void take_message(h2_head *head, nghttp2_rcbuf *buf, const char *value, size_t len)
{
    (void)value, (void)len;
    keep(&head->message, buf);
}

static void take_details(h2_head *head, nghttp2_rcbuf *buf, const char *value, size_t len)
{
    (void)buf;
    box_error ignored;
    box_error err;
    box_buf_clear(&head->details);
    if (box_base64_decode(value, len, &head->details, &ignored) < 0) {
        box_buf_clear(&head->details); /* they say nothing; the status stands without */
        return;
    }
    /* The application may look at them too (grpc-conformance.md, 77). */
    if (box_metadata_add(&head->metadata, "grpc-status-details-bin", box_buf_data(&head->details),
                         box_buf_len(&head->details), &err) < 0)
        set_error(head, &err);
}

static const struct known_field {
    const char *name;
    take_field *take;
} known_fields[] = {
    {":method", take_method},
    {":path", take_path},
    {":authority", take_authority},
    {":scheme", ignore_field},
    {":status", take_http_status},
    {"te", ignore_field},
    {"content-type", take_content_type},
    {"user-agent", ignore_field},
    {"host", take_host},
    {"grpc-timeout", take_timeout},
    {"grpc-encoding", take_encoding},
    {"grpc-accept-encoding", take_accepted},
    {"grpc-status", take_grpc_status},
    {"grpc-message", take_message},
    {"grpc-status-details-bin", take_details},
};

/* Past the limit nothing is stored any more, while the block is still decoded: the connection's
 * header table must stay right (grpc-conformance.md, 36 and 120). */
static bool is_too_large(h2_head *head, size_t bytes)
{
    head->list_bytes += bytes;
    if (head->list_bytes <= BOX_MAX_HEADER_LIST_BYTES)
        return false;
    box_error err;
    (void)box_fail(&err, BOX_MESSAGE_SIZE, "headers are larger than the limit of %d bytes",
                   BOX_MAX_HEADER_LIST_BYTES);
    set_error(head, &err);
    return true;
}

void box_h2_head_field(h2_head *head, nghttp2_rcbuf *name, nghttp2_rcbuf *value)
{
    nghttp2_vec n = nghttp2_rcbuf_get_buf(name);
    nghttp2_vec v = nghttp2_rcbuf_get_buf(value);
    if (is_too_large(head, n.len + v.len + H2_FIELD_OVERHEAD))
        return;
    const char *key = (const char *)n.base;
    for (size_t i = 0; i < BOX_COUNT(known_fields); i++) {
        if (strlen(known_fields[i].name) == n.len &&
            memcmp(known_fields[i].name, key, n.len) == 0) {
            known_fields[i].take(head, value, (const char *)v.base, v.len);
            return;
        }
    }
    box_error err;
    if (box_metadata_add_received(&head->metadata, key, n.len, (const char *)v.base, v.len, &err) <
        0)
        set_error(head, &err);
}

/* --- requests --------------------------------------------------------------------------------- */

/* "/service/method": two parts that are not empty. */
static bool is_method_path(const char *path)
{
    if (path[0] != '/' || path[1] == '/')
        return false;
    const char *slash = strchr(path + 1, '/');
    return slash != NULL && slash[1] != '\0' && strpbrk(slash + 1, "/?#") == NULL;
}

static box_h2_request request_of(h2_head *head)
{
    return (box_h2_request){
        .path = text_of(head->path),
        .authority = text_of(head->authority != NULL ? head->authority : head->host),
        .metadata = &head->metadata,
        .timeout_ns = head->timeout_ns,
    };
}

static bool answer_page(box_h2_stream *s)
{
    const box_h2 *h = s->h;
    const box_h2_request request = request_of(&s->head);
    BOX_AUTO(box_buf_done) box_buf text = {.max_bytes = BOX_MAX_PAGE_BYTES};
    if (!s->head.is_get || h->events.page == NULL)
        return false;
    int status = h->events.page(h->owner, &request, &text);
    if (status != 0)
        box_h2_stream_plain(s, status, box_buf_data(&text), box_buf_len(&text));
    return status != 0;
}

static void answer_line(box_h2_stream *s, int status, const char *line)
{
    box_h2_stream_plain(s, status, line, strlen(line));
}

/* What is not gRPC gets an ordinary HTTP answer; true when that happened. A browser or a crawler
 * asks for paths that could be no method: nothing is there, whatever the method. */
static bool refuse_plain(box_h2_stream *s)
{
    const h2_head *head = &s->head;
    bool is_grpc = head->type == H2_TYPE_PROTO || head->error != NULL;
    if (head->is_post && is_grpc)
        return false;
    if (s->h->config.test_page != NULL)
        answer_line(s, 200, s->h->config.test_page);
    else if (!is_grpc && answer_page(s))
        return true;
    else if (!is_grpc && !is_method_path(text_of(head->path)))
        answer_line(s, 404, "this is a gRPC server: nothing is at this path\n");
    else if (!head->is_post)
        answer_line(s, 405, "gRPC calls are POST requests\n");
    else
        answer_line(s, 415, "this is a gRPC server: content-type must be application/grpc\n");
    return true;
}

void box_h2_head_request(box_h2_stream *s)
{
    h2_head *head = &s->head;
    if (refuse_plain(s))
        return;
    if (head->error == NULL && !is_method_path(text_of(head->path))) {
        box_error err;
        (void)box_fail(&err, BOX_UNIMPLEMENTED, "no method %s", text_of(head->path));
        set_error(head, &err);
    }
    if (head->error != NULL) {
        box_h2_stream_finish(s, head->error, NULL);
        return;
    }
    s->in_encoding = head->encoding;
    s->accepts = head->accepts;
    s->is_open = s->reads = true;
    box_h2_request request = request_of(head);
    s->h->events.request(s->h->owner, s, &request);
    box_h2_head_reset(head);
}

/* --- responses -------------------------------------------------------------------------------- */

/* The call's status from the block that ended it. */
static void response_status(const box_h2_stream *s, box_error *out)
{
    const h2_head *head = &s->head;
    bool grpc = s->head_seen || head->type != H2_TYPE_OTHER;
    if (head->grpc_status == NO_STATUS || !grpc) {
        box_h2_status_from_http(s->head_seen ? s->http_status : head->http_status,
                                text_of(head->content_type), out);
        return;
    }
    char text[BOX_ERROR_MSG];
    const char *raw = text_of(head->message);
    box_percent_decode(raw, strlen(raw), text, sizeof text);
    size_t len = box_buf_len(&head->details);
    const uint8_t *details = len > 0 ? box_buf_data(&head->details) : NULL;
    box_status_decode(head->grpc_status, text, details, len, out);
    if (out->reason == BOX_NONE && head->error != NULL)
        *out = *head->error;
}

static void end_with_status(box_h2_stream *s, const box_error *status)
{
    if (box_error_code(status) != BOX_CODE_OK) {
        s->status = box_alloc(sizeof *s->status);
        *s->status = *status;
    }
    s->remote_end = true;
    if (!s->end_sent) { /* nothing we could still say matters (grpc-conformance.md, 89) */
        s->local_end = true;
        box_h2_stream_reset(s, NGHTTP2_NO_ERROR);
    }
    box_h2_input_run(s);
}

static void first_headers(box_h2_stream *s)
{
    h2_head *head = &s->head;
    box_error err;
    if (head->type == H2_TYPE_OTHER || head->type == H2_TYPE_NONE) {
        box_h2_status_from_http(head->http_status, text_of(head->content_type), &err);
        box_h2_stream_fail(s, &err);
        return;
    }
    if (head->error != NULL) {
        err = *head->error;
        box_h2_stream_fail(s, &err);
        return;
    }
    s->head_seen = true;
    s->http_status = head->http_status;
    s->in_encoding = head->encoding;
    /* An HTTP error: what follows is no messages, but trailers may still say a status. */
    s->reads = head->http_status == 200;
    if (s->reads && s->h->events.headers != NULL) {
        s->busy = true;
        s->h->events.headers(s->h->owner, s, &head->metadata);
        s->busy = false;
    }
    if (s->released) {
        box_h2_stream_release(s);
        return;
    }
    box_h2_head_reset(head);
}

void box_h2_head_response(box_h2_stream *s, bool is_end)
{
    bool interim = !s->head_seen && s->head.http_status / 100 == 1 && !is_end;
    if (interim) {
        box_h2_head_reset(&s->head);
        return;
    }
    if (!is_end) {
        if (!s->head_seen)
            first_headers(s);
        return;
    }
    box_error status;
    response_status(s, &status);
    end_with_status(s, &status);
}

void box_h2_head_missing(box_h2_stream *s)
{
    box_error status;
    s->is_cut = true;
    box_h2_status_from_http(s->http_status, text_of(s->head.content_type), &status);
    end_with_status(s, &status);
}
