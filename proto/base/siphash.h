/* SipHash-1-3 (Aumasson and Bernstein, "SipHash: a fast short-input PRF"): a hash for tables whose
 * keys peers choose. Who does not know the seed cannot find keys that fall together. Any thread. */
#pragma once

#include <stddef.h>
#include <stdint.h>

typedef struct box_hash_seed {
    uint64_t words[2];
} box_hash_seed;

/* Random: one a table. */
box_hash_seed box_hash_seed_new(void);
uint64_t box_siphash(const box_hash_seed *seed, const void *key, size_t len);
