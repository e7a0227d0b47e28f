/* FileService beside its floors: a read of 1 KiB beside Health, 64 MiB up and down beside what
 * openssl's s_server and s_client carry between them on this machine. */
#pragma once

#include <stdbool.h>

#include "load.h"

/* Prints all of it and the ratios. */
int bench_files_calls(const load_target *t, bool quick, bool json, box_error *err) BOX_MUST_USE;
