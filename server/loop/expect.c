#include "loop/expect.h"

#include "base/limits.h"

bool box_expect_begin(box_expect *e, box_time now)
{
    bool poll = e->wanted && e->short_waits >= BOX_POLL_AFTER;
    e->began_at = e->wanted ? now : 0;
    e->wanted = false;
    return poll;
}

void box_expect_polled(box_expect *e, bool came)
{
    if (!came)
        e->short_waits = 0;
    e->began_at = 0;
}

void box_expect_end(box_expect *e, box_time now)
{
    if (e->began_at == 0)
        return;
    bool is_short = now - e->began_at <= BOX_SHORT_WAIT_US * BOX_US;
    if (!is_short)
        e->short_waits = 0;
    else if (e->short_waits < BOX_POLL_AFTER)
        e->short_waits++;
    e->began_at = 0;
}
