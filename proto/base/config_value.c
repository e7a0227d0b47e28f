/* Values of configuration keys: parsing one, collecting lists, defaults, freeing. */
#include <errno.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/config_impl.h"
#include "base/limits.h"

typedef struct unit {
    const char *suffix;
    uint64_t factor;
} unit;

/* Largest first, so that the first exact one is the shortest text. */
static const unit durations[] = {{"d", 86400 * BOX_SECOND},
                                 {"h", 3600 * BOX_SECOND},
                                 {"m", 60 * BOX_SECOND},
                                 {"s", BOX_SECOND},
                                 {"ms", BOX_MS},
                                 {"us", BOX_US},
                                 {"ns", 1}};
static const unit sizes[] = {{"TiB", UINT64_C(1) << 40},
                             {"GiB", UINT64_C(1) << 30},
                             {"MiB", UINT64_C(1) << 20},
                             {"KiB", UINT64_C(1) << 10},
                             {"", 1}};

/* Digits, then exactly one of the units; false for anything else and for more than INT64_MAX. */
static bool parse_quantity(const char *text, const unit *units, size_t n_units, uint64_t *out)
{
    size_t digits = strspn(text, "0123456789");
    if (digits == 0 || digits > 19)
        return false;
    uint64_t number = strtoull(text, NULL, 10); /* 19 digits fit 64 bits */
    for (size_t i = 0; i < n_units; i++) {
        if (strcmp(text + digits, units[i].suffix) != 0)
            continue;
        if (number > (uint64_t)INT64_MAX / units[i].factor)
            return false;
        *out = number * units[i].factor;
        return true;
    }
    return false;
}

static void quantity_text(uint64_t value, const unit *units, char out[BOX_CONFIG_NUMBER_TEXT])
{
    while (units->factor > 1 && (value == 0 || value % units->factor != 0))
        units++;
    (void)snprintf(out, BOX_CONFIG_NUMBER_TEXT, "%llu%s",
                   (unsigned long long)(value / units->factor), units->suffix);
}

int box_parse_duration(const char *text, uint64_t *out_ns, box_error *err)
{
    if (!parse_quantity(text, durations, BOX_COUNT(durations), out_ns))
        return box_fail(err, BOX_VALIDATION,
                        "\"%.40s\" is not a duration: a whole number with ms, s, m, h or d", text);
    return 0;
}

int box_parse_bytes(const char *text, int64_t *out, box_error *err)
{
    uint64_t value;
    if (!parse_quantity(text, sizes, BOX_COUNT(sizes), &value))
        return box_fail(err, BOX_VALIDATION,
                        "\"%.40s\" is not a size: a whole number of bytes, or with KiB, MiB, GiB "
                        "or TiB",
                        text);
    *out = (int64_t)value;
    return 0;
}

void box_config_duration_text(uint64_t ns, char out[BOX_CONFIG_NUMBER_TEXT])
{
    if (ns == 0)
        (void)snprintf(out, BOX_CONFIG_NUMBER_TEXT, "0s");
    else
        quantity_text(ns, durations, out);
}

void box_config_bytes_text(int64_t bytes, char out[BOX_CONFIG_NUMBER_TEXT])
{
    quantity_text((uint64_t)bytes, sizes, out);
}

static void number_text(box_config_type type, int64_t value, char out[BOX_CONFIG_NUMBER_TEXT])
{
    if (type == BOX_CONFIG_DURATION)
        box_config_duration_text((uint64_t)value, out);
    else if (type == BOX_CONFIG_BYTES)
        box_config_bytes_text(value, out);
    else
        (void)snprintf(out, BOX_CONFIG_NUMBER_TEXT, "%lld", (long long)value);
}

static int check_range(const box_config_key *key, const char *label, int64_t value, box_error *err)
{
    if ((key->min == 0 && key->max == 0) || (value >= key->min && value <= key->max))
        return 0;
    char low[BOX_CONFIG_NUMBER_TEXT];
    char high[BOX_CONFIG_NUMBER_TEXT];
    char is[BOX_CONFIG_NUMBER_TEXT];
    number_text(key->type, key->min, low);
    number_text(key->type, key->max, high);
    number_text(key->type, value, is);
    return box_fail(err, BOX_VALIDATION, "%s: %s is out of range, allowed are %s to %s", label, is,
                    low, high);
}

