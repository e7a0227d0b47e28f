/* Programs the benchmark starts: load tools and the servers measured, each on a core of its own. */
#pragma once

#include <sys/types.h>

#include "base/buf.h"
#include "base/error.h"

typedef struct bench_process {
    pid_t pid; /* 0: none */
    int out;   /* its stdout; -1: none */
} bench_process;

/* argv[0] is looked up in PATH when it holds no slash. cpu: the only one it may use,
 * below 0 any. Its stderr is
 * dropped. */
int bench_process_start(const char *const argv[], int cpu, bench_process *out, box_error *err)
    BOX_MUST_USE;
/* The first line it prints, without the newline, within 20 s. */
int bench_process_line(bench_process *p, char *line, size_t size, box_error *err) BOX_MUST_USE;
/* Everything it prints, up to 1 MiB, into out (which is set up here); then its exit status must be
 * 0. */
int bench_process_output(bench_process *p, box_buf *out, box_error *err) BOX_MUST_USE;
/* TERM, and waits. Also for one that was never started. */
void bench_process_stop(bench_process *p);
