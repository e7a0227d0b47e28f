/* boxcli drill: filling outcomes. */
#include <stdarg.h>

#include "drill.h"

void drill_say(drill_outcome *out, drill_result result, const char *fmt, ...)
{
    va_list args;
    out->result = result;
    va_start(args, fmt);
    (void)vsnprintf(out->happened, sizeof out->happened, fmt, args); /* a longer text is cut */
    va_end(args);
}
