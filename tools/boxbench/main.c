/* boxbench: how fast a Box server is, as ratios to what the kernel alone takes in the same run.
 * README.md explains each figure. */
#include <argp.h>
#include <libgen.h>
#include <limits.h>
#include <unistd.h>

#include "attach.h"
#include "base/macros.h"
#include "cases.h"
#include "files.h"
#include "floor.h"
#include "hostile.h"
#include "live.h"
#include "report.h"
#include "rpc.h"
#include "warm.h"

enum { OPT_JSON = 'j', OPT_ENDPOINT = 'e', OPT_QUICK = 'q', OPT_RPC = 'r', OPT_SERVERS = 's' };
enum { OPT_HOSTILE = 'h' + 256, OPT_ONLY, OPT_ATTACH, OPT_FILES, OPT_SESSIONS };
enum { IDLE_SESSIONS = 1000, MAX_IDLE_SESSIONS = 100000 };
typedef struct bench {
    bool json;
    bool quick;
    bool rpc;
    bool hostile;
    bool attach;
    bool files;
    const char *servers;
    const char *only; /* comma-separated beginnings of names; NULL = all cases */
    load_target target;
    char program_path[PATH_MAX];
    bench_program program;
    size_t sessions; /* of idle */
    bench_report report;
} bench;

/* One case: what runs it, and how much of it. */
typedef struct step {
    const char *name;
    size_t calls;
    int (*run)(bench *b, bench_case *c, const struct step *s, box_error *err);
    unsigned connections;
    unsigned threads_each;
    int (*floor)(const char *program, size_t rounds, bench_case *out, box_error *err);
    bool needs_root;
} step;

