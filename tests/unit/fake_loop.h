/* loop/loop.h in one thread with a clock that stands still until a test moves it. Linked instead of
 * box_loop's sources. Several loops are turned one after another. */
#pragma once

#include "loop/loop.h"

void fake_loop_enter(box_loop *l);   /* what box_loop_current says from now on */
void fake_time_advance(uint64_t ns); /* timers fire at the next turn */
int64_t fake_wall_ns(void);          /* a wall clock that goes along */
/* Runs posts, due timers and ready watches of all loops once; false when there was nothing. */
bool fake_loops_turn(box_loops *all);
/* From now on there are no workers: box_loop_offload says SHUTTING_DOWN; false: there are again. */
void fake_workers_stop(box_loop *l, bool stopped);
