/* boxcli doctor: what the server says of itself, and whether it does what it is for. */
#include "box/v1/control.client.h"
#include "box/v1/exec.client.h"

#include "base/clock.h"
#include "doctor.h"

enum { DAY_SECONDS = 86400, TOKEN_DAYS = 7 };

/* --- asking ----------------------------------------------------------------------------------- */

static void ask_all(doctor_server *s, cli *c)
{
    box_client_options o = cli_options(c);
    Box__V1__WhoAmIRequest who;
    Box__V1__GetStatusRequest status;
    Box__V1__ListBackendsRequest backends;
    box__v1__who_am_irequest__init(&who);
    box__v1__get_status_request__init(&status);
    box__v1__list_backends_request__init(&backends);
    if (box_v1_control_service_who_am_i(c->channel, &o, &who, &s->who, &s->who_why) < 0 &&
        (s->who_why.reason == BOX_RUNTIME_UNAVAILABLE || s->who_why.reason == BOX_DEADLINE)) {
        s->why = s->who_why;
        return;
    }
    s->reached = true;
    BOX_IGNORE(box_v1_control_service_get_status(c->channel, &o, &status, &s->status,
                                                 &s->status_why)); /* its row tells */
    BOX_IGNORE(box_v1_control_service_list_backends(c->channel, &o, &backends, &s->backends,
                                                    &s->backends_why)); /* its row tells */
}

void doctor_server_ask(doctor *d)
{
    doctor_server *s = &d->server;
    s->named = doctor_setting(d->cli->endpoint, "BOX_ENDPOINT") != NULL;
    if (s->named && cli_open(d->cli, &s->why) == 0)
        ask_all(s, d->cli);
}

void doctor_server_done(doctor_server *s)
{
    cli_message_free(s->status);
    cli_message_free(s->backends);
    cli_message_free(s->who);
}

/* --- rows ------------------------------------------------------------------------------------- */

static void failed(const doctor *d, doctor_row *row, const box_error *err)
{
    const char *advice = cli_advice(d->cli, err);
    doctor_fail(row, "%s", err->msg);
    doctor_fix(row, "%s", advice != NULL ? advice : "see the server's log");
}

/* Of a call that this caller is not allowed to make nothing is known. */
static void no_answer(const doctor *d, doctor_row *row, const box_error *err)
{
    if (err->reason == BOX_PERMISSION || err->reason == BOX_UNAUTHENTICATED ||
        err->reason == BOX_INIT_REQUIRED)
        doctor_skip(row, "%s", err->msg);
    else
        failed(d, row, err);
}

/* False, with the row filled, when there is nobody to talk about. */
static bool has_server(const doctor *d, doctor_row *row)
{
    if (!d->server.named)
        doctor_skip(row, "no server named by --endpoint or BOX_ENDPOINT");
    else if (!d->server.reached)
        doctor_skip(row, "boxd does not answer");
    return d->server.reached;
}

/* The same where GetStatus has not answered. */
static bool has_status(const doctor *d, doctor_row *row)
{
    if (!has_server(d, row))
        return false;
    if (d->server.status == NULL)
        no_answer(d, row, &d->server.status_why);
    return d->server.status != NULL;
}

static void check_boxd(doctor *d, const doctor_check *check, doctor_row *row)
{
    (void)check;
    const doctor_server *s = &d->server;
    if (!s->named)
        (void)has_server(d, row);
    else if (!s->reached)
        failed(d, row, &s->why);
    else
        doctor_ok(row, "answers at %s", doctor_setting(d->cli->endpoint, "BOX_ENDPOINT"));
}

static void check_version(doctor *d, const doctor_check *check, doctor_row *row)
{
    (void)check;
    const doctor_server *s = &d->server;
    if (!has_status(d, row))
        return;
    if (strcmp(s->status->version, BOX_VERSION) == 0) {
        doctor_ok(row, "boxd and boxcli are both %s", BOX_VERSION);
    } else {
        doctor_warn(row, "boxd is %s, boxcli is %s", s->status->version, BOX_VERSION);
        doctor_fix(row, "install the same version of both");
    }
}

