#include "tool/file_run.h"

#include <assert.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "tool/json.h"

enum {
    OUTPUT_BYTES = 16 * 1024 * 1024, /* of what came, each byte of which may become three */
    OTHER_BYTES = 64 * 1024,         /* the tool's own words */
};
static_assert(3 * BOX_FILE_DATA_BYTES + OTHER_BYTES <= OUTPUT_BYTES, "box_file_say aborts");
/* A line's number and colons are less than what it counts for besides its bytes. */
static_assert(3 * BOX_FILE_ITEM_BYTES + OTHER_BYTES <= OUTPUT_BYTES, "box_file_say aborts");

static void file_run_free(box_file_run *run)
{
    json_decref(run->arguments);
    json_decref(run->infos);
    json_decref(run->lines);
    box_buf_done(&run->data);
    box_buf_done(&run->output);
    free(run);
}

static void cancel(box_tool_run *base)
{
    box_file_run *run = (box_file_run *)base;
    box_file_cancel(run->file);
    file_run_free(run);
}

void box_tool_set(json_t *object, const char *key, json_t *value)
{
    if (json_object_set_new(object, key, value) < 0)
        abort(); /* only without memory */
}

void box_file_say(box_file_run *run, const char *format, ...)
{
    char text[3 * BOX_FILES_MAX_PATH + 512]; /* a path, each byte of which became U+FFFD */
    box_error err;
    va_list args;
    va_start(args, format);
    int n = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    size_t len = n < 0 ? 0 : (size_t)n < sizeof text ? (size_t)n : sizeof text - 1;
    if (box_buf_add(&run->output, text, len, &err) < 0)
        abort(); /* only without memory: what a call answers is bounded */
}

void box_file_say_text(box_file_run *run, const json_t *text)
{
    box_error err;
    if (box_buf_add(&run->output, json_string_value(text), json_string_length(text), &err) < 0)
        abort(); /* only without memory: what a call answers is bounded */
}

box_bytes box_file_argument(const json_t *arguments, const char *name)
{
    const json_t *v = json_object_get(arguments, name);
    return (box_bytes){.data = (const uint8_t *)json_string_value(v), .len = json_string_length(v)};
}

const char *box_file_cut_name(const box_files_answer *a)
{
    static const char *const names[BOX_FILES_CUT_END] = {
        [BOX_FILES_CUT_LINES] = "lines",     [BOX_FILES_CUT_BYTES] = "bytes",
        [BOX_FILES_CUT_ENTRIES] = "entries", [BOX_FILES_CUT_MATCHES] = "matches",
        [BOX_FILES_CUT_SCAN] = "scan",       [BOX_FILES_CUT_TIME] = "time",
        [BOX_FILES_CUT_LINE_LENGTH] = "line"};
    return a->cut < BOX_FILES_CUT_END ? names[a->cut] : NULL;
}

json_t *box_file_success(const box_files_answer *a)
{
    const char *cut = box_file_cut_name(a);
    json_t *j = json_object();
    box_tool_set(j, "ok", json_true());
    box_tool_set(j, "truncated", json_boolean((a->flags & BOX_FILES_TRUNCATED) != 0));
    box_tool_set(j, "truncated_by", cut != NULL ? json_string(cut) : json_null());
    return j;
}

/* --- what comes ------------------------------------------------------------------------------- */

static json_t *text(box_bytes b)
{
    return box_json_text(b.data != NULL ? (const char *)b.data : "", b.len);
}

static void append(json_t *list, json_t *value)
{
    if (json_array_append_new(list, value) < 0)
        abort(); /* only without memory */
}

static void on_info(void *arg, const box_files_info *info)
{
    box_file_run *run = arg;
    json_t *j = json_object();
    box_tool_set(j, "path", text(info->path));
    box_tool_set(j, "kind", json_integer(info->head.kind));
    box_tool_set(j, "size", json_integer(info->head.size_bytes));
    box_tool_set(j, "modified", json_integer(info->head.modified_ns / 1000000000));
    append(run->infos, j);
}

static void on_line(void *arg, const box_files_line *line)
{
    static const char mark[] = "... [truncated]";
    box_file_run *run = arg;
    box_error err;
    if (line->head.place != BOX_FILES_MATCH)
        return;
    BOX_AUTO(box_buf_done) box_buf content = {0};
    size_t len = line->text.len;
    while (len > 0 && strchr(" \t\r\n", line->text.data[len - 1]) != NULL)
        len--;
    if (box_buf_add(&content, line->text.data, len, &err) < 0 ||
        (line->head.cut != 0 && box_buf_add(&content, mark, strlen(mark), &err) < 0))
        abort(); /* only without memory */
    json_t *j = json_object();
    box_tool_set(j, "file", text(line->path));
    box_tool_set(j, "line", json_integer(line->head.number));
    box_tool_set(j, "content", text((box_bytes){box_buf_data(&content), box_buf_len(&content)}));
    append(run->lines, j);
}

