/* What the fuzz targets share. A target is one file NAME_fuzz.c with LLVMFuzzerTestOneInput: any
 * bytes at all must come back from it. What must hold is said with assert(), which stays on in
 * every build; asan and ubsan see the rest. Input is the target's only source of choice: the same
 * bytes do the same again. */
#pragma once

#include "base/buf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* An input is read from its front; when it is used up, numbers are 0 and bytes are none. */
static inline box_bytes fuzz_take(box_bytes *in, size_t max)
{
    box_bytes front = {in->data, max < in->len ? max : in->len};
    if (front.len == 0)
        return front;
    in->data += front.len;
    in->len -= front.len;
    return front;
}

static inline uint8_t fuzz_u8(box_bytes *in)
{
    box_bytes b = fuzz_take(in, 1);
    return b.len > 0 ? b.data[0] : 0;
}

static inline uint32_t fuzz_u32(box_bytes *in)
{
    uint32_t value = 0;
    for (int i = 0; i < 4; i++)
        value = value << 8 | fuzz_u8(in);
    return value;
}

/* A copy of exactly that size (the caller's, with free), so that asan sees a read beyond it; never
 * NULL. */
uint8_t *fuzz_copy(box_bytes bytes);
/* The same as text: NUL follows. */
char *fuzz_text(box_bytes bytes);
