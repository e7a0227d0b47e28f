/* A mutex whose taking and releasing clang's analysis pairs (in C it cannot follow guarded_by to a
 * member, so a comment names what a lock guards). Held for a few instructions, never across I/O. */
#pragma once

#include <pthread.h>

#include "base/macros.h"

typedef struct BOX_CAPABILITY("mutex") box_lock {
    pthread_mutex_t mutex;
} box_lock;

static inline void box_lock_init(box_lock *l)
{
    pthread_mutex_init(&l->mutex, NULL);
}

static inline void box_lock_done(box_lock *l)
{
    pthread_mutex_destroy(&l->mutex);
}

static inline void box_lock_take(box_lock *l) BOX_ACQUIRE(l) BOX_NO_ANALYSIS
{
    pthread_mutex_lock(&l->mutex);
}

static inline void box_lock_release(box_lock *l) BOX_RELEASE(l) BOX_NO_ANALYSIS
{
    pthread_mutex_unlock(&l->mutex);
}
