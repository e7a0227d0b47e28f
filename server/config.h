/* boxd's configuration: the struct that boxd's table of keys fills (base/config.h). Each key's help
 * is in config.c and in `boxd --print-config`. */
#pragma once

#include "base/config.h"

typedef enum box_auth_mode { BOX_AUTH_TOKEN, BOX_AUTH_OFF } box_auth_mode;

/* What a creating call does at a limit of sessions. */
typedef enum box_when_full { BOX_FULL_REFUSE, BOX_FULL_EVICT } box_when_full;

/* Entry of server.listen. */
typedef struct box_listen_config {
    char *address; /* after loading always "127.0.0.1:5410" or "[::1]:5410" */
    bool tls;
} box_listen_config;

/* Strings are owned; those with no default may be NULL. */
typedef struct box_server_config {
    box_config_records listen; /* box_listen_config */
    char *unix_socket;         /* NULL = none */
    int auth;                  /* box_auth_mode */
    bool health_needs_token;
    bool reflection;
    bool require_init;
    bool permit_ping_without_calls; /* box_net_limits */
    int64_t max_message_bytes;
    int64_t loops; /* 0 = one a core */
    int64_t workers;
    uint64_t drain_ns;
    uint64_t keepalive_time_ns; /* this and the next four: box_net_life */
    uint64_t keepalive_timeout_ns;
    uint64_t max_age_ns;
    uint64_t max_age_grace_ns;
    uint64_t max_idle_ns;
    uint64_t ping_min_interval_ns; /* box_net_limits, as limits.connections... */

    char *tls_cert; /* with tls_key, or both NULL: development certificates */
    char *tls_key;
    char *tls_client_ca;
    int tls_client_auth; /* 0 none, 1 request, 2 require */
    int tls_min_version; /* box_tls_version: 0 = 1.2, 1 = 1.3 */

    box_config_records warden; /* box_config_pair: backend -> socket */
    char *state_dir;
    int log_level;  /* box_log_level */
    int log_format; /* box_log_format */

    bool box_enabled;
    char *box_backend;
    char *box_default_profile;
    int64_t box_warm_pool;
    int64_t box_default_memory_bytes;          /* 0 = the profile's */
    char *box_default_workspace;               /* NULL = private volumes */
    int64_t box_default_workspace_limit_bytes; /* 0 = 64 MiB */

    int64_t max_connections;
    int64_t max_connections_per_peer;
    int64_t bad_connections; /* per minute and peer address */
    int64_t max_connections_per_tenant;
    int64_t max_calls_per_connection;
    int64_t max_sessions;
    int64_t max_sessions_per_tenant;
    int when_full; /* box_when_full */
    uint64_t idle_ttl_ns;
    bool allow_no_idle_ttl;
    uint64_t lifetime_ns;
    int64_t max_tenants;
    int64_t max_tokens_per_tenant;
    int64_t auth_failures; /* per minute and peer address */

    bool admission_required;
    box_config_strings admission_guarantees; /* names of box_guarantee */
    uint32_t required_guarantees;            /* their bits */
} box_server_config;

/* Defaults, FILE (NULL = none), environment BOX__..., then what keys say about each other: a
 * listener that other hosts reach needs TLS and tokens (the error names it), tls.cert and tls.key
 * come together, paths are absolute, guarantees and the profile exist, box.backend has a warden and
 * is not a refused host. spawned: NULL-ended names of backends whose wardens come as descriptors,
 * or NULL. VALIDATION on failure, *out is left alone. */
int box_server_config_load(const char *file, char *const *env, const char *const *spawned,
                           box_server_config *out, box_error *err) BOX_MUST_USE;
/* The same from text. */
int box_server_config_parse(const char *name, const char *yaml, size_t len, char *const *env,
                            box_server_config *out, box_error *err) BOX_MUST_USE;
/* Why backend host may not be chosen: commands would run without isolation for callers it must hold
 * back. NULL: it may. Static text. */
const char *box_server_config_host_refused(const box_server_config *conf);
void box_server_config_done(box_server_config *conf);
/* --print-config. */
int box_server_config_print(const box_server_config *conf, FILE *to);
