/* The system calls that commands may make: an allow-list (libseccomp, as a binary tree) behind a
 * short prefix of our own that looks at arguments. Refused calls get an error, never a signal, but
 * the 32-bit ABI is killed. design.md section 6; sandbox-facts.md sections 4, 5 and 7. */
#pragma once

#include "base/buf.h"

/* The program, struct sock_filter[] as bytes. one_user: commands run as the agent's own user
 * (BOX_IDS_ONE), and get no call with which a user changes limits or scheduling of its other
 * processes: prlimit64 could end PID 1. */
int box_seccomp_compile(bool one_user, box_buf *out, box_error *err) BOX_MUST_USE;
