#include "service/page.h"

#include <openssl/evp.h>

#include "base/id.h"
#include "base/limits.h"

uint64_t box_page_binding(const char *list, const char *tenant, const void *filter, size_t len)
{
    uint8_t hash[EVP_MAX_MD_SIZE];
    uint64_t binding = 0;
    EVP_MD_CTX *md = EVP_MD_CTX_new();
    if (md == NULL || !EVP_DigestInit_ex(md, EVP_sha256(), NULL) ||
        !EVP_DigestUpdate(md, list, strlen(list) + 1) ||
        !EVP_DigestUpdate(md, tenant, strlen(tenant) + 1) || !EVP_DigestUpdate(md, filter, len) ||
        !EVP_DigestFinal_ex(md, hash, NULL))
        abort(); /* only without memory */
    EVP_MD_CTX_free(md);
    memcpy(&binding, hash, sizeof binding);
    return binding;
}

/* binding, created_ns (both in this machine's byte order), id; as hexadecimal. */
void box_page_token(uint64_t binding, const box_position *at, char out[BOX_PAGE_TOKEN_TEXT])
{
    uint8_t bytes[16 + BOX_MAX_ID_BYTES];
    size_t len = strlen(at->id);
    memcpy(bytes, &binding, 8);
    memcpy(bytes + 8, &at->created_ns, 8);
    memcpy(bytes + 16, at->id, len);
    box_hex(bytes, 16 + len, out);
}

int box_page_parse(const char *token, uint64_t binding, box_position *out, box_error *err)
{
    uint8_t bytes[16 + BOX_MAX_ID_BYTES];
    box_position at = {0};
    size_t len = strlen(token);
    if (len == 0) {
        *out = at;
        return 0;
    }
    if (len <= 32 || len % 2 != 0 || len / 2 > sizeof bytes || !box_unhex(token, bytes, len / 2) ||
        memcmp(bytes, &binding, 8) != 0)
        return box_violation(err, "page_token",
                             "is not next_page_token of an answer to this list with these filters");
    memcpy(&at.created_ns, bytes + 8, 8);
    memcpy(at.id, bytes + 16, len / 2 - 16);
    *out = at;
    return 0;
}

int box_page_size(int32_t asked, size_t *out, box_error *err)
{
    if (asked < 0)
        return box_violation(err, "page_size", "must not be negative");
    *out = asked == 0 ? BOX_DEFAULT_PAGE : asked > BOX_MAX_PAGE ? BOX_MAX_PAGE : (size_t)asked;
    return 0;
}
