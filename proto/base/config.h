/* Strict configuration: one table of keys gives the struct, the YAML parser, environment overrides,
 * --print-config and the README section.
 *
 * The table says where each key lives in a plain struct. Parsing fails with "FILE:LINE:COLUMN: ..."
 * for an unknown key, a duplicate, a wrong type or unit, a value out of range, and (by name) for a
 * key whose feature is not built yet. Nothing is applied on failure.
 *
 *     static const box_config_key keys[] = {
 *         {"state_dir", BOX_CONFIG_STRING, offsetof(conf, state_dir), .text = "/var/lib/box",
 *          .help = "Directory of boxd's database, keys and sockets (mode 0700)."},
 *         {"limits.sessions", BOX_CONFIG_INT, offsetof(conf, max_sessions), .number = 10000, .min =
 * 1, .max = 1000000, .help = "Live sessions of all tenants."},
 *     };
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/error.h"

typedef enum box_config_type {
    BOX_CONFIG_STRING,   /* char *, owned by the struct */
    BOX_CONFIG_BOOL,     /* bool */
    BOX_CONFIG_INT,      /* int64_t */
    BOX_CONFIG_DURATION, /* uint64_t nanoseconds; 250ms, 30s, 5m, 1h, 2d; a bare number is refused
                          */
    BOX_CONFIG_BYTES,    /* int64_t; 512, 64KiB, 512MiB, 2GiB */
    BOX_CONFIG_ENUM,     /* int: index in `choices` */
    BOX_CONFIG_STRINGS,  /* box_config_strings */
    BOX_CONFIG_RECORDS,  /* box_config_records: a list of mappings with keys of their own */
    BOX_CONFIG_MAP,      /* box_config_records of {name, value} strings: a mapping with free keys */
    BOX_CONFIG_NOT_BUILT, /* refused by name when set; offset unused */
} box_config_type;

typedef struct box_config_strings {
    char **items;
    size_t count;
} box_config_strings;

/* `count` structs of the key's record_size, one after another. */
typedef struct box_config_records {
    void *items;
    size_t count;
} box_config_records;

/* For BOX_CONFIG_MAP: struct of one entry. */
typedef struct box_config_pair {
    char *name;
    char *value;
} box_config_pair;

typedef struct box_config_key {
    const char *name; /* dotted path: server.auth */
    box_config_type type;
    size_t offset;    /* in the struct, or in the record */
    const char *text; /* default of STRING and ENUM; NULL = absent (ENUM: first choice) */
    int64_t number;   /* default of BOOL, INT, BYTES, DURATION (nanoseconds) */
    int64_t min,
        max; /* range of INT, BYTES, DURATION; both 0 = none; STRINGS and RECORDS: max count */
    const char *const *choices;          /* ENUM: NULL-terminated */
    const struct box_config_key *fields; /* RECORDS: keys of one record */
    size_t n_fields;
    size_t record_size;
    const char *help; /* one sentence; for NOT_BUILT: what is missing */
} box_config_key;

/* Where loaded values came from. */
typedef struct box_config_origin box_config_origin;

typedef struct box_config_schema {
    const box_config_key *keys;
    size_t n_keys;
    size_t size;            /* of the struct */
    const char *env_prefix; /* "BOX": server.auth is overridden by BOX__SERVER__AUTH; NULL = none */
    /* First parts of keys that another program with the same prefix reads, NULL-ended, or NULL:
     * variables of these are left to it. */
    const char *const *foreign;
    /* The file must belong to root or to this process's user, and to nobody else for writing. */
    bool trusted_file;
    /* What a table cannot say, over the whole struct, which it may put into its final form. Fails
     * by box_config_bad. NULL = nothing. */
    int (*check)(void *conf, const box_config_origin *origin, const void *arg, box_error *err);
    const void *check_arg;
} box_config_schema;

/* For schema->check: VALIDATION "FILE:LINE:COLUMN: PATH: text", or with the environment variable
 * that set it; path as in "server.listen[0].address", "warden.NAME". Returns -1. */
int box_config_bad(const box_config_origin *origin, const char *path, box_error *err,
                   const char *fmt, ...) BOX_PRINTF(4, 5);

/* Fills *out (schema->size bytes) with defaults, then FILE's values (NULL = no file), then the
 * environment's (a variable with the prefix that names no key is an error; lists are
 * comma-separated; records cannot be set), then checks the whole. VALIDATION on failure; *out is
 * left alone. Free with box_config_done. */
int box_config_load(const box_config_schema *schema, const char *file, char *const *env, void *out,
                    box_error *err) BOX_MUST_USE;

/* The same from text; `name` stands for the file in messages. */
int box_config_parse(const box_config_schema *schema, const char *name, const char *yaml,
                     size_t len, char *const *env, void *out, box_error *err) BOX_MUST_USE;

void box_config_done(const box_config_schema *schema, void *conf);

/* Writes it as YAML with each key's help as a comment; parsing that gives the same values. */
int box_config_print(const box_config_schema *schema, const void *conf, FILE *to);

/* "30s" and "512MiB", also for command lines. */
int box_parse_duration(const char *text, uint64_t *out_ns, box_error *err) BOX_MUST_USE;
int box_parse_bytes(const char *text, int64_t *out, box_error *err) BOX_MUST_USE;
