#include "tool/command_result.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "tool/json.h"

/* --- for a model ------------------------------------------------------------------------------ */

static const char stdout_heading[] = "stdout:\n";
static const char stderr_heading[] = "\nstderr:\n";

/* Only without memory. */
static void add_text(box_buf *b, const char *text)
{
    box_error err;
    if (box_buf_add(b, text, strlen(text), &err) < 0)
        abort();
}

static size_t least(uint64_t a, size_t b)
{
    return a < b ? (size_t)a : b;
}

/* One stream stands alone; two have headings, and what one does not need of its share of the room
 * (60 % for stdout) the other may use. */
static bool write_output(const box_excerpt streams[2], box_buf *out)
{
    const box_excerpt *first = &streams[0], *second = &streams[1];
    if (second->total == 0 || first->total == 0)
        return box_excerpt_text(second->total == 0 ? first : second, BOX_EXCERPT_CHARS, out);
    size_t room = BOX_EXCERPT_CHARS - strlen(stdout_heading) - strlen(stderr_heading);
    size_t share = room * 60 / 100;
    size_t stderr_part = least(second->total, room - share);
    size_t stdout_part = least(first->total, room - stderr_part);
    stderr_part = least(second->total, room - stdout_part);
    add_text(out, stdout_heading);
    bool cut = box_excerpt_text(first, stdout_part, out);
    add_text(out, stderr_heading);
    cut |= box_excerpt_text(second, stderr_part, out);
    return cut;
}

static void explain(const box_verdict *v, char *out, size_t size)
{
    double seconds = (double)v->timeout_ns / (double)BOX_SECOND;
    switch (v->status) {
    case BOX_VERDICT_COMPLETED:
        if (v->signal > 0)
            (void)snprintf(out, size, "killed by signal %d", v->signal);
        else if (v->exit_code != 0)
            (void)snprintf(out, size, "exit code %d", v->exit_code);
        break;
    case BOX_VERDICT_TIMED_OUT:
        (void)snprintf(out, size, "killed after %.6g s (timeout)", seconds);
        break;
    case BOX_VERDICT_OOM_KILLED:
        (void)snprintf(out, size, "killed: it used more memory than the sandbox has");
        break;
    case BOX_VERDICT_SANDBOX_LOST:
        (void)snprintf(out, size, "the sandbox vanished: %s", v->detail);
        break;
    case BOX_VERDICT_KILLED:
        (void)snprintf(out, size, "killed because its session ended: %s", v->detail);
        break;
    default:
        (void)snprintf(out, size, "killed (%s)", v->limit[0] != '\0' ? v->limit : "cancelled");
    }
}

static box_tool_status status_of(const box_verdict *v)
{
    switch (v->status) {
    case BOX_VERDICT_COMPLETED:
        return v->has_exit_code && v->exit_code == 0 ? BOX_TOOL_SUCCESS : BOX_TOOL_ERROR;
    case BOX_VERDICT_TIMED_OUT:
    case BOX_VERDICT_IDLE_TIMED_OUT:
        return BOX_TOOL_TIMEOUT;
    case BOX_VERDICT_CANCELLED:
        return BOX_TOOL_CANCELLED;
    default:
        return BOX_TOOL_ERROR;
    }
}

void box_command_outcome_fill(box_command_outcome *o, const box_verdict *v,
                              const box_excerpt streams[2])
{
    box_error err;
    *o = (box_command_outcome){0};
    o->result.status = status_of(v);
    o->result.verdict = v;
    o->result.session = v->session;
    o->result.output_truncated = write_output(streams, &o->output);
    for (int i = 0; i < 2; i++)
        o->cut[i] = box_excerpt_text(&streams[i], BOX_EXCERPT_CHARS, &o->texts[i]);
    if (box_buf_text(&o->output, &o->result.output, &err) < 0)
        abort(); /* only without memory */
    explain(v, o->error, sizeof o->error);
    o->result.error = o->error;
}

void box_command_outcome_done(box_command_outcome *o)
{
    json_decref(o->result.json);
    box_buf_done(&o->output);
    box_buf_done(&o->texts[0]);
    box_buf_done(&o->texts[1]);
}

