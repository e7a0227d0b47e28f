/* The YAML half of box_config: libyaml's events against the table of keys. No document features:
 * anchors, aliases, tags, directives and a second document are refused. Depth is bounded by the
 * table, because a mapping or list is only entered where the table has one. */
#include <yaml.h>

#include "base/alloc.h"
#include "base/config_impl.h"
#include "base/utf8.h"

enum { PATH_BYTES = 160 };

typedef struct reader {
    yaml_parser_t parser;
    yaml_event_t event; /* zeroed when there is none: yaml_event_delete allows that */
    box_config_origin *origin;
    box_error *err;
} reader;

/* One mapping of the table: the whole file, or one record. */
typedef struct scope {
    const box_config_key *keys;
    size_t n_keys;
    void *base;
    const char *label; /* "server.listen[0]." for a record, "" for the file */
    bool *seen;        /* per key; and at n_keys + i: the section that key i is the first of */
} scope;

static int fail_at(reader *r, yaml_mark_t mark, const char *text)
{
    (void)box_fail(r->err, BOX_VALIDATION, "%s", text);
    return box_wrap(r->err, "%s:%zu:%zu", r->origin->file, mark.line + 1, mark.column + 1);
}

/* Puts the current event's place before an error that is already there. */
static int place_error(reader *r, yaml_mark_t mark)
{
    return box_wrap(r->err, "%s:%zu:%zu", r->origin->file, mark.line + 1, mark.column + 1);
}

/* The current event is where `path` stands. */
static void note_place(reader *r, const char *path)
{
    yaml_mark_t mark = r->event.start_mark;
    box_config_origin_add(r->origin, path, mark.line + 1, mark.column + 1);
}

/* The same for LABEL[i]. */
static void note_item(reader *r, const char *label, size_t i)
{
    char path[2 * PATH_BYTES + 32];
    (void)snprintf(path, sizeof path, "%s[%zu]", label, i);
    note_place(r, path);
}

/* Line and column of a byte, for the reader's errors, which carry no mark. */
static yaml_mark_t mark_of(const char *text, size_t offset)
{
    yaml_mark_t mark = {0};
    for (size_t i = 0; i < offset; i++) {
        if (text[i] == '\n') {
            mark.line++;
            mark.column = 0;
        } else if (((unsigned char)text[i] & 0xc0) != 0x80) {
            mark.column++;
        }
    }
    return mark;
}

static int refuse_features(reader *r)
{
    const yaml_event_t *e = &r->event;
    const void *anchor = NULL;
    const void *tag = NULL;
    switch (e->type) {
    case YAML_SCALAR_EVENT:
        anchor = e->data.scalar.anchor;
        tag = e->data.scalar.tag;
        if (strlen((const char *)e->data.scalar.value) != e->data.scalar.length)
            return fail_at(r, e->start_mark, "text with a NUL byte");
        break;
    case YAML_MAPPING_START_EVENT:
        anchor = e->data.mapping_start.anchor;
        tag = e->data.mapping_start.tag;
        break;
    case YAML_SEQUENCE_START_EVENT:
        anchor = e->data.sequence_start.anchor;
        tag = e->data.sequence_start.tag;
        break;
    case YAML_DOCUMENT_START_EVENT:
        if (e->data.document_start.version_directive != NULL ||
            e->data.document_start.tag_directives.start !=
                e->data.document_start.tag_directives.end)
            return fail_at(r, e->start_mark, "YAML directives are not allowed");
        break;
    case YAML_ALIAS_EVENT:
        return fail_at(r, e->start_mark, "YAML aliases are not allowed");
    default:
        break;
    }
    if (anchor != NULL)
        return fail_at(r, e->start_mark, "YAML anchors are not allowed");
    if (tag != NULL)
        return fail_at(r, e->start_mark, "YAML tags are not allowed");
    return 0;
}

static int next(reader *r)
{
    yaml_event_delete(&r->event);
    if (!yaml_parser_parse(&r->parser, &r->event)) {
        const char *problem = r->parser.problem != NULL ? r->parser.problem : "broken YAML";
        return fail_at(r, r->parser.problem_mark, problem);
    }
    return refuse_features(r);
}

static int skip(reader *r, int events)
{
    while (events-- > 0) {
        if (next(r) < 0)
            return -1;
    }
    return 0;
}

static const char *scalar_text(const reader *r)
{
    return (const char *)r->event.data.scalar.value;
}

static bool is_plain(const reader *r)
{
    return r->event.data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
}

/* "limits:" with nothing behind it. */
static bool is_empty(const reader *r)
{
    return r->event.type == YAML_SCALAR_EVENT && is_plain(r) && r->event.data.scalar.length == 0;
}

