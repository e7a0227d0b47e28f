#include "files/pattern.h"

#include "base/alloc.h"

/* --- braces ----------------------------------------------------------------------------------- */

static int add(box_pattern *p, const char *text, size_t len, box_error *err)
{
    if (p->count == BOX_PATTERN_ALTERNATIVES)
        return box_violation(err, "pattern", "has more than %d alternatives",
                             (int)BOX_PATTERN_ALTERNATIVES);
    char *copy = box_alloc(len + 1);
    memcpy(copy, text, len);
    p->alternatives[p->count++] = copy;
    return 0;
}

/* Where the brace that opens at text[0] is closed; 0 when it is not. */
static size_t closing(const char *text)
{
    size_t depth = 0;
    for (size_t i = 0; text[i] != '\0'; i++) {
        if (text[i] == '\\' && text[i + 1] != '\0')
            i++;
        else if (text[i] == '{')
            depth++;
        else if (text[i] == '}' && --depth == 0)
            return i;
    }
    return 0;
}

/* The first brace with an end, or the text's end. */
static size_t next_brace(const char *text)
{
    size_t i = 0;
    for (; text[i] != '\0'; i++) {
        if (text[i] == '\\' && text[i + 1] != '\0')
            i++;
        else if (text[i] == '{' && closing(text + i) > 0)
            break;
    }
    return i;
}

/* The length of the alternative that begins here. */
static size_t alternative(const char *text, size_t len)
{
    size_t depth = 0;
    size_t i = 0;
    for (; i < len; i++) {
        if (text[i] == '\\')
            i++;
        else if (text[i] == '{')
            depth++;
        else if (text[i] == '}')
            depth--;
        else if (text[i] == ',' && depth == 0)
            break;
    }
    return i < len ? i : len;
}

/* Replaces the first brace of alternative i by its choices: one stays at i, the rest is added. The
 * number of alternatives bounds how often. */
static int expand(box_pattern *p, size_t i, box_error *err)
{
    for (;;) {
        BOX_AUTO(box_freep) char *text = p->alternatives[i];
        size_t at = next_brace(text);
        if (text[at] == '\0') {
            (void)box_take(text); /* it stays */
            return 0;
        }
        size_t end = at + closing(text + at);
        size_t tail = strlen(text + end + 1);
        p->alternatives[i] = NULL;
        for (size_t from = at + 1; from <= end;) {
            size_t len = alternative(text + from, end - from);
            char joined[BOX_PATTERN_BYTES + 1];
            memcpy(joined, text, at);
            memcpy(joined + at, text + from, len);
            memcpy(joined + at + len, text + end + 1, tail);
            if (p->alternatives[i] == NULL) {
                p->alternatives[i] = box_alloc(at + len + tail + 1);
                memcpy(p->alternatives[i], joined, at + len + tail);
            } else if (add(p, joined, at + len + tail, err) < 0) {
                return -1;
            }
            from += len + 1;
        }
    }
}

int box_pattern_init(box_pattern *p, box_bytes text, box_error *err)
{
    *p = (box_pattern){0};
    if (text.len == 0 || text.len > BOX_PATTERN_BYTES)
        return box_violation(err, "pattern", "needs 1 to %d bytes", (int)BOX_PATTERN_BYTES);
    const char *at = (const char *)text.data;
    size_t len = text.len;
    while (len > 1 && at[0] == '/') { /* from where the search begins, which it is anyway */
        at++;
        len--;
        p->whole = true;
    }
    p->whole |= memchr(at, '/', len) != NULL;
    if (add(p, at, len, err) < 0)
        return -1;
    for (size_t i = 0; i < p->count; i++) {
        if (expand(p, i, err) < 0)
            return -1;
    }
    return 0;
}

void box_pattern_done(box_pattern *p)
{
    for (size_t i = 0; i < p->count; i++)
        free(p->alternatives[i]);
    *p = (box_pattern){0};
}

/* --- one name --------------------------------------------------------------------------------- */

/* Length of the character at s, one byte where it is none. */
static size_t character(const char *s, const char *end)
{
    unsigned char c = (unsigned char)*s;
    size_t len = c >= 0xf0 && c <= 0xf4  ? 4
                 : c >= 0xe0 && c < 0xf0 ? 3
                 : c >= 0xc2 && c < 0xe0 ? 2
                                         : 1;
    if (len > (size_t)(end - s))
        return 1;
    for (size_t i = 1; i < len; i++) {
        if (((unsigned char)s[i] & 0xc0) != 0x80)
            return 1;
    }
    return len;
}

