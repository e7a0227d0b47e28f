#include <assert.h>

#include "wire/validate.h"

/* validate.c's estimate counts with it. */
enum { ARENA_UNIT = 16 };

static size_t rounded(size_t size)
{
    return (size + ARENA_UNIT - 1) & ~(size_t)(ARENA_UNIT - 1);
}

/* Small allocations share blocks and go with the arena. One of LARGE_BYTES or more has a block of
 * its own and can go earlier: protobuf-c's table of fields starts at that size. Freeing tells them
 * apart by the address: a large one is a multiple of 16, a small one is 8 more (nothing in a
 * message needs more than 8). */
enum { SMALL_BLOCK_BYTES = 4096, LARGE_BYTES = 1024, SMALL_OFFSET = 8 };

typedef struct box_arena_block {
    struct box_arena_block *next;
    struct box_arena_block *prev;
    size_t used;
    size_t size;
    uint8_t data[];
} box_arena_block;

static_assert(offsetof(box_arena_block, data) % ARENA_UNIT == 0, "large ones are multiples of 16");

/* Large blocks go behind the first, which stays the one that small allocations are cut from. */
static box_arena_block *add_block(box_arena *a, size_t size, bool large)
{
    box_arena_block *block = malloc(sizeof(*block) + size);
    if (block == NULL)
        return NULL;
    *block = (box_arena_block){.used = large ? size : SMALL_OFFSET, .size = size};
    if (large && a->blocks != NULL) {
        block->prev = a->blocks;
        block->next = a->blocks->next;
        a->blocks->next = block;
    } else {
        block->next = a->blocks;
        a->blocks = block;
    }
    if (block->next != NULL)
        block->next->prev = block;
    return block;
}

static void *alloc_small(box_arena *a, size_t size)
{
    box_arena_block *block = a->blocks;
    if (block == NULL || block->size - block->used < size)
        block = add_block(a, SMALL_BLOCK_BYTES, false);
    if (block == NULL)
        return NULL;
    uint8_t *at = block->data + block->used;
    block->used += size;
    return at;
}

static void *arena_alloc(void *data, size_t size)
{
    box_arena *a = data;
    size_t left = a->limit_bytes - a->used_bytes;
    if (size > left || rounded(size) > left)
        return NULL;
    size = rounded(size);
    a->used_bytes += size;
    if (size < LARGE_BYTES)
        return alloc_small(a, size);
    box_arena_block *block = add_block(a, size, true);
    return block != NULL ? block->data : NULL;
}

static void arena_free(void *data, void *pointer)
{
    box_arena *a = data;
    if (pointer == NULL || (uintptr_t)pointer % ARENA_UNIT != 0)
        return;
    box_arena_block *block = BOX_CONTAINER(pointer, box_arena_block, data);
    a->used_bytes -= block->size;
    if (block->next != NULL)
        block->next->prev = block->prev;
    if (block->prev != NULL)
        block->prev->next = block->next;
    else
        a->blocks = block->next;
    free(block);
}

void box_arena_init(box_arena *a, size_t limit_bytes)
{
    *a = (box_arena){.limit_bytes = limit_bytes};
    a->allocator = (ProtobufCAllocator){arena_alloc, arena_free, a};
}

void box_arena_done(box_arena *a)
{
    for (box_arena_block *block = a->blocks; block != NULL;) {
        box_arena_block *next = block->next;
        free(block);
        block = next;
    }
    a->blocks = NULL;
    a->used_bytes = 0;
}
