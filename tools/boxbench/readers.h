/* Many callers attached to one process that floods, most of which read nothing. */
#pragma once

#include "load.h"

/* *grown: the most that boxd grew meanwhile, bytes. For so long. */
int bench_readers(const load_target *t, uint64_t ns, double *grown, box_error *err) BOX_MUST_USE;
