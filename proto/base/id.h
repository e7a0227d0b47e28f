/* Random ids and hexadecimal. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* 128 random bits: what stands for a session inside and on disk. New at each re-creation. */
typedef struct box_uid {
    uint8_t bytes[16];
} box_uid;

enum { BOX_UID_TEXT = 33 }; /* 32 hexadecimal digits and the end */

/* From getrandom(2); ends the program when the kernel has none (it always has). */
void box_random(void *out, size_t len);
box_uid box_uid_new(void);
void box_uid_text(const box_uid *uid, char out[BOX_UID_TEXT]);
bool box_uid_parse(const char *text, box_uid *out);
bool box_uid_equal(const box_uid *a, const box_uid *b);

/* out has room for 2 * len + 1. */
void box_hex(const void *data, size_t len, char *out);
/* False unless text is exactly 2 * len digits. */
bool box_unhex(const char *text, void *out, size_t len);
