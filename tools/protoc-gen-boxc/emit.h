/* Writing generated text: templates with $names$. */
#pragma once

#include "base/buf.h"

typedef struct emit_var {
    const char *name;
    const char *value;
} emit_var;

/* Text being written. The first failure sticks: check `failed` once at the end. */
typedef struct emitter {
    box_buf text;
    box_error err;
    bool failed;
} emitter;

void emit_init(emitter *e);
void emit_done(emitter *e);

/* Appends the template with each $name$ replaced by its variable; vars ends with a NULL name. A
 * name that is not there is a mistake of ours (assert). */
void emit(emitter *e, const emit_var *vars, const char *template_text);
/* As it is. */
void emit_text(emitter *e, const char *text);
void emit_bytes(emitter *e, const void *data, size_t len);
