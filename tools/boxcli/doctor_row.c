/* boxcli doctor: filling rows. */
#include <stdarg.h>

#include "doctor.h"

void doctor_say(doctor_row *row, doctor_state state, const char *fmt, ...)
{
    va_list args;
    row->state = state;
    va_start(args, fmt);
    (void)vsnprintf(row->found, sizeof row->found, fmt, args); /* a longer text is cut */
    va_end(args);
}

void doctor_fix(doctor_row *row, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(row->fix, sizeof row->fix, fmt, args);
    va_end(args);
}
