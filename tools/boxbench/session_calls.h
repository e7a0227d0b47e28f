/* The calls on sessions that several cases are made of. */
#pragma once

#include "load.h"

/* What a static `true` is read into; borrowed for the program's life. */
typedef struct bench_program {
    uint8_t *data;
    size_t len;
} bench_program;

/* Names w->session anew. */
void bench_session_name(load_worker *w);
/* CreateSession of w->session. uid, when not NULL, gets its uid. cold: it asks by name for the
 * workspace's size that it would get anyway, so none that the server keeps ready fits. */
int bench_session_create(load_worker *w, bool cold, char uid[64], box_error *err) BOX_MUST_USE;
/* DeleteSession of w->session; one that is gone is fine. */
int bench_session_delete(load_worker *w, box_error *err) BOX_MUST_USE;
/* load_plan.finish: deletes what is left. */
void bench_session_finish(load_worker *w);
/* Runs argv in w->session ("": a sandbox that goes with the call) with stdin (NULL: none); anything
 * but exit 0 is an error: a figure of failing calls means nothing. */
int bench_session_exec(load_worker *w, char **argv, size_t n_argv, const bench_program *input,
                       box_error *err) BOX_MUST_USE;
