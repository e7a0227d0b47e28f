#include "base/siphash.h"

#include <string.h>

#include "base/id.h"

enum { LAST_ROUNDS = 3 };

box_hash_seed box_hash_seed_new(void)
{
    box_hash_seed seed;
    box_random(&seed, sizeof seed);
    return seed;
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

static void take_word(uint64_t v[4], uint64_t word)
{
    v[3] ^= word;
    sip_round(v);
    v[0] ^= word;
}

uint64_t box_siphash(const box_hash_seed *seed, const void *key, size_t len)
{
    const uint8_t *p = key;
    const uint64_t *k = seed->words;
    uint64_t v[4] = {k[0] ^ UINT64_C(0x736f6d6570736575), k[1] ^ UINT64_C(0x646f72616e646f6d),
                     k[0] ^ UINT64_C(0x6c7967656e657261), k[1] ^ UINT64_C(0x7465646279746573)};
    uint64_t last = (uint64_t)len << 56;
    size_t left = len;
    for (; left >= 8; left -= 8, p += 8) {
        uint64_t word;
        memcpy(&word, p, 8);
        take_word(v, word);
    }
    for (size_t i = 0; i < left; i++)
        last |= (uint64_t)p[i] << (8 * i);
    take_word(v, last);
    v[2] ^= 0xff;
    for (int i = 0; i < LAST_ROUNDS; i++)
        sip_round(v);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}
