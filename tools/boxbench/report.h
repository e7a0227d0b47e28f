/* What a run of boxbench measured, and how it is told: cases, ratios of them, and what live
 * sessions take. */
#pragma once

#include "live.h"
#include "stats.h"

enum { BENCH_MAX_CASES = 24 };

typedef struct bench_report {
    bench_case cases[BENCH_MAX_CASES];
    size_t n_cases;
    bool has_live;
    live_report live;
} bench_report;

/* A new case. name is "GROUP.CASE" and stays the caller's. */
bench_case *bench_report_add(bench_report *r, const char *name);
/* Ratios of which a case was not measured are left out. */
void bench_report_table(bench_report *r);
void bench_report_json(bench_report *r);
void bench_report_done(bench_report *r);
