/* Where loaded values stood, so that what is found wrong later is reported at its place. */
#include <stdarg.h>

#include "base/alloc.h"
#include "base/config_impl.h"

/* One key, entry of a list or name of a map. */
struct box_config_place {
    box_config_place *older;
    char *variable; /* of the environment; NULL: it stood in the file */
    size_t line, column;
    char path[];
};

static box_config_place *add(box_config_origin *o, const char *path)
{
    size_t size = strlen(path) + 1;
    box_config_place *p = box_alloc(sizeof *p + size);
    memcpy(p->path, path, size);
    p->older = o->newest;
    o->newest = p;
    return p;
}

void box_config_origin_add(box_config_origin *o, const char *path, size_t line, size_t column)
{
    box_config_place *p = add(o, path);
    p->line = line;
    p->column = column;
}

void box_config_origin_add_variable(box_config_origin *o, const char *path, const char *variable,
                                    size_t len)
{
    box_config_place *p = add(o, path);
    p->variable = box_alloc(len + 1);
    memcpy(p->variable, variable, len);
}

void box_config_origin_done(box_config_origin *o)
{
    while (o->newest != NULL) {
        box_config_place *p = o->newest;
        o->newest = p->older;
        free(p->variable);
        free(p);
    }
}

static bool is_at_or_above(const box_config_place *p, const char *path)
{
    size_t len = strlen(p->path);
    return strncmp(p->path, path, len) == 0 && (path[len] == '\0' || strchr(".[", path[len]));
}

/* What holds a key is read before the key, and the environment last: the newest is the nearest. */
static const box_config_place *find(const box_config_origin *o, const char *path)
{
    const box_config_place *p = o->newest;
    while (p != NULL && !is_at_or_above(p, path))
        p = p->older;
    return p;
}

int box_config_bad(const box_config_origin *o, const char *path, box_error *err, const char *fmt,
                   ...)
{
    char text[BOX_ERROR_MSG];
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    (void)box_fail(err, BOX_VALIDATION, "%s: %s", path, text);
    const box_config_place *p = find(o, path);
    if (p == NULL)
        return o->file != NULL ? box_wrap(err, "%s", o->file) : -1;
    if (p->variable != NULL)
        return box_wrap(err, "environment variable %.80s", p->variable);
    return box_wrap(err, "%s:%zu:%zu", o->file, p->line, p->column);
}
