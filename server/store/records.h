/* What the store keeps: plain values. */
#pragma once

#include "base/buf.h"
#include "base/id.h"
#include "base/limits.h"

/* The tenant of those who use a server alone; made with the database. */
#define BOX_TENANT_DEFAULT "default"

enum {
    BOX_TENANT_ID_BYTES = 64,
    BOX_TENANT_NAME_BYTES = 256,
    BOX_TOKEN_NAME_BYTES = 128,
    BOX_TOKEN_PREFIX_BYTES = 12, /* "box_" and 8 characters of the secret */
    BOX_TOKEN_HASH_BYTES = 32,   /* SHA-256 */
};

/* "key\0value\0" pairs, sorted by key. Zero is none. Owned: box_labels_done. */
typedef struct box_labels {
    char *data;
    size_t len;
} box_labels;

void box_labels_done(box_labels *l);
void box_labels_copy(const box_labels *from, box_labels *out);
/* Walks the pairs: start with *at = 0. */
bool box_labels_next(const box_labels *l, size_t *at, const char **key, const char **value);
/* NULL when there is none. */
const char *box_labels_get(const box_labels *l, const char *key);
/* Adds or replaces, keeping the order. */
void box_labels_put(box_labels *l, const char *key, const char *value);
/* All pairs of `wanted` are there; an empty value matches any. */
bool box_labels_match(const box_labels *l, const box_labels *wanted);

typedef struct box_tenant {
    char id[BOX_TENANT_ID_BYTES + 1];
    char display_name[BOX_TENANT_NAME_BYTES + 1];
    box_labels labels;
    bool disabled;
    int64_t created_ns; /* since 1970; so are all */
    int64_t updated_ns;
} box_tenant;

void box_tenant_done(box_tenant *t);
void box_tenants_free(box_tenant *tenants, size_t n);

/* A plain value. */
typedef struct box_token {
    uint64_t id; /* random, 1 to 2^63 - 1 */
    char tenant[BOX_TENANT_ID_BYTES + 1];
    char name[BOX_TOKEN_NAME_BYTES + 1];
    char prefix[BOX_TOKEN_PREFIX_BYTES + 1];
    uint8_t hash[BOX_TOKEN_HASH_BYTES];
    uint32_t scopes; /* box_scope */
    int64_t created_ns;
    int64_t expires_ns; /* 0 = never */
    int64_t revoked_ns; /* 0 = not */
    int64_t used_ns;    /* 0 = not yet */
} box_token;

/* Token ids as the API shows them: 16 hexadecimal digits. */
enum { BOX_TOKEN_ID_TEXT = 17 };
void box_token_id_text(uint64_t id, char out[BOX_TOKEN_ID_TEXT]);
bool box_token_id_parse(const char *text, uint64_t *out);

/* What happened to a persistent session. */
typedef enum box_session_change_kind {
    BOX_SESSION_PUT,    /* it is new, or its record changed */
    BOX_SESSION_TOUCH,  /* only the times and the count changed */
    BOX_SESSION_FORGET, /* it is no more */
} box_session_change_kind;

/* Borrows; FORGET needs only the uid, TOUCH no record and no tenant. */
typedef struct box_session_change {
    box_session_change_kind kind;
    box_uid uid;
    const char *tenant;
    box_bytes record;    /* session/'s own encoding */
    int64_t used_ns;     /* last use, since 1970 */
    int64_t extended_ns; /* ExtendSession: lives until then; 0 = not extended */
    uint64_t execs;      /* commands that were started */
} box_session_change;

/* The same as it is read; the record is borrowed. */
typedef struct box_stored_session {
    box_uid uid;
    char tenant[BOX_TENANT_ID_BYTES + 1];
    box_bytes record;
    int64_t used_ns;
    int64_t extended_ns;
    uint64_t execs;
    uint32_t starts; /* of boxd, since it was put: this one is the first that is counted */
} box_stored_session;

/* Where a list goes on: behind the object made at created_ns with that id. Zero: the start. */
typedef struct box_position {
    int64_t created_ns;
    char id[BOX_MAX_ID_BYTES + 1]; /* of a token: box_token_id_text */
} box_position;
