/* Which tools a session offers a model, and how they behave there. Names only: what tools there are
 * is tool/'s. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct box_tool_setting {
    char *name;
    char *description;   /* instead of the tool's own; "" = that */
    uint64_t timeout_ns; /* of a call that names none; 0 = the session's */
} box_tool_setting;

/* Owned; zero is: none. */
typedef struct box_tool_choice {
    bool all; /* then there are no names */
    char **names;
    size_t n_names;
    box_tool_setting *settings; /* of different tools */
    size_t n_settings;
} box_tool_choice;

void box_tool_choice_done(box_tool_choice *c);
/* Deep; what *to had is freed. */
void box_tool_choice_set(box_tool_choice *to, const box_tool_choice *from);
bool box_tool_choice_has(const box_tool_choice *c, const char *tool);
/* NULL when there is none for it. */
const box_tool_setting *box_tool_choice_setting(const box_tool_choice *c, const char *tool);
/* About what it takes in memory. */
size_t box_tool_choice_bytes(const box_tool_choice *c);
