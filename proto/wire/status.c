#include "wire/status.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "google/rpc/error_details.pb-c.h"
#include "google/rpc/status.pb-c.h"

#define TYPE_PREFIX     "type.googleapis.com/"
#define TYPE_INFO       TYPE_PREFIX "google.rpc.ErrorInfo"
#define TYPE_VIOLATIONS TYPE_PREFIX "google.rpc.BadRequest"
#define TYPE_QUOTA      TYPE_PREFIX "google.rpc.QuotaFailure"
#define TYPE_RETRY      TYPE_PREFIX "google.rpc.RetryInfo"

static const char violation_prefix[] = "field:";
enum { VIOLATION_PREFIX = sizeof violation_prefix - 1, MAX_DETAILS = 4 };

static bool is_violation(const char *key)
{
    return strncmp(key, violation_prefix, VIOLATION_PREFIX) == 0;
}

/* --- box_error to google.rpc.Status ----------------------------------------------------------- */

/* What is being built: pointers into src, arrays of our own. */
typedef struct encoder {
    const box_error *src;
    Box__Rpc__Any details[MAX_DETAILS];
    Box__Rpc__Any *pointers[MAX_DETAILS];
    size_t n_details;
} encoder;

static void encoder_done(encoder *e)
{
    for (size_t i = 0; i < e->n_details; i++)
        free(e->details[i].value.data);
}

/* protobuf-c's strings are not const but are only read when packing. */
static char *borrowed(const char *text)
{
    return (char *)(uintptr_t)text;
}

static void add_detail(encoder *e, const char *type_url, const ProtobufCMessage *message)
{
    size_t len = protobuf_c_message_get_packed_size(message);
    Box__Rpc__Any *any = &e->details[e->n_details];
    *any = (Box__Rpc__Any)BOX__RPC__ANY__INIT;
    any->type_url = borrowed(type_url);
    any->value.len = len;
    any->value.data = box_alloc(len + 1); /* an empty message is no bytes */
    protobuf_c_message_pack(message, any->value.data);
    e->pointers[e->n_details++] = any;
}

static size_t count_pairs(const box_error *src, bool violations)
{
    size_t n = 0, at = 0;
    const char *key, *value;
    while (box_error_next(src, &at, &key, &value))
        n += is_violation(key) == violations;
    return n;
}

static void add_info(encoder *e)
{
    typedef Box__Rpc__ErrorInfo__MetadataEntry entry;
    size_t n = count_pairs(e->src, false) + (e->src->more > 0);
    BOX_AUTO(box_freep) entry *entries = box_alloc_array(n + 1, sizeof *entries);
    BOX_AUTO(box_freep) entry **pointers = box_alloc_array(n + 1, sizeof(void *));
    char more[16];
    (void)snprintf(more, sizeof more, "%u", (unsigned)e->src->more);
    size_t filled = 0, at = 0;
    const char *key, *value;
    while (box_error_next(e->src, &at, &key, &value)) {
        if (is_violation(key))
            continue;
        entries[filled] = (entry)BOX__RPC__ERROR_INFO__METADATA_ENTRY__INIT;
        entries[filled].key = borrowed(key);
        entries[filled++].value = borrowed(value);
    }
    if (e->src->more > 0) {
        entries[filled] = (entry)BOX__RPC__ERROR_INFO__METADATA_ENTRY__INIT;
        entries[filled].key = borrowed("more");
        entries[filled++].value = more;
    }
    for (size_t i = 0; i < filled; i++)
        pointers[i] = &entries[i];
    Box__Rpc__ErrorInfo info = BOX__RPC__ERROR_INFO__INIT;
    info.reason = borrowed(box_reason_name(e->src->reason));
    info.domain = borrowed(BOX_ERROR_DOMAIN);
    info.n_metadata = filled;
    info.metadata = pointers;
    add_detail(e, TYPE_INFO, &info.base);
}