/* NOLINTNEXTLINE(readability-non-const-parameter): argp says what it takes */
static error_t parse(int key, char *arg, struct argp_state *state)
{
    bench *b = state->input;
    switch (key) {
    case OPT_JSON:
        b->json = true;
        return 0;
    case OPT_QUICK:
        b->quick = true;
        return 0;
    case OPT_RPC:
        b->rpc = true;
        return 0;
    case OPT_HOSTILE:
        b->hostile = true;
        return 0;
    case OPT_ONLY:
        b->only = arg;
        return 0;
    case OPT_ATTACH:
        b->attach = true;
        return 0;
    case OPT_FILES:
        b->files = true;
        return 0;
    case OPT_SESSIONS:
        b->sessions = strtoul(arg, NULL, 10);
        if (b->sessions < 1 || b->sessions > MAX_IDLE_SESSIONS)
            argp_error(state, "--sessions takes 1 to %d", MAX_IDLE_SESSIONS);
        return 0;
    case OPT_SERVERS:
        b->servers = arg;
        return 0;
    case OPT_ENDPOINT:
        b->target.endpoint = arg;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* Beside this program, or where it is installed. */
static int find_program(bench *b, box_error *err)
{
    static const char *const places[] = {"boxbench-true", "../libexec/box/boxbench-true"};
    char self[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    if (n < 0)
        return box_fail_errno(err, "find this program");
    self[n] = '\0';
    const char *dir = dirname(self);
    for (size_t i = 0; i < BOX_COUNT(places); i++) {
        int len = snprintf(b->program_path, sizeof b->program_path, "%s/%s", dir, places[i]);
        if (len > 0 && (size_t)len < sizeof b->program_path && access(b->program_path, X_OK) == 0)
            return bench_program_read(b->program_path, &b->program, err);
    }
    return box_fail(err, BOX_FILE_NOT_FOUND,
                    "boxbench-true is not beside boxbench nor in ../libexec/box");
}

static bench_case *next_case(bench *b, const char *name)
{
    return bench_report_add(&b->report, name);
}

static size_t scale(const bench *b, size_t calls)
{
    return b->quick ? calls / 10 : calls;
}

/* Left out, with their ratio, where the server keeps nothing ready or its groups are not seen. */
static int measure_warm(bench *b, box_error *err)
{
    const load_target *t = &b->target;
    int size = 0;
    bench_case *clean = next_case(b, "lifecycle.clean");
    if (bench_clean(t, scale(b, 200), clean, err) < 0)
        return box_wrap(err, "lifecycle.clean");
    b->report.n_cases -= clean->count == 0;
    if (bench_warm_size(t, &size, err) < 0)
        return box_wrap(err, "warm");
    if (size == 0)
        return 0;
    if (bench_warm_exec(t, scale(b, 500), next_case(b, "warm.exec"), err) < 0 ||
        bench_warm_lifecycle(t, scale(b, 500), next_case(b, "warm.c1"), err) < 0 ||
        bench_warm_run(t, scale(b, 500), next_case(b, "warm.run"), err) < 0)
        return box_wrap(err, "warm");
    return 0;
}

static bool is_wanted(const bench *b, const char *name)
{
    for (const char *at = b->only; at != NULL && *at != '\0';) {
        size_t len = strcspn(at, ",");
        if (len > 0 && strncmp(name, at, len) == 0)
            return true;
        at += len + (at[len] == ',');
    }
    return b->only == NULL;
}

static int run_floor(bench *b, bench_case *c, const step *s, box_error *err)
{
    return s->floor(b->program_path, scale(b, s->calls), c, err);
}

static int run_health(bench *b, bench_case *c, const step *s, box_error *err)
{
    return bench_health(&b->target, s->connections, s->threads_each, scale(b, s->calls), c, err);
}

static int run_exec(bench *b, bench_case *c, const step *s, box_error *err)
{
    return bench_exec(&b->target, &b->program, s->connections, scale(b, s->calls), c, err);
}

static int run_create(bench *b, bench_case *c, const step *s, box_error *err)
{
    return bench_create(&b->target, s->connections, scale(b, s->calls), c, err);
}

static int run_lifecycle(bench *b, bench_case *c, const step *s, box_error *err)
{
    return bench_lifecycle(&b->target, s->connections, scale(b, s->calls), c, err);
}

static const step steps[] = {
    {"floor.spawn", 2000, run_floor, .floor = bench_floor_spawn},
    {"floor.spawn_all", 4000, run_floor, .floor = bench_floor_spawn_all},
    {"floor.clone", 500, run_floor, .floor = bench_floor_clone, .needs_root = true},
    {"health.c1", 5000, run_health, .connections = 1, .threads_each = 1},
    {"health.c10x10", 20000, run_health, .connections = 10, .threads_each = 10},
    {"health.c100x10", 40000, run_health, .connections = 100, .threads_each = 10},
    {"exec.c1", 2000, run_exec, .connections = 1},
    {"exec.c16", 8000, run_exec, .connections = 16},
    {"exec.c50", 10000, run_exec, .connections = 50},
    {"create.c1", 500, run_create, .connections = 1},
    {"create.c50", 1000, run_create, .connections = 50},
    {"lifecycle.c1", 500, run_lifecycle, .connections = 1},
    {"lifecycle.c8", 800, run_lifecycle, .connections = 8},
};

/* What needs root is left out elsewhere, and with it the ratio. */
static int measure(bench *b, box_error *err)
{
    live_report *live = &b->report.live;
    b->report.has_live = is_wanted(b, "idle");
    if (b->report.has_live && bench_live_begin(&b->target, live, err) < 0)
        return box_wrap(err, "idle");
    for (size_t i = 0; i < BOX_COUNT(steps); i++) {
        const step *s = &steps[i];
        if (!is_wanted(b, s->name) || (s->needs_root && geteuid() != 0))
            continue;
        if (s->run(b, next_case(b, s->name), s, err) < 0)
            return box_wrap(err, "%s", s->name);
    }
    if (is_wanted(b, "warm") && measure_warm(b, err) < 0)
        return -1;
    if (b->report.has_live && bench_live_sessions(&b->target, scale(b, b->sessions), live, err) < 0)
        return box_wrap(err, "idle");
    return 0;
}

static int bench_box(bench *b, box_error *err)
{
    if (find_program(b, err) < 0 || measure(b, err) < 0)
        return -1;
    if (b->json)
        bench_report_json(&b->report);
    else
        bench_report_table(&b->report);
    return 0;
}

int main(int argc, char **argv)
{
    static const struct argp_option options[] = {
        {.name = "json", .key = OPT_JSON, .doc = "print JSON"},
        {.name = "quick",
         .key = OPT_QUICK,
         .doc = "a tenth of the calls: to see that it works, not to measure"},
        {.name = "endpoint",
         .key = OPT_ENDPOINT,
         .arg = "TARGET",
         .doc = "instead of BOX_ENDPOINT"},
        {.name = "rpc",
         .key = OPT_RPC,
         .doc = "instead: the gRPC server alone, beside grpc++ and nghttpd"},
        {.name = "hostile",
         .key = OPT_HOSTILE,
         .doc = "instead: what attacks cost an honest caller, and memory"},
        {.name = "only",
         .key = OPT_ONLY,
         .arg = "NAMES",
         .doc = "only cases whose names begin so: floor.spawn,exec"},
        {.name = "sessions",
         .key = OPT_SESSIONS,
         .arg = "N",
         .doc = "how many live sessions idle makes (1000), as far as the server allows"},
        {.name = "attach",
         .key = OPT_ATTACH,
         .doc = "instead: bytes of one attached caller, beside openssl"},
        {.name = "files",
         .key = OPT_FILES,
         .doc = "instead: file calls, beside Health and openssl"},
        {.name = "servers",
         .key = OPT_SERVERS,
         .arg = "DIR",
         .doc = "with --rpc or --hostile: where box-echo-server and box-grpcxx-server are"},
        {0},
    };
    static const struct argp parser = {.options = options,
                                       .parser = parse,
                                       .doc = "Measures a Box server beside the floor of the same "
                                              "machine, in one run. The server is named by "
                                              "BOX_ENDPOINT, BOX_TOKEN_FILE and BOX_CA."};
    bench *b = calloc(1, sizeof *b);
    box_error err;
    if (b == NULL)
        return 1;
    b->sessions = IDLE_SESSIONS;
    (void)argp_parse(&parser, argc, argv, 0, NULL, b);
    int rc = b->attach    ? bench_attach(&b->target, b->quick, b->json, &err)
             : b->files   ? bench_files_calls(&b->target, b->quick, b->json, &err)
             : b->hostile ? bench_hostile(b->servers, b->quick, b->json, &err)
             : b->rpc     ? bench_rpc(b->servers, b->quick, b->json, &err)
                          : bench_box(b, &err);
    if (rc < 0)
        fprintf(stderr, "boxbench: %s (%s)\n", err.msg, box_reason_name(err.reason));
    bench_report_done(&b->report);
    free(b->program.data);
    free(b);
    return rc < 0;
}
