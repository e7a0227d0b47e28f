/* The /etc that sandboxes see: generated accounts and names, and copies of what the host's
 * interpreters, linker and TLS libraries need. Nothing else of the host's /etc shows. */
#pragma once

#include "base/error.h"

/* Fills the empty directory `to` from the host directory `from` (/etc). Only world-readable files
 * and links are copied, within BOX_ETC_*. Missing ones are skipped. */
int box_etc_fill(int to, int from, box_error *err) BOX_MUST_USE;
