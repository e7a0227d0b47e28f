#include "base/alloc.h"

static void *or_abort(void *p)
{
    if (p == NULL)
        abort();
    return p;
}

void *box_alloc(size_t size)
{
    return or_abort(calloc(1, size));
}

void *box_alloc_array(size_t count, size_t size)
{
    return or_abort(calloc(count, size));
}

char *box_strdup(const char *s)
{
    return or_abort(strdup(s));
}

char *box_strdup_null(const char *s)
{
    return s == NULL ? NULL : box_strdup(s);
}

void box_freep(void *pointer_to_pointer)
{
    free(box_take_pointer(pointer_to_pointer));
}
