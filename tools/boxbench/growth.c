#include "growth.h"

#include "live.h"

static int ask(bench_growth *g, double *out, box_error *err)
{
    bool known;
    if (bench_resident(g->channel, &known, out, err) < 0)
        return -1;
    return known ? 0 : box_fail(err, BOX_PERMISSION, "boxd does not say how much memory it has");
}

int bench_growth_begin(bench_growth *g, const load_target *t, box_error *err)
{
    *g = (bench_growth){0};
    if (box_channel_new(t->endpoint, NULL, &g->channel, err) < 0)
        return -1;
    return ask(g, &g->before, err);
}

int bench_growth_look(bench_growth *g, box_error *err)
{
    double now = 0;
    if (ask(g, &now, err) < 0)
        return -1;
    if (now - g->before > g->most)
        g->most = now - g->before;
    return 0;
}

void bench_growth_end(bench_growth *g)
{
    box_channel_free(g->channel);
    g->channel = NULL;
}
