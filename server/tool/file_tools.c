/* Tools on files: read, write and edit (box-behaviour.md, section 14, without its
 * bugs). The sandbox's own file workers do the work, with the eyes and rights of its user. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "tool/file_run.h"
#include "tool/json.h"
#include "tool/tools.h"
#include "wire/codec.h"

enum { READ_BYTES = BOX_FILES_DEFAULT_READ_BYTES };

static const json_t *argument(const json_t *arguments, const char *name)
{
    return json_object_get(arguments, name);
}

/* The schema has seen to its bounds. */
static int64_t number(const json_t *arguments, const char *name, int64_t standard)
{
    const json_t *v = argument(arguments, name);
    return v != NULL ? (int64_t)json_number_value(v) : standard;
}

static bool is(const json_t *arguments, const char *name, const char *value)
{
    const char *text = json_string_value(argument(arguments, name));
    return text != NULL && strcmp(text, value) == 0;
}

static json_t *text_of(const box_buf *b)
{
    return box_json_text(box_buf_len(b) > 0 ? (const char *)box_buf_data(b) : "", box_buf_len(b));
}

/* The path that was asked for, as it was found. */
static json_t *path_of(const box_file_run *run)
{
    const json_t *path = json_object_get(json_array_get(run->infos, 0), "path");
    return path != NULL ? json_incref((json_t *)(uintptr_t)path) : json_null();
}

static int64_t info_number(const box_file_run *run, const char *key)
{
    return json_integer_value(json_object_get(json_array_get(run->infos, 0), key));
}

/* --- read ------------------------------------------------------------------------------------- */

static json_t *number_or_null(int64_t n)
{
    return n > 0 ? json_integer(n) : json_null();
}

static void finish_directory(box_file_run *run, const box_files_answer *a, box_tool_result *r)
{
    r->json = box_file_success(a);
    json_t *content = text_of(&run->data);
    box_file_say_text(run, content);
    if ((a->flags & BOX_FILES_PAST_END) != 0)
        box_file_say(run, "[past the end: the directory has %lld names]", (long long)a->total);
    if (a->next_line > 0)
        box_file_say(run, "\n[names %lld to %lld of %lld; go on with offset %lld]",
                     (long long)a->start_line, (long long)a->end_line, (long long)a->total,
                     (long long)a->next_line);
    box_tool_set(r->json, "content", content);
    box_tool_set(r->json, "is_directory", json_true());
    box_tool_set(r->json, "total", json_integer(a->total));
    box_tool_set(r->json, "next_offset", number_or_null(a->next_line));
}

/* What a model has to know besides the text. */
static void say_window(box_file_run *run, const box_files_answer *a)
{
    if ((a->flags & BOX_FILES_PAST_END) != 0)
        box_file_say(run, "[past the end: the file has %lld lines]", (long long)a->total_lines);
    if ((a->flags & BOX_FILES_IS_BINARY) != 0)
        box_file_say(run, "\n[this looks like no text: encoding base64 reads it byte for byte]");
    if (a->next_line > 0)
        box_file_say(run, "\n[lines %lld to %lld; go on with offset %lld]",
                     (long long)a->start_line, (long long)a->end_line, (long long)a->next_line);
    else if (a->next_offset > 0)
        box_file_say(run, "\n[cut inside line %lld; go on with byte_offset %lld]",
                     (long long)a->end_line, (long long)a->next_offset);
}

static void finish_text(box_file_run *run, const box_files_answer *a, box_tool_result *r)
{
    json_t *j = r->json = box_file_success(a);
    json_t *content = text_of(&run->data);
    box_file_say_text(run, content);
    say_window(run, a);
    box_tool_set(j, "content", content);
    box_tool_set(j, "start_line", json_integer(a->start_line));
    box_tool_set(j, "end_line", json_integer(a->end_line));
    box_tool_set(j, "next_offset", number_or_null(a->next_line));
    box_tool_set(j, "next_byte_offset", number_or_null(a->next_offset));
    box_tool_set(j, "total_lines",
                 a->total_lines >= 0 ? json_integer(a->total_lines) : json_null());
    box_tool_set(j, "past_end", json_boolean((a->flags & BOX_FILES_PAST_END) != 0));
    box_tool_set(j, "binary", json_boolean((a->flags & BOX_FILES_IS_BINARY) != 0));
    box_tool_set(j, "max_lines",
                 json_integer(number(run->arguments, "limit", BOX_FILES_DEFAULT_LINES)));
    box_tool_set(j, "max_bytes", json_integer(number(run->arguments, "max_bytes", READ_BYTES)));
}

