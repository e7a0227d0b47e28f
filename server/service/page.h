/* Pages of lists: sizes, and opaque tokens that say where the next page begins. */
#pragma once

#include "base/error.h"
#include "store/records.h"

/* What a token is bound to: the list, the tenant it is of, and the filter. A token of another
 * binding is VALIDATION. */
uint64_t box_page_binding(const char *list, const char *tenant, const void *filter, size_t len);

enum { BOX_PAGE_TOKEN_TEXT = 2 * (8 + 8 + BOX_MAX_ID_BYTES) + 1 };
void box_page_token(uint64_t binding, const box_position *at, char out[BOX_PAGE_TOKEN_TEXT]);
/* "" is the start. */
int box_page_parse(const char *token, uint64_t binding, box_position *out, box_error *err)
    BOX_MUST_USE;

/* 0 is BOX_DEFAULT_PAGE, more than BOX_MAX_PAGE is that, less than 0 is VALIDATION. */
int box_page_size(int32_t asked, size_t *out, box_error *err) BOX_MUST_USE;
