/* The tools boxd has; registry.c adds them all. */
#pragma once

#include "tool/tool.h"

/* exec, python_executor, shell_executor */
extern const box_tool box_command_tools[];
extern const size_t box_n_command_tools;
/* read, write, edit, glob, grep */
extern const box_tool box_file_tools[];
extern const size_t box_n_file_tools;
extern const box_tool box_file_operation;
