#include "service/process_attach.h"

#include "base/alloc.h"
#include "base/limits.h"
#include "policy/identity.h"
#include "policy/method.h"
#include "service/process_convert.h"
#include "session/attach.h"

enum { STDIN_DATA_BYTES = 1024 * 1024 };

/* One call; lives until its end. */
typedef struct attach_call {
    box_call *call; /* a reference */
    box_attach *attach;
    bool half_close_stdin;
    bool paused;
    bool over;
} attach_call;

static void send(attach_call *c, const Box__V1__AttachManagedProcessResponse *response)
{
    box_v1_process_service_attach_managed_process_reply(c->call, response);
}

/* --- to the caller ---------------------------------------------------------------------------- */

static void on_attached(void *arg, const box_process_info *info, const uint64_t offset[2])
{
    Box__V1__AttachManagedProcessResponse response;
    box__v1__attach_managed_process_response__init(&response);
    Box__V1__Attached attached;
    box__v1__attached__init(&attached);
    BOX_AUTO(box_freep) box_process_view *view = box_alloc(sizeof *view);
    box_process_info shown = *info;
    box_view_process(view, &shown);
    attached.process = &view->message;
    attached.stdout_offset = (int64_t)offset[0];
    attached.stderr_offset = (int64_t)offset[1];
    response.response_case = BOX__V1__ATTACH_MANAGED_PROCESS_RESPONSE__RESPONSE_ATTACHED;
    response.attached = &attached;
    send(arg, &response);
    box_process_view_done(view);
}

static void on_output(void *arg, int stream, uint64_t offset, const uint8_t *data, size_t len)
{
    Box__V1__AttachManagedProcessResponse response;
    box__v1__attach_managed_process_response__init(&response);
    Box__V1__JournalData piece;
    box__v1__journal_data__init(&piece);
    piece.offset = (int64_t)offset;
    piece.data = (ProtobufCBinaryData){.data = (uint8_t *)(uintptr_t)data, .len = len};
    if (stream == 0) {
        response.response_case = BOX__V1__ATTACH_MANAGED_PROCESS_RESPONSE__RESPONSE_STDOUT_DATA;
        response.stdout_data = &piece;
    } else {
        response.response_case = BOX__V1__ATTACH_MANAGED_PROCESS_RESPONSE__RESPONSE_STDERR_DATA;
        response.stderr_data = &piece;
    }
    send(arg, &response);
}

static void on_dropped(void *arg, int stream, uint64_t offset, uint64_t bytes)
{
    Box__V1__AttachManagedProcessResponse response;
    box__v1__attach_managed_process_response__init(&response);
    Box__V1__DroppedOutput dropped;
    box__v1__dropped_output__init(&dropped);
    if (stream == 0) {
        dropped.stdout_offset = (int64_t)offset;
        dropped.stdout_bytes = (int64_t)bytes;
    } else {
        dropped.stderr_offset = (int64_t)offset;
        dropped.stderr_bytes = (int64_t)bytes;
    }
    response.response_case = BOX__V1__ATTACH_MANAGED_PROCESS_RESPONSE__RESPONSE_DROPPED;
    response.dropped = &dropped;
    send(arg, &response);
}

static void on_restarted(void *arg, const box_verdict *before, uint32_t restarts)
{
    Box__V1__AttachManagedProcessResponse response;
    box__v1__attach_managed_process_response__init(&response);
    Box__V1__ProcessRestarted restarted;
    box__v1__process_restarted__init(&restarted);
    box_verdict_view verdict;
    box_view_verdict(&verdict, before, true);
    restarted.verdict = &verdict.message;
    restarted.restarts = (int32_t)restarts;
    response.response_case = BOX__V1__ATTACH_MANAGED_PROCESS_RESPONSE__RESPONSE_RESTARTED;
    response.restarted = &restarted;
    send(arg, &response);
}

static void on_writer_lost(void *arg)
{
    Box__V1__AttachManagedProcessResponse response;
    box__v1__attach_managed_process_response__init(&response);
    Box__V1__WriterLost lost;
    box__v1__writer_lost__init(&lost);
    response.response_case = BOX__V1__ATTACH_MANAGED_PROCESS_RESPONSE__RESPONSE_WRITER_LOST;
    response.writer_lost = &lost;
    send(arg, &response);
}

static bool on_writable(void *arg)
{
    attach_call *c = arg;
    return box_call_is_writable(c->call);
}

static void on_room(void *arg)
{
    attach_call *c = arg;
    c->paused = false;
    box_call_resume(c->call);
}

static void on_done(void *arg, const box_verdict *v, const box_error *err)
{
    attach_call *c = arg;
    box_call *call = box_call_ref(c->call); /* finishing may free c */
    c->over = true;
    if (v != NULL) {
        Box__V1__AttachManagedProcessResponse response;
        box__v1__attach_managed_process_response__init(&response);
        box_verdict_view verdict;
        box_view_verdict(&verdict, v, true);
        response.response_case = BOX__V1__ATTACH_MANAGED_PROCESS_RESPONSE__RESPONSE_EXITED;
        response.exited = &verdict.message;
        send(c, &response);
    }
    box_call_finish(call, err);
    box_call_unref(call);
}

static const box_attach_events events = {.attached = on_attached,
                                         .output = on_output,
                                         .dropped = on_dropped,
                                         .restarted = on_restarted,
                                         .writer_lost = on_writer_lost,
                                         .writable = on_writable,
                                         .stdin_room = on_room,
                                         .done = on_done};

/* --- the call --------------------------------------------------------------------------------- */

