/* Latencies of one case, and what is reported of them. */
#pragma once

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

typedef struct bench_case {
    const char *name;
    uint64_t *samples_ns; /* owned */
    size_t count;
    size_t capacity;
    uint64_t wall_ns;   /* of the whole case: count / wall = rate */
    uint64_t client_ns; /* processor time this program took meanwhile; 0 = not measured */
} bench_case;

void bench_add(bench_case *c, uint64_t ns);
void bench_merge(bench_case *into, const bench_case *from);
void bench_done(bench_case *c);

/* Microseconds; percent 0-100. Sorts. 0 without samples. */
double bench_percentile_us(bench_case *c, double percent);

/* {p50_us, p95_us, p99_us, rps, count, client_us: of this program, each call} */
double bench_rate(const bench_case *c); /* calls a second */
json_t *bench_json(bench_case *c);
void bench_print(bench_case *c);
/* A line "NAME  VALUE  target TARGET". */
void bench_target(const char *name, double value, const char *target);
