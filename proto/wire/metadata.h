/* gRPC metadata: an ordered list of keys and values. */
#pragma once

#include "base/error.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct box_metadata_entry {
    char *key;      /* 0-9 a-z _ - . ; key and value are one allocation, freed by the list */
    uint8_t *value; /* for a "-bin" key the decoded bytes; a NUL that is not counted follows */
    size_t value_len;
} box_metadata_entry;

/* Zero is empty. Owned; free with box_metadata_done. */
typedef struct box_metadata {
    box_metadata_entry *entries;
    size_t count; /* at most BOX_MAX_METADATA_ENTRIES */
} box_metadata;

void box_metadata_done(box_metadata *md);

/* Checks key and value as grpc-conformance.md 26, 27 and 34 want them of an application; a reserved
 * key (grpc-* but for grpc-status-details-bin, grpc-previous-rpc-attempts and
 * grpc-retry-pushback-ms; te, content-type, user-agent, ":...") is VALIDATION. Order and duplicates
 * are kept.
 */
int box_metadata_add(box_metadata *md, const char *key, const void *value, size_t len,
                     box_error *err) BOX_MUST_USE;
int box_metadata_add_text(box_metadata *md, const char *key, const char *value, box_error *err)
    BOX_MUST_USE;
/* Appends copies of all entries. MEMORY_BUDGET when there are too many. */
int box_metadata_add_all(box_metadata *md, const box_metadata *from, box_error *err) BOX_MUST_USE;

/* A field as it came from the wire: decodes "-bin" values and splits them at commas; fields that an
 * application could not send back (reserved keys, values that are not printable ASCII) are dropped.
 * PROTOCOL for bad base64, MEMORY_BUDGET when there are too many (grpc-conformance.md 28-34). */
int box_metadata_add_received(box_metadata *md, const char *key, size_t key_len, const char *value,
                              size_t value_len, box_error *err) BOX_MUST_USE;

/* First value of the key as text, or NULL. */
const char *box_metadata_get(const box_metadata *md, const char *key);
/* Does the key end in "-bin"? */
bool box_metadata_is_binary(const char *key, size_t len);

#ifdef __cplusplus
}
#endif