static void call_ended(box_call *call, void *arg, const box_error *why)
{
    (void)why;
    attach_call *c = arg;
    box_attach_free(c->attach);
    free(c);
    box_call_unref(call);
}

static void call_writable(box_call *call, void *arg)
{
    (void)call;
    attach_call *c = arg;
    if (c->attach != NULL && !c->over)
        box_attach_resume(c->attach);
}

int box_process_attach(box_call *call, box_error *err)
{
    (void)err;
    attach_call *c = box_alloc(sizeof *c);
    c->call = box_call_ref(call);
    box_call_set_state(call, c);
    box_call_on_writable(call, call_writable, c);
    box_call_on_end(call, call_ended, c);
    return 0;
}

/* --- from the caller -------------------------------------------------------------------------- */

/* The method needs process.read; who writes needs more. */
static int may_write(const box_call *call, box_error *err)
{
    const box_identity *who = box_call_identity(call);
    if ((who->scopes & BOX_SCOPE_PROCESS_WRITE) != 0)
        return 0;
    (void)box_fail(err, BOX_PERMISSION,
                   "writing to a process needs a token with scope process.write");
    box_error_add(err, "rule", "scope");
    box_error_add(err, "scope", "process.write");
    return -1;
}

static int take_offset(bool has, int64_t offset, const char *field, box_attach_request *r, int i,
                       box_error *err)
{
    r->has_offset[i] = has;
    r->offset[i] = has ? (uint64_t)offset : 0;
    return has && offset < 0 ? box_violation(err, field, "must not be negative") : 0;
}

static int start(attach_call *c, const Box__V1__AttachStart *s, box_error *err)
{
    box_attach_request r = {.session_id = s->session_id,
                            .process_id = s->process_id,
                            .skip_stderr = s->skip_stderr,
                            .write = s->write,
                            .take_over = s->take_over,
                            .no_follow = s->no_follow,
                            .stop_on_detach = s->stop_on_detach};
    int64_t wait_ns = 0;
    if (box_convert_tenant(c->call, &r.tenant, err) < 0)
        return -1;
    int bad = take_offset(box__v1__attach_start__has_stdout_offset(s), s->stdout_offset,
                          "start.stdout_offset", &r, 0, err);
    bad |= take_offset(box__v1__attach_start__has_stderr_offset(s), s->stderr_offset,
                       "start.stderr_offset", &r, 1, err);
    if (s->wait != NULL)
        bad |= box_convert_span(s->wait, "start.wait", &wait_ns, err);
    if (!s->write && (s->take_over || s->half_close_stdin))
        bad |= box_violation(err, "start.write", "take_over and half_close_stdin need it");
    if (bad != 0 || ((s->write || s->stop_on_detach) && may_write(c->call, err) < 0))
        return -1;
    r.wait_ns = (uint64_t)wait_ns;
    c->half_close_stdin = s->half_close_stdin;
    c->attach = box_attach_new(box_call_context(c->call), &r, &events, c);
    return 0;
}

static int feed(attach_call *c, const ProtobufCBinaryData *data, box_error *err)
{
    bool room;
    if (data->len > STDIN_DATA_BYTES)
        return box_violation(err, "stdin_data", "at most 1 MiB a message");
    if (box_attach_feed(c->attach, data->data, data->len, &room, err) < 0)
        return -1;
    if (!room && !c->paused) {
        c->paused = true;
        box_call_pause(c->call);
    }
    return 0;
}

static int send_signal(attach_call *c, const Box__V1__Signal *s, box_error *err)
{
    bool tree;
    if (box_convert_scope(s, &tree, err) < 0)
        return -1;
    return box_attach_signal(c->attach, s->number, tree, err);
}

static int resize(attach_call *c, const Box__V1__TerminalSize *s, box_error *err)
{
    if (s->rows < 0 || s->rows > UINT16_MAX || s->columns < 0 || s->columns > UINT16_MAX)
        return box_violation(err, "resize", "must be 0 to 65535");
    return box_attach_resize(c->attach, (uint16_t)s->rows, (uint16_t)s->columns, err);
}

int box_process_attach_message(box_call *call, const Box__V1__AttachManagedProcessRequest *m,
                               box_error *err)
{
    attach_call *c = box_call_state(call);
    bool starts = m->request_case == BOX__V1__ATTACH_MANAGED_PROCESS_REQUEST__REQUEST_START;
    if (starts == (c->attach != NULL))
        return box_violation(err, "request",
                             starts ? "start comes once" : "the first message must be start");
    if (c->over)
        return 0; /* the end is on its way */
    switch (m->request_case) {
    case BOX__V1__ATTACH_MANAGED_PROCESS_REQUEST__REQUEST_START:
        return start(c, m->start, err);
    case BOX__V1__ATTACH_MANAGED_PROCESS_REQUEST__REQUEST_STDIN_DATA:
        return feed(c, &m->stdin_data, err);
    case BOX__V1__ATTACH_MANAGED_PROCESS_REQUEST__REQUEST_CLOSE_STDIN:
        return box_attach_close_stdin(c->attach, err);
    case BOX__V1__ATTACH_MANAGED_PROCESS_REQUEST__REQUEST_SIGNAL:
        return send_signal(c, m->signal, err);
    case BOX__V1__ATTACH_MANAGED_PROCESS_REQUEST__REQUEST_RESIZE:
        return resize(c, m->resize, err);
    default:
        return box_violation(err, "request", "must be set");
    }
}

int box_process_attach_half_close(box_call *call, box_error *err)
{
    attach_call *c = box_call_state(call);
    if (c->attach == NULL)
        return box_violation(err, "request", "the first message must be start");
    return c->half_close_stdin ? box_attach_close_stdin(c->attach, err) : 0;
}
