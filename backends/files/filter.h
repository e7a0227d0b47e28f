/* The system calls of box-files: what file work needs, openat2 with it, which commands do not
 * have. */
#pragma once

#include "base/error.h"

/* Nothing more than the list from here on: others give EPERM. no_new_privs must be set. */
int box_files_filter(box_error *err) BOX_MUST_USE;
