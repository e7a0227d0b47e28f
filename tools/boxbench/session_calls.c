#include "session_calls.h"

#include "base/id.h"
#include "box/v1/exec.client.h"
#include "box/v1/session.client.h"
#include "box/v1/types.fields.h"

enum { WORKSPACE_BYTES = 64 * 1024 * 1024 /* the default */ };

void bench_session_name(load_worker *w)
{
    char uid[BOX_UID_TEXT];
    box_uid id = box_uid_new();
    box_uid_text(&id, uid);
    (void)snprintf(w->session, sizeof w->session, "bench-%s", uid);
}

int bench_session_create(load_worker *w, bool cold, char uid[64], box_error *err)
{
    Box__V1__SessionSpec spec;
    box__v1__session_spec__init(&spec);
    box__v1__session_spec__set_workspace_limit_bytes(&spec, WORKSPACE_BYTES);
    Box__V1__CreateSessionRequest request;
    box__v1__create_session_request__init(&request);
    Box__V1__CreateSessionResponse *response = NULL;
    request.session_id = w->session;
    request.spec = cold ? &spec : NULL;
    if (box_v1_session_service_create_session(w->channel, NULL, &request, &response, err) < 0)
        return -1;
    if (uid != NULL)
        (void)snprintf(uid, 64, "%s", response->session != NULL ? response->session->uid : "");
    box__v1__create_session_response__free_unpacked(response, NULL);
    return 0;
}

int bench_session_delete(load_worker *w, box_error *err)
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

void bench_session_finish(load_worker *w)
{
    box_error err;
    if (w->session[0] != '\0' && bench_session_delete(w, &err) < 0)
        fprintf(stderr, "boxbench: session %s is left: %s\n", w->session, err.msg);
}

int bench_session_exec(load_worker *w, char **argv, size_t n_argv, const bench_program *input,
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