static void add_violations(encoder *e)
{
    typedef Box__Rpc__BadRequest__FieldViolation violation;
    size_t n = count_pairs(e->src, true);
    if (n == 0)
        return;
    BOX_AUTO(box_freep) violation *items = box_alloc_array(n, sizeof *items);
    BOX_AUTO(box_freep) violation **pointers = box_alloc_array(n, sizeof(void *));
    size_t filled = 0, at = 0;
    const char *key, *value;
    while (box_error_next(e->src, &at, &key, &value)) {
        if (!is_violation(key))
            continue;
        items[filled] = (violation)BOX__RPC__BAD_REQUEST__FIELD_VIOLATION__INIT;
        items[filled].field = borrowed(key + VIOLATION_PREFIX);
        items[filled].description = borrowed(value);
        pointers[filled] = &items[filled];
        filled++;
    }
    Box__Rpc__BadRequest bad = BOX__RPC__BAD_REQUEST__INIT;
    bad.n_field_violations = filled;
    bad.field_violations = pointers;
    add_detail(e, TYPE_VIOLATIONS, &bad.base);
}

/* A limit that was reached is also said in the standard form; `limit` names it. */
static void add_quota(encoder *e)
{
    const char *limit = box_error_get(e->src, "limit");
    if (limit == NULL || box_error_code(e->src) != BOX_CODE_RESOURCE_EXHAUSTED)
        return;
    Box__Rpc__QuotaFailure__Violation item = BOX__RPC__QUOTA_FAILURE__VIOLATION__INIT;
    item.subject = borrowed(limit);
    item.description = borrowed(e->src->msg);
    Box__Rpc__QuotaFailure__Violation *pointer = &item;
    Box__Rpc__QuotaFailure quota = BOX__RPC__QUOTA_FAILURE__INIT;
    quota.n_violations = 1;
    quota.violations = &pointer;
    add_detail(e, TYPE_QUOTA, &quota.base);
}

static void add_retry(encoder *e)
{
    if (e->src->retry_ms == 0)
        return;
    Box__Rpc__Duration delay = BOX__RPC__DURATION__INIT;
    delay.seconds = e->src->retry_ms / 1000;
    delay.nanos = (int32_t)(e->src->retry_ms % 1000 * BOX_MS);
    Box__Rpc__RetryInfo retry = BOX__RPC__RETRY_INFO__INIT;
    retry.retry_delay = &delay;
    add_detail(e, TYPE_RETRY, &retry.base);
}

int box_status_encode(const box_error *src, box_buf *out, box_error *err)
{
    BOX_AUTO(encoder_done) encoder e = {.src = src};
    add_info(&e);
    add_violations(&e);
    add_quota(&e);
    add_retry(&e);
    Box__Rpc__Status status = BOX__RPC__STATUS__INIT;
    status.code = (int32_t)box_error_code(src);
    status.message = borrowed(src->msg);
    status.n_details = e.n_details;
    status.details = e.pointers;
    size_t len = box__rpc__status__get_packed_size(&status);
    uint8_t *room;
    if (box_buf_reserve(out, len, &room, err) < 0)
        return -1;
    box__rpc__status__pack(&status, room);
    box_buf_commit(out, len);
    return 0;
}

/* --- and back --------------------------------------------------------------------------------- */

/* Codes that one reason of ours means without more being known. */
static box_reason reason_of_code(box_code code)
{
    switch (code) {
    case BOX_CODE_OK:
        return BOX_NONE;
    case BOX_CODE_CANCELLED:
        return BOX_CANCELLED;
    case BOX_CODE_INVALID_ARGUMENT:
        return BOX_VALIDATION;
    case BOX_CODE_DEADLINE_EXCEEDED:
        return BOX_DEADLINE;
    case BOX_CODE_PERMISSION_DENIED:
        return BOX_PERMISSION;
    case BOX_CODE_UNIMPLEMENTED:
        return BOX_UNIMPLEMENTED;
    case BOX_CODE_INTERNAL:
        return BOX_INTERNAL;
    case BOX_CODE_UNAVAILABLE:
        return BOX_RUNTIME_UNAVAILABLE;
    case BOX_CODE_UNAUTHENTICATED:
        return BOX_UNAUTHENTICATED;
    default:
        return BOX_UNKNOWN;
    }
}

