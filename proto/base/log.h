/* Structured log: an event name with typed fields, one write(2) a line, to standard error.
 *
 *     box_log(BOX_INFO, "exec.done", BOX_STR("session", id), BOX_INT("exit", code));
 *
 * Only server/ and tools log (and a warden's main loop), where the decision is taken, once. Client
 * strings are escaped; tokens, env values and command texts are never passed in. Any thread. */
#pragma once

#include <stdint.h>

#include "base/error.h"

typedef enum box_log_level { BOX_DEBUG, BOX_INFO, BOX_WARN, BOX_ERROR, BOX_LOG_OFF } box_log_level;
typedef enum box_log_format { BOX_LOG_TEXT, BOX_LOG_JSON } box_log_format;

typedef struct box_log_field {
    const char *key; /* NULL ends the list */
    enum { BOX_FIELD_STR, BOX_FIELD_INT } kind;
    const char *str; /* NULL is written as an empty string */
    int64_t num;
} box_log_field;

#define BOX_STR(k, v) ((box_log_field){.key = (k), .kind = BOX_FIELD_STR, .str = (v)})
#define BOX_INT(k, v) ((box_log_field){.key = (k), .kind = BOX_FIELD_INT, .num = (int64_t)(v)})
/* The two fields of an error: reason and text. */
#define BOX_ERR(e) BOX_STR("reason", box_reason_name((e)->reason)), BOX_STR("error", (e)->msg)

#define box_log(level, ...)                                                                        \
    box_log_write((level), BOX_LOG_FIRST(__VA_ARGS__, 0),                                          \
                  BOX_LOG_FIELDS(__VA_ARGS__, (box_log_field){0}))
#define BOX_LOG_FIRST(event, ...) (event)
#define BOX_LOG_FIELDS(event, ...)                                                                 \
    (const box_log_field[])                                                                        \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }

/* fields ends with a zeroed one. Lines longer than 4 KiB are cut. */
void box_log_write(box_log_level level, const char *event, const box_log_field *fields);

/* Set once by main, before threads start: the one process-wide setting there is. Default: INFO,
 * text. */
void box_log_setup(box_log_level level, box_log_format format);
