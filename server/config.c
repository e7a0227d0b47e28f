#include "server/config.h"

#include "base/clock.h"
#include "base/limits.h"
#include "server/config_check.h"

#define AT(member) offsetof(box_server_config, member)

#define DAYS(n) ((n)*86400 * (int64_t)BOX_SECOND)

static const char *const auth_modes[] = {"token", "off", NULL};
static const char *const client_auths[] = {"none", "request", "require", NULL};
static const char *const tls_versions[] = {"1.2", "1.3", NULL};
static const char *const when_full[] = {"refuse", "evict", NULL};
static const char *const log_levels[] = {"debug", "info", "warn", "error", "off", NULL};
static const char *const log_formats[] = {"text", "json", NULL};

static const box_config_key listen_keys[] = {
    {"address", BOX_CONFIG_STRING, offsetof(box_listen_config, address),
     .help = "IP address and port (5410 when left out): 127.0.0.1:5410, [::1]:5410, 0.0.0.0:5410."},
    {"tls", BOX_CONFIG_BOOL, offsetof(box_listen_config, tls), .number = true,
     .help = "TLS with ALPN h2; false is for loopback only."},
};

static const box_config_key keys[] = {
    {"server.listen", BOX_CONFIG_RECORDS, AT(listen), .max = 16, .fields = listen_keys,
     .n_fields = BOX_COUNT(listen_keys), .record_size = sizeof(box_listen_config),
     .help = "TCP listeners: a list of {address, tls}; port 5410 when left out, tls true by "
             "default."},
    {"server.unix_socket", BOX_CONFIG_STRING, AT(unix_socket),
     .help = "Path of a Unix socket (mode 0600) to listen on; root and boxd's own user need no "
             "token there."},
    {"server.auth", BOX_CONFIG_ENUM, AT(auth), .text = "token", .choices = auth_modes,
     .help = "token, or off: every caller is the administrator of tenant default (loopback and "
             "Unix sockets only)."},
    {"server.health_needs_token", BOX_CONFIG_BOOL, AT(health_needs_token),
     .help = "grpc.health.v1.Health asks for a valid token too; else anybody may call it."},
    {"server.reflection", BOX_CONFIG_BOOL, AT(reflection), .number = true,
     .help = "Serve grpc.reflection (v1 and v1alpha), to callers with a token."},
    {"server.require_init", BOX_CONFIG_BOOL, AT(require_init),
     .help = "Refuse tenants' calls with INIT_REQUIRED until an administrator called Initialize."},
    {"server.max_message_bytes", BOX_CONFIG_BYTES, AT(max_message_bytes),
     .number = BOX_MAX_MESSAGE_BYTES, .min = 64 * 1024, .max = 256 * 1024 * 1024,
     .help = "Largest request message that is read."},
    {"server.loops", BOX_CONFIG_INT, AT(loops), .number = 0, .min = 0, .max = 256,
     .help = "Network threads; 0 is one a core."},
    {"server.workers", BOX_CONFIG_INT, AT(workers), .number = BOX_WORKER_THREADS, .min = 1,
     .max = 64, .help = "Threads for work that waits for the disk."},
    {"server.drain", BOX_CONFIG_DURATION, AT(drain_ns),
     .number = BOX_DRAIN_SECONDS * (int64_t)BOX_SECOND, .min = 0, .max = 3600 * (int64_t)BOX_SECOND,
     .help =
         "How long running calls may go on after SIGTERM or Shutdown; the process ends within 2 s "
         "more, or 12 s where a warden does not answer."},
    {"server.keepalive_time", BOX_CONFIG_DURATION, AT(keepalive_time_ns),
     .number = BOX_KEEPALIVE_SECONDS * (int64_t)BOX_SECOND, .min = 0, .max = DAYS(30),
     .help = "A client that sent nothing for so long gets a PING; 0 is never."},
    {"server.keepalive_timeout", BOX_CONFIG_DURATION, AT(keepalive_timeout_ns),
     .number = BOX_KEEPALIVE_TIMEOUT_SECONDS * (int64_t)BOX_SECOND, .min = (int64_t)BOX_SECOND,
     .max = 3600 * (int64_t)BOX_SECOND,
     .help = "A client that answers no PING, or acknowledges nothing, for so long is gone."},
    {"server.max_connection_age", BOX_CONFIG_DURATION, AT(max_age_ns), .number = 0, .min = 0,
     .max = DAYS(365),
     .help = "Connections are asked to leave after that, 10 % more or less; 0 is never."},
    {"server.max_connection_age_grace", BOX_CONFIG_DURATION, AT(max_age_grace_ns), .number = 0,
     .min = 0, .max = DAYS(365),
     .help = "Then their calls may go on for so long; 0 is as long as they like."},
    {"server.max_connection_idle", BOX_CONFIG_DURATION, AT(max_idle_ns), .number = 0, .min = 0,
     .max = DAYS(365),
     .help = "Connections without a call are asked to leave after that; 0 is never."},
    {"server.ping_min_interval", BOX_CONFIG_DURATION, AT(ping_min_interval_ns),
     .number = BOX_PING_MIN_SECONDS * (int64_t)BOX_SECOND, .min = 0,
     .max = 86400 * (int64_t)BOX_SECOND,
     .help =
         "A client with open calls that sends PINGs more often, while nothing is sent to it, is "
         "closed with too_many_pings; 0 is never."},
    {"server.permit_ping_without_calls", BOX_CONFIG_BOOL, AT(permit_ping_without_calls),
     .help = "Clients without a call may PING as often; else once in two hours."},
    {"tls.cert", BOX_CONFIG_STRING, AT(tls_cert),
     .help = "PEM file with the server's certificate chain; without it development certificates "
             "are made in state_dir. SIGHUP reads the files of tls again."},
    {"tls.key", BOX_CONFIG_STRING, AT(tls_key), .help = "PEM file with its private key."},
    {"tls.client_ca", BOX_CONFIG_STRING, AT(tls_client_ca),
     .help =
         "PEM file with the CAs of clients: they show a certificate of one, besides the token."},
    {"tls.client_auth", BOX_CONFIG_ENUM, AT(tls_client_auth), .text = "require",
     .choices = client_auths,
     .help =
         "Whether clients are asked for a certificate of tls.client_ca: none, request (one that "
         "is shown must be good) or require."},
    {"tls.min_version", BOX_CONFIG_ENUM, AT(tls_min_version), .text = "1.2",
     .choices = tls_versions, .help = "Oldest TLS version that is spoken: 1.2 or 1.3."},
    {"warden", BOX_CONFIG_MAP, AT(warden), .max = 16,
     .help = "Socket of each backend's warden, by backend: {namespace: "
             "/run/box/namespace.sock}."},
    {"state_dir", BOX_CONFIG_STRING, AT(state_dir), .text = "/var/lib/box",
     .help = "Directory of boxd's database, keys and sockets; made with mode 0700."},
    {"log.level", BOX_CONFIG_ENUM, AT(log_level), .text = "info", .choices = log_levels,
     .help = "debug, info, warn, error or off."},
    {"log.format", BOX_CONFIG_ENUM, AT(log_format), .text = "text", .choices = log_formats,
     .help = "text or json, one line an event, on standard error."},
    {"box.enabled", BOX_CONFIG_BOOL, AT(box_enabled), .number = true,
     .help = "false: calls that use sandboxes get BOX_DISABLED."},
    {"box.backend", BOX_CONFIG_STRING, AT(box_backend), .text = "auto",
     .help = "Backend of sessions that name none: auto, local, or a key of warden."},
    {"box.default_profile", BOX_CONFIG_STRING, AT(box_default_profile), .text = "default",
     .help = "Profile of sessions that name none."},
    {"box.image", BOX_CONFIG_NOT_BUILT, 0, .help = "imported images"},
    {"box.default_memory", BOX_CONFIG_BYTES, AT(box_default_memory_bytes), .number = 0, .min = 0,
     .max = INT64_C(1) << 44,
     .help = "Memory limit of sessions that ask for none, 32MiB or more; 0 is the profile's."},
    {"box.skills_root", BOX_CONFIG_NOT_BUILT, 0, .help = "skills"},
    {"box.default_workspace", BOX_CONFIG_STRING, AT(box_default_workspace),
     .help =
         "Host directory, below an allowed root of the warden, that is the workspace of sessions "
         "of tenant default that name no host_path; absent: each has a private volume."},
    {"box.default_workspace_limit", BOX_CONFIG_BYTES, AT(box_default_workspace_limit_bytes),
     .number = 0, .min = 0, .max = INT64_C(1) << 46,
     .help = "Size of the private workspace of sessions that ask for none; 0 is 64MiB."},
    {"box.warm_pool", BOX_CONFIG_INT, AT(box_warm_pool), .number = 0, .min = 0,
     .max = BOX_MAX_WARM_POOL,
     .help = "Whole sandboxes kept ready for sessions that ask for what box.default_profile gives "
             "(memory, pids and cpu may differ) and have a private volume; 0 is none."},
    {"box.allowed_mount_roots", BOX_CONFIG_NOT_BUILT, 0,
     .help = "mount roots of boxd's own policy (the warden's allowed_roots hold)"},
    {"box.docker", BOX_CONFIG_NOT_BUILT, 0, .help = "the docker backend"},
    {"box.e2b", BOX_CONFIG_NOT_BUILT, 0, .help = "the e2b backend"},
    {"limits.connections", BOX_CONFIG_INT, AT(max_connections), .number = BOX_MAX_CONNECTIONS,
     .min = 1, .max = 100000,
     .help = "Connections of all listeners; one more takes the place of one without a valid token, "
             "or waits."},
    {"limits.connections_per_peer", BOX_CONFIG_INT, AT(max_connections_per_peer),
     .number = BOX_MAX_CONNECTIONS_PER_PEER, .min = 0, .max = 100000,
     .help = "Connections from one address (IPv6: one /64); 0 is no limit, as behind a proxy."},
    {"limits.bad_connections", BOX_CONFIG_INT, AT(bad_connections),
     .number = BOX_BAD_CONNECTIONS_PER_MINUTE, .min = 0, .max = 100000,
     .help = "Connections from one address (IPv6: one /64) that may end badly in a minute: failed "
             "or abandoned TLS handshakes, broken HTTP/2, floods. After more, new ones from there "
             "are closed at once for 1 s, each time twice as long up to a minute; those it has "
             "stay. More where many people share an address; 0 is no limit, as behind a proxy."},
    {"limits.connections_per_tenant", BOX_CONFIG_INT, AT(max_connections_per_tenant),
     .number = BOX_MAX_CONNECTIONS_PER_TENANT, .min = 0, .max = 100000,
     .help = "TCP connections whose first call was of one tenant; 0 is no limit."},
    {"limits.calls_per_connection", BOX_CONFIG_INT, AT(max_calls_per_connection),
     .number = BOX_MAX_STREAMS_PER_CONNECTION, .min = 1, .max = 100000,
     .help = "Calls at once on one connection (SETTINGS_MAX_CONCURRENT_STREAMS)."},
    {"limits.sessions", BOX_CONFIG_INT, AT(max_sessions), .number = 10000, .min = 1, .max = 1000000,
     .help = "Live sessions of all tenants together."},
    {"limits.sessions_per_tenant", BOX_CONFIG_INT, AT(max_sessions_per_tenant), .number = 256,
     .min = 1, .max = 1000000, .help = "Live sessions of a tenant that has no limit of its own."},
    {"limits.when_full", BOX_CONFIG_ENUM, AT(when_full), .text = "refuse", .choices = when_full,
     .help =
         "At a limit of sessions: refuse a new one, or evict the least recently used idle one "
         "that is neither persistent nor extended; a tenant loses one only to itself, or, where "
         "limits.sessions is reached, to a tenant that then has no more."},
    {"limits.idle_ttl", BOX_CONFIG_DURATION, AT(idle_ttl_ns),
     .number = BOX_SESSION_IDLE_SECONDS * (int64_t)BOX_SECOND, .min = (int64_t)BOX_SECOND,
     .max = 30 * 86400 * (int64_t)BOX_SECOND,
     .help = "A session that nobody uses for so long is stopped."},
    {"limits.allow_no_idle_ttl", BOX_CONFIG_BOOL, AT(allow_no_idle_ttl),
     .help = "Sessions may ask for idle_ttl 0: then only their lifetime ends them. Persistent ones "
             "need no leave."},
    {"limits.lifetime", BOX_CONFIG_DURATION, AT(lifetime_ns),
     .number = BOX_SESSION_LIFETIME_SECONDS * (int64_t)BOX_SECOND, .min = (int64_t)BOX_SECOND,
     .max = 365 * 86400 * (int64_t)BOX_SECOND,
     .help = "No session lives longer than that, used or not."},
    {"limits.tenants", BOX_CONFIG_INT, AT(max_tenants), .number = 10000, .min = 1, .max = 100000,
     .help = "Tenants, disabled ones included."},
    {"limits.tokens_per_tenant", BOX_CONFIG_INT, AT(max_tokens_per_tenant), .number = 100, .min = 1,
     .max = 10000, .help = "Tokens of one tenant that are not revoked."},
    {"limits.auth_failures", BOX_CONFIG_INT, AT(auth_failures), .number = 60, .min = 1,
     .max = 100000,
     .help = "Failed authentications a minute from one peer address; more get RATE_LIMIT."},
    {"admission.required", BOX_CONFIG_BOOL, AT(admission_required),
     .help = "Only sandboxes that isolate files, processes and users are made: never backend "
             "host."},
    {"admission.guarantees", BOX_CONFIG_STRINGS, AT(admission_guarantees), .max = 32,
     .help = "Guarantees every sandbox must have; a backend that cannot give one is refused with "
             "GUARANTEE_UNSUPPORTED."},
};

