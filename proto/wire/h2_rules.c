/* What makes a request malformed (RFC 9113, 8.1.1, 8.2 and 8.3), for servers. nghttp2 has such
 * checks and cannot be asked for all but one: it wants :authority or host, which proxies and tools
 * leave out (grpc-conformance.md, 7). So they are off there and made here. */
#include <strings.h>

#include "wire/h2_internal.h"

/* Names that may come once in a request; a bit each in h2_rules.seen. */
static const struct single {
    const char *name;
    bool is_pseudo;
} singles[] = {
    {":method", true},    {":scheme", true}, {":path", true},
    {":authority", true}, {"host", false},   {"content-length", false},
};
enum { METHOD, SCHEME, PATH, AUTHORITY, HOST, CONTENT_LENGTH };
enum { NEEDED = 1 << METHOD | 1 << SCHEME | 1 << PATH };

/* Of HTTP/1 connections. */
static const char *const forbidden[] = {
    "connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade",
};

static bool is_named(nghttp2_vec name, const char *text)
{
    return name.len == strlen(text) && memcmp(name.base, text, name.len) == 0;
}

static bool is_forbidden(nghttp2_vec name, nghttp2_vec value)
{
    for (size_t i = 0; i < BOX_COUNT(forbidden); i++) {
        if (is_named(name, forbidden[i]))
            return true;
    }
    return is_named(name, "te") &&
           (value.len != 8 || strncasecmp((const char *)value.base, "trailers", 8) != 0);
}

static bool take_length(h2_rules *r, nghttp2_vec value)
{
    int64_t n = 0;
    if (value.len == 0 || value.len > 18)
        return false;
    for (size_t i = 0; i < value.len; i++) {
        if (value.base[i] < '0' || value.base[i] > '9')
            return false;
        n = n * 10 + (value.base[i] - '0');
    }
    r->content_length = n;
    return true;
}

static bool is_scheme(nghttp2_vec value)
{
    for (size_t i = 0; i < value.len; i++) {
        uint8_t c = value.base[i];
        bool is_letter = (c | 0x20) >= 'a' && (c | 0x20) <= 'z';
        bool is_other = (c >= '0' && c <= '9') || c == '+' || c == '-' || c == '.';
        if (!is_letter && !(is_other && i > 0))
            return false;
    }
    return value.len > 0;
}

static bool is_good_value(unsigned which, h2_rules *r, nghttp2_vec value)
{
    switch (which) {
    case METHOD:
        return nghttp2_check_method(value.base, value.len) != 0;
    case SCHEME:
        return is_scheme(value);
    case PATH:
        return value.len > 0 && nghttp2_check_path(value.base, value.len) != 0;
    case CONTENT_LENGTH:
        return take_length(r, value);
    default:
        return nghttp2_check_authority(value.base, value.len) != 0;
    }
}

/* A field of the request's own block. */
static bool is_good_field(h2_rules *r, nghttp2_vec name, nghttp2_vec value)
{
    bool is_pseudo = name.base[0] == ':';
    if (is_pseudo && r->fields_began)
        return false;
    r->fields_began |= !is_pseudo;
    for (unsigned i = 0; i < BOX_COUNT(singles); i++) {
        if (!is_named(name, singles[i].name))
            continue;
        bool is_first = (r->seen & 1u << i) == 0;
        r->seen |= 1u << i;
        return is_first && is_good_value(i, r, value);
    }
    return !is_pseudo && !is_forbidden(name, value);
}

void box_h2_rules_begin(h2_rules *r, bool is_request)
{
    *r = (h2_rules){.is_request = is_request, .content_length = -1};
}

bool box_h2_rules_field(h2_rules *r, nghttp2_vec name, nghttp2_vec value)
{
    return name.len > 0 && nghttp2_check_header_name(name.base, name.len) != 0 &&
           nghttp2_check_header_value(value.base, value.len) != 0 &&
           (r->is_request ? is_good_field(r, name, value)
                          : name.base[0] != ':' && !is_forbidden(name, value));
}

bool box_h2_rules_end(const h2_rules *r, bool is_end)
{
    if (!r->is_request)
        return is_end; /* trailers are last */
    return (r->seen & NEEDED) == NEEDED && (!is_end || r->content_length <= 0);
}
