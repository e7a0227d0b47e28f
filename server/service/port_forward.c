#include "service/port_forward.h"

#include "base/alloc.h"
#include "base/limits.h"
#include "service/session_convert.h"
#include "session/forward.h"

/* One call; lives until its end. */
typedef struct forward_call {
    box_call *call; /* a reference */
    box_forward *forward;
    bool paused;
    bool over;
} forward_call;

/* --- to the caller ---------------------------------------------------------------------------- */

static void on_started(void *arg, const char *session_uid)
{
    forward_call *c = arg;
    Box__V1__PortForwardResponse response;
    box__v1__port_forward_response__init(&response);
    Box__V1__PortForwardStarted started;
    box__v1__port_forward_started__init(&started);
    started.session_uid = (char *)(uintptr_t)session_uid; /* only packed */
    response.response_case = BOX__V1__PORT_FORWARD_RESPONSE__RESPONSE_STARTED;
    response.started = &started;
    box_v1_session_service_port_forward_reply(c->call, &response);
}

static void on_data(void *arg, const uint8_t *data, size_t len)
{
    forward_call *c = arg;
    Box__V1__PortForwardResponse response;
    box__v1__port_forward_response__init(&response);
    response.response_case = BOX__V1__PORT_FORWARD_RESPONSE__RESPONSE_DATA;
    response.data = (ProtobufCBinaryData){.data = (uint8_t *)(uintptr_t)data, .len = len};
    box_v1_session_service_port_forward_reply(c->call, &response);
}

static void on_closed(void *arg)
{
    forward_call *c = arg;
    Box__V1__PortForwardResponse response;
    box__v1__port_forward_response__init(&response);
    Box__V1__PortForwardClosed closed;
    box__v1__port_forward_closed__init(&closed);
    response.response_case = BOX__V1__PORT_FORWARD_RESPONSE__RESPONSE_CLOSED;
    response.closed = &closed;
    box_v1_session_service_port_forward_reply(c->call, &response);
}

static bool on_writable(void *arg)
{
    forward_call *c = arg;
    return box_call_is_writable(c->call);
}

static void on_room(void *arg)
{
    forward_call *c = arg;
    c->paused = false;
    box_call_resume(c->call);
}

static void on_done(void *arg, const box_error *err)
{
    forward_call *c = arg;
    box_call *call = box_call_ref(c->call); /* finishing may free c */
    c->over = true;
    box_call_finish(call, err);
    box_call_unref(call);
}

static const box_forward_events events = {.started = on_started,
                                          .data = on_data,
                                          .closed = on_closed,
                                          .writable = on_writable,
                                          .room = on_room,
                                          .done = on_done};

/* --- the call --------------------------------------------------------------------------------- */

static void call_ended(box_call *call, void *arg, const box_error *why)
{
    (void)why;
    forward_call *c = arg;
    box_forward_free(c->forward);
    free(c);
    box_call_unref(call);
}

static void call_writable(box_call *call, void *arg)
{
    (void)call;
    forward_call *c = arg;
    if (c->forward != NULL && !c->over)
        box_forward_resume(c->forward);
}

int box_port_forward(box_call *call, box_error *err)
{
    (void)err;
    forward_call *c = box_alloc(sizeof *c);
    c->call = box_call_ref(call);
    box_call_set_state(call, c);
    box_call_on_writable(call, call_writable, c);
    box_call_on_end(call, call_ended, c);
    return 0;
}

/* --- from the caller -------------------------------------------------------------------------- */

static int check_port(int32_t port, box_error *err)
{
    return port >= 1 && port <= UINT16_MAX
               ? 0
               : box_violation(err, "start.port", "must be 1 to %d", UINT16_MAX);
}

static int check_wait(const Google__Protobuf__Duration *wait, uint64_t *out, box_error *err)
{
    const uint64_t most = BOX_MAX_FORWARD_WAIT_SECONDS * BOX_SECOND;
    int64_t ns = 0;
    if (wait != NULL && box_convert_span(wait, "start.wait", &ns, err) < 0)
        return -1;
    *out = (uint64_t)ns;
    return *out <= most ? 0 : box_violation(err, "start.wait", "must be at most 1 hour");
}

static int start(forward_call *c, const Box__V1__PortForwardStart *s, box_error *err)
{
    box_forward_request r = {.session_id = s->session_id};
    if (box_convert_tenant(c->call, &r.tenant, err) < 0)
        return -1;
    int bad = check_port(s->port, err);
    bad |= check_wait(s->wait, &r.wait_ns, err);
    if (s->session_id[0] == '\0')
        bad |= box_violation(err, "start.session_id", "must not be empty");
    if (bad != 0)
        return -1;
    r.port = (uint16_t)s->port;
    return box_forward_new(box_call_context(c->call), &r, &events, c, &c->forward, err);
}

static int feed(forward_call *c, const ProtobufCBinaryData *data, box_error *err)
{
    bool room;
    if (data->len > BOX_FORWARD_REQUEST_BYTES)
        return box_violation(err, "data", "at most 1 MiB a message");
    if (box_forward_feed(c->forward, data->data, data->len, &room, err) < 0)
        return -1;
    if (!room && !c->paused) {
        c->paused = true;
        box_call_pause(c->call);
    }
    return 0;
}

int box_port_forward_message(box_call *call, const Box__V1__PortForwardRequest *m, box_error *err)
{
    forward_call *c = box_call_state(call);
    bool starts = m->request_case == BOX__V1__PORT_FORWARD_REQUEST__REQUEST_START;
    if (c->forward != NULL && c->over)
        return 0; /* the end is on its way */
    if (starts == (c->forward != NULL))
        return box_violation(err, "request",
                             starts ? "start comes once" : "the first message must be start");
    switch (m->request_case) {
    case BOX__V1__PORT_FORWARD_REQUEST__REQUEST_START:
        return start(c, m->start, err);
    case BOX__V1__PORT_FORWARD_REQUEST__REQUEST_DATA:
        return feed(c, &m->data, err);
    default:
        return box_violation(err, "request", "must be set");
    }
}

int box_port_forward_half_close(box_call *call, box_error *err)
{
    forward_call *c = box_call_state(call);
    if (c->forward == NULL)
        return box_violation(err, "request", "the first message must be start");
    if (!c->over)
        box_forward_end(c->forward);
    return 0;
}
