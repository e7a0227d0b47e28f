/* State directories of private wardens (--boxd-fd without --config): each makes one of its own, and
 * takes over what is left in those of wardens that were killed. */
#pragma once

#include "base/error.h"

typedef struct box_private_dir {
    int lock; /* keeps others from starting meanwhile; close it once the own directory is locked */
    char path[128]; /* of the own directory */
} box_private_dir;

/* base: where they all are; NULL = /run/box/private (below /tmp for anyone but root). */
int box_private_open(const char *base, box_private_dir *out, box_error *err) BOX_MUST_USE;
/* Removes the own directory when its sandboxes are gone, else it stays for the next one; and the
 * base when no other is left. */
void box_private_remove(const box_private_dir *p);
