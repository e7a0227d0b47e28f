/* What boxcli says on stderr when something went wrong. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <jansson.h>

#include "base/alloc.h"
#include "cli.h"

/* --- for people ------------------------------------------------------------------------------- */

/* A hint where the text has one of these words; the first that fits. */
typedef struct hint {
    const char *word;
    const char *text;
} hint;

static const hint hints[] = {
    {"requires a client certificate", "name yours with --cert and --key, or BOX_CERT and BOX_KEY"},
    {"does not accept the client certificate",
     "name one that the server's tls.client_ca has signed with --cert and --key, or BOX_CERT and "
     "BOX_KEY"},
    {"certificate verify failed",
     "name the server's CA with --ca or BOX_CA (boxd writes it to ca.pem in its state directory)"},
    {"no server named", "name it with --endpoint or BOX_ENDPOINT, such as dns:///localhost:5410; "
                        "\"spawn:boxd\" starts a private one"},
};

static const char *connect_advice(const box_error *err)
{
    if (err->sys_errno == EACCES || err->sys_errno == EPERM)
        return "you may not open that socket: boxd makes it for its own user and root alone";
    return "is boxd running? name it with --endpoint or BOX_ENDPOINT, such as "
           "dns:///localhost:5410";
}

const char *cli_advice(const cli *c, const box_error *err)
{
    for (size_t i = 0; i < BOX_COUNT(hints); i++) {
        if (strstr(err->msg, hints[i].word) != NULL)
            return hints[i].text;
    }
    if (strstr(err->msg, "cannot connect") != NULL)
        return connect_advice(err);
    if (err->reason == BOX_UNAUTHENTICATED)
        return "name a file with a valid token with --token-file or BOX_TOKEN_FILE (boxd writes "
               "the first one to admin.token in its state directory)";
    if (err->reason == BOX_STDIN_TAKEN)
        return "--take-over takes it from them; attach --read-only leaves it to them";
    if (err->reason == BOX_INIT_REQUIRED)
        return "an administrator does that with: boxcli init";
    if (err->reason == BOX_BACKEND_UNAVAILABLE && !cli_is_spawned(c))
        return "is box-warden running for that backend? see boxcli backends";
    return NULL;
}

/* The text of an error may already be the first of its violations. */
static void print_violation(const box_error *err, const char *field, const char *problem)
{
    size_t len = strlen(field);
    if (strncmp(err->msg, field, len) == 0 && strncmp(err->msg + len, ": ", 2) == 0 &&
        strcmp(err->msg + len + 2, problem) == 0)
        return;
    BOX_AUTO(box_freep) char *name = box_strdup(field);
    BOX_AUTO(box_freep) char *text = box_strdup(problem);
    fprintf(stderr, "  %s: %s\n", cli_clean(name), cli_clean(text));
}

static void fail_text(const cli *c, const box_error *err)
{
    size_t at = 0;
    const char *key;
    const char *value;
    fprintf(stderr, "boxcli: %s (%s)\n", err->msg, box_reason_name(err->reason));
    while (box_error_next(err, &at, &key, &value)) {
        if (strncmp(key, "field:", 6) == 0)
            print_violation(err, key + 6, value);
    }
    /* A private server's warden is not going to change its mind. */
    if (err->retry_ms > 0 && !cli_is_spawned(c))
        fprintf(stderr, "  try again in %u ms\n", err->retry_ms);
    const char *what_to_do = cli_advice(c, err);
    if (what_to_do != NULL)
        fprintf(stderr, "  %s\n", what_to_do);
}

/* --- for programs ----------------------------------------------------------------------------- */

static void fail_json(const box_error *err)
{
    size_t at = 0;
    const char *key;
    const char *value;
    json_t *violations = json_array();
    json_t *metadata = json_object();
    while (box_error_next(err, &at, &key, &value)) {
        if (strncmp(key, "field:", 6) == 0)
            (void)json_array_append_new(
                violations, json_pack("{s:s, s:s}", "field", key + 6, "description", value));
        else
            (void)json_object_set_new(metadata, key, json_string(value));
    }
    /* All texts of a box_error are UTF-8: box_fail and box_error_add see to it. */
    json_t *body =
        json_pack("{s:s, s:s, s:s, s:o, s:o}", "code", box_code_name(box_error_code(err)), "reason",
                  box_reason_name(err->reason), "message", err->msg, "violations", violations,
                  "metadata", metadata);
    if (err->retry_ms > 0)
        (void)json_object_set_new(body, "retry_ms", json_integer(err->retry_ms));
    json_t *whole = json_pack("{s:o}", "error", body);
    (void)json_dumpf(whole, stderr, JSON_COMPACT | JSON_ENSURE_ASCII);
    (void)fputc('\n', stderr);
    json_decref(whole);
}

int cli_fail(const cli *c, const box_error *err)
{
    if (c->json)
        fail_json(err);
    else
        fail_text(c, err);
    return CLI_FAILED;
}

/* --- output that could not be written --------------------------------------------------------- */

/* stdio forgets why a write failed; poll(2) tells a pipe or socket without a reader. */
static bool reader_is_gone(int sys_errno)
{
    struct pollfd out = {.fd = STDOUT_FILENO, .events = POLLOUT};
    if (sys_errno != 0)
        return sys_errno == EPIPE;
    return poll(&out, 1, 0) == 1 && (out.revents & POLLERR) != 0;
}

int cli_output_failed(const cli *c, int sys_errno)
{
    box_error err;
    if (reader_is_gone(sys_errno)) /* what a shell says of one that SIGPIPE ended */
        return CLI_SIGNAL + SIGPIPE;
    (void)box_fail(&err, BOX_INTERNAL, "cannot write the output%s%s", sys_errno != 0 ? ": " : "",
                   sys_errno != 0 ? strerror(sys_errno) : "");
    if (c->json)
        fail_json(&err);
    else
        fprintf(stderr, "boxcli: %s\n", err.msg);
    return c->is_program ? CLI_BOX_FAILED : CLI_FAILED;
}

/* --- what is done otherwise than asked -------------------------------------------------------- */

void cli_print_adjustments(Box__V1__Adjustment *const *adjustments, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const Box__V1__Adjustment *a = adjustments[i];
        const char *dot = strchr(cli_clean(a->field), '.'); /* "command.timeout" */
        bool maximum = strstr(a->rule, "max") != NULL;
        fprintf(stderr, "boxcli: %s %s %s", dot != NULL ? dot + 1 : a->field,
                maximum ? "lowered to" : "set to", cli_clean(a->effective));
        fprintf(stderr, " (%s)\n", cli_clean(a->rule));
    }
}
