/* JSON Schema (2020-12), as much of it as the schemas of our own tools use; a keyword outside that
 * is an error when the schema is registered, so that none is silently not looked at:
 *
 *     type (a name or a list of names; integer, number, string, boolean, object, array, null)
 *     properties, required, additionalProperties (a boolean or a schema), maxProperties
 *     items, minItems, maxItems, enum (of strings), minimum, maximum, minLength, maxLength
 *     description, default: for people and models */
#pragma once

#include <jansson.h>

#include "base/error.h"

/* Is it a schema of that subset, down to its leaves? INTERNAL: it is one of ours. */
int box_schema_check(const json_t *schema, box_error *err) BOX_MUST_USE;

/* Checks value against a schema that box_schema_check found good; err gets a violation for all that
 * is wrong, named by `path`, "path.key" and "path[3]". */
int box_schema_validate(const json_t *schema, const json_t *value, const char *path, box_error *err)
    BOX_MUST_USE;
