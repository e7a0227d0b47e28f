/* Patterns of names: `*` and `?` within a name, `[...]`, `{a,b}`, `**` for any number of
 * directories. One without a slash is for the last name of a path, at any depth. Matching costs at
 * most the product of both lengths for each alternative. */
#pragma once

#include "base/buf.h"
#include "base/error.h"
#include "base/limits.h"

enum { BOX_PATTERN_ALTERNATIVES = 64, BOX_PATTERN_BYTES = BOX_FILES_GLOB_BYTES };

typedef struct box_pattern {
    char *alternatives[BOX_PATTERN_ALTERNATIVES]; /* without braces */
    size_t count;
    bool whole; /* has a slash: for the whole path */
} box_pattern;

/* VALIDATION: empty, too long, too many alternatives. */
int box_pattern_init(box_pattern *p, box_bytes text, box_error *err) BOX_MUST_USE;
void box_pattern_done(box_pattern *p);
/* path is relative, without "." and "..". */
bool box_pattern_matches(const box_pattern *p, const char *path);