static void check_token(doctor *d, const doctor_check *check, doctor_row *row)
{
    (void)check;
    const doctor_server *s = &d->server;
    if (!has_server(d, row))
        return;
    if (s->who == NULL) {
        failed(d, row, &s->who_why);
        return;
    }
    const Google__Protobuf__Timestamp *end = s->who->expires_at;
    int64_t days = end != NULL ? (end->seconds - box_wall_ns() / (int64_t)BOX_SECOND) / DAY_SECONDS
                               : INT64_MAX;
    char when[32];
    if (days >= TOKEN_DAYS) {
        doctor_ok(row, "tenant %s, %zu scopes, ends %s", s->who->tenant_id, s->who->n_scopes,
                  end != NULL ? cli_when(end, when) : "never");
        return;
    }
    doctor_warn(row, "tenant %s; ends %s", s->who->tenant_id, cli_when(end, when));
    doctor_fix(row, "boxcli token create --scope ... makes a new one");
}

static void check_backends(doctor *d, const doctor_check *check, doctor_row *row)
{
    (void)check;
    const doctor_server *s = &d->server;
    if (!has_server(d, row))
        return;
    if (s->backends == NULL) {
        no_answer(d, row, &s->backends_why);
        return;
    }
    const Box__V1__BackendInfo *selected = NULL;
    const Box__V1__BackendInfo *down = NULL;
    for (size_t i = 0; i < s->backends->n_backends; i++) {
        const Box__V1__BackendInfo *b = s->backends->backends[i];
        selected = b->selected ? b : selected;
        down = b->available ? down : b;
    }
    if (selected != NULL && selected->available && down == NULL) {
        doctor_ok(row, "%s works: %s", selected->name, selected->detail);
        return;
    }
    if (selected != NULL && selected->available)
        doctor_warn(row, "%s works, %s does not: %s", selected->name, down->name, down->error);
    else
        doctor_fail(row, "no backend works%s%s", down != NULL ? ": " : "",
                    down != NULL ? down->error : "");
    doctor_fix(row, "start it: systemctl start box-warden@%s, and look at its log",
               down != NULL ? down->name : "namespace");
}

/* What a sandbox is for; the other guarantees are features, and some of them are not built yet. */
static const char *const walls[] = {"filesystem", "process", "network_off",
                                    "user",       "seccomp", "agent_separated"};
static const char *const bounds[] = {"memory",          "pids",           "cpu",
                                     "workspace_limit", "command_cgroup", "live_limits"};

static bool holds(const Box__V1__BackendInfo *b, const char *name)
{
    for (size_t i = 0; i < b->n_guarantees; i++) {
        if (strcmp(b->guarantees[i]->name, name) == 0)
            return b->guarantees[i]->holds;
    }
    return false;
}

/* Adds those that do not hold to a list. */
static void list_missing(const Box__V1__BackendInfo *b, const char *const names[], size_t n,
                         char out[256])
{
    for (size_t i = 0; i < n; i++) {
        size_t len = strlen(out);
        if (!holds(b, names[i]))
            (void)snprintf(out + len, 256 - len, "%s%s", len > 0 ? ", " : "", names[i]);
    }
}

static const Box__V1__BackendInfo *working(const doctor_server *s)
{
    for (size_t i = 0; s->backends != NULL && i < s->backends->n_backends; i++) {
        if (s->backends->backends[i]->selected && s->backends->backends[i]->available)
            return s->backends->backends[i];
    }
    return NULL;
}

static void check_guarantees(doctor *d, const doctor_check *check, doctor_row *row)
{
    (void)check;
    char no_wall[256] = "";
    char no_bound[256] = "";
    if (!has_server(d, row))
        return;
    const Box__V1__BackendInfo *b = working(&d->server);
    if (b == NULL) {
        doctor_skip(row, "no backend to ask");
        return;
    }
    list_missing(b, walls, BOX_COUNT(walls), no_wall);
    list_missing(b, bounds, BOX_COUNT(bounds), no_bound);
    if (no_wall[0] != '\0') {
        doctor_fail(row, "%s does not hold: %s", b->name, no_wall);
        doctor_fix(row, "use a backend that does (boxcli backends) for commands you do not trust");
    } else if (no_bound[0] != '\0') {
        doctor_warn(row, "%s does not hold: %s", b->name, no_bound);
        doctor_fix(row, "see the cgroup rows of boxcli doctor on the server's machine");
    } else {
        doctor_ok(row, "%s holds all walls and limits", b->name);
    }
}

