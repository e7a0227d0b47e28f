#include "warden/image_pool.h"

#include "base/alloc.h"
#include "base/fd.h"
#include "base/limits.h"

typedef struct pool_class {
    int64_t size;
    size_t wanted;
    size_t count;
    int images[BOX_DISK_MAX_READY];
} pool_class;

struct box_image_pool {
    size_t n_classes;
    pool_class classes[BOX_DISK_MAX_CLASSES]; /* smallest first */
};

box_image_pool *box_image_pool_new(const box_disk_config *disk)
{
    box_image_pool *pool = box_alloc(sizeof *pool);
    const box_disk_class *classes = disk->pool.items;
    pool->n_classes = disk->pool.count;
    for (size_t i = 0; i < pool->n_classes; i++) {
        pool->classes[i].size = classes[i].bytes;
        pool->classes[i].wanted = (size_t)classes[i].ready;
    }
    return pool;
}

void box_image_pool_free(box_image_pool *pool)
{
    if (pool == NULL)
        return;
    for (size_t i = 0; i < pool->n_classes; i++) {
        pool_class *c = &pool->classes[i];
        while (c->count > 0)
            box_closep(&c->images[--c->count]);
    }
    free(pool);
}

int64_t box_image_pool_size(const box_image_pool *pool, int64_t bytes)
{
    for (size_t i = 0; i < pool->n_classes; i++) {
        if (pool->classes[i].size >= bytes)
            return pool->classes[i].size;
    }
    return bytes;
}

static pool_class *find(box_image_pool *pool, int64_t size)
{
    for (size_t i = 0; i < pool->n_classes; i++) {
        if (pool->classes[i].size == size)
            return &pool->classes[i];
    }
    return NULL;
}

int box_image_pool_take(box_image_pool *pool, int64_t size)
{
    pool_class *c = find(pool, size);
    return c != NULL && c->count > 0 ? c->images[--c->count] : -1;
}

bool box_image_pool_give(box_image_pool *pool, int64_t size, int *image)
{
    pool_class *c = find(pool, size);
    if (c == NULL || c->count >= c->wanted)
        return false;
    c->images[c->count++] = box_take_fd(image);
    return true;
}

int64_t box_image_pool_missing(const box_image_pool *pool)
{
    const pool_class *worst = NULL;
    for (size_t i = 0; i < pool->n_classes; i++) {
        const pool_class *c = &pool->classes[i];
        /* count / wanted, without dividing */
        if (c->count < c->wanted &&
            (worst == NULL || c->count * worst->wanted < worst->count * c->wanted))
            worst = c;
    }
    return worst != NULL ? worst->size : 0;
}
