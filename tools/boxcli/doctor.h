/* boxcli doctor: a table of checks, each of which fills one row of the report. */
#pragma once

#include "box/v1/control.box.h"
#include "cli.h"

enum { DOCTOR_FOUND = 512, DOCTOR_FIX = 320 };

typedef enum doctor_state { DOCTOR_OK, DOCTOR_WARN, DOCTOR_FAIL, DOCTOR_SKIP } doctor_state;

typedef struct doctor_row {
    doctor_state state;
    char found[DOCTOR_FOUND]; /* one line */
    char fix[DOCTOR_FIX];     /* one command or sentence; empty where nothing is to be done */
} doctor_row;

/* What the server said, asked once. A message is NULL where its call failed, and why is beside it.
 */
typedef struct doctor_server {
    bool named;   /* a server was named at all */
    bool reached; /* it answered something, be it an error of its own */
    box_error why;
    Box__V1__GetStatusResponse *status;
    box_error status_why;
    Box__V1__ListBackendsResponse *backends;
    box_error backends_why;
    Box__V1__WhoAmIResponse *who;
    box_error who_why;
} doctor_server;

typedef struct doctor {
    cli *cli;
    bool is_root;
    const char *state_dir;     /* of boxd; NULL: where it usually is */
    const char *warden_config; /* likewise */
    doctor_server server;
} doctor;

typedef struct doctor_check doctor_check;
struct doctor_check {
    const char *name;
    void (*run)(doctor *d, const doctor_check *check, doctor_row *row);
    const void *about; /* what the function wants to know: a name, a path, a record */
};

/* One table a file; doctor.c joins them. Each ends with a zeroed row. */
extern const doctor_check doctor_kernel_checks[];
extern const doctor_check doctor_cgroup_checks[];
extern const doctor_check doctor_limit_checks[];
extern const doctor_check doctor_engine_checks[];
extern const doctor_check doctor_clock_checks[];
extern const doctor_check doctor_file_checks[];
extern const doctor_check doctor_certificate_checks[];
extern const doctor_check doctor_server_checks[];

/* Filling a row; the text is `found`. */
void doctor_say(doctor_row *row, doctor_state state, const char *fmt, ...) BOX_PRINTF(3, 4);
#define doctor_ok(row, ...)   doctor_say((row), DOCTOR_OK, __VA_ARGS__)
#define doctor_skip(row, ...) doctor_say((row), DOCTOR_SKIP, __VA_ARGS__)
#define doctor_warn(row, ...) doctor_say((row), DOCTOR_WARN, __VA_ARGS__)
#define doctor_fail(row, ...) doctor_say((row), DOCTOR_FAIL, __VA_ARGS__)
/* What to do about it. */
void doctor_fix(doctor_row *row, const char *fmt, ...) BOX_PRINTF(2, 3);

enum { DOCTOR_RENEW_DAYS = 30 };

/* A certificate's. */
typedef struct doctor_dates {
    int days_left;     /* below 0: it has expired */
    int days_to_begin; /* above 0: it does not hold yet */
} doctor_dates;

/* `what` names it; `fix` is said unless it holds for DOCTOR_RENEW_DAYS more. */
void doctor_judge_dates(doctor_row *row, const char *what, const doctor_dates *dates,
                        const char *fix);
/* Something happened at theirs_ns by the server's clock, and between the two others by ours. */
void doctor_judge_skew(doctor_row *row, int64_t before_ns, int64_t after_ns, int64_t theirs_ns);

/* Asks the server all that its rows need; each call ends within the CLI's timeout. */
void doctor_server_ask(doctor *d);
void doctor_server_done(doctor_server *s);

/* An option's value, else the environment's, else NULL. */
const char *doctor_setting(const char *option, const char *variable);
