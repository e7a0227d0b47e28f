/* How much boxd grew while something went on, as it says itself over a connection of its own. */
#pragma once

#include <stdbool.h>

#include "load.h"

typedef struct bench_growth {
    box_channel *channel;
    double before;
    double most; /* bytes above that, at the moments that were looked at */
} bench_growth;

int bench_growth_begin(bench_growth *g, const load_target *t, box_error *err) BOX_MUST_USE;
int bench_growth_look(bench_growth *g, box_error *err) BOX_MUST_USE;
/* Also for one that never began. */
void bench_growth_end(bench_growth *g);
