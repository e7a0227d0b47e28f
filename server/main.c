/* boxd: puts the parts together and runs them. Only this file and services.c know them all. */
#include <limits.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/process.h"
#include "boxd.h"
#include "listen.h"
#include "warden/protocol.h"

enum { MAX_BACKENDS = 32 };

/* Spawned by a client and without a file of its own: serves that client and nobody else, and leaves
 * nothing. */
static bool is_private(const boxd *b)
{
    return b->options.rpc_fd >= 0 && b->options.config_file == NULL;
}

/* --- the end: SIGTERM, SIGINT, Shutdown, or the spawning client going away -------------------- */

static void sessions_gone(void *arg)
{
    boxd *b = arg;
    box_watch_free(box_take(b->signal_watch));
    box_timer_free(box_take(b->recheck));
    box_tls_keeper_free(box_take(b->tls_keeper));
    box_loops_stop(b->loops);
}

static void calls_gone(void *arg)
{
    boxd *b = arg;
    box_sessions_drain(b->sessions, sessions_gone, b);
}

void boxd_drain(void *arg)
{
    boxd *b = arg;
    box_policy_set_draining(b->policy);
    box_health_drain(b->health);
    box_net_drain(b->net, calls_gone, b);
}

static void on_signal(void *arg, int events)
{
    boxd *b = arg;
    struct signalfd_siginfo info;
    (void)events;
    if (read(b->signals, &info, sizeof info) != sizeof info)
        return;
    if (info.ssi_signo == SIGHUP && !is_private(b)) {
        box_tls_keeper_reload(b->tls_keeper);
        return;
    }
    box_log(BOX_INFO, "boxd.stop", BOX_INT("signal", info.ssi_signo));
    boxd_drain(b);
}

/* Blocked before any thread starts, so that only the descriptor sees them. */
static int open_signals(boxd *b, box_error *err)
{
    sigset_t set;
    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGTERM);
    (void)sigaddset(&set, SIGINT);
    (void)sigaddset(&set, SIGHUP);
    /* A command that closes its stdin must not end boxd: EPIPE says the same. */
    if (sigprocmask(SIG_BLOCK, &set, NULL) < 0 || signal(SIGPIPE, SIG_IGN) == SIG_ERR)
        return box_fail_errno(err, "block signals");
    b->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    return b->signals < 0 ? box_fail_errno(err, "open a signal descriptor") : 0;
}

/* A session takes five descriptors and a command three more: the usual soft limit of 1024 would be
 * far below limits.sessions. Nothing of boxd uses select(2), which is what that limit is for. */
static void raise_descriptors(void)
{
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) < 0)
        return;
    files.rlim_cur = files.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &files); /* where it stays low, running out is QUOTA */
}

/* So that one who runs many commands does not keep others from connecting. */
static int last_fd_of_commands(const boxd *b)
{
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) < 0 || files.rlim_cur > INT_MAX)
        return INT_MAX;
    int all = (int)files.rlim_cur;
    int reserved = BOX_RESERVED_DESCRIPTORS + (int)b->conf.max_connections;
    reserved = reserved < all / 2 ? reserved : all / 2;
    return all - reserved - 1;
}

/* Nobody says when a token expires: open streams are looked at now and then. */
static void recheck(void *arg)
{
    boxd *b = arg;
    box_net_recheck(b->net);
    box_timer_set(b->recheck,
                  box_time_add(box_loop_now(box_loop_current()), BOX_RECHECK_SECONDS * BOX_SECOND));
}

static void certificate_replaced(void *arg, int64_t expires_ns)
{
    boxd *b = arg;
    box_control_set_certificate(b->control, expires_ns);
}

static void keep_tls(boxd *b)
{
    const box_tls_keeper_config config = {
        .conf = &b->conf,
        .state = &b->state,
        .tls = b->tls,
        .expires_ns = b->certificate_expires_ns,
        .expires = certificate_replaced,
        .arg = b,
    };
    b->tls_keeper = box_tls_keeper_new(&config);
}

/* What loop 0 does besides its connections. */
static void begin(void *arg)
{
    boxd *b = arg;
    box_error err;
    b->recheck = box_timer_new(box_loop_current(), recheck, b);
    recheck(b);
    keep_tls(b);
    if (box_watch_new(box_loop_current(), b->signals, on_signal, b, &b->signal_watch, &err) < 0) {
        box_log(BOX_ERROR, "boxd.signals", BOX_ERR(&err));
        boxd_drain(b);
        return;
    }
    box_watch_set(b->signal_watch, BOX_READABLE);
}

/* --- identity --------------------------------------------------------------------------------- */

static void on_revoked(void *arg)
{
    boxd *b = arg;
    if (b->net != NULL)
        box_net_recheck(b->net);
}

