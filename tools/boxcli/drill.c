/* boxcli drill: runs the tables of attacks and reports what held. */
#include "drill.h"

#include <signal.h>
#include <sys/signalfd.h>

#include <jansson.h>

#include "args.h"
#include "base/fd.h"
#include "base/id.h"
#include "box/v1/control.client.h"

enum { OPT_BACKEND = 0x780, OPT_ONLY, OPT_LIST, MAX_ONLY = 64 };

static const drill_attack *const tables[] = {drill_resource_attacks, drill_escape_attacks,
                                             drill_neighbour_attacks};

static const struct argp_option options[] = {
    {.name = "backend",
     .key = OPT_BACKEND,
     .arg = "NAME",
     .doc = "attack this one; default: the server's"},
    {.name = "only", .key = OPT_ONLY, .arg = "ATTACK", .doc = "only this one; may be repeated"},
    {.name = "list", .key = OPT_LIST, .doc = "print the attacks and run none"},
    {0},
};

typedef struct drill_args {
    cli_words words;
    const char *backend; /* NULL: the server's */
    const char *only[MAX_ONLY];
    size_t n_only;
    bool list;
} drill_args;

static const char *const result_names[] = {"held", "broken", "skipped"};

typedef struct report {
    json_t *rows; /* NULL: text */
    int counts[BOX_COUNT(result_names)];
} report;

/* --- the command line ------------------------------------------------------------------------- */

static const drill_attack *find_attack(const char *name)
{
    for (size_t i = 0; i < BOX_COUNT(tables); i++) {
        for (const drill_attack *a = tables[i]; a->name != NULL; a++) {
            if (strcmp(a->name, name) == 0)
                return a;
        }
    }
    return NULL;
}

static bool is_wanted(const drill_args *args, const drill_attack *a)
{
    for (size_t i = 0; i < args->n_only; i++) {
        if (strcmp(args->only[i], a->name) == 0)
            return true;
    }
    return args->n_only == 0;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    drill_args *a = state->input;
    switch (key) {
    case OPT_BACKEND:
        if (strcmp(arg, "host") == 0)
            argp_error(state, "the backend host has no walls: its attacks would hit this machine");
        a->backend = arg;
        return 0;
    case OPT_ONLY:
        if (find_attack(arg) == NULL)
            argp_error(state, "--only %s: no such attack, see --list", arg);
        if (a->n_only == MAX_ONLY)
            argp_error(state, "--only: at most %d", MAX_ONLY);
        a->only[a->n_only++] = arg;
        return 0;
    case OPT_LIST:
        a->list = true;
        return 0;
    default:
        return cli_words_take(&a->words, key, arg, state);
    }
}

static int list_attacks(void)
{
    for (size_t i = 0; i < BOX_COUNT(tables); i++) {
        for (const drill_attack *a = tables[i]; a->name != NULL; a++)
            printf("%-16s %s\n", a->name, a->tried);
    }
    return CLI_OK;
}

/* --- the report ------------------------------------------------------------------------------- */

static void report_row(report *r, const drill_attack *a, drill_outcome *out)
{
    const char *result = result_names[out->result];
    r->counts[out->result]++;
    (void)cli_clean(out->happened);
    if (r->rows != NULL) {
        /* What a command wrote need not be UTF-8, which JSON is. */
        json_t *happened = json_string(out->happened);
        if (happened == NULL)
            happened = json_string("(text that is not UTF-8)");
        (void)json_array_append_new(
            r->rows, json_pack("{s:s, s:s, s:s, s:o, s:s}", "attack", a->name, "tried", a->tried,
                               "expected", a->expected, "happened", happened, "result", result));
        return;
    }
    printf("%-7s  %s\n", result, a->name);
    printf("         tried     %s\n         expected  %s\n         happened  %s\n", a->tried,
           a->expected, out->happened);
    (void)fflush(stdout); /* main looks at its errors */
}

