/* Secrets of tokens: "box_" and 256 random bits as 43 characters of base64url. Only the SHA-256 is
 * kept; it is what tokens are found by, so no comparison of secrets can leak where they differ. */
#pragma once

#include "base/error.h"
#include "store/records.h"

enum { BOX_TOKEN_SECRET_LEN = 47 };

/* Fills id, prefix and hash of *token and gives the secret, which exists nowhere else. */
void box_token_make(box_token *token, char secret[BOX_TOKEN_SECRET_LEN + 1]);
/* False for text that cannot be a token. */
bool box_token_hash(const char *secret, uint8_t hash[BOX_TOKEN_HASH_BYTES]);

/* The token of an `authorization` value: the scheme "Bearer" in any case, spaces, the token.
 * NULL when it is something else. */
const char *box_token_of_header(const char *value);
