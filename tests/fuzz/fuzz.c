#include "fuzz.h"

#include "base/alloc.h"

uint8_t *fuzz_copy(box_bytes bytes)
{
    uint8_t *copy = malloc(bytes.len > 0 ? bytes.len : 1);
    if (copy == NULL)
        abort();
    if (bytes.len > 0)
        memcpy(copy, bytes.data, bytes.len);
    return copy;
}

char *fuzz_text(box_bytes bytes)
{
    char *text = box_alloc(bytes.len + 1);
    if (bytes.len > 0)
        memcpy(text, bytes.data, bytes.len);
    return text;
}
