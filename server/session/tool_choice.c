#include "session/tool_choice.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

void box_tool_choice_done(box_tool_choice *c)
{
    for (size_t i = 0; i < c->n_names; i++)
        free(c->names[i]);
    for (size_t i = 0; i < c->n_settings; i++) {
        free(c->settings[i].name);
        free(c->settings[i].description);
    }
    free(c->names);
    free(c->settings);
    *c = (box_tool_choice){0};
}

void box_tool_choice_set(box_tool_choice *to, const box_tool_choice *from)
{
    box_tool_choice copy = {.all = from->all};
    if (from->n_names > 0)
        copy.names = box_alloc_array(from->n_names, sizeof *copy.names);
    for (; copy.n_names < from->n_names; copy.n_names++)
        copy.names[copy.n_names] = box_strdup(from->names[copy.n_names]);
    if (from->n_settings > 0)
        copy.settings = box_alloc_array(from->n_settings, sizeof *copy.settings);
    for (; copy.n_settings < from->n_settings; copy.n_settings++) {
        const box_tool_setting *s = &from->settings[copy.n_settings];
        copy.settings[copy.n_settings] =
            (box_tool_setting){box_strdup(s->name), box_strdup(s->description), s->timeout_ns};
    }
    box_tool_choice_done(to);
    *to = copy;
}

bool box_tool_choice_has(const box_tool_choice *c, const char *tool)
{
    for (size_t i = 0; i < c->n_names; i++) {
        if (strcmp(c->names[i], tool) == 0)
            return true;
    }
    return c->all;
}

const box_tool_setting *box_tool_choice_setting(const box_tool_choice *c, const char *tool)
{
    for (size_t i = 0; i < c->n_settings; i++) {
        if (strcmp(c->settings[i].name, tool) == 0)
            return &c->settings[i];
    }
    return NULL;
}

size_t box_tool_choice_bytes(const box_tool_choice *c)
{
    size_t bytes = c->n_names * (sizeof(char *) + 32) + c->n_settings * sizeof *c->settings;
    for (size_t i = 0; i < c->n_settings; i++)
        bytes += 64 + strlen(c->settings[i].description);
    return bytes;
}
