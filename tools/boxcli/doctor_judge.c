/* boxcli doctor: the judgements that need no machine. */
#include "base/clock.h"
#include "doctor.h"

enum { SKEW_SECONDS = 5 }; /* with more a token's or certificate's end is another one's */

void doctor_judge_dates(doctor_row *row, const char *what, const doctor_dates *dates,
                        const char *fix)
{
    if (dates->days_left < 0)
        doctor_fail(row, "%s: expired %lld days ago", what, -(long long)dates->days_left);
    else if (dates->days_to_begin > 0)
        doctor_fail(row, "%s: holds only in %d days (or this clock is wrong)", what,
                    dates->days_to_begin);
    else if (dates->days_left < DOCTOR_RENEW_DAYS)
        doctor_warn(row, "%s: expires in %d days", what, dates->days_left);
    else
        doctor_ok(row, "%s: expires in %d days", what, dates->days_left);
    if (row->state != DOCTOR_OK)
        doctor_fix(row, "%s", fix);
}

void doctor_judge_skew(doctor_row *row, int64_t before_ns, int64_t after_ns, int64_t theirs_ns)
{
    int64_t ahead = (theirs_ns - after_ns) / (int64_t)BOX_SECOND;
    int64_t behind = (before_ns - theirs_ns) / (int64_t)BOX_SECOND;
    if (ahead < SKEW_SECONDS && behind < SKEW_SECONDS) {
        doctor_ok(row, "the same as here within %d s", SKEW_SECONDS);
        return;
    }
    doctor_warn(row, "%lld s %s this one", (long long)(ahead > 0 ? ahead : behind),
                ahead > 0 ? "ahead of" : "behind");
    doctor_fix(row, "timedatectl set-ntp true, on both machines");
}
