/* boxcli drill: what a command's end says about the wall it ran against. */
#include <signal.h>

#include "base/clock.h"
#include "box/v1/types.fields.h"
#include "drill.h"

/* --- verdicts --------------------------------------------------------------------------------- */

/* "TIMED_OUT" of VERDICT_STATUS_TIMED_OUT. */
static const char *status_name(const Box__V1__Verdict *v)
{
    const ProtobufCEnumValue *value =
        protobuf_c_enum_descriptor_get_value(&box__v1__verdict_status__descriptor, (int)v->status);
    return value != NULL ? value->name + strlen("VERDICT_STATUS_") : "UNKNOWN";
}

/* How it ended, as text. */
static const char *ending(const Box__V1__Verdict *v, char out[64])
{
    if (box__v1__verdict__has_signal(v))
        (void)snprintf(out, 64, "%s, signal %d", status_name(v), v->signal);
    else if (box__v1__verdict__has_exit_code(v))
        (void)snprintf(out, 64, "%s, exit code %d", status_name(v), v->exit_code);
    else
        (void)snprintf(out, 64, "%s", status_name(v));
    return out;
}

static double seconds(const Google__Protobuf__Duration *d)
{
    return d != NULL ? (double)d->seconds + (double)d->nanos / (double)BOX_SECOND : 0;
}

static void unexpected(const Box__V1__ExecResponse *answer, drill_outcome *out)
{
    char how[64];
    int len = (int)(answer->stderr_data.len < 200 ? answer->stderr_data.len : 200);
    const char *tail = (const char *)answer->stderr_data.data + answer->stderr_data.len - len;
    drill_broken(out, "it ended with %s%s%.*s", ending(answer->verdict, how), len > 0 ? ": " : "",
                 len, len > 0 ? tail : "");
}

static bool ended_as(const Box__V1__ExecResponse *answer, Box__V1__VerdictStatus status)
{
    return answer->verdict->status == status;
}

/* --- a script's own report -------------------------------------------------------------------- */

/* The first line of the text that begins so, without that; its length, or -1. */
static int find_line(const ProtobufCBinaryData *text, const char *begin, const char **line)
{
    size_t prefix = strlen(begin);
    for (size_t at = 0; at < text->len;) {
        const char *here = (const char *)text->data + at;
        const char *end = memchr(here, '\n', text->len - at);
        size_t len = end != NULL ? (size_t)(end - here) : text->len - at;
        if (len >= prefix && memcmp(here, begin, prefix) == 0) {
            *line = here + prefix;
            return (int)(len - prefix);
        }
        at += len + 1;
    }
    return -1;
}

static bool lacks_module(const ProtobufCBinaryData *text)
{
    static const char word[] = "ModuleNotFoundError";
    return text->len > 0 && memmem(text->data, text->len, word, sizeof word - 1) != NULL;
}

void drill_judge_report(const Box__V1__ExecResponse *answer, drill_outcome *out)
{
    const char *line = "";
    int len = find_line(&answer->stdout_data, "broken: ", &line);
    if (len >= 0) {
        drill_broken(out, "%.*s", len, line);
        return;
    }
    len = find_line(&answer->stdout_data, "held: ", &line);
    if (len >= 0 && answer->verdict->exit_code == 0 &&
        ended_as(answer, BOX__V1__VERDICT_STATUS__VERDICT_STATUS_COMPLETED))
        drill_held(out, "%.*s", len, line);
    else if (lacks_module(&answer->stderr_data))
        drill_skipped(out, "the sandbox's python3 is not whole: a module is missing");
    else
        unexpected(answer, out);
}

/* --- limits ----------------------------------------------------------------------------------- */

void drill_judge_oom(const Box__V1__ExecResponse *answer, drill_outcome *out)
{
    if (ended_as(answer, BOX__V1__VERDICT_STATUS__VERDICT_STATUS_OOM_KILLED))
        drill_held(out, "killed for memory");
    else
        drill_judge_report(answer, out);
}

void drill_judge_timeout(const Box__V1__ExecResponse *answer, drill_outcome *out)
{
    if (ended_as(answer, BOX__V1__VERDICT_STATUS__VERDICT_STATUS_TIMED_OUT))
        drill_held(out, "killed after %.1f s", seconds(answer->verdict->wall_time));
    else
        unexpected(answer, out);
}

void drill_judge_flood(const Box__V1__ExecResponse *answer, drill_outcome *out)
{
    const Box__V1__OutputReport *report = answer->verdict->stdout_report;
    if (ended_as(answer, BOX__V1__VERDICT_STATUS__VERDICT_STATUS_OUTPUT_LIMIT))
        drill_held(out, "killed at %lld bytes",
                   report != NULL ? (long long)report->total_bytes : 0LL);
    else
        unexpected(answer, out);
}

void drill_judge_kept(const Box__V1__ExecResponse *answer, drill_outcome *out)
{
    const Box__V1__OutputReport *report = answer->verdict->stdout_report;
    if (!ended_as(answer, BOX__V1__VERDICT_STATUS__VERDICT_STATUS_COMPLETED) || report == NULL)
        unexpected(answer, out);
    else if (answer->stdout_data.len > DRILL_OUTPUT_BYTES)
        drill_broken(out, "%zu bytes were kept", answer->stdout_data.len);
    else if (report->total_bytes != DRILL_LARGE_BYTES)
        drill_broken(out, "%lld bytes were counted", (long long)report->total_bytes);
    else
        drill_held(out, "%zu of %lld bytes were kept", answer->stdout_data.len,
                   (long long)report->total_bytes);
}

void drill_judge_leftovers(const Box__V1__ExecResponse *answer, drill_outcome *out)
{
    const Box__V1__Verdict *v = answer->verdict;
    if (!ended_as(answer, BOX__V1__VERDICT_STATUS__VERDICT_STATUS_COMPLETED))
        unexpected(answer, out);
    else if (v->leftover_processes < 1 ||
             v->leftovers != BOX__V1__LEFTOVER_POLICY__LEFTOVER_POLICY_KILL)
        drill_broken(out, "%d processes were found, and not killed", v->leftover_processes);
    else
        drill_held(out, "%d processes were found and killed", v->leftover_processes);
}

void drill_judge_cpu(const Box__V1__ExecResponse *answer, drill_outcome *out)
{
    const Box__V1__Verdict *v = answer->verdict;
    double used = seconds(v->cpu_time);
    double wall = seconds(v->wall_time);
    /* A quota may be passed by a period or two, and a session begins with a full one. */
    double most = wall * DRILL_CPU_MILLIS / 1000 * 1.25 + 0.3;
    if (v->cpu_time == NULL || wall <= 0)
        drill_skipped(out, "the backend does not measure CPU time");
    else if (used > most)
        drill_broken(out, "%.2f s of CPU in %.2f s, %.2f s were allowed", used, wall, most);
    else
        drill_held(out, "%.2f s of CPU in %.2f s", used, wall);
}

void drill_judge_core(const Box__V1__ExecResponse *answer, drill_outcome *out)
{
    const Box__V1__Verdict *v = answer->verdict;
    if (!box__v1__verdict__has_signal(v) || v->signal != SIGSEGV)
        unexpected(answer, out);
    else if (v->core_dumped)
        drill_broken(out, "a core was dumped");
    else
        drill_held(out, "signal %d, no core", v->signal);
}
