#include "server/config.h"

#include <arpa/inet.h>
#include <sys/un.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/limits.h"
#include "warden/protocol.h"

#define AT(member) offsetof(box_server_config, member)

enum { DEFAULT_PORT = 5410 };

static const char *const auth_modes[] = {"token", "off", NULL};
static const char *const tls_versions[] = {"1.2", "1.3", NULL};
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
     .help = "How long running calls may go on after SIGTERM or Shutdown."},
    {"tls.cert", BOX_CONFIG_STRING, AT(tls_cert),
     .help = "PEM file with the server's certificate chain; without it development certificates "
             "are made in state_dir."},
    {"tls.key", BOX_CONFIG_STRING, AT(tls_key), .help = "PEM file with its private key."},
    {"tls.client_ca", BOX_CONFIG_STRING, AT(tls_client_ca),
     .help = "PEM file with the CAs of clients: then a client certificate is required, besides "
             "the token."},
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
    {"box.image", BOX_CONFIG_STRING, AT(box_image),
     .help = "Image of sessions that name none; without it the backend's own root."},
    {"box.default_memory", BOX_CONFIG_BYTES, AT(box_default_memory_bytes), .number = 0, .min = 0,
     .max = INT64_C(1) << 44,
     .help = "Memory limit of sessions that ask for none; 0 is the "
             "profile's."},
    {"box.skills_root", BOX_CONFIG_NOT_BUILT, 0, .help = "skills"},
    {"box.default_workspace", BOX_CONFIG_NOT_BUILT, 0,
     .help = "a host directory as every session's workspace"},
    {"box.docker", BOX_CONFIG_NOT_BUILT, 0, .help = "the docker backend"},
    {"box.e2b", BOX_CONFIG_NOT_BUILT, 0, .help = "the e2b backend"},
    {"limits.sessions", BOX_CONFIG_INT, AT(max_sessions), .number = 10000, .min = 1, .max = 1000000,
     .help = "Live sessions of all tenants together."},
    {"limits.sessions_per_tenant", BOX_CONFIG_INT, AT(max_sessions_per_tenant), .number = 256,
     .min = 1, .max = 1000000, .help = "Live sessions of a tenant that has no limit of its own."},
    {"limits.idle_ttl", BOX_CONFIG_DURATION, AT(idle_ttl_ns),
     .number = BOX_SESSION_IDLE_SECONDS * (int64_t)BOX_SECOND, .min = (int64_t)BOX_SECOND,
     .max = 30 * 86400 * (int64_t)BOX_SECOND,
     .help = "A session that nobody uses for so long is stopped."},
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

static const box_config_schema schema = {keys, BOX_COUNT(keys), sizeof(box_server_config), "BOX"};