static int read_scalar(reader *r, const box_config_key *key, const char *label, void *base)
{
    if (r->event.type != YAML_SCALAR_EVENT)
        (void)box_fail(r->err, BOX_VALIDATION, "%s: must be one value", label);
    else if (is_empty(r))
        (void)box_fail(r->err, BOX_VALIDATION, "%s: the value is missing", label);
    else if (box_config_set_scalar(key, label, scalar_text(r), !is_plain(r), base, r->err) == 0)
        return 0;
    return place_error(r, r->event.start_mark);
}

static int read_strings(reader *r, const box_config_key *key, const char *label, void *base)
{
    if (r->event.type != YAML_SEQUENCE_START_EVENT) {
        (void)box_fail(r->err, BOX_VALIDATION, "%s: must be a list of texts", label);
        return place_error(r, r->event.start_mark);
    }
    for (size_t i = 0; next(r) == 0; i++) {
        if (r->event.type == YAML_SEQUENCE_END_EVENT)
            return 0;
        note_item(r, label, i);
        if (r->event.type != YAML_SCALAR_EVENT || is_empty(r))
            (void)box_fail(r->err, BOX_VALIDATION, "%s: each entry must be one text", label);
        else if (box_config_add_string(key, label, scalar_text(r), base, r->err) == 0)
            continue;
        return place_error(r, r->event.start_mark);
    }
    return -1;
}

static int read_pair(reader *r, const box_config_key *key, const char *label, void *base)
{
    char name[PATH_BYTES];
    yaml_mark_t mark = r->event.start_mark;
    if (r->event.type != YAML_SCALAR_EVENT || r->event.data.scalar.length == 0 ||
        r->event.data.scalar.length >= sizeof name)
        (void)box_fail(r->err, BOX_VALIDATION, "%s: a name must be one short text", label);
    else if (box_config_get_pair(key, scalar_text(r), base) != NULL)
        (void)box_fail(r->err, BOX_VALIDATION, "%s.%.100s: is there twice", label, scalar_text(r));
    else {
        (void)snprintf(name, sizeof name, "%s", scalar_text(r)); /* length was checked */
        if (next(r) < 0)
            return -1;
        mark = r->event.start_mark;
        char path[2 * PATH_BYTES];
        (void)snprintf(path, sizeof path, "%.150s.%s", label, name); /* only for messages */
        note_place(r, path);
        if (r->event.type != YAML_SCALAR_EVENT || is_empty(r))
            (void)box_fail(r->err, BOX_VALIDATION, "%s.%.100s: must be one text", label, name);
        else if (box_config_put_pair(key, label, name, scalar_text(r), base, r->err) == 0)
            return 0;
    }
    return place_error(r, mark);
}

static int read_map(reader *r, const box_config_key *key, const char *label, void *base)
{
    if (is_empty(r))
        return 0;
    if (r->event.type != YAML_MAPPING_START_EVENT) {
        (void)box_fail(r->err, BOX_VALIDATION, "%s: must be a mapping of names to texts", label);
        return place_error(r, r->event.start_mark);
    }
    while (next(r) == 0) {
        if (r->event.type == YAML_MAPPING_END_EVENT)
            return 0;
        if (read_pair(r, key, label, base) < 0)
            return -1;
    }
    return -1;
}

static int read_mapping(reader *r, const scope *s, const char *prefix);

static int read_records(reader *r, const box_config_key *key, const char *label, void *base)
{
    if (r->event.type != YAML_SEQUENCE_START_EVENT) {
        (void)box_fail(r->err, BOX_VALIDATION, "%s: must be a list of mappings", label);
        return place_error(r, r->event.start_mark);
    }
    for (size_t i = 0; next(r) == 0; i++) {
        void *record;
        if (r->event.type == YAML_SEQUENCE_END_EVENT)
            return 0;
        if (r->event.type != YAML_MAPPING_START_EVENT) {
            (void)box_fail(r->err, BOX_VALIDATION, "%s: each entry must be a mapping", label);
            return place_error(r, r->event.start_mark);
        }
        if (box_config_add_record(key, label, base, &record, r->err) < 0)
            return place_error(r, r->event.start_mark);
        note_item(r, label, i);
        char inner[PATH_BYTES];
        (void)snprintf(inner, sizeof inner, "%.100s[%zu].", label, i); /* only for messages */
        BOX_AUTO(box_freep) bool *seen = box_alloc_array(2 * key->n_fields, sizeof *seen);
        scope s = {key->fields, key->n_fields, record, inner, seen};
        if (read_mapping(r, &s, "") < 0)
            return -1;
    }
    return -1;
}

static int read_value(reader *r, const box_config_key *key, const char *label, void *base)
{
    switch (key->type) {
    case BOX_CONFIG_STRINGS:
        return read_strings(r, key, label, base);
    case BOX_CONFIG_RECORDS:
        return read_records(r, key, label, base);
    case BOX_CONFIG_MAP:
        return read_map(r, key, label, base);
    default:
        return read_scalar(r, key, label, base);
    }
}

