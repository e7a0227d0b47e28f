/* --print-config: the values of a table as YAML that parses to the same values. */
#include <inttypes.h>

#include "base/config_impl.h"

static void indent(FILE *to, int depth)
{
    (void)fprintf(to, "%*s", 2 * depth, "");
}

/* Double-quoted YAML text: escapes what that form does (YAML 1.1, section 5.7). */
static void print_text(FILE *to, const char *text)
{
    (void)fputc('"', to);
    for (const unsigned char *p = (const unsigned char *)text; *p != '\0'; p++) {
        if (*p == '"' || *p == '\\')
            (void)fprintf(to, "\\%c", *p);
        else if (*p < 0x20 || *p == 0x7f)
            (void)fprintf(to, "\\x%02x", *p);
        else
            (void)fputc(*p, to);
    }
    (void)fputc('"', to);
}

static void print_scalar(const box_config_key *key, const void *at, FILE *to)
{
    char number[BOX_CONFIG_NUMBER_TEXT];
    switch (key->type) {
    case BOX_CONFIG_STRING:
        print_text(to, *(char *const *)at);
        break;
    case BOX_CONFIG_BOOL:
        (void)fputs(*(const bool *)at ? "true" : "false", to);
        break;
    case BOX_CONFIG_INT:
        (void)fprintf(to, "%" PRId64, *(const int64_t *)at);
        break;
    case BOX_CONFIG_DURATION:
        box_config_duration_text(*(const uint64_t *)at, number);
        (void)fputs(number, to);
        break;
    case BOX_CONFIG_BYTES:
        box_config_bytes_text(*(const int64_t *)at, number);
        (void)fputs(number, to);
        break;
    default: /* an ENUM */
        print_text(to, key->choices[*(const int *)at]);
        break;
    }
}

static const void *value_of(const box_config_key *key, const void *base)
{
    return (const char *)base + key->offset;
}

static bool is_absent(const box_config_key *key, const void *base)
{
    return key->type == BOX_CONFIG_STRING && *(char *const *)value_of(key, base) == NULL;
}

static void print_strings(const box_config_strings *list, FILE *to)
{
    (void)fputc('[', to);
    for (size_t i = 0; i < list->count; i++) {
        (void)fputs(i > 0 ? ", " : "", to);
        print_text(to, list->items[i]);
    }
    (void)fputc(']', to);
}

static void print_map(const box_config_records *map, FILE *to)
{
    const box_config_pair *pairs = map->items;
    (void)fputc('{', to);
    for (size_t i = 0; i < map->count; i++) {
        (void)fputs(i > 0 ? ", " : "", to);
        print_text(to, pairs[i].name);
        (void)fputs(": ", to);
        print_text(to, pairs[i].value);
    }
    (void)fputc('}', to);
}

static void print_value(const box_config_key *key, const void *base, FILE *to);

static void print_records(const box_config_key *key, const box_config_records *list, FILE *to)
{
    (void)fputc('[', to);
    for (size_t i = 0; i < list->count; i++) {
        const char *record = (const char *)list->items + i * key->record_size;
        const char *comma = "";
        (void)fputs(i > 0 ? ", {" : "{", to);
        for (const box_config_key *f = key->fields; f < key->fields + key->n_fields; f++) {
            if (f->type == BOX_CONFIG_NOT_BUILT || is_absent(f, record))
                continue;
            (void)fprintf(to, "%s%s: ", comma, f->name);
            print_value(f, record, to);
            comma = ", ";
        }
        (void)fputc('}', to);
    }
    (void)fputc(']', to);
}

static void print_value(const box_config_key *key, const void *base, FILE *to)
{
    const void *at = value_of(key, base);
    if (key->type == BOX_CONFIG_STRINGS)
        print_strings(at, to);
    else if (key->type == BOX_CONFIG_MAP)
        print_map(at, to);
    else if (key->type == BOX_CONFIG_RECORDS)
        print_records(key, at, to);
    else
        print_scalar(key, at, to);
}

/* Opens the sections of `name` that the key before was not in; returns the depth and, in *leaf,
 * what stands behind the last dot. */
static int open_sections(const char *name, const char *before, FILE *to, const char **leaf)
{
    int depth = 0;
    bool same = true;
    const char *part = name;
    for (const char *dot; (dot = strchr(part, '.')) != NULL; part = dot + 1, depth++) {
        same = same && strncmp(name, before, (size_t)(dot + 1 - name)) == 0;
        if (!same) {
            indent(to, depth);
            (void)fprintf(to, "%.*s:\n", (int)(dot - part), part);
        }
    }
    *leaf = part;
    return depth;
}

int box_config_print(const box_config_schema *schema, const void *conf, FILE *to)
{
    const char *before = "";
    for (const box_config_key *k = schema->keys; k < schema->keys + schema->n_keys; k++) {
        const char *leaf;
        if (k->type == BOX_CONFIG_NOT_BUILT)
            continue;
        int depth = open_sections(k->name, before, to, &leaf);
        before = k->name;
        indent(to, depth);
        (void)fprintf(to, "# %s\n", k->help);
        indent(to, depth);
        (void)fprintf(to, is_absent(k, conf) ? "# %s:" : "%s: ", leaf);
        if (!is_absent(k, conf))
            print_value(k, conf, to);
        (void)fputc('\n', to);
    }
    return fflush(to) == 0 && !ferror(to) ? 0 : -1;
}
