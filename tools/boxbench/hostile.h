/* boxbench --hostile: what attacks cost an honest caller beside them, and the server's memory.
 * README.md explains each figure. */
#pragma once

#include "base/error.h"

/* dir: where box-echo-server is (built with the tests); NULL: ../tests beside this program's
 * directory. Needs openssl in PATH and two processors. Prints a table, or JSON. */
int bench_hostile(const char *dir, bool quick, bool json, box_error *err) BOX_MUST_USE;