/* With the padding that gRPC's own has not. */
static void encode(const box_buf *data, box_buf *out)
{
    box_error err;
    if (box_base64_encode(box_buf_data(data), box_buf_len(data), out, &err) < 0)
        abort(); /* only without memory: READ_BYTES are read */
    while (box_buf_len(out) % 4 != 0) {
        if (box_buf_add(out, "=", 1, &err) < 0)
            abort(); /* the same */
    }
}

static void finish_base64(box_file_run *run, const box_files_answer *a, box_tool_result *r)
{
    BOX_AUTO(box_buf_done) box_buf encoded = {0};
    json_t *j = r->json = box_file_success(a);
    encode(&run->data, &encoded);
    json_t *content = text_of(&encoded);
    box_file_say_text(run, content);
    box_tool_set(j, "content", content);
    box_tool_set(j, "encoding", json_string("base64"));
    box_tool_set(j, "byte_offset", json_integer(a->offset));
    box_tool_set(j, "length", json_integer((json_int_t)box_buf_len(&run->data)));
    box_tool_set(j, "size_bytes", json_integer(info_number(run, "size")));
    box_tool_set(j, "has_more", json_boolean(a->next_offset > 0));
    box_tool_set(j, "next_byte_offset", number_or_null(a->next_offset));
    box_tool_set(j, "max_bytes", json_integer(number(run->arguments, "max_bytes", READ_BYTES)));
}

static void finish_read(box_file_run *run, const box_files_answer *a, box_tool_result *r)
{
    if (info_number(run, "kind") == BOX_FILES_DIRECTORY)
        finish_directory(run, a, r);
    else if (is(run->arguments, "encoding", "base64"))
        finish_base64(run, a, r);
    else
        finish_text(run, a, r);
}

static int start_read(const box_tool_request *r, box_tool_done done, void *arg, box_tool_run **out,
                      box_error *err)
{
    BOX_AUTO(box_freep) box_files_ask *ask = box_alloc(sizeof *ask);
    box_files_ask_head *h = &ask->head;
    bool text = !is(r->arguments, "encoding", "base64");
    bool by_offset = argument(r->arguments, "byte_offset") != NULL;
    if (by_offset && argument(r->arguments, "offset") != NULL)
        return box_violation(err, "arguments.byte_offset", "must not stand beside offset");
    h->op = BOX_FILES_READ;
    h->permissions = -1;
    h->flags = (text ? BOX_FILES_TEXT : 0) | (text && by_offset ? BOX_FILES_BY_OFFSET : 0);
    h->start_line = number(r->arguments, "offset", 1);
    h->max_items = number(r->arguments, "limit", BOX_FILES_DEFAULT_LINES);
    h->max_bytes = number(r->arguments, "max_bytes", READ_BYTES);
    h->offset = number(r->arguments, "byte_offset", 0);
    ask->path = box_file_argument(r->arguments, "path");
    return box_file_run_start(r, ask, (box_file_run){.finish = finish_read}, (box_bytes){0}, done,
                              arg, out, err);
}

/* --- write ------------------------------------------------------------------------------------ */

static void finish_write(box_file_run *run, const box_files_answer *a, box_tool_result *r)
{
    bool created = (a->flags & BOX_FILES_CREATED) != 0;
    json_t *path = path_of(run);
    r->json = json_object();
    box_tool_set(r->json, "ok", json_true());
    box_tool_set(r->json, "path", path);
    box_tool_set(r->json, "created", json_boolean(created));
    box_tool_set(r->json, "size_bytes", json_integer(info_number(run, "size")));
    box_file_say(run, "%s %s: %lld bytes", created ? "created" : "wrote", json_string_value(path),
                 (long long)info_number(run, "size"));
}

static int start_write(const box_tool_request *r, box_tool_done done, void *arg, box_tool_run **out,
                       box_error *err)
{
    BOX_AUTO(box_freep) box_files_ask *ask = box_alloc(sizeof *ask);
    BOX_AUTO(box_buf_done) box_buf decoded = {0};
    box_bytes content = box_file_argument(r->arguments, "content");
    if (is(r->arguments, "encoding", "base64")) {
        if (box_base64_decode((const char *)content.data, content.len, &decoded, err) < 0) {
            *err = (box_error){0};
            return box_violation(err, "arguments.content", "is not base64");
        }
        content = (box_bytes){box_buf_data(&decoded), box_buf_len(&decoded)};
    }
    ask->head.op = BOX_FILES_PUT;
    ask->head.permissions = -1;
    ask->head.flags = BOX_FILES_PARENTS |
                      (is(r->arguments, "mode", "append") ? BOX_FILES_APPEND : BOX_FILES_REPLACE);
    ask->path = box_file_argument(r->arguments, "path");
    return box_file_run_start(r, ask, (box_file_run){.finish = finish_write}, content, done, arg,
                              out, err);
}

