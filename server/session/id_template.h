/* Session ids from a template: text with names in braces, such as "{launcher_type}_{launcher_id}",
 * and the variables of one call (box-behaviour.md, section 12). `{{` and `}}` stand for a brace; a
 * name has letters, digits and `_`, nothing else: no attributes, indices or formats. What comes out
 * is used as it is, never squashed, so two different ids stay different. */
#pragma once

#include "base/error.h"
#include "base/limits.h"
#include "session/spec.h"

#define BOX_DEFAULT_ID_TEMPLATE "{launcher_type}_{launcher_id}"

typedef struct box_resolved_id {
    char id[BOX_MAX_ID_BYTES + 1];
    /* Names that stand as `unknown`, each once, in their order in the template: NUL-ended texts one
     * behind the other. They are shorter than what names them. */
    char unknown[BOX_MAX_ID_TEMPLATE_BYTES];
    size_t n_unknown;
} box_resolved_id;

/* template "" is BOX_DEFAULT_ID_TEMPLATE. A name without a variable: query_id `unknown`,
 * launcher_type `query`, launcher_id the query_id, sender_id the launcher_id, global `global`, any
 * other `unknown`. VALIDATION, with fields id_template and variables, for what is no template, too
 * much of it, or a result that is no session id (1 to BOX_MAX_ID_BYTES of printable UTF-8). */
int box_id_template_resolve(const char *template, const box_label *variables, size_t n_variables,
                            box_resolved_id *out, box_error *err) BOX_MUST_USE;
