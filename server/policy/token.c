#include "policy/token.h"

#include <strings.h>

#include <openssl/crypto.h>
#include <openssl/sha.h>

#include "base/id.h"

enum { SECRET_BYTES = 32, PREFIX_LEN = 4 };

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/* RFC 4648, section 5, without padding: 32 bytes are 43 characters. */
static void encode(const uint8_t *bytes, char *out)
{
    uint32_t bits = 0;
    unsigned n_bits = 0;
    for (size_t i = 0; i < SECRET_BYTES; i++) {
        bits = bits << 8 | bytes[i];
        for (n_bits += 8; n_bits >= 6; n_bits -= 6)
            *out++ = alphabet[bits >> (n_bits - 6) & 63];
    }
    *out++ = alphabet[bits << (6 - n_bits) & 63];
    *out = '\0';
}

void box_token_make(box_token *token, char secret[BOX_TOKEN_SECRET_LEN + 1])
{
    uint8_t bytes[SECRET_BYTES];
    box_random(bytes, sizeof bytes);
    memcpy(secret, "box_", PREFIX_LEN);
    encode(bytes, secret + PREFIX_LEN);
    OPENSSL_cleanse(bytes, sizeof bytes);
    (void)SHA256((const unsigned char *)secret, BOX_TOKEN_SECRET_LEN, token->hash);
    memcpy(token->prefix, secret, BOX_TOKEN_PREFIX_BYTES);
    token->prefix[BOX_TOKEN_PREFIX_BYTES] = '\0';
    do {
        box_random(&token->id, sizeof token->id);
        token->id &= INT64_MAX; /* SQLite's integers have a sign */
    } while (token->id == 0);
}

bool box_token_hash(const char *secret, uint8_t hash[BOX_TOKEN_HASH_BYTES])
{
    if (strlen(secret) != BOX_TOKEN_SECRET_LEN || strncmp(secret, "box_", PREFIX_LEN) != 0)
        return false;
    (void)SHA256((const unsigned char *)secret, BOX_TOKEN_SECRET_LEN, hash);
    return true;
}

const char *box_token_of_header(const char *value)
{
    static const char scheme[] = "Bearer";
    size_t len = sizeof scheme - 1;
    if (strncasecmp(value, scheme, len) != 0 || value[len] != ' ')
        return NULL;
    const char *token = value + len + strspn(value + len, " ");
    return *token != '\0' ? token : NULL;
}
