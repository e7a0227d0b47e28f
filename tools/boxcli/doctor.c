/* boxcli doctor: walks the tables of checks and prints what they found. */
#include "doctor.h"

#include <unistd.h>

#include <jansson.h>

#include "args.h"
#include "base/clock.h"

enum {
    OPT_ONLY = 0x700,
    OPT_STATE_DIR,
    OPT_WARDEN_CONFIG,
    ASK_SECONDS = 10, /* a server that takes longer is ill */
};

/* What --only names. */
typedef struct part {
    const char *name;
    const doctor_check *const tables[6]; /* NULL-ended */
} part;

static const part parts[] = {
    {"machine",
     {doctor_kernel_checks, doctor_cgroup_checks, doctor_limit_checks, doctor_engine_checks,
      doctor_clock_checks, NULL}},
    {"files", {doctor_file_checks, doctor_certificate_checks, NULL}},
    {"server", {doctor_server_checks, NULL}},
};

static const struct argp_option options[] = {
    {.name = "only",
     .key = OPT_ONLY,
     .arg = "PART",
     .doc = "look only at the machine, the files or the server"},
    {.name = "state-dir",
     .key = OPT_STATE_DIR,
     .arg = "DIR",
     .doc = "boxd's state directory; default: that of the token file admin.token, or /var/lib/box"},
    {.name = "warden-config",
     .key = OPT_WARDEN_CONFIG,
     .arg = "FILE",
     .doc = "box-warden's configuration (/etc/box/warden-namespace.yaml)"},
    {0},
};

typedef struct doctor_args {
    cli_words words;
    doctor *doctor;
    const part *only; /* NULL: all */
} doctor_args;

/* --- rows ------------------------------------------------------------------------------------- */

static const char *const state_names[] = {"ok", "warn", "fail", "skip"};

const char *doctor_setting(const char *option, const char *variable)
{
    const char *value = option != NULL ? option : getenv(variable);
    return value != NULL && *value != '\0' ? value : NULL;
}

/* --- the report ------------------------------------------------------------------------------- */

typedef struct report {
    json_t *rows; /* NULL: text */
    int counts[BOX_COUNT(state_names)];
} report;

static void report_row(report *r, const char *name, doctor_row *row)
{
    const char *state = state_names[row->state];
    r->counts[row->state]++;
    (void)cli_clean(row->found);
    (void)cli_clean(row->fix);
    if (r->rows != NULL) {
        json_t *object = json_pack("{s:s, s:s, s:s, s:s}", "check", name, "state", state, "found",
                                   row->found, "fix", row->fix);
        /* A path need not be UTF-8, which JSON is. */
        if (object == NULL)
            object = json_pack("{s:s, s:s, s:s, s:s}", "check", name, "state", state, "found",
                               "(text that is not UTF-8)", "fix", "");
        (void)json_array_append_new(r->rows, object);
        return;
    }
    printf("%-4s  %-30s %s\n", state, name, row->found);
    if (row->fix[0] != '\0')
        printf("      %-30s -> %s\n", "", row->fix);
}

static void report_end(report *r)
{
    if (r->rows != NULL) {
        (void)json_dumpf(r->rows, stdout,
                         JSON_INDENT(2) | JSON_ENSURE_ASCII); /* main looks at fflush */
        (void)putchar('\n');
        json_decref(r->rows);
        return;
    }
    printf("%d ok, %d warnings, %d failed, %d skipped\n", r->counts[DOCTOR_OK],
           r->counts[DOCTOR_WARN], r->counts[DOCTOR_FAIL], r->counts[DOCTOR_SKIP]);
}

static void check_part(doctor *d, const part *p, report *r)
{
    for (size_t i = 0; p->tables[i] != NULL; i++) {
        for (const doctor_check *check = p->tables[i]; check->name != NULL; check++) {
            doctor_row row = {0};
            check->run(d, check, &row);
            report_row(r, check->name, &row);
        }
    }
}

/* --- the command ------------------------------------------------------------------------------ */

static const part *find_part(struct argp_state *state, const char *name)
{
    for (size_t i = 0; i < BOX_COUNT(parts); i++) {
        if (strcmp(parts[i].name, name) == 0)
            return &parts[i];
    }
    argp_error(state, "--only %s: expected machine, files or server", name);
    return NULL;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    doctor_args *a = state->input;
    switch (key) {
    case OPT_ONLY:
        a->only = find_part(state, arg);
        return 0;
    case OPT_STATE_DIR:
        a->doctor->state_dir = arg;
        return 0;
    case OPT_WARDEN_CONFIG:
        a->doctor->warden_config = arg;
        return 0;
    default:
        return cli_words_take(&a->words, key, arg, state);
    }
}

static int run(cli *c, int argc, char **argv)
{
    const struct argp parser = {
        .options = options,
        .parser = parse,
        .doc = "Looks whether this machine can run Box, and Box here runs well: what was found, "
               "and what to do about it. Ends with 1 when something failed. Root sees most; "
               "nothing is changed."};
    doctor d = {.cli = c, .is_root = geteuid() == 0};
    doctor_args a = {.doctor = &d};
    report r = {0};
    cli_parse(&parser, argc, argv, &a);
    if (c->timeout_ns == 0)
        c->timeout_ns = ASK_SECONDS * BOX_SECOND;
    if (c->json)
        r.rows = json_array();
    cli_heading(c, "STATE CHECK                          FOUND");
    if (a.only == NULL || a.only->tables[0] == doctor_server_checks)
        doctor_server_ask(&d);
    for (size_t i = 0; i < BOX_COUNT(parts); i++) {
        if (a.only == NULL || a.only == &parts[i])
            check_part(&d, &parts[i], &r);
    }
    doctor_server_done(&d.server);
    report_end(&r);
    return r.counts[DOCTOR_FAIL] == 0 ? CLI_OK : CLI_FAILED;
}

const cli_command cli_doctor_commands[] = {
    {"doctor", NULL, "look for what is wrong on this machine", run},
    {0},
};