static int open_identity(boxd *b, box_error *err)
{
    bool made = false;
    if (box_store_open(b->state.path, &b->store, err) < 0 ||
        box_policy_first_start(b->store, box_wall_ns(), &made, err) < 0)
        return -1;
    if (made)
        box_log(BOX_INFO, "boxd.admin_token", BOX_STR("file", BOX_ADMIN_TOKEN_FILE),
                BOX_STR("state_dir", b->state.path));
    const box_policy_config config = {
        .store = b->store,
        .auth_off = b->conf.auth == BOX_AUTH_OFF,
        .health_needs_token = b->conf.health_needs_token,
        .require_init = b->conf.require_init,
        .box_disabled = !b->conf.box_enabled,
        .own_uid = geteuid(),
        .auth_failures = (uint32_t)b->conf.auth_failures,
        .max_tenants = b->conf.max_tenants,
        .max_tokens_per_tenant = b->conf.max_tokens_per_tenant,
        .revoked = on_revoked,
        .revoked_arg = b,
    };
    return box_policy_new(&config, &b->policy, err);
}

/* --- sessions --------------------------------------------------------------------------------- */

static int list_backends(const boxd *b, box_backend_config *out, size_t *n, box_error *err)
{
    const box_config_pair *pairs = b->conf.warden.items;
    *n = 0;
    if (b->conf.warden.count + b->options.n_warden_fds > MAX_BACKENDS)
        return box_fail(err, BOX_VALIDATION, "more than %d wardens", MAX_BACKENDS);
    for (size_t i = 0; i < b->conf.warden.count; i++)
        out[(*n)++] =
            (box_backend_config){.name = pairs[i].name, .socket_path = pairs[i].value, .fd = -1};
    for (size_t i = 0; i < b->options.n_warden_fds; i++)
        out[(*n)++] = (box_backend_config){.name = b->options.warden_fds[i].backend,
                                           .fd = b->options.warden_fds[i].fd};
    return 0;
}

static int open_sessions(boxd *b, box_error *err)
{
    box_backend_config backends[MAX_BACKENDS];
    box_sessions_config config = {
        .loops = b->loops,
        .run_dir = b->state.run_path,
        .instance = box_store_instance(b->store),
        .backends = backends,
        .backend = b->conf.box_backend,
        .default_profile = b->conf.box_default_profile,
        .default_memory_bytes = b->conf.box_default_memory_bytes,
        .disabled = !b->conf.box_enabled,
        .default_workspace = b->conf.box_default_workspace,
        .default_workspace_limit_bytes = b->conf.box_default_workspace_limit_bytes,
        .required_guarantees =
            b->conf.required_guarantees | (b->conf.admission_required ? BOX_G_ISOLATED : 0),
        .max_sessions = (uint32_t)b->conf.max_sessions,
        .max_sessions_per_tenant = (uint32_t)b->conf.max_sessions_per_tenant,
        .warm_pool = (uint32_t)b->conf.box_warm_pool,
        .evict_idle = b->conf.when_full == BOX_FULL_EVICT,
        .allow_no_idle_ttl = b->conf.allow_no_idle_ttl,
        .idle_ttl_ns = b->conf.idle_ttl_ns,
        .lifetime_ns = b->conf.lifetime_ns,
        .last_fd = last_fd_of_commands(b),
        .store = is_private(b) ? NULL : b->store,
        .budget = &b->memory,
    };
    if (list_backends(b, backends, &config.n_backends, err) < 0)
        return -1;
    return box_sessions_new(&config, &b->sessions, err);
}

/* --- start ------------------------------------------------------------------------------------ */

/* What would end a start, found before anything of the state is made. */
static int check_start(boxd *b, box_error *err)
{
    if (b->conf.listen.count == 0 && b->conf.unix_socket == NULL && b->options.rpc_fd < 0)
        return box_fail(err, BOX_VALIDATION,
                        "nothing to listen on: set server.listen or server.unix_socket in a file "
                        "for --config");
    return box_listen_check_tls(&b->conf, err);
}

