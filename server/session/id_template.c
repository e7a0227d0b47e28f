#include "session/id_template.h"

#include <string.h>

#include "session/table.h"

/* Borrowed text that need not end with a NUL. */
typedef struct slice {
    const char *at;
    size_t len;
} slice;

typedef struct resolver {
    const box_label *variables;
    size_t n_variables;
    box_resolved_id *out;
    size_t id_len;
    size_t unknown_len;
    bool too_long;
} resolver;

static const char unknown_text[] = "unknown";

static bool is(slice s, const char *text)
{
    return s.len == strlen(text) && memcmp(s.at, text, s.len) == 0;
}

static slice slice_of(const char *text)
{
    return (slice){text, strlen(text)};
}

static const char *given(const resolver *r, slice name)
{
    for (size_t i = 0; i < r->n_variables; i++) {
        if (is(name, r->variables[i].key))
            return r->variables[i].value;
    }
    return NULL;
}

/* What a name without a variable means: another name, or a text; NULL: nothing. */
static const char *value_of(const resolver *r, slice name)
{
    static const struct {
        const char *name, *other, *text;
    } defaults[] = {
        {"sender_id", "launcher_id", NULL},
        {"launcher_id", "query_id", NULL},
        {"launcher_type", NULL, "query"},
        {"global", NULL, "global"},
    };
    const char *value = given(r, name);
    for (size_t i = 0; i < BOX_COUNT(defaults) && value == NULL; i++) {
        if (!is(name, defaults[i].name))
            continue;
        if (defaults[i].text != NULL)
            return defaults[i].text;
        name = slice_of(defaults[i].other);
        value = given(r, name);
    }
    return value;
}

static void add(resolver *r, const char *text, size_t len)
{
    if (len > BOX_MAX_ID_BYTES - r->id_len) {
        r->too_long = true;
        return;
    }
    memcpy(r->out->id + r->id_len, text, len);
    r->id_len += len;
}

static bool is_noted(const resolver *r, slice name)
{
    for (size_t at = 0; at < r->unknown_len; at += strlen(r->out->unknown + at) + 1) {
        if (is(name, r->out->unknown + at))
            return true;
    }
    return false;
}

static void add_name(resolver *r, slice name)
{
    const char *value = value_of(r, name);
    if (value != NULL) {
        add(r, value, strlen(value));
        return;
    }
    add(r, unknown_text, strlen(unknown_text));
    if (is_noted(r, name))
        return;
    memcpy(r->out->unknown + r->unknown_len, name.at, name.len);
    r->unknown_len += name.len;
    r->out->unknown[r->unknown_len++] = '\0';
    r->out->n_unknown++;
}

static bool is_name(slice s)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_";
    if (s.len == 0 || s.at[0] == '\0' || strchr(letters, s.at[0]) == NULL)
        return false;
    for (size_t i = 1; i < s.len; i++) {
        bool digit = s.at[i] >= '0' && s.at[i] <= '9';
        if (!digit && strchr(letters, s.at[i]) == NULL)
            return false;
    }
    return true;
}

/* p is at a brace. Returns what is behind the piece; NULL: it is none, *err says where. */
static const char *resolve_brace(resolver *r, const char *template, const char *p, box_error *err)
{
    if (p[1] == *p) {
        add(r, p, 1);
        return p + 2;
    }
    size_t column = (size_t)(p - template) + 1;
    const char *end = *p == '{' ? strpbrk(p + 1, "{}") : NULL;
    if (end == NULL || *end != '}') {
        (void)box_violation(err, "id_template",
                            "byte %zu: a brace without its partner; write it "
                            "twice to have it in the id",
                            column);
        return NULL;
    }
    slice name = {p + 1, (size_t)(end - p - 1)};
    if (!is_name(name)) {
        (void)box_violation(err, "id_template",
                            "byte %zu: between braces stands one name of "
                            "letters, digits and _, and nothing else",
                            column);
        return NULL;
    }
    add_name(r, name);
    return end + 1;
}

static int check(const char *template, const box_label *variables, size_t n, box_error *err)
{
    int bad = 0;
    if (strlen(template) > BOX_MAX_ID_TEMPLATE_BYTES)
        bad |= box_violation(err, "id_template", "longer than %d bytes", BOX_MAX_ID_TEMPLATE_BYTES);
    if (n > BOX_MAX_ID_TEMPLATE_VARIABLES)
        return box_violation(err, "variables", "more than %d", BOX_MAX_ID_TEMPLATE_VARIABLES);
    for (size_t i = 0; i < n; i++) {
        if (!is_name(slice_of(variables[i].key)))
            bad |= box_violation(err, "variables",
                                 "a name has letters, digits and _, and begins "
                                 "with no digit");
        for (size_t j = 0; j < i; j++) {
            if (strcmp(variables[i].key, variables[j].key) == 0)
                bad |= box_violation(err, "variables", "%.64s stands twice", variables[i].key);
        }
    }
    return bad;
}

int box_id_template_resolve(const char *template, const box_label *variables, size_t n_variables,
                            box_resolved_id *out, box_error *err)
{
    resolver r = {.variables = variables, .n_variables = n_variables, .out = out};
    *out = (box_resolved_id){0};
    if (template[0] == '\0')
        template = BOX_DEFAULT_ID_TEMPLATE;
    if (check(template, variables, n_variables, err) < 0)
        return -1;
    for (const char *p = template; p != NULL && *p != '\0';) {
        size_t text = strcspn(p, "{}");
        add(&r, p, text);
        p += text;
        if (*p != '\0' && (p = resolve_brace(&r, template, p, err)) == NULL)
            return -1;
    }
    if (r.too_long)
        return box_violation(err, "variables", "the id would be longer than %d bytes",
                             BOX_MAX_ID_BYTES);
    if (r.id_len == 0)
        return box_violation(err, "variables", "the id would be empty");
    return box_session_id_check(out->id, "variables", err);
}
