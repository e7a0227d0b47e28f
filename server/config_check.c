/* What boxd's keys say about each other, and what a value is besides its type. */
#include "server/config_check.h"

#include <arpa/inet.h>
#include <sys/un.h>

#include "base/alloc.h"
#include "base/limits.h"
#include "server/config.h"
#include "session/profile.h"
#include "warden/protocol.h"

enum { DEFAULT_PORT = 5410 };

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

int box_server_config_check(void *conf, const box_config_origin *origin, const void *arg,
                            box_error *err)
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
