#include "h2load.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "stats.h"

enum { LOAD_CPU = 1, ANSWER_BYTES = 5, FILE_BYTES = 64, STREAM_BYTES = 1 << 20 };

typedef struct arguments {
    char connections[24], streams[24], calls[24], url[96], times[PATH_MAX];
    const char *argv[24];
} arguments;

static void arguments_make(arguments *a, const bench_shape *s, bench_peer_kind kind,
                           const bench_peer *peer, const bench_files *f)
{
    const char *path = kind == BENCH_NGHTTPD ? "64"
                       : s->stream           ? "boxtest.v1.TestService/StreamingOutputCall"
                                             : "boxtest.v1.TestService/Nothing";
    (void)snprintf(a->connections, sizeof a->connections, "-c%u", s->connections);
    (void)snprintf(a->streams, sizeof a->streams, "-m%u", s->streams);
    (void)snprintf(a->calls, sizeof a->calls, "-n%zu", s->calls);
    (void)snprintf(a->url, sizeof a->url, "https://127.0.0.1:%u/%s", peer->port, path);
    (void)snprintf(a->times, sizeof a->times, "--log-file=%.*s/times", (int)sizeof f->dir, f->dir);
    size_t n = 0;
    a->argv[n++] = "h2load";
    a->argv[n++] = "-t1";
    a->argv[n++] = a->connections;
    a->argv[n++] = a->streams;
    a->argv[n++] = a->calls;
    if (s->latency)
        a->argv[n++] = a->times;
    if (kind != BENCH_NGHTTPD) {
        a->argv[n++] = "-d";
        a->argv[n++] = s->stream ? f->output : f->empty;
        a->argv[n++] = "-H";
        a->argv[n++] = "content-type: application/grpc";
        a->argv[n++] = "-H";
        a->argv[n++] = "te: trailers";
    }
    a->argv[n++] = a->url;
    a->argv[n] = NULL;
}

/* The number that stands in parentheses before `word` in the line of traffic. */
static unsigned long long traffic_bytes(const char *text, const char *word)
{
    const char *line = strstr(text, "traffic:");
    const char *at = line != NULL ? strstr(line, word) : NULL;
    while (at != NULL && at > line && *at != '(')
        at--;
    return at != NULL ? strtoull(at + 1, NULL, 10) : 0;
}

static int parse(const char *text, const bench_shape *s, bench_peer_kind kind, bench_result *out,
                 box_error *err)
{
    size_t each = kind == BENCH_NGHTTPD ? FILE_BYTES : s->stream ? STREAM_BYTES : ANSWER_BYTES;
    const char *finished = strstr(text, "finished in ");
    const char *rate = finished != NULL ? strstr(finished, ", ") : NULL;
    const char *succeeded = strstr(text, " succeeded");
    out->rps = rate != NULL ? strtod(rate + 2, NULL) : 0;
    if (succeeded == NULL || out->rps <= 0)
        return box_fail(err, BOX_INTERNAL, "h2load printed something else than expected");
    while (succeeded > text && succeeded[-1] >= '0' && succeeded[-1] <= '9')
        succeeded--;
    if (strtoull(succeeded, NULL, 10) != s->calls)
        return box_fail(err, BOX_INTERNAL, "only %llu of %zu calls succeeded",
                        strtoull(succeeded, NULL, 10), s->calls);
    if (traffic_bytes(text, ") data") < s->calls * each)
        return box_fail(err, BOX_INTERNAL, "answers are too short: %llu bytes in all",
                        traffic_bytes(text, ") data"));
    return 0;
}

/* Lines of start, HTTP status and duration, times in microseconds. */
static int read_times(const bench_files *f, bench_result *out, box_error *err)
{
    char path[sizeof f->dir + 8];
    (void)snprintf(path, sizeof path, "%s/times", f->dir);
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return box_fail_errno(err, "open h2load's log");
    bench_case times = {0};
    char line[128];
    while (fgets(line, sizeof line, file) != NULL) {
        const char *last = strrchr(line, '\t');
        if (last != NULL)
            bench_add(&times, strtoul(last + 1, NULL, 10) * BOX_US);
    }
    (void)fclose(file);
    (void)remove(path);
    size_t count = times.count;
    out->p50_us = bench_percentile_us(&times, 50);
    bench_done(&times);
    return count > 0 ? 0 : box_fail(err, BOX_INTERNAL, "h2load's log is empty");
}

int bench_h2load(const bench_shape *s, bench_peer_kind kind, const bench_peer *peer,
                 const bench_files *files, bench_result *out, box_error *err)
{
    arguments a;
    bench_process p;
    const char *text;
    BOX_AUTO(box_buf_done) box_buf output = {0};
    arguments_make(&a, s, kind, peer, files);
    *out = (bench_result){0};
    if (bench_process_start(a.argv, LOAD_CPU, &p, err) < 0 ||
        bench_process_output(&p, &output, err) < 0 || box_buf_text(&output, &text, err) < 0 ||
        parse(text, s, kind, out, err) < 0 || (s->latency && read_times(files, out, err) < 0))
        return box_wrap(err, "%s of %s", s->name, peer->name);
    return 0;
}
