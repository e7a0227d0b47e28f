#include "base/map.h"

#include <stdint.h>

#include "base/alloc.h"
#include "base/id.h"

/* Open hashing: an array of chains, doubled when there are more entries than chains. */
typedef struct entry {
    struct entry *next;
    uint64_t hash;
    void *value;
    size_t len;
    char key[];
} entry;

struct box_map {
    entry **chains;
    size_t n_chains; /* a power of two */
    size_t count;
    uint64_t seed[2];
};

enum { FIRST_CHAINS = 16 };

box_map *box_map_new(void)
{
    box_map *m = box_alloc(sizeof *m);
    m->n_chains = FIRST_CHAINS;
    m->chains = box_alloc_array(m->n_chains, sizeof(entry *));
    box_random(m->seed, sizeof m->seed);
    return m;
}

void box_map_free(box_map *m)
{
    if (m == NULL)
        return;
    for (size_t i = 0; i < m->n_chains; i++) {
        for (entry *e = m->chains[i]; e != NULL;) {
            entry *next = e->next;
            free(e);
            e = next;
        }
    }
    free(m->chains);
    free(m);
}

static uint64_t rotate(uint64_t x, int bits)
{
    return x << bits | x >> (64 - bits);
}

static void sip_round(uint64_t v[4])
{
    v[0] += v[1];
    v[1] = rotate(v[1], 13) ^ v[0];
    v[0] = rotate(v[0], 32);
    v[2] += v[3];
    v[3] = rotate(v[3], 16) ^ v[2];
    v[0] += v[3];
    v[3] = rotate(v[3], 21) ^ v[0];
    v[2] += v[1];
    v[1] = rotate(v[1], 17) ^ v[2];
    v[2] = rotate(v[2], 32);
}

/* SipHash-1-3 (Aumasson and Bernstein, "SipHash: a fast short-input PRF"): keyed, so that a peer
 * who does not know the seed cannot make chains long. */
static uint64_t hash_bytes(const box_map *m, const void *key, size_t len)
{
    const uint8_t *p = key;
    uint64_t v[4] = {
        m->seed[0] ^ UINT64_C(0x736f6d6570736575), m->seed[1] ^ UINT64_C(0x646f72616e646f6d),
        m->seed[0] ^ UINT64_C(0x6c7967656e657261), m->seed[1] ^ UINT64_C(0x7465646279746573)};
    uint64_t last = (uint64_t)len << 56;
    size_t left = len;
    for (; left >= 8; left -= 8, p += 8) {
        uint64_t word;
        memcpy(&word, p, 8);
        v[3] ^= word;
        sip_round(v);
        v[0] ^= word;
    }
    for (size_t i = 0; i < left; i++)
        last |= (uint64_t)p[i] << (8 * i);
    v[3] ^= last;
    sip_round(v);
    v[0] ^= last;
    v[2] ^= 0xff;
    for (int i = 0; i < 3; i++)
        sip_round(v);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

/* Where the entry hangs, or where a new one would. */
static entry **find(const box_map *m, const void *key, size_t len, uint64_t hash)
{
    entry **at = &m->chains[hash & (m->n_chains - 1)];
    while (*at != NULL &&
           ((*at)->hash != hash || (*at)->len != len || memcmp((*at)->key, key, len) != 0))
        at = &(*at)->next;
    return at;
}

static void grow(box_map *m)
{
    size_t n = m->n_chains * 2;
    entry **chains = box_alloc_array(n, sizeof(entry *));
    for (size_t i = 0; i < m->n_chains; i++) {
        for (entry *e = m->chains[i]; e != NULL;) {
            entry *next = e->next;
            e->next = chains[e->hash & (n - 1)];
            chains[e->hash & (n - 1)] = e;
            e = next;
        }
    }
    free(m->chains);
    m->chains = chains;
    m->n_chains = n;
}

size_t box_map_count(const box_map *m)
{
    return m->count;
}

void *box_map_get_bytes(const box_map *m, const void *key, size_t len)
{
    entry *e = *find(m, key, len, hash_bytes(m, key, len));
    return e != NULL ? e->value : NULL;
}

void *box_map_put_bytes(box_map *m, const void *key, size_t len, void *value)
{
    uint64_t hash = hash_bytes(m, key, len);
    entry **at = find(m, key, len, hash);
    if (*at != NULL) {
        void *old = (*at)->value;
        (*at)->value = value;
        return old;
    }
    entry *e = box_alloc(sizeof *e + len + 1);
    e->hash = hash;
    e->value = value;
    e->len = len;
    memcpy(e->key, key, len);
    *at = e;
    if (++m->count > m->n_chains)
        grow(m);
    return NULL;
}

void *box_map_remove_bytes(box_map *m, const void *key, size_t len)
{
    entry **at = find(m, key, len, hash_bytes(m, key, len));
    entry *e = *at;
    if (e == NULL)
        return NULL;
    void *value = e->value;
    *at = e->next;
    free(e);
    m->count--;
    return value;
}

void *box_map_get(const box_map *m, const char *key)
{
    return box_map_get_bytes(m, key, strlen(key));
}

void *box_map_put(box_map *m, const char *key, void *value)
{
    return box_map_put_bytes(m, key, strlen(key), value);
}

void *box_map_remove(box_map *m, const char *key)
{
    return box_map_remove_bytes(m, key, strlen(key));
}

/* A position is the chain's number above DEPTH_BITS and the place in the chain below. */
enum { DEPTH_BITS = 20 };

bool box_map_next(const box_map *m, size_t *at, void **value)
{
    size_t chain = *at >> DEPTH_BITS;
    size_t depth = *at & (((size_t)1 << DEPTH_BITS) - 1);
    for (; chain < m->n_chains; chain++, depth = 0) {
        const entry *e = m->chains[chain];
        for (size_t i = 0; i < depth && e != NULL; i++)
            e = e->next;
        if (e != NULL) {
            *value = e->value;
            *at = chain << DEPTH_BITS | (depth + 1);
            return true;
        }
    }
    return false;
}
