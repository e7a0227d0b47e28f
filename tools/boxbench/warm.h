/* Sandboxes that a server keeps ready (box.warm_pool), and what goes on behind DeleteSession's
 * answer. */
#pragma once

#include "load.h"

/* *size: how many the server keeps; 0 where it keeps none, or does not say (scope admin.read). */
int bench_warm_size(const load_target *t, int *size, box_error *err) BOX_MUST_USE;

/* All with a full pool before each call, for which nobody waits with the clock running, and all of
 * /usr/bin/true. Exec in a session: what the others are compared to. */
int bench_warm_exec(const load_target *t, size_t calls, bench_case *out, box_error *err)
    BOX_MUST_USE;
/* CreateSession, Exec, DeleteSession, to the last answer. */
int bench_warm_lifecycle(const load_target *t, size_t calls, bench_case *out, box_error *err)
    BOX_MUST_USE;
/* One Exec without a session. */
int bench_warm_run(const load_target *t, size_t calls, bench_case *out, box_error *err)
    BOX_MUST_USE;

/* From DeleteSession's call until no control group of the sandbox is left on this machine. No
 * samples where there are none to be seen. */
int bench_clean(const load_target *t, size_t calls, bench_case *out, box_error *err) BOX_MUST_USE;
