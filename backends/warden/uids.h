/* Host uid ranges of sandboxes: blocks of 1,025 ids between 0x70000000 and 0x7fffffff. A block maps
 * ids 0 to 1023 and 65534. There is no record beyond the sandbox's state file: files are stored
 * with no ids of a block (sandbox-facts.md, section 4). */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

enum {
    BOX_UIDS_FIRST = 0x70000000,
    BOX_UIDS_MAPPED = 1024, /* ids 0 to 1023; the last id of the block stands for 65534 */
    BOX_UIDS_BLOCK = 1025,
    BOX_UIDS_COUNT = 0x10000000 / BOX_UIDS_BLOCK,
    BOX_UIDS_NOBODY = 65534,
};

typedef struct box_uids box_uids;

/* The first block given is `start` (modulo the count): a random one keeps two wardens of a host
 * apart. */
box_uids *box_uids_new(uint32_t start);
void box_uids_free(box_uids *u);

/* The first uid of a block that is free now; QUOTA when there is none. The block freed longest ago
 * comes last. */
int box_uids_take(box_uids *u, uint32_t *out, box_error *err) BOX_MUST_USE;
/* Marks one that a state file names. False when it is no block or taken already. */
bool box_uids_claim(box_uids *u, uint32_t base);
void box_uids_give(box_uids *u, uint32_t base);
