/* UTF-8 (RFC 3629): no surrogates, no overlong forms, nothing above U+10FFFF. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Length of the valid prefix of data; equal to len when all of it is valid. A sequence cut at the
 * end is not part of the prefix. */
size_t box_utf8_valid_prefix(const char *data, size_t len);
bool box_utf8_valid(const char *data, size_t len);

/* Replaces every byte that is not part of a valid sequence by '?', in place. */
void box_utf8_scrub(char *text);
