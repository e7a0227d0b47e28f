#include "rpc/peer_table.h"

#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "base/alloc.h"
#include "base/siphash.h"

enum { WAYS = 8 };

typedef struct slot {
    uint8_t key[BOX_PEER_KEY_BYTES];
    box_time used_at; /* 0 = free */
} slot;

struct box_peer_table {
    size_t n_keys;
    size_t value_bytes;
    box_hash_seed seed; /* so that nobody can choose keys that push another out */
    slot *slots;
    unsigned char *values;
};

box_peer_table *box_peer_table_new(size_t n_keys, size_t value_bytes)
{
    assert(n_keys > 0 && n_keys % WAYS == 0);
    box_peer_table *r = box_alloc(sizeof *r);
    r->n_keys = n_keys;
    r->value_bytes = (value_bytes + sizeof(uint64_t) - 1) / sizeof(uint64_t) * sizeof(uint64_t);
    r->slots = box_alloc(n_keys * sizeof r->slots[0]);
    r->values = box_alloc(n_keys * r->value_bytes);
    r->seed = box_hash_seed_new();
    return r;
}

void box_peer_table_free(box_peer_table *r)
{
    if (r == NULL)
        return;
    free(r->slots);
    free(r->values);
    free(r);
}

static void pad(uint8_t out[BOX_PEER_KEY_BYTES], const void *key, size_t len)
{
    assert(len <= BOX_PEER_KEY_BYTES);
    memset(out, 0, BOX_PEER_KEY_BYTES);
    memcpy(out, key, len);
}

static slot *bucket_of(const box_peer_table *r, const uint8_t key[BOX_PEER_KEY_BYTES])
{
    uint64_t hash = box_siphash(&r->seed, key, BOX_PEER_KEY_BYTES);
    return &r->slots[(size_t)(hash % (r->n_keys / WAYS)) * WAYS];
}

static slot *find(slot *bucket, const uint8_t key[BOX_PEER_KEY_BYTES])
{
    for (slot *s = bucket; s < bucket + WAYS; s++) {
        if (s->used_at != 0 && memcmp(s->key, key, BOX_PEER_KEY_BYTES) == 0)
            return s;
    }
    return NULL;
}

static slot *least_recent(slot *bucket)
{
    slot *found = bucket;
    for (slot *s = bucket + 1; s < bucket + WAYS; s++) {
        if (s->used_at < found->used_at)
            found = s;
    }
    return found;
}

static void *value_of(const box_peer_table *r, const slot *s)
{
    return r->values + (size_t)(s - r->slots) * r->value_bytes;
}

void *box_peer_table_get(box_peer_table *r, const void *key, size_t len, box_time now)
{
    uint8_t padded[BOX_PEER_KEY_BYTES];
    pad(padded, key, len);
    slot *bucket = bucket_of(r, padded);
    slot *s = find(bucket, padded);
    if (s == NULL) {
        s = least_recent(bucket);
        memcpy(s->key, padded, sizeof padded);
        memset(value_of(r, s), 0, r->value_bytes);
    }
    s->used_at = now != 0 ? now : 1;
    return value_of(r, s);
}

void *box_peer_table_peek(const box_peer_table *r, const void *key, size_t len)
{
    uint8_t padded[BOX_PEER_KEY_BYTES];
    pad(padded, key, len);
    const slot *s = find(bucket_of(r, padded), padded);
    return s != NULL ? value_of(r, s) : NULL;
}
