/* Which ids an ordinary user may give to processes of its own: /etc/subuid and /etc/subgid. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

typedef struct box_subid_range {
    uint32_t first;
    uint32_t count;
} box_subid_range;

/* The largest range of such a file for a user, by name (NULL = it has none) or number: lines
 * "USER:FIRST:COUNT" (subuid(5)); other lines are passed over. False: it has none. */
bool box_subid_parse(const char *text, const char *name, uint32_t uid, box_subid_range *out);
/* The same from the file. */
bool box_subid_find(const char *file, box_subid_range *out);
