/* Checks the fields of one message: every violation is noted, below one prefix. */
#pragma once

#include <stdio.h>

#include "base/error.h"

typedef struct box_checker {
    const char *prefix; /* "spec." */
    box_error *err;
    int bad; /* -1 once there was a violation */
} box_checker;

static inline void box_checker_add(box_checker *c, const char *field, const char *what)
{
    char name[80]; /* the longest is "spec.workspace_limit_bytes" */
    (void)snprintf(name, sizeof name, "%s%s", c->prefix, field);
    c->bad |= box_violation(c->err, name, "%s", what);
}
