/* What every program of ours asks for itself at its start. */
#pragma once

#include "base/error.h"

/* Takes away core dumps, which would hold keys and tokens, from this process and what it starts.
 * The limit is 1 byte and not 0: a handler in core_pattern is started with 0, and not with 1
 * (core(5), "Piping core dumps to a program"). Fails with an errno's reason. Any thread. */
int box_process_forbid_core(box_error *err) BOX_MUST_USE;
