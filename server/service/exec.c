#include "service/exec.h"

#include "base/alloc.h"
#include "base/limits.h"
#include "box/v1/exec.box.h"
#include "service/exec_convert.h"

/* One Exec or ExecStream; lives until its call's end. */
typedef struct exec_call {
    box_call *call; /* a reference */
    box_exec *exec; /* NULL before it started and once it is over */
    bool begun;     /* `start` came */
    bool stdin_closed;
    bool paused;
} exec_call;

/* Always comes, once: what still runs then is killed. */
static void call_ended(box_call *call, void *arg, const box_error *why)
{
    (void)why;
    exec_call *c = arg;
    box_exec_cancel(c->exec);
    free(c);
    box_call_unref(call);
}

static exec_call *exec_call_new(box_call *call)
{
    exec_call *c = box_alloc(sizeof *c);
    c->call = box_call_ref(call);
    return c;
}

/* The command is over; the answer that follows may free c. */
static void let_go(exec_call *c)
{
    box_exec_free(c->exec);
    c->exec = NULL;
}

/* Adjustments of a call: the session's when it made it, and the command's own. */
static void view_adjustments(box_adjustment_view *v, const box_session_info *info, bool clamped,
                             int64_t asked_ns, uint64_t timeout_ns)
{
    v->n = 0;
    if (info->created)
        box_view_adjustments(v, info);
    if (clamped)
        box_view_timeout(v, asked_ns, timeout_ns);
}

static char *public_id(const box_session_info *info)
{
    return info->one_off ? (char *)(uintptr_t)protobuf_c_empty_string : info->id;
}

/* The parts that ExecRequest and ExecStart have in common. */
typedef struct asked {
    const ProtobufCMessage *message;
    const Box__V1__SessionSpec *spec;
    const Box__V1__Command *command;
    const Google__Protobuf__Duration *queue_timeout;
    const Box__V1__Terminal *terminal; /* NULL: pipes */
} asked;

static int convert_queue_timeout(const Google__Protobuf__Duration *d, box_exec_request *out,
                                 box_error *err)
{
    out->has_queue_timeout = d != NULL;
    return d != NULL ? box_convert_span(d, "queue_timeout", &out->queue_timeout_ns, err) : 0;
}

static int convert_terminal(const Box__V1__Terminal *t, box_exec_request *out, box_error *err)
{
    out->terminal = t != NULL;
    if (t == NULL)
        return 0;
    if (t->size != NULL) {
        out->rows = t->size->rows;
        out->columns = t->size->columns;
    }
    return strlen(t->term) <= BOX_TERM_BYTES
               ? 0
               : box_violation(err, "terminal.term", "over %d bytes", BOX_TERM_BYTES);
}

/* What a stream cannot have. */
static int check_stream(const box_command *command, box_error *err)
{
    if (command->has_output_limit)
        return box_violation(err, "command.output_limit_bytes",
                             "a stream keeps nothing: leave it unset");
    return 0;
}

/* request holds what needs no conversion. */
static int start(exec_call *c, const asked *a, box_exec_request request,
                 const box_exec_events *events, box_error *err)
{
    uint8_t digest[32];
    BOX_AUTO(box_command_view_done) box_command_view command = {0};
    BOX_AUTO(box_spec_done) box_spec spec = {0};
    if (box_convert_tenant(c->call, &request.tenant, err) < 0)
        return -1;
    int bad = box_convert_command(a->command, a->terminal, &command, err);
    bad |= box_convert_spec(a->spec, &spec, err);
    bad |= convert_queue_timeout(a->queue_timeout, &request, err);
    bad |= convert_terminal(a->terminal, &request, err);
    request.spec = a->spec != NULL ? &spec : NULL;
    request.command = a->command != NULL ? &command.command : NULL;
    if (request.stream)
        bad |= check_stream(&command.command, err);
    if (bad != 0) {
        BOX_IGNORE(box_exec_check(&request, err)); /* the other violations too */
        return -1;
    }
    if (request.idempotency_key[0] != '\0')
        box_convert_digest(a->message, digest);
    request.digest = digest;
    return box_exec_start(box_call_context(c->call), &request, events, c, &c->exec, err);
}

/* --- Exec ------------------------------------------------------------------------------------- */

/* head and tail, joined; owned. */
static ProtobufCBinaryData join(const box_output *o)
{
    ProtobufCBinaryData out = {.len = o->head.len + o->tail.len};
    out.data = box_alloc(out.len + 1);
    if (o->head.len > 0)
        memcpy(out.data, o->head.data, o->head.len);
    if (o->tail.len > 0)
        memcpy(out.data + o->head.len, o->tail.data, o->tail.len);
    return out;
}