static void report_end(report *r, const drill *d)
{
    int held = r->counts[DRILL_HELD];
    int broken = r->counts[DRILL_BROKEN];
    int skipped = r->counts[DRILL_SKIPPED];
    if (r->rows == NULL) {
        printf("backend %s: %d held, %d broken, %d skipped\n", d->backend, held, broken, skipped);
        return;
    }
    json_t *whole = json_pack("{s:s, s:o, s:i, s:i, s:i}", "backend", d->backend, "attacks",
                              r->rows, "held", held, "broken", broken, "skipped", skipped);
    (void)json_dumpf(whole, stdout, JSON_INDENT(2) | JSON_ENSURE_ASCII);
    (void)putchar('\n');
    json_decref(whole);
}

/* --- one attack ------------------------------------------------------------------------------- */

/* Counts what still runs, without starting anything that would count itself. */
static const char survivors[] =
    "n=0\n"
    "for p in /proc/[0-9]*; do\n"
    "  test ${p#/proc/} = $$ || while read -r key value rest; do\n"
    "    case $key in State:) state=$value;;\n"
    "      Uid:) test $value = $(id -u) && test $state != Z && n=$((n+1)); break;; esac\n"
    "  done <$p/status\n"
    "done 2>/dev/null\n"
    "test $n = 0 || echo broken: $n processes are left\n"
    "echo held: alive\n";

/* The next command in the session, or in the neighbour's, has to work. */
static void check_alive(drill *d, const char *session, const char *whose, drill_outcome *out)
{
    box_error err;
    drill_outcome after;
    BOX_AUTO(cli_message_freep) Box__V1__ExecResponse *answer = NULL;
    const drill_command command = {.program = "sh", .script = survivors};
    if (out->result != DRILL_HELD || d->interrupted != 0)
        return;
    if (drill_exec(d, session, &command, &answer, &err) < 0) {
        drill_broken(out, "afterwards a command in %s failed: %s", whose, err.msg);
        return;
    }
    drill_judge_report(answer, &after);
    if (after.result != DRILL_HELD)
        drill_broken(out, "afterwards, in %s: %.300s", whose, after.happened);
}

static int attack_command(drill *d, const drill_attack *a, const char *session, drill_outcome *out,
                          box_error *err)
{
    BOX_AUTO(cli_message_freep) Box__V1__ExecResponse *answer = NULL;
    const drill_command command = drill_command_of(a);
    if (drill_exec(d, session, &command, &answer, err) < 0)
        return -1;
    if (a->judge != NULL)
        a->judge(answer, out);
    else
        drill_judge_report(answer, out);
    return 0;
}

static void attack(drill *d, const drill_attack *a, drill_outcome *out)
{
    box_error err;
    char session[DRILL_ID];
    (void)snprintf(session, sizeof session, "%s-%s", d->prefix, a->name);
    if (drill_session_create(d, session, a->needs, &err) < 0) {
        drill_skipped(out, "%s", err.msg);
        drill_session_delete(d, session); /* it may have been made all the same */
        return;
    }
    if ((a->run != NULL ? a->run : attack_command)(d, a, session, out, &err) == 0) {
        check_alive(d, session, "the session", out);
        check_alive(d, d->neighbour, "a session beside it", out);
    } else if (err.reason == BOX_FILE_NOT_FOUND) {
        drill_skipped(out, "%s is not in the sandbox", a->program);
    } else if (err.reason == BOX_GUARANTEE_UNSUPPORTED || err.reason == BOX_PERMISSION) {
        drill_skipped(out, "%s", err.msg);
    } else {
        drill_broken(out, "the call failed: %s", err.msg);
    }
    drill_session_delete(d, session);
}

static void attack_all(drill *d, const drill_args *args, report *r)
{
    for (size_t i = 0; i < BOX_COUNT(tables); i++) {
        for (const drill_attack *a = tables[i]; a->name != NULL; a++) {
            drill_outcome out = {0};
            if (!is_wanted(args, a))
                continue;
            if (drill_is_interrupted(d))
                return;
            attack(d, a, &out);
            if (drill_is_interrupted(d))
                return; /* what it saw is not how it would have ended */
            report_row(r, a, &out);
        }
    }
}

