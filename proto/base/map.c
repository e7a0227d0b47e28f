#include "base/map.h"

#include <stdint.h>

#include "base/alloc.h"
#include "base/siphash.h"

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
    box_hash_seed seed;
};

enum { FIRST_CHAINS = 16 };

box_map *box_map_new(void)
{
    box_map *m = box_alloc(sizeof *m);
    m->n_chains = FIRST_CHAINS;
    m->chains = box_alloc_array(m->n_chains, sizeof(entry *));
    m->seed = box_hash_seed_new();
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

static uint64_t hash_bytes(const box_map *m, const void *key, size_t len)
{
    return box_siphash(&m->seed, key, len);
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