static void answer_exec(box_call *call, const box_verdict *v)
{
    Box__V1__ExecResponse response;
    box__v1__exec_response__init(&response);
    box_verdict_view verdict;
    box_adjustment_view adjustments;
    char uid[BOX_UID_TEXT];
    box_view_verdict(&verdict, v, false);
    view_adjustments(&adjustments, v->session, v->timeout_clamped, v->timeout_asked_ns,
                     v->timeout_ns);
    box_uid_text(&v->session->uid, uid);
    response.session_id = public_id(v->session);
    response.session_uid = uid;
    response.session_created = v->session->created;
    response.backend = v->session->backend;
    response.stdout_data = join(&v->output[0]);
    response.stderr_data = join(&v->output[1]);
    response.verdict = &verdict.message;
    response.adjustments = adjustments.pointers;
    response.n_adjustments = adjustments.n;
    box_v1_exec_service_exec_answer(call, &response);
    free(response.stdout_data.data);
    free(response.stderr_data.data);
}

static void exec_done(void *arg, const box_verdict *verdict, const box_error *err)
{
    exec_call *c = arg;
    box_call *call = box_call_ref(c->call);
    let_go(c);
    if (err != NULL)
        box_call_finish(call, err);
    else
        answer_exec(call, verdict);
    box_call_unref(call);
}

static int start_exec(exec_call *c, const Box__V1__ExecRequest *r, box_error *err)
{
    static const box_exec_events events = {.done = exec_done};
    const asked parts = {.message = &r->base,
                         .spec = r->spec,
                         .command = r->command,
                         .queue_timeout = r->queue_timeout};
    box_exec_request request = {.session_id = r->session_id,
                                .stdin_data = r->stdin_data.data,
                                .stdin_len = r->stdin_data.len,
                                .idempotency_key = r->idempotency_key};
    return start(c, &parts, request, &events, err);
}

static int exec(box_call *call, const Box__V1__ExecRequest *r, box_error *err)
{
    exec_call *c = exec_call_new(call);
    if (start_exec(c, r, err) < 0) {
        free(c);
        box_call_unref(call);
        return -1;
    }
    box_call_on_end(call, call_ended, c);
    return 0;
}

/* --- ExecStream ------------------------------------------------------------------------------- */

static void stream_started(void *arg, const box_exec_started *s)
{
    exec_call *c = arg;
    Box__V1__ExecStreamResponse response;
    box__v1__exec_stream_response__init(&response);
    Box__V1__ExecStarted started;
    box__v1__exec_started__init(&started);
    Google__Protobuf__Timestamp at;
    box_adjustment_view adjustments;
    char uid[BOX_UID_TEXT];
    view_adjustments(&adjustments, s->session, s->timeout_clamped, s->timeout_asked_ns,
                     s->timeout_ns);
    box_uid_text(&s->session->uid, uid);
    started.session_id = public_id(s->session);
    started.session_uid = uid;
    started.session_created = s->session->created;
    started.backend = s->session->backend;
    started.pid = s->pid;
    started.started_at = box_times_stamp(&at, s->started_wall_ns);
    started.adjustments = adjustments.pointers;
    started.n_adjustments = adjustments.n;
    response.response_case = BOX__V1__EXEC_STREAM_RESPONSE__RESPONSE_STARTED;
    response.started = &started;
    box_v1_exec_service_exec_stream_reply(c->call, &response);
}

static void stream_output(void *arg, int stream, const uint8_t *data, size_t len)
{
    exec_call *c = arg;
    Box__V1__ExecStreamResponse response;
    box__v1__exec_stream_response__init(&response);
    ProtobufCBinaryData bytes = {.data = (uint8_t *)(uintptr_t)data, .len = len}; /* only packed */
    if (stream == 0) {
        response.response_case = BOX__V1__EXEC_STREAM_RESPONSE__RESPONSE_STDOUT_DATA;
        response.stdout_data = bytes;
    } else {
        response.response_case = BOX__V1__EXEC_STREAM_RESPONSE__RESPONSE_STDERR_DATA;
        response.stderr_data = bytes;
    }
    box_v1_exec_service_exec_stream_reply(c->call, &response);
}

static bool stream_writable(void *arg)
{
    exec_call *c = arg;
    return box_call_is_writable(c->call);
}

static void stream_room(void *arg)
{
    exec_call *c = arg;
    c->paused = false;
    box_call_resume(c->call);
}