static void on_data(void *arg, const uint8_t *data, size_t len)
{
    box_file_run *run = arg;
    box_error err;
    if (box_buf_add(&run->data, data, len, &err) < 0)
        abort(); /* what a worker may send is bounded before */
}

/* --- the end ---------------------------------------------------------------------------------- */

/* What the file itself is the reason of is the tool's answer; the rest is the call's error. */
static bool is_answer(const box_error *err)
{
    switch (err->reason) {
    case BOX_FILE_NOT_FOUND:
    case BOX_FILE_EXISTS:
    case BOX_FILE_CONFLICT:
    case BOX_PERMISSION:
    case BOX_QUOTA:
    case BOX_VALIDATION:
    case BOX_DEADLINE:
        return true;
    default:
        return false;
    }
}

static json_t *refusal(const box_file_run *run, const char *error)
{
    json_t *j = json_object();
    (void)run; /* the shape of all but file_operation */
    box_tool_set(j, "ok", json_false());
    box_tool_set(j, "error", json_string(error));
    return j;
}

static void give(box_file_run *run, box_tool_result *r)
{
    box_error err;
    if (box_buf_text(&run->output, &r->output, &err) < 0)
        abort(); /* only without memory */
    run->done(run->arg, r, NULL);
    json_decref(r->json);
}

static void on_done(void *arg, const box_files_answer *answer, const box_error *err)
{
    box_file_run *run = arg;
    box_tool_result r = {.status = BOX_TOOL_SUCCESS, .error = ""};
    if (err == NULL) {
        run->finish(run, answer, &r);
        give(run, &r);
    } else if (err->reason == BOX_FILE_NOT_FOUND && run->absent != NULL) {
        run->absent(run, &r);
        give(run, &r);
    } else if (is_answer(err)) {
        r.status = err->reason == BOX_DEADLINE ? BOX_TOOL_TIMEOUT : BOX_TOOL_ERROR;
        r.error = err->msg;
        r.json = run->refuse != NULL ? run->refuse(run, err->msg) : refusal(run, err->msg);
        give(run, &r);
    } else {
        run->done(run->arg, NULL, err);
    }
    box_file_free(run->file);
    file_run_free(run);
}

/* A violation of the call is one of the argument it came from. */
static int in_arguments(const char *path_argument, box_error *err)
{
    box_error renamed = {0};
    const char *key, *value;
    char field[128];
    if (err->reason != BOX_VALIDATION)
        return -1;
    for (size_t at = 0; box_error_next(err, &at, &key, &value);) {
        const char *name = strncmp(key, "field:", 6) == 0 ? key + 6 : key;
        bool own = strcmp(name, "session_id") == 0;
        if (strcmp(name, "path") == 0 && path_argument != NULL)
            name = path_argument;
        (void)snprintf(field, sizeof field, "%s%.64s", own ? "" : "arguments.", name);
        BOX_IGNORE(box_violation(&renamed, field, "%s", value));
    }
    renamed.more += err->more;
    *err = renamed;
    return -1;
}

/* --- the start -------------------------------------------------------------------------------- */

int box_file_run_start(const box_tool_request *r, const box_files_ask *ask, box_file_run run,
                       box_bytes content, box_tool_done done, void *arg, box_tool_run **out,
                       box_error *err)
{
    static const box_file_events events = {
        .info = on_info, .line = on_line, .data = on_data, .done = on_done};
    bool searches = ask->head.op == BOX_FILES_GLOB || ask->head.op == BOX_FILES_GREP;
    const box_file_request request = {.tenant = r->tenant,
                                      .session_id = r->session_id,
                                      .ask = ask,
                                      .empty_path = searches || ask->head.op == BOX_FILES_READ,
                                      .content = content};
    box_file_run *own = box_alloc(sizeof *own);
    *own = run;
    own->base.cancel = cancel;
    own->done = done;
    own->arg = arg;
    own->began = box_now();
    own->arguments = json_incref((json_t *)(uintptr_t)r->arguments);
    own->infos = json_array();
    own->lines = json_array();
    box_buf_init(&own->data, BOX_FILE_DATA_BYTES);
    box_buf_init(&own->output, OUTPUT_BYTES);
    if (box_file_start(r->sessions, &request, &events, own, &own->file, err) < 0) {
        const char *path_argument = own->path_argument;
        file_run_free(own);
        return in_arguments(path_argument, err);
    }
    *out = &own->base;
    return 0;
}
