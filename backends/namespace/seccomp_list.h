/* The two lists of system calls, ended by NULL: allowed, and refused with EPERM because programs
 * know them and expect to be told so. Everything else is ENOSYS (io_uring, openat2 and fchmodat2,
 * whose modes a filter cannot see, and what is newer than the list). */
#pragma once

extern const char *const box_seccomp_allowed[];
extern const char *const box_seccomp_refused[];
