#include "emit.h"

#include <assert.h>

enum { MAX_FILE_BYTES = 64 * 1024 * 1024 };

void emit_init(emitter *e)
{
    *e = (emitter){0};
    box_buf_init(&e->text, MAX_FILE_BYTES);
}

void emit_done(emitter *e)
{
    box_buf_done(&e->text);
}

void emit_bytes(emitter *e, const void *data, size_t len)
{
    if (!e->failed && box_buf_add(&e->text, data, len, &e->err) < 0)
        e->failed = true;
}

void emit_text(emitter *e, const char *text)
{
    emit_bytes(e, text, strlen(text));
}

static const char *find_var(const emit_var *vars, const char *name, size_t len)
{
    for (; vars->name != NULL; vars++) {
        if (strlen(vars->name) == len && memcmp(vars->name, name, len) == 0)
            return vars->value;
    }
    return NULL;
}

void emit(emitter *e, const emit_var *vars, const char *template_text)
{
    const char *at = template_text;
    for (const char *dollar; (dollar = strchr(at, '$')) != NULL;) {
        const char *end = strchr(dollar + 1, '$');
        assert(end != NULL);
        const char *value = find_var(vars, dollar + 1, (size_t)(end - dollar - 1));
        assert(value != NULL);
        emit_bytes(e, at, (size_t)(dollar - at));
        emit_text(e, value);
        at = end + 1;
    }
    emit_text(e, at);
}
