/* AdminService: tenants and tokens. Handlers check and convert on the loop, the database is asked
 * on a worker, and the answer is given on the loop again. */
#pragma once

#include "policy/policy.h"
#include "wire/service.h"

/* Lives as long as the service. */
typedef struct box_admin {
    box_policy *policy;
    box_store *store;
    /* The tenant was disabled or deleted: its sessions are to end. On a loop; may be NULL.
     * box_admin_end_sessions with the box_sessions as arg does it. */
    void (*tenant_ended)(void *arg, const char *tenant, bool deleted);
    void *arg;
} box_admin;

/* Stops all sessions of the tenant; deleted: forgets them too. Open one-off runs end with their
 * calls (box_policy_config.revoked). */
BOX_LOOP void box_admin_end_sessions(void *sessions, const char *tenant, bool deleted);

box_service box_admin_service(box_admin *admin);