static int set_bool(const char *label, const char *text, bool quoted, bool *out, box_error *err)
{
    bool yes = strcmp(text, "true") == 0;
    if (quoted || (!yes && strcmp(text, "false") != 0))
        return box_fail(err, BOX_VALIDATION, "%s: must be true or false", label);
    *out = yes;
    return 0;
}

static int set_int(const box_config_key *key, const char *label, const char *text, bool quoted,
                   int64_t *out, box_error *err)
{
    size_t sign = text[0] == '-' ? 1 : 0;
    size_t digits = strspn(text + sign, "0123456789");
    if (quoted || digits == 0 || text[sign + digits] != '\0')
        return box_fail(err, BOX_VALIDATION, "%s: must be a whole number", label);
    errno = 0;
    long long value = strtoll(text, NULL, 10);
    if (errno != 0)
        return box_fail(err, BOX_VALIDATION, "%s: the number does not fit 64 bits", label);
    if (check_range(key, label, value, err) < 0)
        return -1;
    *out = value;
    return 0;
}

static int set_quantity(const box_config_key *key, const char *label, const char *text, void *at,
                        box_error *err)
{
    int64_t value = 0;
    uint64_t ns = 0;
    int rc = key->type == BOX_CONFIG_BYTES ? box_parse_bytes(text, &value, err)
                                           : box_parse_duration(text, &ns, err);
    if (rc < 0)
        return box_wrap(err, "%s", label);
    if (key->type == BOX_CONFIG_DURATION)
        value = (int64_t)ns;
    if (check_range(key, label, value, err) < 0)
        return -1;
    if (key->type == BOX_CONFIG_BYTES)
        *(int64_t *)at = value;
    else
        *(uint64_t *)at = ns;
    return 0;
}

static int choice_index(const box_config_key *key, const char *text)
{
    for (int i = 0; key->choices[i] != NULL; i++) {
        if (strcmp(key->choices[i], text) == 0)
            return i;
    }
    return -1;
}

static int set_enum(const box_config_key *key, const char *label, const char *text, int *out,
                    box_error *err)
{
    int i = choice_index(key, text);
    if (i >= 0) {
        *out = i;
        return 0;
    }
    char all[128] = "";
    for (size_t c = 0, used = 0; key->choices[c] != NULL && used < sizeof all; c++) {
        int n = snprintf(all + used, sizeof all - used, c == 0 ? "%s" : ", %s", key->choices[c]);
        used += n > 0 ? (size_t)n : 0;
    }
    return box_fail(err, BOX_VALIDATION, "%s: \"%.40s\" is not one of %s", label, text, all);
}

static int set_string(const char *label, const char *text, bool quoted, char **out, box_error *err)
{
    if (!quoted && (strcmp(text, "~") == 0 || strcmp(text, "null") == 0))
        return box_fail(err, BOX_VALIDATION, "%s: null is no text; leave the key out or quote it",
                        label);
    free(*out);
    *out = box_strdup(text);
    return 0;
}

int box_config_set_scalar(const box_config_key *key, const char *label, const char *text,
                          bool quoted, void *base, box_error *err)
{
    void *at = box_config_at(key, base);
    switch (key->type) {
    case BOX_CONFIG_STRING:
        return set_string(label, text, quoted, at, err);
    case BOX_CONFIG_BOOL:
        return set_bool(label, text, quoted, at, err);
    case BOX_CONFIG_INT:
        return set_int(key, label, text, quoted, at, err);
    case BOX_CONFIG_DURATION:
    case BOX_CONFIG_BYTES:
        return set_quantity(key, label, text, at, err);
    case BOX_CONFIG_ENUM:
        return set_enum(key, label, text, at, err);
    default:
        return box_fail(err, BOX_VALIDATION, "%s: one value is not enough, this key is a %s", label,
                        key->type == BOX_CONFIG_MAP ? "mapping" : "list");
    }
}

static size_t max_items(const box_config_key *key)
{
    return key->max > 0 ? (size_t)key->max : BOX_CONFIG_MAX_ITEMS;
}

static int check_count(const box_config_key *key, const char *label, size_t count, box_error *err)
{
    if (count < max_items(key))
        return 0;
    return box_fail(err, BOX_VALIDATION, "%s: at most %zu entries", label, max_items(key));
}

/* Config files are bounded in size, so this cannot ask for much. */
static void *grow(void *items, size_t count, size_t size)
{
    void *grown = realloc(items, (count + 1) * size);
    if (grown == NULL)
        abort();
    memset((char *)grown + count * size, 0, size);
    return grown;
}