static int open_net(boxd *b, box_error *err)
{
    const box_net_config config = {
        .loops = b->loops,
        .services = b->services,
        .n_services = b->n_services,
        .admit = box_policy_admit(b->policy),
        .max_message_bytes = (size_t)b->conf.max_message_bytes,
        .budget = &b->memory,
        .page = {.path = "/metrics",
                 .method = "/box.v1.ControlService/GetStatus",
                 .make = box_control_metrics,
                 .arg = b->control},
        .drain_ns = b->conf.drain_ns,
        .life = {.keepalive_time_ns = b->conf.keepalive_time_ns,
                 .keepalive_timeout_ns = b->conf.keepalive_timeout_ns,
                 .max_age_ns = b->conf.max_age_ns,
                 .max_age_grace_ns = b->conf.max_age_grace_ns,
                 .max_idle_ns = b->conf.max_idle_ns},
        .limits = {.connections = (uint32_t)b->conf.max_connections,
                   .connections_per_peer = (uint32_t)b->conf.max_connections_per_peer,
                   .bad_connections = (uint32_t)b->conf.bad_connections,
                   .connections_per_tenant = (uint32_t)b->conf.max_connections_per_tenant,
                   .calls_per_connection = (uint32_t)b->conf.max_calls_per_connection,
                   .ping_min_interval_ns = b->conf.ping_min_interval_ns,
                   .permit_ping_without_calls = b->conf.permit_ping_without_calls},
    };
    if (box_net_new(&config, &b->net, err) < 0 ||
        box_listen_open(&b->conf, b->net, b->tls, err) < 0)
        return -1;
    return b->options.rpc_fd >= 0 ? box_net_adopt(b->net, b->options.rpc_fd, boxd_drain, b, err)
                                  : 0;
}

static int open_all(boxd *b, box_error *err)
{
    raise_descriptors();
    if (open_signals(b, err) < 0 ||
        box_state_dir_open(&b->state, b->conf.state_dir, is_private(b), err) < 0 ||
        box_loops_new((unsigned)b->conf.loops, (unsigned)b->conf.workers, &b->loops, err) < 0 ||
        open_identity(b, err) < 0 ||
        box_listen_tls(&b->conf, &b->state, b->store, &b->tls, &b->certificate_expires_ns, err) <
            0 ||
        open_sessions(b, err) < 0)
        return -1;
    b->admin = (box_admin){.policy = b->policy,
                           .store = b->store,
                           .tenant_ended = box_admin_end_sessions,
                           .arg = b->sessions};
    if (boxd_open_services(b, err) < 0 || open_net(b, err) < 0)
        return -1;
    box_loop_post(box_loops_get(b->loops, 0), begin, b);
    boxd_tell_serving(b);
    return 0;
}

static void close_all(boxd *b)
{
    box_watch_free(b->signal_watch);
    box_timer_free(b->recheck);
    box_tls_keeper_free(b->tls_keeper);
    box_net_free(b->net);
    box_sessions_free(b->sessions);
    box_control_free(b->control);
    box_tools_free(b->tools);
    box_health_free(b->health);
    box_reflection_free(b->reflection);
    box_policy_free(b->policy);
    box_loops_free(b->loops);
    box_tls_context_free(b->tls);
    box_store_close(b->store);
    box_state_dir_close(&b->state);
    box_closep(&b->signals);
    box_server_config_done(&b->conf);
}

static int run(boxd *b, box_error *err)
{
    if (open_all(b, err) < 0)
        return -1;
    box_log(BOX_INFO, "boxd.start", BOX_STR("version", BOX_VERSION), BOX_INT("pid", getpid()));
    if (box_loops_run(b->loops, err) < 0)
        return -1;
    box_log(BOX_INFO, "boxd.end", BOX_INT("pid", getpid()));
    return 0;
}

static int load_config(boxd *b, box_error *err)
{
    extern char **environ;
    const char *spawned[BOX_MAX_WARDEN_FDS + 1] = {NULL};
    for (size_t i = 0; i < b->options.n_warden_fds; i++)
        spawned[i] = b->options.warden_fds[i].backend;
    return box_server_config_load(b->options.config_file, environ, spawned, &b->conf, err);
}

int main(int argc, char **argv)
{
    boxd *b = box_alloc(sizeof *b);
    box_error err = {0};
    b->signals = -1;
    b->memory.max_bytes = BOX_MEMORY_BUDGET_BYTES;
    box_options_parse(argc, argv, &b->options);
    int rc = load_config(b, &err);
    if (rc == 0 && b->options.print_config) {
        rc = box_server_config_print(&b->conf, stdout) < 0
                 ? box_fail(&err, BOX_INTERNAL, "cannot write")
                 : 0;
    } else if (rc == 0) {
        rc = check_start(b, &err);
    }
    if (rc == 0 && !b->options.print_config && !b->options.check_config) {
        /* A private one shares its client's terminal, and answers the client what is wrong: it logs
         * only where another level than the default was asked for. */
        bool quiet = is_private(b) && b->conf.log_level == BOX_INFO;
        box_log_setup(quiet ? BOX_LOG_OFF : (box_log_level)b->conf.log_level,
                      (box_log_format)b->conf.log_format);
        rc = box_process_forbid_core(&err) < 0 ? -1 : run(b, &err);
    }
    if (rc < 0)
        fprintf(stderr, "boxd: %s\n", err.msg);
    close_all(b);
    free(b);
    return rc < 0 ? 1 : 0;
}
