#include "report.h"

#include <assert.h>
#include <jansson.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/macros.h"

#define KIB 1024.0
#define MIB (1024.0 * 1024.0)

enum { RATE = -1 }; /* instead of a percentile: calls a second */

typedef struct ratio {
    const char *name;
    const char *over;
    double over_percent;
    const char *under;
    double under_percent;
    const char *meaning;
} ratio;

static const ratio ratios[] = {
    {"exec_p50", "exec.c1", 50, "floor.spawn", 50, "Exec over TLS to posix_spawn + wait"},
    {"exec_p99_over_p50", "exec.c1", 99, "exec.c1", 50, "how steady Exec is"},
    {"exec_rate_c50", "exec.c50", RATE, "floor.spawn_all", RATE,
     "50 Execs at once to posix_spawn on all cores, a second"},
    {"create_p99_c50_over_p50", "create.c50", 99, "create.c1", 50,
     "the slowest of 50 creates at once to one alone"},
    {"lifecycle_p50", "lifecycle.c1", 50, "floor.clone", 50,
     "create, Exec, delete to one clone3 with seven namespaces"},
    {"warm_over_exec", "warm.c1", 50, "warm.exec", 50,
     "create, Exec, delete from a full pool to Exec alone"},
    {"warm_run_over_exec", "warm.run", 50, "warm.exec", 50,
     "Exec without a session from a full pool to Exec in one"},
};

bench_case *bench_report_add(bench_report *r, const char *name)
{
    assert(r->n_cases < BENCH_MAX_CASES);
    bench_case *c = &r->cases[r->n_cases++];
    *c = (bench_case){.name = name};
    return c;
}

void bench_report_done(bench_report *r)
{
    for (size_t i = 0; i < r->n_cases; i++)
        bench_done(&r->cases[i]);
    r->n_cases = 0;
}

/* --- ratios ----------------------------------------------------------------------------------- */

static bench_case *find_case(bench_report *r, const char *name)
{
    for (size_t i = 0; i < r->n_cases; i++) {
        if (strcmp(r->cases[i].name, name) == 0)
            return &r->cases[i];
    }
    return NULL;
}

static double value_of(bench_case *c, double percent)
{
    return percent < 0 ? bench_rate(c) : bench_percentile_us(c, percent);
}

/* false: not both were measured. */
static bool get_ratio(bench_report *r, const ratio *one, double *out)
{
    bench_case *over = find_case(r, one->over);
    bench_case *under = find_case(r, one->under);
    if (over == NULL || under == NULL || under->count == 0)
        return false;
    *out = value_of(over, one->over_percent) / value_of(under, one->under_percent);
    return true;
}

/* --- the table -------------------------------------------------------------------------------- */

static void print_live(const live_report *l)
{
    if (l->has_server)
        printf("%-28s %10.1f  MiB resident, before there was a session\n", "boxd",
               l->resident_bytes / MIB);
    printf("%-28s %10zu  live sessions, made in %.1f s, deleted in %.1f s\n", "idle", l->sessions,
           l->seconds, l->delete_seconds);
    if (l->stopped_by.reason != BOX_NONE)
        printf("%-28s %10s  no more: %s (%s)\n", "", "", l->stopped_by.msg,
               box_reason_name(l->stopped_by.reason));
    if (l->has_processes)
        printf("%-28s %10.1f  KiB each: %.1f of processes, %.1f of the kernel\n", "",
               (l->pss_bytes_each + l->kernel_bytes_each) / KIB, l->pss_bytes_each / KIB,
               l->kernel_bytes_each / KIB);
    else
        printf("%-28s %10s  their processes are not seen on this machine\n", "", "");
}

void bench_report_table(bench_report *r)
{
    double value;
    printf("%-28s %10s %10s %10s %10s %8s %9s\n", "case", "p50 us", "p95 us", "p99 us",
           "per second", "calls", "client us");
    for (size_t i = 0; i < r->n_cases; i++)
        bench_print(&r->cases[i]);
    printf("\n");
    if (r->has_live)
        print_live(&r->live);
    for (size_t i = 0; i < BOX_COUNT(ratios); i++) {
        if (get_ratio(r, &ratios[i], &value))
            printf("%-28s %10.2f  %s\n", ratios[i].name, value, ratios[i].meaning);
    }
}

/* --- JSON ------------------------------------------------------------------------------------- */

/* "exec.c1" goes to {"exec": {"c1": ...}}. */
static void put_case(json_t *root, bench_case *c)
{
    char group[32];
    size_t len = strcspn(c->name, ".");
    (void)snprintf(group, sizeof group, "%.*s", (int)len, c->name);
    json_t *object = json_object_get(root, group);
    if (object == NULL) {
        object = json_object();
        json_object_set_new(root, group, object);
    }
    json_object_set_new(object, c->name + len + 1, bench_json(c));
}

static json_t *live_json(const live_report *l)
{
    json_t *o = json_pack("{s:I, s:f, s:f}", "sessions", (json_int_t)l->sessions, "create_seconds",
                          l->seconds, "delete_seconds", l->delete_seconds);
    if (l->has_server)
        json_object_set_new(o, "boxd_resident_bytes", json_real(l->resident_bytes));
    if (l->stopped_by.reason != BOX_NONE)
        json_object_set_new(o, "stopped_by", json_string(box_reason_name(l->stopped_by.reason)));
    if (l->has_processes) {
        json_object_set_new(o, "pss_bytes_each", json_real(l->pss_bytes_each));
        json_object_set_new(o, "kernel_bytes_each", json_real(l->kernel_bytes_each));
    }
    return o;
}

static json_t *machine_json(void)
{
    struct utsname machine = {0};
    if (uname(&machine) < 0)
        return json_object();
    double memory = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
    return json_pack("{s:s, s:s, s:i, s:f}", "kernel", machine.release, "arch", machine.machine,
                     "cpus", (int)sysconf(_SC_NPROCESSORS_ONLN), "memory_bytes", memory);
}

void bench_report_json(bench_report *r)
{
    double value;
    json_t *root = json_object();
    json_object_set_new(root, "machine", machine_json());
    for (size_t i = 0; i < r->n_cases; i++)
        put_case(root, &r->cases[i]);
    if (r->has_live)
        json_object_set_new(root, "idle", live_json(&r->live));
    json_t *all = json_object();
    for (size_t i = 0; i < BOX_COUNT(ratios); i++) {
        if (get_ratio(r, &ratios[i], &value))
            json_object_set_new(all, ratios[i].name, json_real(value));
    }
    json_object_set_new(root, "ratios", all);
    (void)json_dumpf(root, stdout, JSON_INDENT(2));
    printf("\n");
    json_decref(root);
}
