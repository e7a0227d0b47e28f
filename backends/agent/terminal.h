/* A pseudo terminal of the sandbox's own devpts. */
#pragma once

#include <stdint.h>

#include "base/error.h"

/* *master: non-blocking; slave: three descriptors of its other side. On failure *master may be
 * open; the slaves are closed by the caller in any case. 0 rows or columns: 24, 80. */
int box_terminal_open(uint16_t rows, uint16_t columns, int *master, int slave[3], box_error *err)
    BOX_MUST_USE;
