/* The tools boxd has; registry.c adds them all. */
#pragma once

#include "tool/tool.h"

/* exec, python_executor, shell_executor */
extern const box_tool box_command_tools[];
extern const size_t box_n_command_tools;
/* read, write, edit */
extern const box_tool box_file_tools[];
extern const size_t box_n_file_tools;
/* glob, grep */
extern const box_tool box_search_tools[];
extern const size_t box_n_search_tools;
extern const box_tool box_file_operation;

/* The schema of an object with these properties, of which these are required. */
#define BOX_TOOL_OBJECT(properties, required)                                                      \
    "{\"type\":\"object\",\"properties\":{" properties "},\"required\":[" required                 \
    "],\"additionalProperties\":false}"
