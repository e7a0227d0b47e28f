#include "cases.h"

#include <fcntl.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/id.h"
#include "box/v1/control.client.h"
#include "box/v1/exec.client.h"
#include "box/v1/session.client.h"

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

static void new_name(load_worker *w)
{
    char uid[BOX_UID_TEXT];
    box_uid id = box_uid_new();
    box_uid_text(&id, uid);
    (void)snprintf(w->session, sizeof w->session, "bench-%s", uid);
}

static int create(load_worker *w, box_error *err)
{
    Box__V1__CreateSessionRequest request;
    box__v1__create_session_request__init(&request);
    Box__V1__CreateSessionResponse *response = NULL;
    request.session_id = w->session;
    if (box_v1_session_service_create_session(w->channel, NULL, &request, &response, err) < 0)
        return -1;
    box__v1__create_session_response__free_unpacked(response, NULL);
    return 0;
}

static int delete_session(load_worker *w, box_error *err)
{
    Box__V1__DeleteSessionRequest request;
    box__v1__delete_session_request__init(&request);
    Box__V1__DeleteSessionResponse *response = NULL;
    request.session_id = w->session;
    request.allow_missing = true;
    if (box_v1_session_service_delete_session(w->channel, NULL, &request, &response, err) < 0)
        return -1;
    box__v1__delete_session_response__free_unpacked(response, NULL);
    return 0;
}

static void finish_session(load_worker *w)
{
    box_error err;
    if (w->session[0] != '\0' && delete_session(w, &err) < 0)
        fprintf(stderr, "boxbench: session %s is left: %s\n", w->session, err.msg);
}

/* Runs argv with stdin; anything but exit 0 is an error: a figure of failing calls means nothing.
 */
static int exec(load_worker *w, char **argv, size_t n_argv, const bench_program *input,
                box_error *err)
{
    Box__V1__Command command;
    box__v1__command__init(&command);
    Box__V1__ExecRequest request;
    box__v1__exec_request__init(&request);
    Box__V1__ExecResponse *response = NULL;
    command.argv = argv;
    command.n_argv = n_argv;
    request.session_id = w->session;
    request.command = &command;
    if (input != NULL)
        request.stdin_data = (ProtobufCBinaryData){input->len, input->data};
    if (box_v1_exec_service_exec(w->channel, NULL, &request, &response, err) < 0)
        return -1;
    const Box__V1__Verdict *v = response->verdict;
    bool ok = v != NULL && v->status == BOX__V1__VERDICT_STATUS__VERDICT_STATUS_COMPLETED &&
              v->exit_code == 0 && v->signal == 0;
    box__v1__exec_response__free_unpacked(response, NULL);
    return ok ? 0 : box_fail(err, BOX_INTERNAL, "the program did not end with 0");
}

static int prepare_exec(load_worker *w, box_error *err)
{
    char sh[] = "/bin/sh";
    char c[] = "-c";
    char text[] = "cat >/workspace/true && chmod 755 /workspace/true";
    char *argv[] = {sh, c, text};
    new_name(w);
    if (create(w, err) < 0)
        return -1;
    return exec(w, argv, BOX_COUNT(argv), w->arg, err);
}

static int call_exec(load_worker *w, box_error *err)
{
    char path[] = "/workspace/true";
    char *argv[] = {path};
    return exec(w, argv, 1, NULL, err);
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
                      .finish = finish_session,
                      .arg = &copy};
    return load_run(t, &plan, out, err);
}

static int call_lifecycle(load_worker *w, box_error *err)
{
    char path[] = "/usr/bin/true";
    char *argv[] = {path};
    new_name(w);
    if (create(w, err) < 0 || exec(w, argv, 1, NULL, err) < 0)
        return -1;
    return delete_session(w, err);
}

int bench_lifecycle(const load_target *t, unsigned threads, size_t calls, bench_case *out,
                    box_error *err)
{
    load_plan plan = {.connections = threads,
                      .threads_each = 1,
                      .calls = calls,
                      .call = call_lifecycle,
                      .finish = finish_session};
    return load_run(t, &plan, out, err);
}