/* Keys of box-warden, which may share its environment (backends/warden/config.c). */
static const char *const warden_keys[] = {
    "socket", "peer_uid", "instance_dir", "agent",    "cgroup", "allowed_roots",
    "images", "maxima",   "disk",         "standbys", NULL};

static box_config_schema schema_for(const char *const *spawned)
{
    return (box_config_schema){.keys = keys,
                               .n_keys = BOX_COUNT(keys),
                               .size = sizeof(box_server_config),
                               .env_prefix = "BOX",
                               .foreign = warden_keys,
                               .check = box_server_config_check,
                               .check_arg = spawned};
}

int box_server_config_load(const char *file, char *const *env, const char *const *spawned,
                           box_server_config *out, box_error *err)
{
    const box_config_schema schema = schema_for(spawned);
    return box_config_load(&schema, file, env, out, err);
}

int box_server_config_parse(const char *name, const char *yaml, size_t len, char *const *env,
                            box_server_config *out, box_error *err)
{
    const box_config_schema schema = schema_for(NULL);
    return box_config_parse(&schema, name, yaml, len, env, out, err);
}

void box_server_config_done(box_server_config *conf)
{
    const box_config_schema schema = schema_for(NULL);
    box_config_done(&schema, conf);
}

int box_server_config_print(const box_server_config *conf, FILE *to)
{
    const box_config_schema schema = schema_for(NULL);
    return box_config_print(&schema, conf, to);
}
