/* What the files of box_config share; nobody else includes it. */
#pragma once

#include "base/config.h"

/* Where a key's value lives: in the struct, or in the record. */
static inline void *box_config_at(const box_config_key *key, void *base)
{
    return (char *)base + key->offset;
}

/* Sets STRING, BOOL, INT, DURATION, BYTES or ENUM from its text; `label` is the full path for
 * messages. Quoted text is no BOOL or INT. */
int box_config_set_scalar(const box_config_key *key, const char *label, const char *text,
                          bool quoted, void *base, box_error *err) BOX_MUST_USE;

/* Appends to a STRINGS value; a full list is an error. */
int box_config_add_string(const box_config_key *key, const char *label, const char *text,
                          void *base, box_error *err) BOX_MUST_USE;
/* Appends a record with its fields' defaults. */
int box_config_add_record(const box_config_key *key, const char *label, void *base, void **record,
                          box_error *err) BOX_MUST_USE;
/* Sets or replaces one entry of a MAP. */
int box_config_put_pair(const box_config_key *key, const char *label, const char *name,
                        const char *value, void *base, box_error *err) BOX_MUST_USE;
const char *box_config_get_pair(const box_config_key *key, const char *name, void *base);

void box_config_set_defaults(const box_config_key *keys, size_t n_keys, void *base);
void box_config_free_value(const box_config_key *key, void *base);
void box_config_free_values(const box_config_key *keys, size_t n_keys, void *base);

/* The row of exactly that path, or NULL. */
const box_config_key *box_config_find(const box_config_key *keys, size_t n_keys, const char *path);
int box_config_not_built(const box_config_key *key, box_error *err);

/* In the largest unit that is exact; parsing gives the same number. */
enum { BOX_CONFIG_NUMBER_TEXT = 32 };
void box_config_duration_text(uint64_t ns, char out[BOX_CONFIG_NUMBER_TEXT]);
void box_config_bytes_text(int64_t bytes, char out[BOX_CONFIG_NUMBER_TEXT]);

/* Zero is empty. */
typedef struct box_config_place box_config_place;
struct box_config_origin {
    const char *file; /* borrowed; NULL = none */
    box_config_place *newest;
};
/* Line and column count from 1. */
void box_config_origin_add(box_config_origin *o, const char *path, size_t line, size_t column);
/* variable: its first len bytes. */
void box_config_origin_add_variable(box_config_origin *o, const char *path, const char *variable,
                                    size_t len);
void box_config_origin_done(box_config_origin *o);

/* Applies YAML text to a struct that holds defaults; origin->file names it. */
int box_config_read_yaml(const box_config_schema *schema, const char *yaml, size_t len, void *base,
                         box_config_origin *origin, box_error *err) BOX_MUST_USE;
