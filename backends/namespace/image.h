/* Workspaces on disk: ext4 in a sparse file without a name, on a loop device that goes with its
 * last user, in a mount that hangs nowhere until a sandbox takes it. So whoever is killed, the
 * kernel removes what nobody uses, and what one sandbox wrote is never another's.
 *
 * In an image are `files`, which is the workspace, and `reserve`, which takes what is more than the
 * limit: it is beside the workspace, where the sandbox cannot reach it. Inodes are one for each
 * 4 KiB. All of it needs root. */
#pragma once

#include "warden/config.h"

typedef struct box_images box_images;

/* The directory in an image that a sandbox gets. */
#define BOX_IMAGE_FILES "files"

/* Opens (makes) the directory, makes a template for each size of the pool, and one image for real.
 * `disk` is borrowed. BACKEND_UNAVAILABLE, PERMISSION or an errno's reason where the host cannot.
 */
int box_images_open(const box_disk_config *disk, box_images **out, box_error *err) BOX_MUST_USE;
void box_images_close(box_images *images);

/* An image for a workspace of up to `bytes`, detached; closing *out, where no sandbox has taken
 * it, is its end. About 10 ms. */
int box_images_make(const box_images *images, int64_t bytes, int *out, box_error *err) BOX_MUST_USE;

/* What can be used of it: by others than root. */
typedef struct box_image_room {
    int64_t bytes;
    int64_t inodes;
} box_image_room;

int box_image_free(int image, box_image_room *out, box_error *err) BOX_MUST_USE;

/* Makes a fresh one a workspace of `bytes` (and up to a thousandth more, for its directories) that
 * belongs to that host user. *out: what is free then. */
int box_image_assign(int image, int64_t bytes, uint32_t owner, box_image_room *out, box_error *err)
    BOX_MUST_USE;
