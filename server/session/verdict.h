/* The verdict: one decision from what the agent said and the kernel counted. */
#pragma once

#include "session/execution.h"

/* Fills what follows from e->result, e's counters and flags; strings and outputs are borrowed from
 * e. */
void box_verdict_of(box_exec *e, box_verdict *out);
