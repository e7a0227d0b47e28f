/* Small fixed-size allocations cannot fail: running out of memory for them ends the program. Sizes
 * that a peer chooses go through box_buf or an arena with a named ceiling instead. */
#pragma once

#include <stddef.h>

#include "base/macros.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Zeroed; never NULL. Free with free(). */
void *box_alloc(size_t size) __attribute__((malloc, returns_nonnull));
void *box_alloc_array(size_t count, size_t size) __attribute__((malloc, returns_nonnull));
char *box_strdup(const char *s) __attribute__((malloc, returns_nonnull));
/* NULL stays NULL. */
char *box_strdup_null(const char *s);

/* For BOX_AUTO(box_freep). */
void box_freep(void *pointer_to_pointer);

#ifdef __cplusplus
}
#endif
