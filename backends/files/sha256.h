/* SHA-256 (FIPS 180-4): the worker is static and small, OpenSSL is neither. */
#pragma once

#include <stddef.h>
#include <stdint.h>

typedef struct box_sha256 {
    uint32_t state[8];
    uint64_t bytes;
    uint8_t block[64];
} box_sha256;

void box_sha256_init(box_sha256 *s);
void box_sha256_add(box_sha256 *s, const void *data, size_t len);
void box_sha256_end(box_sha256 *s, uint8_t out[32]);