/* A set at p ("["), against the character at s. Returns its length, 0 when it has no end;
 * characters of several bytes are compared byte by byte, which orders as their numbers do. */
static size_t set(const char *p, const char *p_end, const char *s, size_t s_len, bool *hit)
{
    const char *at = p + 1;
    bool negated = at < p_end && (*at == '!' || *at == '^');
    bool found = false;
    at += negated;
    for (bool first = true; at < p_end && (*at != ']' || first); first = false) {
        if (*at == '\\' && at + 1 < p_end)
            at++;
        size_t low_len = character(at, p_end);
        const char *low = at;
        const char *high = low;
        size_t high_len = low_len;
        at += low_len;
        if (at + 1 < p_end && *at == '-' && at[1] != ']') {
            high = at + 1;
            high_len = character(high, p_end);
            at = high + high_len;
        }
        size_t a = s_len < low_len ? s_len : low_len;
        size_t b = s_len < high_len ? s_len : high_len;
        int above = memcmp(s, low, a);
        int below = memcmp(s, high, b);
        above = above != 0 ? above : (int)s_len - (int)low_len;
        below = below != 0 ? below : (int)s_len - (int)high_len;
        found |= above >= 0 && below <= 0;
    }
    if (at >= p_end)
        return 0;
    *hit = found != negated;
    return (size_t)(at + 1 - p);
}

/* One step of a pattern that is not a star; the bytes of it that were used, 0 for no match. */
static size_t step(const char *p, const char *p_end, const char *s, size_t s_len)
{
    bool hit = false;
    if (*p == '?')
        return 1;
    if (*p == '[') {
        size_t len = set(p, p_end, s, s_len, &hit);
        if (len > 0)
            return hit ? len : 0;
    }
    size_t escaped = *p == '\\' && p + 1 < p_end ? 1 : 0;
    size_t len = character(p + escaped, p_end);
    return len == s_len && memcmp(p + escaped, s, len) == 0 ? escaped + len : 0;
}

/* A name against a pattern without slashes. The last star is the only one to go back to. */
static bool name_matches(const char *p, const char *p_end, const char *s, const char *s_end)
{
    const char *star = NULL;
    const char *again = NULL;
    while (s < s_end) {
        size_t s_len = character(s, s_end);
        size_t used = p < p_end && *p != '*' ? step(p, p_end, s, s_len) : 0;
        if (used > 0) {
            p += used;
            s += s_len;
        } else if (p < p_end && *p == '*') {
            star = ++p;
            again = s;
        } else if (star != NULL) {
            p = star;
            again += character(again, s_end);
            s = again;
        } else {
            return false;
        }
    }
    while (p < p_end && *p == '*')
        p++;
    return p == p_end;
}

/* --- paths ------------------------------------------------------------------------------------ */

static const char *part_end(const char *s)
{
    return s + strcspn(s, "/");
}

static const char *behind(const char *end)
{
    return *end == '/' ? end + 1 : end;
}

static bool is_double_star(const char *p, const char *end)
{
    return end - p == 2 && p[0] == '*' && p[1] == '*';
}

/* Part by part, `**` being to parts what a star is to characters. */
static bool path_matches(const char *p, const char *s)
{
    const char *star = NULL;
    const char *again = NULL;
    while (*s != '\0') {
        const char *p_end = part_end(p);
        const char *s_end = part_end(s);
        if (*p != '\0' && is_double_star(p, p_end)) {
            star = p = behind(p_end);
            again = s;
            if (*p == '\0')
                return true; /* everything below */
        } else if (*p != '\0' && name_matches(p, p_end, s, s_end)) {
            p = behind(p_end);
            s = behind(s_end);
        } else if (star != NULL) {
            p = star;
            again = behind(part_end(again));
            s = again;
        } else {
            return false;
        }
    }
    while (*p != '\0' && is_double_star(p, part_end(p)))
        p = behind(part_end(p));
    return *p == '\0';
}

bool box_pattern_matches(const box_pattern *p, const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash != NULL ? slash + 1 : path;
    for (size_t i = 0; i < p->count; i++) {
        const char *a = p->alternatives[i];
        if (p->whole ? path_matches(a, path)
                     : name_matches(a, a + strlen(a), name, name + strlen(name)))
            return true;
    }
    return false;
}
