#include "server/config.h"

#include <arpa/inet.h>
#include <sys/un.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/limits.h"
#include "session/profile.h"
#include "warden/protocol.h"

#define AT(member) offsetof(box_server_config, member)

#define DAYS(n) ((n)*86400 * (int64_t)BOX_SECOND)

enum { DEFAULT_PORT = 5410 };

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

/* What a check needs besides the struct. */
typedef struct checker {
    const box_config_origin *origin;
    const char *const *spawned; /* NULL-ended, or NULL */
    box_error *err;
} checker;

static int fail_listener(const checker *k, size_t i, const char *what)
{
    char path[64];
    (void)snprintf(path, sizeof path, "server.listen[%zu].address", i);
    return box_config_bad(k->origin, path, k->err, "%s", what);
}

/* Splits "HOST", "HOST:PORT", "[HOST]" or "[HOST]:PORT"; false when it is none of them. */
static bool split_address(const char *text, char *host, size_t size, unsigned *port)
{
    const char *start = text[0] == '[' ? text + 1 : text;
    size_t len = strcspn(start, text[0] == '[' ? "]" : ":");
    const char *rest = start + len;
    if (len == 0 || len >= size || (text[0] == '[' && *rest++ != ']'))
        return false;
    memcpy(host, start, len);
    host[len] = '\0';
    *port = DEFAULT_PORT;
    if (*rest == '\0')
        return true;
    size_t digits = rest[0] == ':' ? strspn(rest + 1, "0123456789") : 0;
    if (digits == 0 || digits > 5 || rest[1 + digits] != '\0')
        return false;
    *port = (unsigned)strtoul(rest + 1, NULL, 10);
    return *port <= 65535;
}

/* Puts the address into the one form box_net takes, and tells whether only this host reaches it. */
static int normalise(const checker *k, box_listen_config *l, size_t i, bool *loopback)
{
    char host[INET6_ADDRSTRLEN];
    unsigned port;
    struct in_addr v4;
    struct in6_addr v6;
    char text[INET6_ADDRSTRLEN + 16];
    if (l->address == NULL)
        return fail_listener(k, i, "is missing");
    if (!split_address(l->address, host, sizeof host, &port))
        return fail_listener(k, i, "is not ADDRESS:PORT");
    const char *literal = strcmp(host, "localhost") == 0 ? "127.0.0.1" : host;
    if (inet_pton(AF_INET, literal, &v4) == 1 && l->address[0] != '[') {
        *loopback = ntohl(v4.s_addr) >> 24 == 127;
        (void)snprintf(text, sizeof text, "%s:%u", literal, port);
    } else if (inet_pton(AF_INET6, literal, &v6) == 1 && l->address[0] == '[') {
        *loopback = IN6_IS_ADDR_LOOPBACK(&v6);
        (void)snprintf(text, sizeof text, "[%s]:%u", literal, port);
    } else {
        return fail_listener(k, i, "needs an IP address (IPv6 in brackets) or localhost");
    }
    free(l->address);
    l->address = box_strdup(text);
    return 0;
}

static int check_listener(const checker *k, const box_server_config *c, size_t i)
{
    box_listen_config *l = (box_listen_config *)c->listen.items + i;
    bool loopback = false;
    if (normalise(k, l, i, &loopback) < 0)
        return -1;
    if (!loopback && !l->tls)
        return fail_listener(k, i, "other hosts reach this address: it needs tls: true");
    if (!loopback && c->auth == BOX_AUTH_OFF)
        return fail_listener(k, i, "other hosts reach this address: it needs server.auth: token");
    return 0;
}

static int check_path(const checker *k, const char *key, const char *path, size_t max)
{
    if (path == NULL)
        return 0;
    if (path[0] != '/')
        return box_config_bad(k->origin, key, k->err, "must be an absolute path");
    if (strlen(path) > max)
        return box_config_bad(k->origin, key, k->err, "is longer than %zu bytes", max);
    return 0;
}

/* unix(7): sun_path with its end. */
enum { SOCKET_MAX = sizeof(((struct sockaddr_un *)NULL)->sun_path) - 1 };

static int check_paths(const checker *k, const box_server_config *c)
{
    if (check_path(k, "server.unix_socket", c->unix_socket, SOCKET_MAX) < 0 ||
        check_path(k, "tls.cert", c->tls_cert, BOX_CONFIG_MAX_PATH) < 0 ||
        check_path(k, "tls.key", c->tls_key, BOX_CONFIG_MAX_PATH) < 0 ||
        check_path(k, "tls.client_ca", c->tls_client_ca, BOX_CONFIG_MAX_PATH) < 0 ||
        check_path(k, "state_dir", c->state_dir, BOX_CONFIG_MAX_PATH) < 0)
        return -1;
    return 0;
}

/* Names of backends go into logs, errors and metrics. */
static bool is_backend_name(const char *name)
{
    size_t len = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_-");
    return len >= 1 && len <= 63 && name[len] == '\0';
}

