/* UTF-8 (RFC 3629): no surrogates, no overlong forms, nothing above U+10FFFF. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Length of the valid prefix of data; equal to len when all of it is valid. A sequence cut at the
 * end is not part of the prefix. */
size_t box_utf8_valid_prefix(const char *data, size_t len);
bool box_utf8_valid(const char *data, size_t len);

/* Bytes of the control character at p, 0 when there is none: C0 and DEL are one, C1 (U+0080 to
 * U+009F), which terminals obey as they do ESC, two. p is text of valid UTF-8. */
size_t box_utf8_control(const char *p);
/* Each control character becomes '?', in place, but those in `kept`. A text without any, which may
 * be constant, is not written to. */
void box_utf8_hide_controls(char *text, const char *kept);

/* Replaces every byte that is not part of a valid sequence by '?', in place. */
void box_utf8_scrub(char *text);
