/* Tools that look for files: glob and grep (box-behaviour.md, section 14, without its bugs). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "tool/file_run.h"
#include "tool/json.h"
#include "tool/tools.h"

/* Matches, and bytes of what a model is shown of them. */
enum { GLOB_MATCHES = 100, GREP_MATCHES = 200, SHOWN_BYTES = 50 * 1024 };

/* Directories nobody wants to look into. */
static void skip_directories(box_files_ask *ask)
{
    static const char *const names[] = {".git", "node_modules", "__pycache__", ".venv",
                                        "venv", ".tox",         "dist",        "build"};
    for (size_t i = 0; i < BOX_COUNT(names); i++)
        ask->skip[i] = (box_bytes){(const uint8_t *)names[i], strlen(names[i])};
    ask->head.n_skip = BOX_COUNT(names);
}

/* One more match has room; the first always has. */
static bool fits(const box_file_run *run, size_t more)
{
    size_t len = box_buf_len(&run->output);
    return len == 0 || len + more <= SHOWN_BYTES;
}

/* What every search answers; the output ends with what is missing. */
static json_t *end_search(box_file_run *run, const box_files_answer *a, bool all_fit)
{
    box_files_answer said = *a;
    if (!all_fit) {
        said.flags |= BOX_FILES_TRUNCATED;
        said.cut = BOX_FILES_CUT_BYTES;
    }
    const char *cut = box_file_cut_name(&said);
    if ((said.flags & BOX_FILES_TRUNCATED) != 0)
        box_file_say(run, "[more than this: cut by %s]\n", cut != NULL ? cut : "its size");
    return box_file_success(&said);
}

static void append(json_t *list, json_t *value)
{
    if (json_array_append(list, value) < 0)
        abort(); /* only without memory */
}

static void finish_glob(box_file_run *run, const box_files_answer *a, box_tool_result *r)
{
    json_t *matches = json_array();
    size_t n = json_array_size(run->infos), i;
    for (i = 0; i < n; i++) {
        json_t *path = json_object_get(json_array_get(run->infos, i), "path");
        if (!fits(run, json_string_length(path) + strlen("\n")))
            break;
        box_file_say_text(run, path);
        box_file_say(run, "\n");
        append(matches, path);
    }
    r->json = end_search(run, a, i == n);
    box_tool_set(r->json, "preview", box_json_buf(&run->output));
    box_tool_set(r->json, "matches", matches);
    box_tool_set(r->json, "total", json_integer(a->total));
}

/* The schema counts characters. */
static int check_bytes(const json_t *arguments, const char *name, size_t most, box_error *err)
{
    char field[64];
    (void)snprintf(field, sizeof field, "arguments.%s", name);
    if (box_file_argument(arguments, name).len <= most)
        return 0;
    return box_violation(err, field, "has more than %zu bytes", most);
}

static int start_glob(const box_tool_request *r, box_tool_done done, void *arg, box_tool_run **out,
                      box_error *err)
{
    if (check_bytes(r->arguments, "pattern", BOX_FILES_GLOB_BYTES, err) < 0)
        return -1;
    BOX_AUTO(box_freep) box_files_ask *ask = box_alloc(sizeof *ask);
    ask->head.op = BOX_FILES_GLOB;
    ask->head.permissions = -1;
    ask->head.max_items = GLOB_MATCHES;
    ask->head.time_ns = BOX_FILES_GREP_SECONDS * BOX_SECOND;
    ask->path = box_file_argument(r->arguments, "path");
    ask->pattern = box_file_argument(r->arguments, "pattern");
    skip_directories(ask);
    return box_file_run_start(r, ask, (box_file_run){.finish = finish_glob}, (box_bytes){0}, done,
                              arg, out, err);
}

