/* A hash map from byte strings to pointers. Keys are copied, values are the caller's. Hashing is
 * seeded per map, so a peer cannot choose colliding keys. Not for several threads at once. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

typedef struct box_map box_map;

box_map *box_map_new(void);
void box_map_free(box_map *m);

size_t box_map_count(const box_map *m);
/* NULL when absent. */
void *box_map_get(const box_map *m, const char *key);
void *box_map_get_bytes(const box_map *m, const void *key, size_t len);
/* Sets or replaces; returns the value that stood there before, or NULL. value must not be NULL. */
void *box_map_put(box_map *m, const char *key, void *value);
void *box_map_put_bytes(box_map *m, const void *key, size_t len, void *value);
/* Removes and returns the value, or NULL. */
void *box_map_remove(box_map *m, const char *key);
void *box_map_remove_bytes(box_map *m, const void *key, size_t len);

/* Walks in no particular order: start with *at = 0. The map must not change meanwhile. */
bool box_map_next(const box_map *m, size_t *at, void **value);