static void stream_done(void *arg, const box_verdict *v, const box_error *err)
{
    exec_call *c = arg;
    box_call *call = box_call_ref(c->call);
    let_go(c);
    if (err == NULL) {
        Box__V1__ExecStreamResponse response;
        box__v1__exec_stream_response__init(&response);
        box_verdict_view verdict;
        box_view_verdict(&verdict, v, true);
        response.response_case = BOX__V1__EXEC_STREAM_RESPONSE__RESPONSE_VERDICT;
        response.verdict = &verdict.message;
        box_v1_exec_service_exec_stream_reply(call, &response);
    }
    box_call_finish(call, err);
    box_call_unref(call);
}

static void call_writable(box_call *call, void *arg)
{
    (void)call;
    exec_call *c = arg;
    if (c->exec != NULL)
        box_exec_resume(c->exec);
}

static int start_stream(exec_call *c, const Box__V1__ExecStart *s, box_error *err)
{
    static const box_exec_events events = {.started = stream_started,
                                           .output = stream_output,
                                           .writable = stream_writable,
                                           .stdin_room = stream_room,
                                           .done = stream_done};
    const asked parts = {.message = &s->base,
                         .spec = s->spec,
                         .command = s->command,
                         .queue_timeout = s->queue_timeout,
                         .terminal = s->terminal};
    box_exec_request request = {.session_id = s->session_id,
                                .stdin_open = true,
                                .stream = true,
                                .idempotency_key = s->idempotency_key};
    return start(c, &parts, request, &events, err);
}

static int exec_stream(box_call *call, box_error *err)
{
    (void)err;
    exec_call *c = exec_call_new(call);
    box_call_set_state(call, c);
    box_call_on_writable(call, call_writable, c);
    box_call_on_end(call, call_ended, c);
    return 0;
}

static int feed(exec_call *c, const ProtobufCBinaryData *data, box_error *err)
{
    if (c->stdin_closed)
        return box_violation(err, "stdin_data", "stdin was closed");
    bool room;
    if (box_exec_feed(c->exec, data->data, data->len, &room, err) < 0)
        return -1;
    if (!room && !c->paused) {
        c->paused = true;
        box_call_pause(c->call);
    }
    return 0;
}

static void close_stdin(exec_call *c)
{
    c->stdin_closed = true;
    if (c->exec != NULL)
        box_exec_close_stdin(c->exec);
}

static int send_signal(exec_call *c, const Box__V1__Signal *s, box_error *err)
{
    bool tree;
    if (box_convert_scope(s, &tree, err) < 0)
        return -1;
    return box_exec_signal(c->exec, s->number, tree, err);
}

static int exec_stream_message(box_call *call, const Box__V1__ExecStreamRequest *m, box_error *err)
{
    exec_call *c = box_call_state(call);
    bool starts = m->request_case == BOX__V1__EXEC_STREAM_REQUEST__REQUEST_START;
    if (starts == c->begun)
        return box_violation(err, "request",
                             starts ? "start comes once" : "the first message must be start");
    c->begun = true;
    if (!starts && c->exec == NULL)
        return 0; /* the command has ended, and the answer is on its way */
    switch (m->request_case) {
    case BOX__V1__EXEC_STREAM_REQUEST__REQUEST_START:
        return start_stream(c, m->start, err);
    case BOX__V1__EXEC_STREAM_REQUEST__REQUEST_STDIN_DATA:
        return feed(c, &m->stdin_data, err);
    case BOX__V1__EXEC_STREAM_REQUEST__REQUEST_CLOSE_STDIN:
        close_stdin(c);
        return 0;
    case BOX__V1__EXEC_STREAM_REQUEST__REQUEST_SIGNAL:
        return send_signal(c, m->signal, err);
    case BOX__V1__EXEC_STREAM_REQUEST__REQUEST_RESIZE:
        return box_exec_set_size(c->exec, m->resize->rows, m->resize->columns, err);
    default:
        return box_violation(err, "request", "must be set");
    }
}

static int exec_stream_half_close(box_call *call, box_error *err)
{
    exec_call *c = box_call_state(call);
    if (!c->begun)
        return box_violation(err, "request", "the first message must be start");
    close_stdin(c);
    return 0;
}

static const box_v1_exec_service_handlers handlers = {
    .exec = exec,
    .exec_stream = exec_stream,
    .exec_stream_message = exec_stream_message,
    .exec_stream_half_close = exec_stream_half_close,
};

box_service box_exec_service(box_sessions *sessions)
{
    return (box_service){.type = &box_v1_exec_service, .handlers = &handlers, .context = sessions};
}