static void finish_grep(box_file_run *run, const box_files_answer *a, box_tool_result *r)
{
    json_t *matches = json_array();
    size_t n = json_array_size(run->lines), i;
    for (i = 0; i < n; i++) {
        json_t *line = json_array_get(run->lines, i);
        const json_t *file = json_object_get(line, "file");
        const json_t *content = json_object_get(line, "content");
        char number[32];
        int digits =
            snprintf(number, sizeof number,
                     ":%lld:", (long long)json_integer_value(json_object_get(line, "line")));
        if (!fits(run, json_string_length(file) + (size_t)digits + json_string_length(content) +
                           strlen("\n")))
            break;
        box_file_say_text(run, file);
        box_file_say(run, "%s", number);
        box_file_say_text(run, content);
        box_file_say(run, "\n");
        append(matches, line);
    }
    r->json = end_search(run, a, i == n);
    box_tool_set(r->json, "total", json_integer((json_int_t)json_array_size(matches)));
    box_tool_set(r->json, "matches", matches);
    box_tool_set(r->json, "files_searched", json_integer(a->searched));
}

/* A pattern of a name alone is meant at any depth. */
static box_bytes anywhere(box_bytes include, box_buf *to)
{
    box_error err;
    if (include.len == 0 || memchr(include.data, '/', include.len) != NULL)
        return include;
    if (box_buf_add(to, "**/", 3, &err) < 0 || box_buf_add(to, include.data, include.len, &err) < 0)
        abort(); /* only without memory: it is short */
    return (box_bytes){box_buf_data(to), box_buf_len(to)};
}

static int start_grep(const box_tool_request *r, box_tool_done done, void *arg, box_tool_run **out,
                      box_error *err)
{
    int bad = check_bytes(r->arguments, "pattern", BOX_FILES_MAX_PATTERN, err);
    if ((bad | check_bytes(r->arguments, "include", BOX_FILES_GLOB_BYTES - strlen("**/"), err)) !=
        0)
        return -1;
    BOX_AUTO(box_freep) box_files_ask *ask = box_alloc(sizeof *ask);
    BOX_AUTO(box_buf_done) box_buf include = {.max_bytes = BOX_FILES_GLOB_BYTES};
    ask->head.op = BOX_FILES_GREP;
    ask->head.permissions = -1;
    ask->head.max_items = GREP_MATCHES;
    ask->head.max_bytes = BOX_FILES_DEFAULT_LINE_BYTES;
    ask->head.time_ns = BOX_FILES_GREP_SECONDS * BOX_SECOND;
    ask->path = box_file_argument(r->arguments, "path");
    ask->pattern = box_file_argument(r->arguments, "pattern");
    ask->include[0] = anywhere(box_file_argument(r->arguments, "include"), &include);
    ask->head.n_include = ask->include[0].len > 0 ? 1 : 0;
    skip_directories(ask);
    return box_file_run_start(r, ask, (box_file_run){.finish = finish_grep}, (box_bytes){0}, done,
                              arg, out, err);
}

/* --- the tools -------------------------------------------------------------------------------- */

#define WHERE                                                                                      \
    "\"path\":{\"type\":\"string\",\"maxLength\":4095,\"description\":\"Where to look; the "       \
    "workspace by default.\"}"

const box_tool box_search_tools[] = {
    {.name = "glob",
     .description = "Finds files by a pattern of their paths, the newest first, at most 100. `*` "
                    "and `?` stay within a name, `**` crosses directories: `**/*.py` is every "
                    "Python file. Directories such as .git and node_modules are left out.",
     .parameters = BOX_TOOL_OBJECT(
         "\"pattern\":{\"type\":\"string\",\"minLength\":1,\"maxLength\":1024}," WHERE,
         "\"pattern\""),
     .need = BOX_TOOL_READS,
     .start = start_glob},
    {.name = "grep",
     .description =
         "Finds lines of text files by a regular expression (PCRE), at most 200. include "
         "limits it to files of a pattern, such as *.py. Directories such as .git and "
         "node_modules are left out.",
     .parameters = BOX_TOOL_OBJECT(
         "\"pattern\":{\"type\":\"string\",\"minLength\":1,\"maxLength\":1024}," WHERE
         ",\"include\":{\"type\":\"string\",\"maxLength\":1024}",
         "\"pattern\""),
     .need = BOX_TOOL_READS,
     .start = start_grep},
};
const size_t box_n_search_tools = BOX_COUNT(box_search_tools);
