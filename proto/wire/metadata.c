#include "wire/metadata.h"

#include "base/alloc.h"
#include "base/limits.h"
#include "wire/codec.h"

enum { FIRST_CAPACITY = 4 };

void box_metadata_done(box_metadata *md)
{
    for (size_t i = 0; i < md->count; i++)
        free(md->entries[i].key);
    free(md->entries);
    *md = (box_metadata){0};
}

bool box_metadata_is_binary(const char *key, size_t len)
{
    return len >= 4 && memcmp(key + len - 4, "-bin", 4) == 0;
}

/* Room for the value of one more entry with that key, or NULL. The array has FIRST_CAPACITY places,
 * then doubles whenever count is a power of two: no capacity field. */
static uint8_t *append(box_metadata *md, const char *key, size_t key_len, size_t value_len,
                       box_error *err)
{
    if (md->count >= BOX_MAX_METADATA_ENTRIES || value_len > BOX_MAX_HEADER_LIST_BYTES) {
        (void)box_fail(err, BOX_MEMORY_BUDGET, "metadata is limited to %d entries of %d bytes",
                       BOX_MAX_METADATA_ENTRIES, BOX_MAX_HEADER_LIST_BYTES);
        return NULL;
    }
    bool full =
        md->count == 0 || (md->count >= FIRST_CAPACITY && (md->count & (md->count - 1)) == 0);
    if (full) {
        size_t capacity = md->count == 0 ? FIRST_CAPACITY : 2 * md->count;
        box_metadata_entry *entries = realloc(md->entries, capacity * sizeof *entries);
        if (entries == NULL) {
            (void)box_fail(err, BOX_MEMORY_BUDGET, "out of memory for metadata");
            return NULL;
        }
        md->entries = entries;
    }
    char *memory = box_alloc(key_len + 1 + value_len + 1);
    memcpy(memory, key, key_len);
    uint8_t *value = (uint8_t *)memory + key_len + 1;
    md->entries[md->count++] =
        (box_metadata_entry){.key = memory, .value = value, .value_len = value_len};
    return value;
}

static int append_copy(box_metadata *md, const char *key, size_t key_len, const void *value,
                       size_t len, box_error *err)
{
    uint8_t *room = append(md, key, key_len, len, err);
    if (room == NULL)
        return -1;
    if (len > 0)
        memcpy(room, value, len);
    return 0;
}

static bool is_key(const char *key, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        char c = key[i];
        bool ok =
            (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '-' || c == '.';
        if (!ok)
            return false;
    }
    return len > 0;
}

static bool is_printable(const char *value, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if ((unsigned char)value[i] < 0x20 || (unsigned char)value[i] > 0x7e)
            return false;
    }
    return true;
}

/* Of gRPC's own, what applications may see and set (grpc-conformance.md, 34). */
static bool is_lent(const char *key, size_t len)
{
    static const char *const names[] = {"grpc-status-details-bin", "grpc-previous-rpc-attempts",
                                        "grpc-retry-pushback-ms"};
    for (size_t i = 0; i < BOX_COUNT(names); i++) {
        if (strlen(names[i]) == len && memcmp(names[i], key, len) == 0)
            return true;
    }
    return false;
}

/* Names that belong to HTTP/2 and gRPC. `connection` and its kin may not appear in HTTP/2 at all
 * (RFC 9113, 8.2.2). */
static bool is_reserved(const char *key, size_t len)
{
    static const char *const names[] = {
        "te",         "content-type",     "user-agent",        "host",    "content-length",
        "connection", "proxy-connection", "transfer-encoding", "upgrade", "keep-alive",
    };
    if (len >= 5 && memcmp(key, "grpc-", 5) == 0)
        return !is_lent(key, len);
    for (size_t i = 0; i < BOX_COUNT(names); i++) {
        if (strlen(names[i]) == len && memcmp(names[i], key, len) == 0)
            return true;
    }
    return false;
}

int box_metadata_add(box_metadata *md, const char *key, const void *value, size_t len,
                     box_error *err)
{
    size_t key_len = strlen(key);
    if (!is_key(key, key_len))
        return box_fail(err, BOX_VALIDATION, "'%s' is not a metadata key (0-9 a-z _ - .)", key);
    if (is_reserved(key, key_len))
        return box_fail(err, BOX_VALIDATION, "metadata key '%s' is reserved", key);
    if (!box_metadata_is_binary(key, key_len) && !is_printable(value, len))
        return box_fail(err, BOX_VALIDATION,
                        "the value of metadata '%s' is not printable ASCII (a key ending in -bin "
                        "carries any bytes)",
                        key);
    return append_copy(md, key, key_len, value, len, err);
}

int box_metadata_add_text(box_metadata *md, const char *key, const char *value, box_error *err)
{
    return box_metadata_add(md, key, value, strlen(value), err);
}

int box_metadata_add_all(box_metadata *md, const box_metadata *from, box_error *err)
{
    for (size_t i = 0; i < from->count; i++) {
        const box_metadata_entry *e = &from->entries[i];
        if (append_copy(md, e->key, strlen(e->key), e->value, e->value_len, err) < 0)
            return -1;
    }
    return 0;
}

static void trim(const char **text, size_t *len)
{
    while (*len > 0 && **text == ' ') {
        (*text)++;
        (*len)--;
    }
    while (*len > 0 && (*text)[*len - 1] == ' ')
        (*len)--;
}

static int add_received_binary(box_metadata *md, const char *key, size_t key_len, const char *value,
                               size_t len, box_error *err)
{
    trim(&value, &len);
    size_t at = md->count;
    uint8_t *room = append(md, key, key_len, len / 4 * 3 + 3, err);
    if (room == NULL)
        return -1;
    size_t decoded;
    if (!box_base64_decode_raw(value, len, room, &decoded)) {
        free(md->entries[at].key);
        md->count = at;
        return box_fail(err, BOX_PROTOCOL, "metadata '%.*s' is not base64", (int)key_len, key);
    }
    room[decoded] = '\0';
    md->entries[at].value_len = decoded;
    return 0;
}

int box_metadata_add_received(box_metadata *md, const char *key, size_t key_len, const char *value,
                              size_t value_len, box_error *err)
{
    if (!is_key(key, key_len) || is_reserved(key, key_len))
        return 0;
    if (!box_metadata_is_binary(key, key_len)) {
        trim(&value, &value_len);
        return is_printable(value, value_len) ? append_copy(md, key, key_len, value, value_len, err)
                                              : 0;
    }
    for (;;) {
        const char *comma = memchr(value, ',', value_len);
        size_t part = comma != NULL ? (size_t)(comma - value) : value_len;
        if (add_received_binary(md, key, key_len, value, part, err) < 0)
            return -1;
        if (comma == NULL)
            return 0;
        value += part + 1;
        value_len -= part + 1;
    }
}

const char *box_metadata_get(const box_metadata *md, const char *key)
{
    for (size_t i = 0; i < md->count; i++) {
        if (strcmp(md->entries[i].key, key) == 0)
            return (const char *)md->entries[i].value;
    }
    return NULL;
}