/* --- edit ------------------------------------------------------------------------------------- */

static void finish_edit(box_file_run *run, const box_files_answer *a, box_tool_result *r)
{
    json_t *diff = text_of(&run->data);
    r->json = json_object();
    box_tool_set(r->json, "ok", json_true());
    box_tool_set(r->json, "path", path_of(run));
    box_tool_set(r->json, "replacements", json_integer(a->total));
    box_file_say_text(run, diff);
    box_tool_set(r->json, "diff", diff);
}

static int start_edit(const box_tool_request *r, box_tool_done done, void *arg, box_tool_run **out,
                      box_error *err)
{
    BOX_AUTO(box_freep) box_files_ask *ask = box_alloc(sizeof *ask);
    ask->head.op = BOX_FILES_EDIT;
    ask->head.permissions = -1;
    ask->head.n_edits = 1;
    ask->edits[0] = (box_files_edit){.old_data = box_file_argument(r->arguments, "old_string"),
                                     .new_data = box_file_argument(r->arguments, "new_string"),
                                     .all = json_is_true(argument(r->arguments, "replace_all"))};
    ask->path = box_file_argument(r->arguments, "path");
    return box_file_run_start(r, ask, (box_file_run){.finish = finish_edit}, (box_bytes){0}, done,
                              arg, out, err);
}

/* --- the tools -------------------------------------------------------------------------------- */

#define MOST            "1000000000000000" /* 10^15: more than any file has, and exact as a double */
#define TEXT(name, doc) "\"" name "\":{\"type\":\"string\",\"description\":\"" doc "\"}"
#define PATH                                                                                       \
    "\"path\":{\"type\":\"string\",\"minLength\":1,\"maxLength\":4095,\"description\":\"A path "   \
    "in "                                                                                          \
    "the sandbox, absolute or below the workspace.\"}"
#define ENCODING "\"encoding\":{\"type\":\"string\",\"enum\":[\"text\",\"base64\"]}"

const box_tool box_file_tools[] = {
    {.name = "read",
     .description = "Reads a file of the sandbox, by lines or (encoding base64) by bytes, or lists "
                    "the names in a directory. What does not fit is said, and where to go on.",
     .parameters = BOX_TOOL_OBJECT(
         PATH ",\"offset\":{\"type\":\"integer\",\"minimum\":1,\"maximum\":" MOST
              ",\"description\":\"First line, from "
              "1.\"},\"limit\":{\"type\":\"integer\",\"minimum\":1,\"maximum\":10000,"
              "\"description\":\"Most lines; 2000 by default.\"},"
              "\"max_bytes\":{\"type\":\"integer\",\"minimum\":1,\"maximum\":51200},"
              "\"byte_offset\":{\"type\":\"integer\",\"minimum\":0,\"maximum\":" MOST
              ",\"description\":\"First byte, "
              "instead of offset.\"}," ENCODING,
         "\"path\""),
     .need = BOX_TOOL_READS,
     .start = start_read},
    {.name = "write",
     .description = "Writes a file of the sandbox, whole or (mode append) behind what is there; "
                    "missing directories are made.",
     .parameters = BOX_TOOL_OBJECT(
         PATH "," TEXT("content",
                       "What to write.") "," ENCODING
                                         ",\"mode\":{\"type\":\"string\",\"enum\":[\"overwrite\","
                                         "\"append\"]}",
         "\"path\",\"content\""),
     .need = BOX_TOOL_WRITES,
     .start = start_write},
    {.name = "edit",
     .description = "Replaces a text in a file of the sandbox. It must occur exactly once, or "
                    "replace_all must be true. Answers the difference.",
     .parameters = BOX_TOOL_OBJECT(
         PATH
         ",\"old_string\":{\"type\":\"string\",\"minLength\":1,\"description\":\"The text as "
         "it stands in the file.\"}," TEXT(
             "new_string", "What comes in its place.") ","
                                                       "\"replace_all\":{\"type\":\"boolean\"}",
         "\"path\",\"old_string\",\"new_string\""),
     .need = BOX_TOOL_WRITES,
     .start = start_edit},
};
const size_t box_n_file_tools = BOX_COUNT(box_file_tools);
