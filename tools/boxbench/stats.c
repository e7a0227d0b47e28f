#include "stats.h"

#include <math.h>

#include "base/alloc.h"
#include "base/clock.h"

void bench_add(bench_case *c, uint64_t ns)
{
    if (c->count == c->capacity) {
        size_t capacity = c->capacity != 0 ? c->capacity * 2 : 1024;
        uint64_t *samples = realloc(c->samples_ns, capacity * sizeof *samples);
        if (samples == NULL)
            abort();
        c->samples_ns = samples;
        c->capacity = capacity;
    }
    c->samples_ns[c->count++] = ns;
}

void bench_merge(bench_case *into, const bench_case *from)
{
    for (size_t i = 0; i < from->count; i++)
        bench_add(into, from->samples_ns[i]);
}

void bench_done(bench_case *c)
{
    free(c->samples_ns);
    c->samples_ns = NULL;
    c->count = c->capacity = 0;
}

static int by_value(const void *a, const void *b)
{
    const uint64_t *x = a;
    const uint64_t *y = b;
    return (*x > *y) - (*x < *y);
}

double bench_percentile_us(bench_case *c, double percent)
{
    if (c->count == 0)
        return 0;
    qsort(c->samples_ns, c->count, sizeof *c->samples_ns, by_value);
    size_t at = (size_t)ceil(percent / 100.0 * (double)c->count);
    return (double)c->samples_ns[at > 0 ? at - 1 : 0] / 1000.0;
}

double bench_rate(const bench_case *c)
{
    return c->wall_ns == 0 ? 0 : (double)c->count * (double)BOX_SECOND / (double)c->wall_ns;
}

static double client_us(const bench_case *c)
{
    return c->count == 0 ? 0 : (double)c->client_ns / (double)c->count / (double)BOX_US;
}

json_t *bench_json(bench_case *c)
{
    return json_pack("{s:f, s:f, s:f, s:f, s:I, s:f}", "p50_us", bench_percentile_us(c, 50),
                     "p95_us", bench_percentile_us(c, 95), "p99_us", bench_percentile_us(c, 99),
                     "rps", bench_rate(c), "count", (json_int_t)c->count, "client_us",
                     client_us(c));
}

void bench_print(bench_case *c)
{
    printf("%-28s %10.1f %10.1f %10.1f %10.0f %8zu %9.1f\n", c->name, bench_percentile_us(c, 50),
           bench_percentile_us(c, 95), bench_percentile_us(c, 99), bench_rate(c), c->count,
           client_us(c));
}

void bench_target(const char *name, double value, const char *target)
{
    printf("%-28s %10.2f  target %s\n", name, value, target);
}