int box_config_add_string(const box_config_key *key, const char *label, const char *text,
                          void *base, box_error *err)
{
    box_config_strings *list = box_config_at(key, base);
    if (check_count(key, label, list->count, err) < 0)
        return -1;
    list->items = grow(list->items, list->count, sizeof *list->items);
    list->items[list->count++] = box_strdup(text);
    return 0;
}

int box_config_add_record(const box_config_key *key, const char *label, void *base, void **record,
                          box_error *err)
{
    box_config_records *list = box_config_at(key, base);
    if (check_count(key, label, list->count, err) < 0)
        return -1;
    list->items = grow(list->items, list->count, key->record_size);
    *record = (char *)list->items + list->count * key->record_size;
    list->count++;
    box_config_set_defaults(key->fields, key->n_fields, *record);
    return 0;
}

static box_config_pair *find_pair(const box_config_records *map, const char *name)
{
    box_config_pair *pairs = map->items;
    for (size_t i = 0; i < map->count; i++) {
        if (strcmp(pairs[i].name, name) == 0)
            return &pairs[i];
    }
    return NULL;
}

const char *box_config_get_pair(const box_config_key *key, const char *name, void *base)
{
    const box_config_pair *pair = find_pair(box_config_at(key, base), name);
    return pair != NULL ? pair->value : NULL;
}

int box_config_put_pair(const box_config_key *key, const char *label, const char *name,
                        const char *value, void *base, box_error *err)
{
    box_config_records *map = box_config_at(key, base);
    box_config_pair *pair = find_pair(map, name);
    if (pair != NULL) {
        free(pair->value);
        pair->value = box_strdup(value);
        return 0;
    }
    if (check_count(key, label, map->count, err) < 0)
        return -1;
    map->items = grow(map->items, map->count, sizeof *pair);
    pair = (box_config_pair *)map->items + map->count++;
    *pair = (box_config_pair){.name = box_strdup(name), .value = box_strdup(value)};
    return 0;
}

void box_config_set_defaults(const box_config_key *keys, size_t n_keys, void *base)
{
    for (const box_config_key *k = keys; k < keys + n_keys; k++) {
        void *at = box_config_at(k, base);
        switch (k->type) {
        case BOX_CONFIG_STRING:
            *(char **)at = box_strdup_null(k->text);
            break;
        case BOX_CONFIG_BOOL:
            *(bool *)at = k->number != 0;
            break;
        case BOX_CONFIG_INT:
        case BOX_CONFIG_BYTES:
            *(int64_t *)at = k->number;
            break;
        case BOX_CONFIG_DURATION:
            *(uint64_t *)at = (uint64_t)k->number;
            break;
        case BOX_CONFIG_ENUM:
            *(int *)at = k->text != NULL ? choice_index(k, k->text) : 0;
            break;
        default: /* lists and maps start empty */
            break;
        }
    }
}

static void free_pairs(box_config_records *map)
{
    box_config_pair *pairs = map->items;
    for (size_t i = 0; i < map->count; i++) {
        free(pairs[i].name);
        free(pairs[i].value);
    }
}

void box_config_free_value(const box_config_key *key, void *base)
{
    void *at = box_config_at(key, base);
    if (key->type == BOX_CONFIG_STRING) {
        free(*(char **)at);
        *(char **)at = NULL;
    } else if (key->type == BOX_CONFIG_STRINGS) {
        box_config_strings *list = at;
        for (size_t i = 0; i < list->count; i++)
            free(list->items[i]);
        free(list->items);
        *list = (box_config_strings){0};
    } else if (key->type == BOX_CONFIG_RECORDS || key->type == BOX_CONFIG_MAP) {
        box_config_records *list = at;
        if (key->type == BOX_CONFIG_MAP)
            free_pairs(list);
        for (size_t i = 0; key->type == BOX_CONFIG_RECORDS && i < list->count; i++)
            box_config_free_values(key->fields, key->n_fields,
                                   (char *)list->items + i * key->record_size);
        free(list->items);
        *list = (box_config_records){0};
    }
}

void box_config_free_values(const box_config_key *keys, size_t n_keys, void *base)
{
    for (const box_config_key *k = keys; k < keys + n_keys; k++)
        box_config_free_value(k, base);
}
