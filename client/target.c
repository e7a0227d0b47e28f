#include "internal.h"

#include <stdlib.h>
#include <sys/un.h>

#include "base/alloc.h"

static const char default_port[] = "5410";

static box_target take_target(box_target *t)
{
    box_target taken = *t;
    *t = (box_target){0};
    return taken;
}

static bool starts_with(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

static bool is_port(const char *text)
{
    unsigned long n = 0;
    size_t len = strlen(text);
    if (len == 0 || len > 5 || strspn(text, "0123456789") != len)
        return false;
    for (; *text != '\0'; text++)
        n = n * 10 + (unsigned long)(*text - '0');
    return n >= 1 && n <= 65535;
}

/* Where the host ends. Several colons without brackets could be cut anywhere. */
static int split_host(const char *rest, const char **host, size_t *host_len, const char **end,
                      box_error *err)
{
    *host = rest;
    *host_len = strcspn(rest, ":/[]");
    *end = rest + *host_len;
    if (*rest == '[') {
        *host = rest + 1;
        *host_len = strcspn(rest + 1, "]");
        *end = rest + 1 + *host_len;
        if (**end == '\0')
            return box_fail(err, BOX_VALIDATION, "target %s: the bracket is not closed", rest);
        (*end)++;
    } else if (strchr(rest, ':') != strrchr(rest, ':')) {
        return box_fail(err, BOX_VALIDATION,
                        "target %s: an IPv6 address is written in brackets, as in [::1]:%s", rest,
                        default_port);
    }
    if (*host_len == 0)
        return box_fail(err, BOX_VALIDATION, "target %s names no host", rest);
    return 0;
}

static int parse_dns(const char *rest, box_target *out, box_error *err)
{
    const char *host;
    const char *end;
    size_t host_len;
    if (split_host(rest, &host, &host_len, &end, err) < 0)
        return -1;
    const char *port = *end == ':' ? end + 1 : default_port;
    if (*end != ':' && *end != '\0')
        return box_fail(err, BOX_VALIDATION, "target %s: '%s' follows the host", rest, end);
    if (!is_port(port))
        return box_fail(err, BOX_VALIDATION, "target %s: the port must be 1 to 65535", rest);
    *out = (box_target){
        .kind = BOX_TARGET_DNS, .host = box_alloc(host_len + 1), .port = box_strdup(port)};
    memcpy(out->host, host, host_len);
    size_t size = host_len + strlen(port) + 4;
    bool v6 = strchr(out->host, ':') != NULL;
    out->authority = box_alloc(size);
    (void)snprintf(out->authority, size, v6 ? "[%s]:%s" : "%s:%s", out->host, out->port);
    (void)box_addresses_add_literal(&out->addresses, out->host, out->port); /* or it is a name */
    return 0;
}

/* One address of a list. */
static int add_item(const char *item, int family, box_target *out, box_error *err)
{
    BOX_AUTO(box_target_done) box_target one = {0};
    if (parse_dns(item, &one, err) < 0)
        return -1;
    if (one.addresses.count == 0 || one.addresses.items[0].at.ss_family != family)
        return box_fail(err, BOX_VALIDATION, "%s is no such address", item);
    if (out->addresses.count == BOX_CLIENT_ADDRESSES)
        return box_fail(err, BOX_VALIDATION, "more than %d addresses", BOX_CLIENT_ADDRESSES);
    if (out->host == NULL)
        *out = take_target(&one);
    else
        box_addresses_add(&out->addresses, &one.addresses.items[0].at, one.addresses.items[0].len);
    return 0;
}

/* "a:1,b:2": addresses only, of one family. The first one names the server. */
static int parse_list(const char *text, int family, box_target *out, box_error *err)
{
    BOX_AUTO(box_freep)
    char *copy = box_strdup(text);
    char *save = NULL;
    *out = (box_target){0};
    for (char *item = strtok_r(copy, ",", &save); item != NULL; item = strtok_r(NULL, ",", &save)) {
        if (add_item(item, family, out, err) < 0) {
            box_target_done(out);
            return box_wrap(err, "target %s", text);
        }
    }
    if (out->host == NULL)
        return box_fail(err, BOX_VALIDATION, "the target names no address");
    return 0;
}

static int parse_unix(const char *path, box_target *out, box_error *err)
{
    enum { PATH_BYTES = sizeof((struct sockaddr_un *)0)->sun_path };
    if (starts_with(path, "///"))
        path += 2;
    if (*path == '\0' || starts_with(path, "//"))
        return box_fail(err, BOX_VALIDATION, "target unix:%s names no socket (unix:/path)", path);
    if (strlen(path) >= PATH_BYTES)
        return box_fail(err, BOX_VALIDATION, "target unix:%s: the path is longer than %d bytes",
                        path, PATH_BYTES - 1);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    memcpy(address.sun_path, path, strlen(path));
    *out = (box_target){
        .kind = BOX_TARGET_UNIX, .path = box_strdup(path), .authority = box_strdup("localhost")};
    box_addresses_add(&out->addresses, &address, sizeof address);
    return 0;
}

/* "dns:///host", "dns:host" and "host"; gRPC would take "dns://server/host", we ask the system. */
static int parse_name(const char *text, box_target *out, box_error *err)
{
    const char *rest = text;
    if (starts_with(text, "dns:///"))
        rest += strlen("dns:///");
    else if (starts_with(text, "dns:") && !is_port(text + strlen("dns:")))
        rest += strlen("dns:");
    const char *scheme_end = strstr(rest, "//");
    if (scheme_end != NULL)
        return box_fail(err, BOX_VALIDATION,
                        "target %s: only dns:///host:port, ipv4:address:port, ipv6:address:port, "
                        "unix:/path and spawn:boxd are known",
                        text);
    return parse_dns(rest, out, err);
}

int box_target_parse(const char *text, box_target *out, box_error *err)
{
    if (starts_with(text, "unix:"))
        return parse_unix(text + strlen("unix:"), out, err);
    if (starts_with(text, "ipv4:"))
        return parse_list(text + strlen("ipv4:"), AF_INET, out, err);
    if (starts_with(text, "ipv6:"))
        return parse_list(text + strlen("ipv6:"), AF_INET6, out, err);
    if (!starts_with(text, "spawn:"))
        return parse_name(text, out, err);
    *out = (box_target){.kind = BOX_TARGET_SPAWN,
                        .path = box_strdup(text + strlen("spawn:")),
                        .authority = box_strdup("localhost")};
    return 0;
}

void box_target_done(box_target *t)
{
    free(t->host);
    free(t->port);
    free(t->path);
    free(t->authority);
    box_addresses_done(&t->addresses);
    *t = (box_target){0};
}

bool box_target_is_loopback(const box_target *t)
{
    bool ours = t->addresses.count > 0;
    for (size_t i = 0; i < t->addresses.count; i++)
        ours &= box_address_is_loopback(&t->addresses.items[i]);
    return ours || (t->host != NULL && strcmp(t->host, "localhost") == 0);
}
