/* Asks for a host's addresses in a thread of its own: nothing can stop getaddrinfo(3), which may
 * take as long as the system's resolver likes, and a call has a deadline. */
#pragma once

#include "address.h"

typedef struct box_resolution box_resolution;

/* wake: an eventfd that is written when the answer is there; copied. */
int box_resolve(const char *host, const char *port, int wake, box_resolution **out, box_error *err)
    BOX_MUST_USE;
/* False: the answer is not there yet. True: *rc says whether addresses came. */
bool box_resolution_take(box_resolution *r, box_addresses *out, int *rc, box_error *err);
/* Its thread may still wait for an answer, which goes nowhere then. */
void box_resolution_free(box_resolution *r);