static int fail_listener(box_error *err, size_t i, const char *address, const char *what)
{
    return box_fail(err, BOX_VALIDATION, "server.listen[%zu]: %s: %s", i, address, what);
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
static int normalise(box_listen_config *l, size_t i, bool *loopback, box_error *err)
{
    char host[INET6_ADDRSTRLEN];
    unsigned port;
    struct in_addr v4;
    struct in6_addr v6;
    char text[INET6_ADDRSTRLEN + 16];
    if (l->address == NULL)
        return fail_listener(err, i, "address", "is missing");
    if (!split_address(l->address, host, sizeof host, &port))
        return fail_listener(err, i, l->address, "is not ADDRESS:PORT");
    const char *literal = strcmp(host, "localhost") == 0 ? "127.0.0.1" : host;
    if (inet_pton(AF_INET, literal, &v4) == 1 && l->address[0] != '[') {
        *loopback = ntohl(v4.s_addr) >> 24 == 127;
        (void)snprintf(text, sizeof text, "%s:%u", literal, port);
    } else if (inet_pton(AF_INET6, literal, &v6) == 1 && l->address[0] == '[') {
        *loopback = IN6_IS_ADDR_LOOPBACK(&v6);
        (void)snprintf(text, sizeof text, "[%s]:%u", literal, port);
    } else {
        return fail_listener(err, i, l->address,
                             "needs an IP address (IPv6 in brackets) or localhost");
    }
    free(l->address);
    l->address = box_strdup(text);
    return 0;
}

static int check_listener(const box_server_config *c, size_t i, box_error *err)
{
    box_listen_config *l = (box_listen_config *)c->listen.items + i;
    bool loopback = false;
    if (normalise(l, i, &loopback, err) < 0)
        return -1;
    if (!loopback && !l->tls)
        return fail_listener(err, i, l->address,
                             "other hosts reach this address: it needs tls: true");
    if (!loopback && c->auth == BOX_AUTH_OFF)
        return fail_listener(err, i, l->address,
                             "other hosts reach this address: it needs server.auth: token");
    return 0;
}

static int check_path(const char *key, const char *path, size_t max, box_error *err)
{
    if (path == NULL)
        return 0;
    if (path[0] != '/')
        return box_fail(err, BOX_VALIDATION, "%s: must be an absolute path", key);
    if (strlen(path) > max)
        return box_fail(err, BOX_VALIDATION, "%s: is longer than %zu bytes", key, max);
    return 0;
}

static int check_paths(const box_server_config *c, box_error *err)
{
    /* unix(7): sun_path with its end. */
    size_t socket_max = sizeof(((struct sockaddr_un *)NULL)->sun_path) - 1;
    if (check_path("server.unix_socket", c->unix_socket, socket_max, err) < 0 ||
        check_path("tls.cert", c->tls_cert, BOX_CONFIG_MAX_PATH, err) < 0 ||
        check_path("tls.key", c->tls_key, BOX_CONFIG_MAX_PATH, err) < 0 ||
        check_path("tls.client_ca", c->tls_client_ca, BOX_CONFIG_MAX_PATH, err) < 0 ||
        check_path("state_dir", c->state_dir, BOX_CONFIG_MAX_PATH, err) < 0)
        return -1;
    const box_config_pair *wardens = c->warden.items;
    for (size_t i = 0; i < c->warden.count; i++) {
        if (check_path("warden", wardens[i].value, socket_max, err) < 0)
            return -1;
    }
    return 0;
}

static int check_guarantees(box_server_config *c, box_error *err)
{
    const box_config_strings *names = &c->admission_guarantees;
    c->required_guarantees = 0;
    for (size_t i = 0; i < names->count; i++) {
        uint32_t bit = box_guarantee_from_name(names->items[i]);
        if (bit == 0)
            return box_fail(err, BOX_VALIDATION,
                            "admission.guarantees: there is no guarantee called %s",
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

static int check_host(const box_server_config *c, box_error *err)
{
    const char *why = box_server_config_host_refused(c);
    if (why != NULL && strcmp(c->box_backend, "host") == 0)
        return box_fail(err, BOX_VALIDATION, "box.backend: host is refused: %s", why);
    return 0;
}

static int check(box_server_config *c, box_error *err)
{
    for (size_t i = 0; i < c->listen.count; i++) {
        if (check_listener(c, i, err) < 0)
            return -1;
    }
    if ((c->tls_cert == NULL) != (c->tls_key == NULL))
        return box_fail(err, BOX_VALIDATION, "tls.cert and tls.key: one needs the other");
    if (c->idle_ttl_ns > c->lifetime_ns)
        return box_fail(err, BOX_VALIDATION, "limits.idle_ttl: is longer than limits.lifetime");
    if (check_guarantees(c, err) < 0 || check_host(c, err) < 0)
        return -1;
    return check_paths(c, err);
}

/* Takes what loading gave. */
static int checked(box_server_config *c, const char *file, box_server_config *out, box_error *err)
{
    if (check(c, err) < 0) {
        box_config_done(&schema, c);
        return file != NULL ? box_wrap(err, "%s", file) : -1;
    }
    *out = *c;
    return 0;
}

int box_server_config_load(const char *file, char *const *env, box_server_config *out,
                           box_error *err)
{
    box_server_config c;
    if (box_config_load(&schema, file, env, &c, err) < 0)
        return -1;
    return checked(&c, file, out, err);
}

int box_server_config_parse(const char *name, const char *yaml, size_t len, char *const *env,
                            box_server_config *out, box_error *err)
{
    box_server_config c;
    if (box_config_parse(&schema, name, yaml, len, env, &c, err) < 0)
        return -1;
    return checked(&c, name, out, err);
}

void box_server_config_done(box_server_config *conf)
{
    box_config_done(&schema, conf);
}

int box_server_config_print(const box_server_config *conf, FILE *to)
{
    return box_config_print(&schema, conf, to);
}
