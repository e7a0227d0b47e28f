/* AdminService: tenants and tokens. Handlers check and convert on the loop, the database is asked
 * on a worker, and the answer is given on the loop again. */
#pragma once

#include "policy/policy.h"
#include "wire/service.h"

/* Lives as long as the service. */
typedef struct box_admin {
    box_policy *policy;
    box_store *store;
    /* The tenant was disabled or deleted: its sessions are to end. On a loop; may be NULL. */
    void (*tenant_ended)(void *arg, const char *tenant);
    void *arg;
} box_admin;

box_service box_admin_service(box_admin *admin);
