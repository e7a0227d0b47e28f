/* Profiles: what a session gets where its spec is silent, and what no spec can change
 * (box-behaviour.md, section 5). */
#pragma once

#include "session/spec.h"

typedef struct box_profile {
    const char *name;
    bool network_on;
    box_host_path_mode host_path_mode;
    int32_t cpu_millis;
    int64_t memory_bytes;
    int64_t pids;
    bool read_only_rootfs;
    uint64_t timeout_ns;     /* of a command that names none */
    uint64_t max_timeout_ns; /* longer ones are cut to it, and that is reported */
    uint32_t locked;         /* box_spec_field: the profile's value wins over the spec's */
} box_profile;

/* NULL when there is none. */
const box_profile *box_profile_find(const char *name);
/* The name'd i-th, NULL past the end. */
const box_profile *box_profile_at(size_t i);

/* Server-wide defaults below the profile's. */
typedef struct box_spec_defaults {
    const char *image;             /* NULL or "" = the backend's own */
    int64_t memory_bytes;          /* 0 = the profile's */
    const char *host_path;         /* NULL or "" = a private volume */
    int64_t workspace_limit_bytes; /* of a private one */
    uint64_t idle_ttl_ns;
    uint64_t max_lifetime_ns;
} box_spec_defaults;

/* profile defaults -> asked -> locked. *out becomes complete (all bits set, strings owned, backend
 * not touched: it is chosen elsewhere). adjustments: room for BOX_MAX_ADJUSTMENTS; what was
 * replaced. Returns how many. */
size_t box_profile_merge(const box_profile *p, const box_spec *asked,
                         const box_spec_defaults *defaults, box_spec *out,
                         box_adjustment *adjustments);

/* Replaces in *asked what p locks, so that asking the same twice is no conflict. adjustments may be
 * NULL. */
size_t box_profile_lock(const box_profile *p, box_spec *asked, box_adjustment *adjustments);

/* The timeout of a command: what it asks (0 = nothing), else the session's; at most the profile's.
 * *clamped: it was cut. */
uint64_t box_profile_timeout(const box_profile *p, uint64_t asked_ns, uint64_t session_ns,
                             bool *clamped);