/* --- the whole -------------------------------------------------------------------------------- */

/* The backend that will be attacked; NULL, after saying why, where there is none with walls. */
static Box__V1__GetBackendInfoResponse *choose(const cli *c, const char *name)
{
    box_error err;
    Box__V1__GetBackendInfoRequest request;
    box__v1__get_backend_info_request__init(&request);
    Box__V1__GetBackendInfoResponse *r = NULL;
    request.backend = (char *)(uintptr_t)(name != NULL ? name : "");
    box_client_options o = cli_options(c);
    if (box_v1_control_service_get_backend_info(c->channel, &o, &request, &r, &err) < 0) {
        (void)cli_fail(c, &err);
        return NULL;
    }
    const Box__V1__BackendInfo *b = r->backend;
    if (b == NULL || !b->available)
        (void)box_fail(&err, BOX_BACKEND_UNAVAILABLE, "the backend does not work: %s",
                       b != NULL ? b->error : "");
    else if (b->unsafe_direct_execution || strcmp(b->name, "host") == 0 ||
             b->isolation <= BOX__V1__ISOLATION_LEVEL__ISOLATION_LEVEL_NONE)
        (void)box_fail(&err, BOX_PERMISSION,
                       "the backend %s has no walls: its attacks would hit the machine", b->name);
    else
        return r;
    (void)cli_fail(c, &err);
    cli_message_free(r);
    return NULL;
}

/* Signals are waited for from here on, so that sessions can be deleted first. */
static int block_signals(void)
{
    sigset_t set;
    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGINT);
    (void)sigaddset(&set, SIGTERM);
    (void)sigaddset(&set, SIGHUP);
    (void)sigaddset(&set, SIGQUIT);
    (void)sigprocmask(SIG_BLOCK, &set, NULL); /* cannot fail with these arguments */
    return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

static int run_attacks(drill *d, const drill_args *args)
{
    box_error err;
    report r = {.rows = d->cli->json ? json_array() : NULL};
    (void)snprintf(d->neighbour, sizeof d->neighbour, "%s-neighbour", d->prefix);
    int made = drill_session_create(d, d->neighbour, NULL, &err);
    if (made == 0)
        attack_all(d, args, &r);
    drill_session_delete(d, d->neighbour);
    if (made < 0) {
        json_decref(r.rows);
        return cli_fail(d->cli, &err);
    }
    report_end(&r, d);
    if (d->interrupted != 0) {
        fprintf(stderr, "boxcli: interrupted; what it made is deleted\n");
        return CLI_SIGNAL + d->interrupted;
    }
    return r.counts[DRILL_BROKEN] == 0 && r.counts[DRILL_HELD] > 0 ? CLI_OK : CLI_FAILED;
}

static int run(cli *c, int argc, char **argv)
{
    const struct argp parser = {
        .options = options,
        .parser = parse,
        .doc = "Attacks your own server with what hostile commands do, each in a sandbox of its "
               "own with small limits, and reports what held. Ends with 1 when something broke. "
               "Where the walls hold, nothing outside notices."};
    char random[BOX_UID_TEXT];
    char prefix[DRILL_ID / 2];
    drill_args args = {0};
    cli_parse(&parser, argc, argv, &args);
    if (args.list)
        return list_attacks();
    if (cli_connect(c) < 0)
        return CLI_FAILED;
    BOX_AUTO(cli_message_freep) Box__V1__GetBackendInfoResponse *chosen = choose(c, args.backend);
    if (chosen == NULL)
        return CLI_FAILED;
    box_uid uid = box_uid_new();
    box_uid_text(&uid, random);
    (void)snprintf(prefix, sizeof prefix, "drill-%.8s", random);
    BOX_AUTO(box_closep) int signals = block_signals();
    drill d = {.cli = c, .backend = chosen->backend->name, .prefix = prefix, .signals = signals};
    return run_attacks(&d, &args);
}

const cli_command cli_drill_commands[] = {
    {"drill", NULL, "attack your own server's sandboxes and report", run},
    {0},
};
