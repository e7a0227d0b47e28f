/* The parts that all sandboxes share, made once in the warden's own mount namespace: /usr (and
 * other system directories of the host, where they are no links) read-only, the generated /etc,
 * the minimal /dev. Each sandbox gets clones of these mounts. */
#pragma once

#include "base/error.h"

typedef struct box_template box_template;

enum { BOX_TEMPLATE_MAX_TREES = 12 };

/* Leaves the host's mount namespace and mounts below `dir` (a directory of the warden; nothing of
 * it shows on the host, and it goes with the last process of the namespace). */
int box_template_open(const char *dir, box_template **out, box_error *err) BOX_MUST_USE;
void box_template_close(box_template *t);

/* From the process that made one to another, over a socket: one message, then one with each
 * descriptor, which `receive_fd` takes. */
int box_template_send(const box_template *t, int socket, box_error *err) BOX_MUST_USE;
int box_template_receive(int socket, int (*receive_fd)(int socket, int *out, box_error *err),
                         box_template **out, box_error *err) BOX_MUST_USE;

/* A detached clone of each tree, recursively: fds[i] is to be moved to names[i] ("usr"). The
 * count, at most BOX_TEMPLATE_MAX_TREES, or -1. The descriptors are the caller's. */
int box_template_clone(const box_template *t, int fds[BOX_TEMPLATE_MAX_TREES],
                       const char *names[BOX_TEMPLATE_MAX_TREES], box_error *err) BOX_MUST_USE;

/* Links to make in a sandbox's root: names[i] -> targets[i] ("bin" -> "usr/bin"). */
typedef struct box_template_link {
    char name[16];
    char target[64];
} box_template_link;
size_t box_template_links(const box_template *t, const box_template_link **out);
