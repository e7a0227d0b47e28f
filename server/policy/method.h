/* What policy asks of a method before its body is read: one table, one row a method. */
#pragma once

#include "policy/identity.h"

typedef enum box_method_flags {
    BOX_METHOD_OPEN = 1,        /* health: answered without authentication, unless configured */
    BOX_METHOD_BEFORE_INIT = 2, /* answered before Initialize, where server.require_init is set */
    BOX_METHOD_SANDBOX = 4,     /* BOX_DISABLED when box.enabled is false */
} box_method_flags;

typedef struct box_method_rule {
    const char *path; /* "/box.v1.ExecService/Exec" */
    uint32_t scope;   /* BOX_SCOPE_NONE: any authenticated caller */
    uint32_t flags;   /* box_method_flags */
} box_method_rule;

/* NULL for a method that is not in the table: no caller may use it. */
const box_method_rule *box_method_rule_find(const char *path);
