/* What the files of the program boxd share: the whole server. Nobody else includes it. */
#pragma once

#include "net/server.h"
#include "options.h"
#include "policy/policy.h"
#include "rpc/health.h"
#include "rpc/reflection.h"
#include "server/config.h"
#include "service/admin.h"
#include "service/control.h"
#include "service/tool.h"
#include "session/session.h"
#include "state.h"
#include "tls_keeper.h"

enum { BOXD_MAX_SERVICES = 16 };

/* The whole server. Zero is valid to free. */
typedef struct boxd {
    box_options options;
    box_server_config conf;
    box_state_dir state;
    box_budget memory; /* what callers may make it hold */
    box_loops *loops;
    box_store *store;
    box_policy *policy;
    box_sessions *sessions;
    box_health *health;
    box_reflection *reflection;
    box_tls_context *tls;
    box_tls_keeper *tls_keeper;     /* loop 0's */
    int64_t certificate_expires_ns; /* 0 = no TLS */
    box_net *net;
    box_admin admin;
    box_control *control;
    box_tools *tools;
    box_toolbox toolbox;
    box_service services[BOXD_MAX_SERVICES];
    size_t n_services;
    int signals;
    box_watch *signal_watch;
    box_timer *recheck;
} boxd;

/* main.c. What SIGTERM and Shutdown do: new calls get SHUTTING_DOWN, running ones their grace, then
 * sandboxes go. arg: the boxd. Any thread, idempotent. */
void boxd_drain(void *arg);

/* services.c: makes control, health, reflection and the list of services. Once sessions are there.
 */
int boxd_open_services(boxd *b, box_error *err) BOX_MUST_USE;
/* Health says that all of them serve. */
void boxd_tell_serving(boxd *b);
