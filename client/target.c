#include "internal.h"

#include "base/alloc.h"

static bool starts_with(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

static int parse_dns(const char *rest, box_target *out, box_error *err)
{
    while (*rest == '/')
        rest++;
    const char *host = rest;
    size_t host_len;
    const char *port = NULL;
    if (*rest == '[') {
        const char *end = strchr(rest, ']');
        if (end == NULL)
            return box_fail(err, BOX_VALIDATION, "target dns:///%s: the bracket is not closed",
                            rest);
        host = rest + 1;
        host_len = (size_t)(end - host);
        port = end[1] == ':' ? end + 2 : NULL;
    } else {
        const char *colon = strrchr(rest, ':');
        host_len = colon != NULL ? (size_t)(colon - rest) : strlen(rest);
        port = colon != NULL ? colon + 1 : NULL;
    }
    if (host_len == 0)
        return box_fail(err, BOX_VALIDATION, "target dns:///%s names no host", rest);
    out->kind = BOX_TARGET_DNS;
    out->host = box_alloc(host_len + 1);
    memcpy(out->host, host, host_len);
    out->port = box_strdup(port != NULL && *port != '\0' ? port : "5410");
    size_t size = host_len + strlen(out->port) + 4;
    bool v6 = strchr(out->host, ':') != NULL;
    out->authority = box_alloc(size);
    (void)snprintf(out->authority, size, v6 ? "[%s]:%s" : "%s:%s", out->host, out->port);
    return 0;
}

int box_target_parse(const char *text, box_target *out, box_error *err)
{
    box_target t = {0};
    if (starts_with(text, "unix:")) {
        const char *path = text + strlen("unix:");
        if (starts_with(path, "///"))
            path += 2;
        if (*path == '\0')
            return box_fail(err, BOX_VALIDATION, "target %s names no socket", text);
        t = (box_target){.kind = BOX_TARGET_UNIX,
                         .path = box_strdup(path),
                         .authority = box_strdup("localhost")};
    } else if (starts_with(text, "spawn:")) {
        t = (box_target){.kind = BOX_TARGET_SPAWN,
                         .path = box_strdup(text + strlen("spawn:")),
                         .authority = box_strdup("localhost")};
    } else {
        const char *rest = starts_with(text, "dns:") ? text + strlen("dns:") : text;
        if (parse_dns(rest, &t, err) < 0)
            return -1;
    }
    *out = t;
    return 0;
}

void box_target_done(box_target *t)
{
    free(t->host);
    free(t->port);
    free(t->path);
    free(t->authority);
    *t = (box_target){0};
}