static void check_certificate(doctor *d, const doctor_check *check, doctor_row *row)
{
    (void)check;
    const doctor_server *s = &d->server;
    if (!has_status(d, row))
        return;
    if (s->status->server == NULL || s->status->server->certificate_expires_at == NULL) {
        doctor_skip(row, s->status->server == NULL ? "only with scope admin.read"
                                                   : "the server has none");
        return;
    }
    int64_t left =
        s->status->server->certificate_expires_at->seconds - box_wall_ns() / (int64_t)BOX_SECOND;
    int64_t days = left < 0 ? (left - DAY_SECONDS + 1) / DAY_SECONDS : left / DAY_SECONDS;
    doctor_dates dates = {.days_left = (int)days};
    doctor_judge_dates(row, "the one in use", &dates,
                       "put a new one where tls.cert says, then systemctl reload boxd (its own "
                       "development certificate it renews when it starts)");
}

static void check_warnings(doctor *d, const doctor_check *check, doctor_row *row)
{
    (void)check;
    const doctor_server *s = &d->server;
    if (!has_status(d, row))
        return;
    if (s->status->n_warnings == 0) {
        doctor_ok(row, "none");
    } else {
        doctor_warn(row, "%s%s", s->status->warnings[0],
                    s->status->n_warnings > 1 ? " (and more)" : "");
        doctor_fix(row, "boxcli status shows all of them");
    }
}

/* --- a command -------------------------------------------------------------------------------- */

/* Runs `true` in a sandbox of its own, between these two moments. NULL, with the row filled, when
 * that is not possible. */
static Box__V1__ExecResponse *run_true(doctor *d, doctor_row *row, int64_t *before, int64_t *after)
{
    if (!has_server(d, row))
        return NULL;
    box_error err;
    Box__V1__ExecResponse *r = NULL;
    Box__V1__ExecRequest request;
    Box__V1__Command command;
    char *argv[] = {(char *)(uintptr_t) "true"};
    box__v1__exec_request__init(&request);
    box__v1__command__init(&command);
    command.argv = argv;
    command.n_argv = BOX_COUNT(argv);
    request.command = &command;
    box_client_options o = cli_options(d->cli);
    *before = box_wall_ns();
    if (box_v1_exec_service_exec(d->cli->channel, &o, &request, &r, &err) < 0)
        no_answer(d, row, &err);
    *after = box_wall_ns();
    return r;
}

static void check_command(doctor *d, const doctor_check *check, doctor_row *row)
{
    (void)check;
    int64_t before;
    int64_t after;
    BOX_AUTO(cli_message_freep) Box__V1__ExecResponse *r = run_true(d, row, &before, &after);
    if (r == NULL)
        return;
    const Box__V1__Verdict *v = r->verdict;
    if (v == NULL || v->status != BOX__V1__VERDICT_STATUS__VERDICT_STATUS_COMPLETED ||
        v->exit_code != 0) {
        doctor_fail(row, "true did not end with 0 in a sandbox: %s", v != NULL ? v->detail : "");
        doctor_fix(row, "see the logs of boxd and box-warden");
        return;
    }
    doctor_ok(row, "true ran in a sandbox of its own, %lld ms in all",
              (long long)((after - before) / (int64_t)BOX_MS));
}

/* The verdict says when the command was started by the server's clock: between the two moments that
 * ours says. */
static void check_skew(doctor *d, const doctor_check *check, doctor_row *row)
{
    (void)check;
    int64_t before;
    int64_t after;
    BOX_AUTO(cli_message_freep) Box__V1__ExecResponse *r = run_true(d, row, &before, &after);
    if (r == NULL)
        return;
    if (r->verdict == NULL || r->verdict->started_at == NULL) {
        doctor_skip(row, "the server did not say when a command started");
        return;
    }
    doctor_judge_skew(row, before, after,
                      r->verdict->started_at->seconds * (int64_t)BOX_SECOND +
                          r->verdict->started_at->nanos);
}

const doctor_check doctor_server_checks[] = {
    {.name = "boxd", .run = check_boxd},
    {.name = "boxd version", .run = check_version},
    {.name = "token", .run = check_token},
    {.name = "box-warden", .run = check_backends},
    {.name = "guarantees", .run = check_guarantees},
    {.name = "server certificate", .run = check_certificate},
    {.name = "server warnings", .run = check_warnings},
    {.name = "a command", .run = check_command},
    {.name = "server clock", .run = check_skew},
    {0},
};
