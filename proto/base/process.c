#include "base/process.h"

#include <sys/resource.h>

int box_process_forbid_core(box_error *err)
{
    struct rlimit one_byte = {1, 1};
    struct rlimit now;
    if (getrlimit(RLIMIT_CORE, &now) == 0 && now.rlim_max < one_byte.rlim_max)
        one_byte = (struct rlimit){0, 0}; /* an unprivileged process cannot raise it again */
    if (setrlimit(RLIMIT_CORE, &one_byte) < 0)
        return box_fail_errno(err, "limit core dumps");
    return 0;
}
