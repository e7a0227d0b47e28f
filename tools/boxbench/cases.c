#include "cases.h"

#include <fcntl.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "box/v1/control.client.h"

enum { MAX_PROGRAM_BYTES = 4 * 1024 * 1024 };

int bench_program_read(const char *path, bench_program *out, box_error *err)
{
    BOX_AUTO(box_closep) int fd = open(path, O_RDONLY | O_CLOEXEC);
    box_buf data = {.max_bytes = MAX_PROGRAM_BYTES};
    if (fd < 0)
        return box_fail_errno(err, "open %s", path);
    if (box_buf_read_fd(&data, fd, err) < 0)
        return -1;
    *out = (bench_program){data.data, box_buf_len(&data)};
    return 0;
}

/* --- health ----------------------------------------------------------------------------------- */

static int call_health(load_worker *w, box_error *err)
{
    Box__V1__HealthRequest request;
    box__v1__health_request__init(&request);
    Box__V1__HealthResponse *response = NULL;
    if (box_v1_control_service_health(w->channel, NULL, &request, &response, err) < 0)
        return -1;
    box__v1__health_response__free_unpacked(response, NULL);
    return 0;
}

int bench_health(const load_target *t, unsigned connections, unsigned threads_each, size_t calls,
                 bench_case *out, box_error *err)
{
    load_plan plan = {.connections = connections,
                      .threads_each = threads_each,
                      .calls = calls,
                      .call = call_health};
    return load_run(t, &plan, out, err);
}

/* --- sessions --------------------------------------------------------------------------------- */

static int prepare_exec(load_worker *w, box_error *err)
{
    char sh[] = "/bin/sh";
    char c[] = "-c";
    char text[] = "cat >/workspace/true && chmod 755 /workspace/true";
    char *argv[] = {sh, c, text};
    bench_session_name(w);
    if (bench_session_create(w, false, NULL, err) < 0)
        return -1;
    return bench_session_exec(w, argv, BOX_COUNT(argv), w->arg, err);
}

static int call_exec(load_worker *w, box_error *err)
{
    char path[] = "/workspace/true";
    char *argv[] = {path};
    return bench_session_exec(w, argv, 1, NULL, err);
}

int bench_exec(const load_target *t, const bench_program *program, unsigned threads, size_t calls,
               bench_case *out, box_error *err)
{
    bench_program copy = *program;
    load_plan plan = {.connections = threads,
                      .threads_each = 1,
                      .calls = calls,
                      .prepare = prepare_exec,
                      .call = call_exec,
                      .finish = bench_session_finish,
                      .arg = &copy};
    return load_run(t, &plan, out, err);
}

static int call_lifecycle(load_worker *w, box_error *err)
{
    char path[] = "/usr/bin/true";
    char *argv[] = {path};
    bench_session_name(w);
    if (bench_session_create(w, true, NULL, err) < 0 ||
        bench_session_exec(w, argv, 1, NULL, err) < 0)
        return -1;
    return bench_session_delete(w, err);
}

int bench_lifecycle(const load_target *t, unsigned threads, size_t calls, bench_case *out,
                    box_error *err)
{
    load_plan plan = {.connections = threads,
                      .threads_each = 1,
                      .calls = calls,
                      .call = call_lifecycle,
                      .finish = bench_session_finish};
    return load_run(t, &plan, out, err);
}

/* The one before is deleted with the clock standing still. */
static int delete_before(load_worker *w, box_error *err)
{
    int rc = w->session[0] != '\0' ? bench_session_delete(w, err) : 0;
    w->session[0] = '\0';
    return rc;
}

static int call_create(load_worker *w, box_error *err)
{
    bench_session_name(w);
    return bench_session_create(w, true, NULL, err);
}

int bench_create(const load_target *t, unsigned threads, size_t calls, bench_case *out,
                 box_error *err)
{
    load_plan plan = {.connections = threads,
                      .threads_each = 1,
                      .calls = calls,
                      .before = delete_before,
                      .call = call_create,
                      .finish = bench_session_finish};
    return load_run(t, &plan, out, err);
}
