/* Bytes of files as text for an answer: valid UTF-8 without NUL. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Writes as much of data as fits into `room` bytes, whole characters only: each byte that is no
 * UTF-8, and each NUL, becomes U+FFFD (*replaced is set then). *used: bytes of data that were
 * taken. Returns the bytes written. `more`: data goes on behind its end, so a sequence cut there is
 * left alone instead of being replaced. */
size_t box_text_clean(const uint8_t *data, size_t len, bool more, char *out, size_t room,
                      size_t *used, bool *replaced);

/* Does it look like no text: a NUL in the first 8 KiB? */
bool box_text_is_binary(const uint8_t *data, size_t len);