static int check_wardens(const checker *k, const box_server_config *c)
{
    const box_config_pair *wardens = c->warden.items;
    for (size_t i = 0; i < c->warden.count; i++) {
        char path[BOX_ERROR_MSG];
        const char *name = wardens[i].name;
        (void)snprintf(path, sizeof path, "warden.%s", name); /* the parser bounds it to 160 */
        if (!is_backend_name(name))
            return box_config_bad(k->origin, path, k->err,
                                  "a backend's name is 1 to 63 of a-z, 0-9, _ and -");
        if (strcmp(name, "auto") == 0 || strcmp(name, "local") == 0)
            return box_config_bad(k->origin, path, k->err, "is a choice among backends, not one");
        if (check_path(k, path, wardens[i].value, SOCKET_MAX) < 0)
            return -1;
    }
    return 0;
}

static int check_guarantees(const checker *k, box_server_config *c)
{
    const box_config_strings *names = &c->admission_guarantees;
    c->required_guarantees = 0;
    for (size_t i = 0; i < names->count; i++) {
        uint32_t bit = box_guarantee_from_name(names->items[i]);
        char path[64];
        (void)snprintf(path, sizeof path, "admission.guarantees[%zu]", i);
        if (bit == 0)
            return box_config_bad(k->origin, path, k->err, "there is no guarantee called %s",
                                  names->items[i]);
        c->required_guarantees |= bit;
    }
    return 0;
}

const char *box_server_config_host_refused(const box_server_config *conf)
{
    if (conf->admission_required)
        return "admission.required is set";
    if (conf->auth == BOX_AUTH_OFF && conf->listen.count > 0)
        return "server.auth is off and there is a TCP listener";
    return NULL;
}

static bool has_warden(const checker *k, const box_server_config *c, const char *backend)
{
    const box_config_pair *wardens = c->warden.items;
    for (size_t i = 0; i < c->warden.count; i++) {
        if (strcmp(wardens[i].name, backend) == 0)
            return true;
    }
    for (const char *const *s = k->spawned; s != NULL && *s != NULL; s++) {
        if (strcmp(*s, backend) == 0)
            return true;
    }
    return false;
}

static int check_backend(const checker *k, const box_server_config *c)
{
    const char *name = c->box_backend;
    const char *why = box_server_config_host_refused(c);
    if (why != NULL && strcmp(name, "host") == 0)
        return box_config_bad(k->origin, "box.backend", k->err, "host is refused: %s", why);
    if (strcmp(name, "auto") != 0 && strcmp(name, "local") != 0 && !has_warden(k, c, name))
        return box_config_bad(k->origin, "box.backend", k->err,
                              "%.63s is neither auto, local nor a key of warden", name);
    return 0;
}

static int check_defaults(const checker *k, const box_server_config *c)
{
    if (box_profile_find(c->box_default_profile) == NULL)
        return box_config_bad(k->origin, "box.default_profile", k->err,
                              "there is no profile %.63s: default, offline_readonly, network_basic "
                              "or network_extended",
                              c->box_default_profile);
    const char *why =
        c->box_default_workspace != NULL ? box_spec_path_problem(c->box_default_workspace) : NULL;
    if (why != NULL)
        return box_config_bad(k->origin, "box.default_workspace", k->err, "%s", why);
    if (c->box_default_memory_bytes != 0 && c->box_default_memory_bytes < BOX_MIN_MEMORY_BYTES)
        return box_config_bad(k->origin, "box.default_memory", k->err,
                              "must be 32MiB or more, or 0");
    return 0;
}

static int check(void *conf, const box_config_origin *origin, const void *arg, box_error *err)
{
    box_server_config *c = conf;
    const checker k = {.origin = origin, .spawned = arg, .err = err};
    for (size_t i = 0; i < c->listen.count; i++) {
        if (check_listener(&k, c, i) < 0)
            return -1;
    }
    if ((c->tls_cert == NULL) != (c->tls_key == NULL))
        return box_config_bad(origin, c->tls_cert != NULL ? "tls.cert" : "tls.key", err,
                              "tls.cert and tls.key need each other");
    if (c->idle_ttl_ns > c->lifetime_ns)
        return box_config_bad(origin, "limits.idle_ttl", err, "is longer than limits.lifetime");
    if (check_guarantees(&k, c) < 0 || check_wardens(&k, c) < 0 || check_backend(&k, c) < 0 ||
        check_defaults(&k, c) < 0)
        return -1;
    return check_paths(&k, c);
}

static box_config_schema schema_for(const char *const *spawned)
{
    return (box_config_schema){.keys = keys,
                               .n_keys = BOX_COUNT(keys),
                               .size = sizeof(box_server_config),
                               .env_prefix = "BOX",
                               .foreign = warden_keys,
                               .check = check,
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
