#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/limits.h"
#include "tool/json.h"
#include "tool/schema.h"
#include "tool/tool.h"
#include "tool/tools.h"

typedef struct entry {
    const box_tool *tool;
    json_t *parameters; /* owned */
} entry;

struct box_tools {
    entry entries[BOX_MAX_TOOLS]; /* by name */
    size_t n;
};

box_tools *box_tools_new(void)
{
    return box_alloc(sizeof(box_tools));
}

void box_tools_free(box_tools *tools)
{
    if (tools == NULL)
        return;
    for (size_t i = 0; i < tools->n; i++)
        json_decref(tools->entries[i].parameters);
    free(tools);
}

/* Where a tool of that name is or would stand. */
static size_t place_of(const box_tools *tools, const char *name)
{
    size_t i = 0;
    while (i < tools->n && strcmp(tools->entries[i].tool->name, name) < 0)
        i++;
    return i;
}

static bool is_name(const char *name)
{
    size_t len = strlen(name);
    return len > 0 && len <= 64 && strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_") == len;
}

const box_tool *box_tools_find(const box_tools *tools, const char *name)
{
    size_t i = place_of(tools, name);
    bool found = i < tools->n && strcmp(tools->entries[i].tool->name, name) == 0;
    return found ? tools->entries[i].tool : NULL;
}

int box_tools_add(box_tools *tools, const box_tool *tool, box_error *err)
{
    if (!is_name(tool->name) || tool->description[0] == '\0')
        return box_fail(err, BOX_INTERNAL, "a tool needs a name of a-z, 0-9 and _, and a text");
    if (box_tools_find(tools, tool->name) != NULL)
        return box_fail(err, BOX_INTERNAL, "there are two tools called %s", tool->name);
    if (tools->n == BOX_COUNT(tools->entries))
        return box_fail(err, BOX_INTERNAL, "more than %d tools", BOX_MAX_TOOLS);
    BOX_AUTO(box_json_freep) json_t *parameters = NULL;
    if (box_json_object(tool->parameters, strlen(tool->parameters), "parameters", &parameters,
                        err) < 0 ||
        box_schema_check(parameters, err) < 0) {
        err->reason = BOX_INTERNAL; /* no caller's fault */
        return box_wrap(err, "tool %s", tool->name);
    }
    size_t at = place_of(tools, tool->name);
    memmove(&tools->entries[at + 1], &tools->entries[at],
            (tools->n - at) * sizeof tools->entries[0]);
    tools->entries[at] = (entry){tool, box_take(parameters)};
    tools->n++;
    return 0;
}

/* The i-th of all sets; NULL past the last. */
static const box_tool *own(size_t i)
{
    const struct {
        const box_tool *tools;
        size_t n;
    } sets[] = {{box_command_tools, box_n_command_tools},
                {box_file_tools, box_n_file_tools},
                {box_search_tools, box_n_search_tools},
                {&box_file_operation, 1}};
    for (size_t s = 0; s < BOX_COUNT(sets); s++) {
        if (i < sets[s].n)
            return &sets[s].tools[i];
        i -= sets[s].n;
    }
    return NULL;
}

int box_tools_add_own(box_tools *tools, box_error *err)
{
    const box_tool *t;
    for (size_t i = 0; (t = own(i)) != NULL; i++) {
        if (box_tools_add(tools, t, err) < 0)
            return -1;
    }
    return 0;
}

bool box_tool_is_own(const char *name)
{
    const box_tool *t;
    for (size_t i = 0; (t = own(i)) != NULL; i++) {
        if (strcmp(t->name, name) == 0)
            return true;
    }
    return false;
}

size_t box_tools_count(const box_tools *tools)
{
    return tools->n;
}

const box_tool *box_tools_at(const box_tools *tools, size_t i)
{
    return tools->entries[i].tool;
}

static json_t *parameters_of(const box_tools *tools, const box_tool *tool)
{
    return tools->entries[place_of(tools, tool->name)].parameters;
}

char *box_tools_definition(const box_tools *tools, const box_tool *tool, const char *description)
{
    json_t *d =
        json_pack("{s:s, s:{s:s, s:s, s:O}}", "type", "function", "function", "name", tool->name,
                  "description", description != NULL ? description : tool->description,
                  "parameters", parameters_of(tools, tool));
    char *text = box_json_print(d);
    json_decref(d);
    return text;
}

int box_tools_start(const box_tools *tools, const box_tool *tool, const box_tool_request *r,
                    box_tool_done done, void *arg, box_tool_run **out, box_error *err)
{
    if (box_schema_validate(parameters_of(tools, tool), r->arguments, "arguments", err) < 0)
        return -1;
    return tool->start(r, done, arg, out, err);
}

void box_tool_cancel(box_tool_run *run)
{
    if (run != NULL)
        run->cancel(run);
}
