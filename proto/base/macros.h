/* Attributes and ownership helpers used everywhere. No functions, no types of the domain. */
#pragma once

#include <stddef.h>

/* The result must be looked at; ignoring one is `(void)` plus the reason. */
#define BOX_MUST_USE __attribute__((warn_unused_result))
/* For that: gcc does not take a bare cast to void for an answer. */
#define BOX_IGNORE(result)    ((void)((result) == 0))
#define BOX_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#define BOX_NORETURN          __attribute__((noreturn))

/* An owner: when the variable's scope ends, `freep(&variable)` runs. Needs an initialiser. */
#define BOX_AUTO(freep) __attribute__((cleanup(freep)))

/* Ownership leaves the variable: the value is returned and the variable is NULL (or -1 for a
 * descriptor, box_take_fd). */
#define box_take(pointer) (__typeof__(pointer))box_take_pointer((void *)&(pointer))

static inline void *box_take_pointer(void *variable)
{
    void **at = (void **)variable; /* the cast is for C++ */
    void *value = *at;
    *at = NULL;
    return value;
}

static inline int box_take_fd(int *variable)
{
    int value = *variable;
    *variable = -1;
    return value;
}

#define BOX_COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define BOX_CONTAINER(pointer, type, member)                                                       \
    ((type *)(void *)((char *)(pointer)-offsetof(type, member)))

/* Which threads may call a function: BOX_LOOP, the one loop that owns the object; BOX_WORKER, a
 * thread of the worker pool; neither, any thread. Read by people; clang's analysis checks locks. */
#define BOX_LOOP
#define BOX_WORKER

/* clang's thread-safety analysis; nothing with gcc. */
#if defined(__clang__)
#define BOX_CAPABILITY(name) __attribute__((capability(name)))
#define BOX_GUARDED_BY(lock) __attribute__((guarded_by(lock)))
#define BOX_REQUIRES(lock)   __attribute__((requires_capability(lock)))
#define BOX_ACQUIRE(...)     __attribute__((acquire_capability(__VA_ARGS__)))
#define BOX_RELEASE(...)     __attribute__((release_capability(__VA_ARGS__)))
#define BOX_NO_ANALYSIS      __attribute__((no_thread_safety_analysis))
#else
#define BOX_CAPABILITY(name)
#define BOX_GUARDED_BY(lock)
#define BOX_REQUIRES(lock)
#define BOX_ACQUIRE(...)
#define BOX_RELEASE(...)
#define BOX_NO_ANALYSIS
#endif
