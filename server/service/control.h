/* ControlService: the server itself: start-up, health, backends, who calls, the end. Answers from
 * memory, so no handler waits; but what is asked about backends is answered once the first HELLO of
 * each warden came or failed, at most BOX_WARDEN_FIRST_HELLO_MS later. */
#pragma once

#include "policy/policy.h"
#include "session/session.h"
#include "wire/service.h"

typedef struct box_control box_control;

enum { BOX_CONTROL_MAX_BACKENDS = 64, BOX_CONTROL_STATES = BOX_SESSION_ERROR + 1 };

/* What Initialize can change. */
typedef struct box_control_settings {
    bool enabled;
    char backend[64];
    char default_profile[64];
    char image[256]; /* "" = the backend's own */
    int64_t default_memory_bytes;
    char default_workspace[1024]; /* "" = a private volume */
    int64_t default_workspace_limit_bytes;
    int32_t max_sessions;
    bool admission_required;
    uint32_t guarantees; /* box_guarantee bits of admission.guarantees */
} box_control_settings;

/* Where the numbers come from: box_control_session_facts, or a test's. Any loop thread. */
typedef struct box_control_facts {
    void *arg;
    /* Returns how many, at most max. */
    size_t (*backends)(void *arg, box_backend_report *out, size_t max);
    void (*stats)(void *arg, const char *tenant, box_sessions_stats *out);
    /* Sessions of the tenant, by state. */
    void (*states)(void *arg, const char *tenant, uint32_t counts[BOX_CONTROL_STATES]);
    /* box_session_get */
    int (*session)(void *arg, const char *tenant, const char *id, box_session_info *out,
                   box_error *err);
} box_control_facts;
box_control_facts box_control_session_facts(box_sessions *all);

/* What the network has done. */
typedef struct box_control_traffic {
    uint64_t connections, calls; /* open */
    uint64_t connections_total;
    /* box_net_stats */
    uint64_t ended_badly, holds, refused_held, refused_peer;
    uint64_t handshakes_queued, handshakes_waiting;
} box_control_traffic;

/* What only main can do. Any loop thread, without waiting. */
typedef struct box_control_hooks {
    void *arg;
    /* Makes the settings hold for new sessions, and chooses backends anew while no session lives
     * (*reselected); puts back in *next what cannot change now. */
    int (*apply)(void *arg, box_control_settings *next, bool *reselected, box_error *err);
    void (*shutdown)(void *arg); /* what SIGTERM does; called after the answer */
    /* All three, or none. */
    void (*traffic)(void *arg, box_control_traffic *out);
    unsigned (*waiting)(void *arg, unsigned loop); /* box_net_waiting */
    void (*each_call_count)(void *arg,             /* box_call_counts_each */
                            void (*visit)(void *arg, const char *path, box_code code,
                                          uint64_t count),
                            void *visit_arg);
} box_control_hooks;

typedef struct box_control_config {
    box_policy *policy;
    box_control_facts facts;
    box_control_hooks hooks;
    box_control_settings settings; /* of the configuration file: Initialize cannot allow more */
    /* Why `backend: host` may not be chosen ("admission.required is set"); NULL: it may. */
    const char *host_refused;
    uint64_t idle_ttl_ns;
    int32_t max_sessions_per_tenant;
    int32_t max_tokens_per_tenant;
    int32_t loops;
    int64_t certificate_expires_ns; /* 0 = none; since 1970 */
    const char *const *warnings;    /* NULL-ended; what an operator should know; may be NULL */
} box_control_config;

/* The server's certificate was replaced. Any thread. */
void box_control_set_certificate(box_control *c, int64_t expires_ns);

/* Strings of the config outlive the object. */
box_control *box_control_new(const box_control_config *config);
void box_control_free(box_control *c);
box_service box_control_service(box_control *c);
/* The metrics page (metrics.c): PERMISSION without scope admin.read. arg: the box_control. Any loop
 * thread. */
int box_control_metrics(void *arg, const void *identity, box_buf *out, box_error *err) BOX_MUST_USE;
