/* The tool file_operation (enclave.md, section 3): one call for simple things, and its own shape of
 * results. */
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "tool/file_run.h"
#include "tool/json.h"
#include "tool/tools.h"

enum { READ_BYTES = 1024 * 1024, LIST_ENTRIES = 1000 };

static json_t *shape(const box_file_run *run, const char *status, json_t *output, json_t *error)
{
    double seconds = (double)(box_now() - run->began) / (double)BOX_SECOND;
    json_t *j = json_object();
    box_tool_set(j, "tool_name", json_string("file_operation"));
    box_tool_set(j, "status", json_string(status));
    box_tool_set(j, "output", output);
    box_tool_set(j, "error", error);
    box_tool_set(j, "metadata", json_object());
    box_tool_set(j, "execution_time", json_real(seconds));
    box_tool_set(j, "timestamp", box_json_now());
    return j;
}

static bool is(const box_file_run *run, const char *operation)
{
    return strcmp(run->operation, operation) == 0;
}

static json_t *refuse(const box_file_run *run, const char *error)
{
    return shape(run, "error", json_string(""), json_string(error));
}

static void say_entry(box_file_run *run, const json_t *info)
{
    static const char marks[] = "?-dlpsb"; /* by box_files_kind */
    char when[32] = "-";
    struct tm tm;
    time_t modified = (time_t)json_integer_value(json_object_get(info, "modified"));
    size_t kind = (size_t)json_integer_value(json_object_get(info, "kind"));
    if (gmtime_r(&modified, &tm) != NULL &&
        strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%SZ", &tm) == 0)
        when[0] = '\0';
    box_file_say(run, "%c %12lld %s %s\n", kind < strlen(marks) ? marks[kind] : '?',
                 (long long)json_integer_value(json_object_get(info, "size")), when,
                 json_string_value(json_object_get(info, "path")));
}

static void write_output(box_file_run *run, const box_files_answer *a)
{
    size_t i;
    json_t *info;
    if (is(run, "read")) {
        BOX_AUTO(box_json_freep) json_t *text =
            box_json_text(box_buf_len(&run->data) > 0 ? (const char *)box_buf_data(&run->data) : "",
                          box_buf_len(&run->data));
        box_error err;
        if (box_buf_add(&run->output, json_string_value(text), json_string_length(text), &err) < 0)
            abort(); /* only without memory: READ_BYTES are read */
        if (a->next_offset > 0)
            box_file_say(run, "\n[cut: only the first %d bytes]", READ_BYTES);
    } else if (is(run, "list")) {
        json_array_foreach(run->infos, i, info)
        {
            say_entry(run, info);
        }
        if ((a->flags & BOX_FILES_TRUNCATED) != 0)
            box_file_say(run, "[cut: only the first %zu entries]\n", json_array_size(run->infos));
    } else if (is(run, "exists")) {
        box_file_say(run, "exists");
    } else {
        box_file_say(run, "%s: done", run->operation);
    }
}

static void finish(box_file_run *run, const box_files_answer *a, box_tool_result *r)
{
    write_output(run, a);
    r->json =
        shape(run, "success", box_json_text(box_buf_data(&run->output), box_buf_len(&run->output)),
              json_null());
}

/* `exists` succeeds either way. */
static void absent(box_file_run *run, box_tool_result *r)
{
    static const char text[] = "does not exist";
    box_file_say(run, "%s", text);
    r->json = shape(run, "success", json_string(text), json_null());
}

static void fill(box_files_ask *ask, const char *operation)
{
    box_files_ask_head *h = &ask->head;
    h->permissions = -1;
    if (strcmp(operation, "read") == 0) {
        h->op = BOX_FILES_READ;
        h->max_bytes = READ_BYTES;
        h->max_items = BOX_FILES_MAX_LINES;
    } else if (strcmp(operation, "list") == 0) {
        h->op = BOX_FILES_LIST;
        h->max_items = LIST_ENTRIES;
    } else if (strcmp(operation, "exists") == 0) {
        h->op = BOX_FILES_STAT;
        h->flags = BOX_FILES_FOLLOW;
    } else if (strcmp(operation, "delete") == 0) {
        h->op = BOX_FILES_REMOVE;
        h->flags = BOX_FILES_RECURSIVE;
    } else {
        h->op = BOX_FILES_PUT;
        h->flags = BOX_FILES_PARENTS | BOX_FILES_REPLACE;
    }
}

static int start(const box_tool_request *r, box_tool_done done, void *arg, box_tool_run **out,
                 box_error *err)
{
    BOX_AUTO(box_freep) box_files_ask *ask = box_alloc(sizeof *ask);
    const char *operation = json_string_value(json_object_get(r->arguments, "operation"));
    const json_t *path = json_object_get(r->arguments, "file_path");
    const json_t *content = json_object_get(r->arguments, "content");
    bool writes = strcmp(operation, "write") == 0 || strcmp(operation, "create") == 0;
    if (strcmp(operation, "write") == 0 && content == NULL)
        return box_violation(err, "arguments.content", "is missing");
    if (!writes && content != NULL)
        return box_violation(err, "arguments.content", "has no meaning for %s", operation);
    fill(ask, operation);
    ask->path = (box_bytes){(const uint8_t *)json_string_value(path), json_string_length(path)};
    box_bytes bytes = {(const uint8_t *)json_string_value(content), json_string_length(content)};
    const bool asks = strcmp(operation, "exists") == 0;
    const box_file_run run = {.absent = asks ? absent : NULL,
                              .finish = finish,
                              .refuse = refuse,
                              .operation = operation,
                              .path_argument = "file_path"};
    return box_file_run_start(r, ask, run, bytes, done, arg, out, err);
}

const box_tool box_file_operation = {
    .name = "file_operation",
    .description = "Creates, reads, writes, deletes or lists files of the sandbox, or says whether "
                   "one exists. delete removes directories with all in them.",
    .parameters =
        "{\"type\":\"object\",\"properties\":{"
        "\"operation\":{\"type\":\"string\",\"enum\":[\"create\",\"read\",\"write\",\"delete\","
        "\"list\",\"exists\"]},"
        "\"file_path\":{\"type\":\"string\",\"minLength\":1,\"maxLength\":4095,\"description\":\"A "
        "path in the sandbox, absolute or below the workspace.\"},"
        "\"content\":{\"type\":\"string\",\"description\":\"For write and create.\"},"
        "\"encoding\":{\"type\":\"string\",\"enum\":[\"utf-8\"]}},"
        "\"required\":[\"operation\",\"file_path\"],\"additionalProperties\":false}",
    .need = BOX_TOOL_WRITES,
    .start = start,
};
