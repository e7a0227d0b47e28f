#include "service/session_watch.h"

#include "base/alloc.h"
#include "base/limits.h"
#include "service/session_convert.h"

/* One call; lives until its end. */
typedef struct watcher {
    box_call *call; /* a reference */
    box_session_watch *watch;
} watcher;

static Box__V1__SessionEventType view_type(box_watch_type type)
{
    return (Box__V1__SessionEventType)type; /* the same numbers: asserted in the test */
}

static void on_event(void *arg, box_watch_type type, const box_session_info *info, uint64_t lost)
{
    watcher *w = arg;
    Google__Protobuf__Timestamp at;
    BOX_AUTO(box_freep) box_session_view *view = box_alloc(sizeof *view);
    Box__V1__WatchSessionsResponse response;
    box__v1__watch_sessions_response__init(&response);
    response.type = view_type(type);
    response.lost_events = (int64_t)lost;
    response.occurred_at = box_times_stamp(
        &at, info != NULL && info->updated_wall_ns != 0 ? info->updated_wall_ns : box_wall_ns());
    if (info != NULL) {
        box_view_session(view, info);
        response.session = &view->message;
    }
    box_v1_session_service_watch_sessions_reply(w->call, &response);
    box_session_view_done(view);
}

static bool on_writable(void *arg)
{
    watcher *w = arg;
    return box_call_is_open(w->call) && box_call_is_writable(w->call);
}

static void on_ended(void *arg, const box_error *why)
{
    watcher *w = arg;
    box_call_finish(w->call, why); /* call_ended frees */
}

static void call_writable(box_call *call, void *arg)
{
    (void)call;
    watcher *w = arg;
    box_session_watch_resume(w->watch);
}

static void call_ended(box_call *call, void *arg, const box_error *why)
{
    (void)why;
    watcher *w = arg;
    box_session_watch_free(w->watch);
    free(w);
    box_call_unref(call);
}

int box_watch_sessions(box_call *call, const Box__V1__WatchSessionsRequest *r, box_error *err)
{
    static const box_session_watch_events events = {
        .event = on_event, .writable = on_writable, .ended = on_ended};
    const char *tenant;
    if (box_convert_tenant(call, &tenant, err) < 0)
        return -1;
    if (r->n_labels > BOX_MAX_LABELS)
        return box_violation(err, "labels", "more than %d labels", BOX_MAX_LABELS);
    box_label labels[BOX_MAX_LABELS];
    for (size_t i = 0; i < r->n_labels; i++)
        labels[i] = (box_label){r->labels[i]->key, r->labels[i]->value};
    box_session_watch_request request = {.tenant = tenant,
                                         .id = r->session_id,
                                         .labels = labels,
                                         .n_labels = r->n_labels,
                                         .include_existing = r->include_existing};
    watcher *w = box_alloc(sizeof *w);
    if (box_session_watch_new(box_call_context(call), &request, &events, w, &w->watch, err) < 0) {
        free(w);
        return -1;
    }
    w->call = box_call_ref(call);
    box_call_on_writable(call, call_writable, w);
    box_call_on_end(call, call_ended, w);
    return 0;
}