static void read_info(const Box__Rpc__ErrorInfo *info, box_error *out)
{
    if (strcmp(info->domain, BOX_ERROR_DOMAIN) != 0)
        return;
    box_reason reason = box_reason_from_name(info->reason);
    if (reason != BOX_NONE && reason != BOX_UNKNOWN)
        out->reason = reason;
    for (size_t i = 0; i < info->n_metadata; i++) {
        const Box__Rpc__ErrorInfo__MetadataEntry *entry = info->metadata[i];
        if (strcmp(entry->key, "more") == 0)
            out->more += (uint32_t)strtoul(entry->value, NULL, 10);
        else
            box_error_add(out, entry->key, entry->value);
    }
}

static void read_violations(const Box__Rpc__BadRequest *bad, box_error *out)
{
    for (size_t i = 0; i < bad->n_field_violations; i++) {
        char key[BOX_ERROR_MSG];
        (void)snprintf(key, sizeof key, "%s%s", violation_prefix, bad->field_violations[i]->field);
        box_error_add(out, key, bad->field_violations[i]->description);
    }
}

static void read_retry(const Box__Rpc__RetryInfo *retry, box_error *out)
{
    const Box__Rpc__Duration *delay = retry->retry_delay;
    if (delay == NULL || delay->seconds < 0 || delay->nanos < 0)
        return;
    int64_t seconds = delay->seconds < UINT32_MAX ? delay->seconds : UINT32_MAX;
    int64_t ms = seconds * 1000 + delay->nanos / (int32_t)BOX_MS;
    out->retry_ms = ms < UINT32_MAX ? (uint32_t)ms : UINT32_MAX;
}

/* One reader for each type; a detail that does not parse says nothing. */
static void read_detail(const Box__Rpc__Any *any, box_error *out)
{
    if (strcmp(any->type_url, TYPE_INFO) == 0) {
        Box__Rpc__ErrorInfo *info =
            box__rpc__error_info__unpack(NULL, any->value.len, any->value.data);
        if (info != NULL)
            read_info(info, out);
        box__rpc__error_info__free_unpacked(info, NULL);
    } else if (strcmp(any->type_url, TYPE_VIOLATIONS) == 0) {
        Box__Rpc__BadRequest *bad =
            box__rpc__bad_request__unpack(NULL, any->value.len, any->value.data);
        if (bad != NULL)
            read_violations(bad, out);
        box__rpc__bad_request__free_unpacked(bad, NULL);
    } else if (strcmp(any->type_url, TYPE_RETRY) == 0) {
        Box__Rpc__RetryInfo *retry =
            box__rpc__retry_info__unpack(NULL, any->value.len, any->value.data);
        if (retry != NULL)
            read_retry(retry, out);
        box__rpc__retry_info__free_unpacked(retry, NULL);
    }
}

void box_status_decode(int grpc_status, const char *message, const void *details, size_t len,
                       box_error *out)
{
    bool known = grpc_status >= BOX_CODE_OK && grpc_status <= BOX_CODE_UNAUTHENTICATED;
    box_code code = known ? (box_code)grpc_status : BOX_CODE_UNKNOWN;
    if (code == BOX_CODE_OK) {
        *out = (box_error){0};
        return;
    }
    *out = (box_error){.reason = reason_of_code(code)};
    box_error_set_text(out, message);
    Box__Rpc__Status *status = len > 0 ? box__rpc__status__unpack(NULL, len, details) : NULL;
    for (size_t i = 0; status != NULL && i < status->n_details; i++)
        read_detail(status->details[i], out);
    box__rpc__status__free_unpacked(status, NULL);
    /* grpc-status wins over whatever the details say (grpc-conformance.md, 77). */
    out->code = box_reason_code(out->reason) == code ? 0 : (uint16_t)code;
}