/* Index of the first key below the section `path`, or n_keys. */
static size_t find_section(const scope *s, const char *path)
{
    size_t len = strlen(path);
    size_t i = 0;
    while (i < s->n_keys &&
           (strncmp(s->keys[i].name, path, len) != 0 || s->keys[i].name[len] != '.'))
        i++;
    return i;
}

static int fail_key(reader *r, const scope *s, yaml_mark_t mark, const char *path, const char *what)
{
    (void)box_fail(r->err, BOX_VALIDATION, "%s%s: %s", s->label, path, what);
    return place_error(r, mark);
}

static int read_section(reader *r, const scope *s, const char *path)
{
    if (is_empty(r))
        return 0;
    if (r->event.type != YAML_MAPPING_START_EVENT)
        return fail_key(r, s, r->event.start_mark, path, "is a section: it needs keys below it");
    return read_mapping(r, s, path);
}

static int read_entry(reader *r, const scope *s, const char *prefix)
{
    char path[PATH_BYTES];
    yaml_mark_t mark = r->event.start_mark;
    if (r->event.type != YAML_SCALAR_EVENT)
        return fail_key(r, s, mark, prefix, "a key must be one text");
    int n =
        snprintf(path, sizeof path, "%s%s%s", prefix, prefix[0] != '\0' ? "." : "", scalar_text(r));
    /* A dot in a key would reach past its section. */
    bool known = n > 0 && (size_t)n < sizeof path && strchr(scalar_text(r), '.') == NULL;
    const box_config_key *key = known ? box_config_find(s->keys, s->n_keys, path) : NULL;
    size_t section = known && key == NULL ? find_section(s, path) : s->n_keys;
    if (key == NULL && section == s->n_keys)
        return fail_key(r, s, mark, path, "is not a key");
    if (key != NULL && key->type == BOX_CONFIG_NOT_BUILT) {
        (void)box_config_not_built(key, r->err);
        return place_error(r, mark);
    }
    bool *seen = key != NULL ? &s->seen[key - s->keys] : &s->seen[s->n_keys + section];
    if (*seen)
        return fail_key(r, s, mark, path, "is there twice");
    *seen = true;
    if (next(r) < 0)
        return -1;
    if (key == NULL)
        return read_section(r, s, path);
    char label[2 * PATH_BYTES];
    (void)snprintf(label, sizeof label, "%s%s", s->label, path); /* only for messages */
    note_place(r, label);
    return read_value(r, key, label, s->base);
}

/* The event is the mapping's start; ends at its end. */
static int read_mapping(reader *r, const scope *s, const char *prefix)
{
    while (next(r) == 0) {
        if (r->event.type == YAML_MAPPING_END_EVENT)
            return 0;
        if (read_entry(r, s, prefix) < 0)
            return -1;
    }
    return -1;
}

static int read_document(reader *r, const scope *s)
{
    if (skip(r, 2) < 0) /* the stream's start, then a document or the end */
        return -1;
    if (r->event.type == YAML_STREAM_END_EVENT)
        return 0;
    if (next(r) < 0)
        return -1;
    if (r->event.type == YAML_MAPPING_START_EVENT) {
        if (read_mapping(r, s, "") < 0)
            return -1;
    } else if (!is_empty(r)) {
        return fail_at(r, r->event.start_mark, "the file must be a mapping of keys to values");
    }
    if (skip(r, 2) < 0) /* the document's end, then the stream's */
        return -1;
    if (r->event.type != YAML_STREAM_END_EVENT)
        return fail_at(r, r->event.start_mark, "only one YAML document is allowed");
    return 0;
}

/* libyaml's reader reports bytes it refuses by their offset only: look for them first. */
static int check_characters(reader *r, const char *yaml, size_t len)
{
    size_t valid = box_utf8_valid_prefix(yaml, len);
    if (valid < len)
        return fail_at(r, mark_of(yaml, valid), "the text is not UTF-8");
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)yaml[i];
        if ((c < 0x20 && c != '\n' && c != '\r' && c != '\t') || c == 0x7f)
            return fail_at(r, mark_of(yaml, i), "control characters are not allowed");
    }
    return 0;
}

int box_config_read_yaml(const box_config_schema *schema, const char *yaml, size_t len, void *base,
                         box_config_origin *origin, box_error *err)
{
    reader r = {.origin = origin, .err = err};
    if (check_characters(&r, yaml, len) < 0)
        return -1;
    if (!yaml_parser_initialize(&r.parser))
        return box_fail(err, BOX_MEMORY_BUDGET, "out of memory");
    yaml_parser_set_encoding(&r.parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&r.parser, (const unsigned char *)yaml, len);
    BOX_AUTO(box_freep) bool *seen = box_alloc_array(2 * schema->n_keys, sizeof *seen);
    scope s = {schema->keys, schema->n_keys, base, "", seen};
    int rc = read_document(&r, &s);
    yaml_event_delete(&r.event);
    yaml_parser_delete(&r.parser);
    return rc;
}
