/* For callers that take a project of their own machine into a sandbox, such as the folder of an MCP
 * server (box-behaviour.md, sections 13 and 15): where the project is, and what its paths are
 * called inside. Looks at files (stat, realpath), changes none. Texts that come out are the
 * caller's, to be freed with free(). */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "box/error.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The folder that holds everything a command line names: the deepest common parent of its words
 * that are absolute paths of existing files (a file counts by its folder, what lies in a virtual
 * environment's bin by the folder that holds the environment). What is the system's own (/usr,
 * /bin, /lib, /etc, /proc, /run, /var/lib and their like) does not count, and / is never one. Real:
 * without links. NULL when there is none. */
char *box_project_root(const char *const *argv, size_t argc);

/* "/home/me/project/.venv/bin/python3.11": the interpreter of a virtual environment called .venv,
 * venv, env or .env. By its name alone. */
bool box_project_is_venv_python(const char *path);

/* What an existing path at or below root (real, as from box_project_root) is called where root is
 * mounted as `mount`; NULL for any other path. Compared by what the path really is: one that leads
 * out by a link is no part of the project, /x/projects is not below /x/project. */
char *box_project_map(const char *path, const char *root, const char *mount);

/* A word of a command line for the inside: the interpreter of a virtual environment becomes
 * "python" (of the environment there), a path of the project its name inside, also behind "--x=",
 * anything else stays. Whole paths only: text that merely holds one is left alone. */
char *box_project_rewrite(const char *word, const char *root, const char *mount);

#ifdef __cplusplus
}
#endif
