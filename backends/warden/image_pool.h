/* Images of workspaces that are kept ready: which there are, and which are missing. A table of
 * descriptors; making them is others' work. */
#pragma once

#include <stdbool.h>

#include "warden/config.h"

typedef struct box_image_pool box_image_pool;

/* Of the sizes in disk->pool, which is borrowed. */
box_image_pool *box_image_pool_new(const box_disk_config *disk);
/* Closes those that are ready. */
void box_image_pool_free(box_image_pool *pool);

/* The size of the image for a workspace of `bytes`: the smallest of the pool that holds it, else
 * just that. */
int64_t box_image_pool_size(const box_image_pool *pool, int64_t bytes);

/* A ready one of that size, the caller's; -1 when there is none. */
int box_image_pool_take(box_image_pool *pool, int64_t size);
/* Takes *image and sets it to -1. False, and it stays the caller's, when no more of that size are
 * wanted. */
bool box_image_pool_give(box_image_pool *pool, int64_t size, int *image);

/* The size that lacks the largest share of what is wanted, smaller ones first; 0 = all are there.
 */
int64_t box_image_pool_missing(const box_image_pool *pool);