/* --- as JSON ---------------------------------------------------------------------------------- */

static const char *verdict_name(box_verdict_status s)
{
    static const char *const names[] = {
        [BOX_VERDICT_COMPLETED] = "completed",
        [BOX_VERDICT_TIMED_OUT] = "timed_out",
        [BOX_VERDICT_IDLE_TIMED_OUT] = "idle_timed_out",
        [BOX_VERDICT_CANCELLED] = "cancelled",
        [BOX_VERDICT_OOM_KILLED] = "oom_killed",
        [BOX_VERDICT_OUTPUT_LIMIT] = "output_limit",
        [BOX_VERDICT_KILLED] = "killed",
        [BOX_VERDICT_SANDBOX_LOST] = "sandbox_lost",
    };
    return names[s];
}

static json_t *exit_code(const box_verdict *v)
{
    return v->has_exit_code ? json_integer(v->exit_code) : json_null();
}

static const char *public_id(const box_session_info *info)
{
    return info->one_off ? "" : info->id;
}

static void set(json_t *object, const char *key, json_t *value)
{
    if (json_object_set_new(object, key, value) < 0)
        abort(); /* only without memory */
}

json_t *box_command_exec_json(const box_command_outcome *o)
{
    const box_verdict *v = o->result.verdict;
    json_t *j = json_object();
    set(j, "ok", json_boolean(o->result.status == BOX_TOOL_SUCCESS));
    set(j, "status", json_string(verdict_name(v->status)));
    set(j, "exit_code", exit_code(v));
    set(j, "stdout", box_json_buf(&o->texts[0]));
    set(j, "stderr", box_json_buf(&o->texts[1]));
    set(j, "stdout_truncated", json_boolean(o->cut[0]));
    set(j, "stderr_truncated", json_boolean(o->cut[1]));
    set(j, "preview", box_json_buf(&o->output));
    set(j, "truncated", json_boolean(o->result.output_truncated));
    set(j, "truncated_by", o->result.output_truncated ? json_string("characters") : json_null());
    set(j, "duration_ms", json_integer((json_int_t)(v->wall_ns / BOX_MS)));
    set(j, "session_id", json_string(public_id(v->session)));
    set(j, "backend", json_string(v->session->backend));
    if (o->error[0] != '\0')
        set(j, "error", json_string(o->error));
    return j;
}

static const char *status_name(box_tool_status s)
{
    static const char *const names[] = {[BOX_TOOL_SUCCESS] = "success",
                                        [BOX_TOOL_ERROR] = "error",
                                        [BOX_TOOL_TIMEOUT] = "timeout",
                                        [BOX_TOOL_CANCELLED] = "cancelled"};
    return names[s];
}

/* stderr, also of what succeeded; what failed without a word has a line of ours. */
static json_t *executor_error(const box_command_outcome *o)
{
    if (box_buf_len(&o->texts[1]) > 0)
        return box_json_buf(&o->texts[1]);
    return o->error[0] != '\0' ? json_string(o->error) : json_null();
}

json_t *box_command_executor_json(const box_command_outcome *o, const char *tool)
{
    const box_verdict *v = o->result.verdict;
    json_t *j = json_object();
    json_t *metadata = json_object();
    set(metadata, "session_id", json_string(public_id(v->session)));
    set(metadata, "backend", json_string(v->session->backend));
    set(metadata, "verdict", json_string(verdict_name(v->status)));
    set(metadata, "output_truncated", json_boolean(o->cut[0]));
    set(metadata, "error_truncated", json_boolean(o->cut[1]));
    set(j, "tool_name", json_string(tool));
    set(j, "status", json_string(status_name(o->result.status)));
    set(j, "exit_code", exit_code(v));
    set(j, "output", box_json_buf(&o->texts[0]));
    set(j, "error", executor_error(o));
    set(j, "metadata", metadata);
    set(j, "execution_time", json_real((double)v->wall_ns / (double)BOX_SECOND));
    set(j, "timestamp", box_json_now());
    return j;
}
