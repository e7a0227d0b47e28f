/* boxcli doctor: is this machine's clock set by somebody? Certificates and tokens end by it. */
#include <errno.h>
#include <sys/timex.h>
#include <time.h>

#include "doctor.h"

enum { BUILT_YEAR = 2024 - 1900 }; /* no machine that runs Box is older */

static void check_clock(doctor *d, const doctor_check *check, doctor_row *row)
{
    (void)d;
    (void)check;
    struct timex t = {0}; /* modes 0: only look */
    struct tm parts;
    time_t now = time(NULL);
    int state = adjtimex(&t);
    if (gmtime_r(&now, &parts) == NULL || parts.tm_year < BUILT_YEAR) {
        doctor_fail(row, "it says %d", parts.tm_year + 1900);
        doctor_fix(row, "set it: timedatectl set-ntp true");
    } else if (state < 0) {
        doctor_skip(row, "whether it is synchronised cannot be asked: %s", strerror(errno));
    } else if (state == TIME_ERROR || (t.status & STA_UNSYNC) != 0) {
        doctor_warn(row, "not synchronised: certificates and tokens end at the wrong time");
        doctor_fix(row, "timedatectl set-ntp true (or run another NTP client)");
    } else {
        doctor_ok(row, "synchronised, wrong by %ld ms at most", t.maxerror / 1000);
    }
}

const doctor_check doctor_clock_checks[] = {
    {.name = "clock", .run = check_clock},
    {0},
};
