#include "service/process.h"

#include "base/alloc.h"
#include "box/v1/process.box.h"
#include "service/page.h"
#include "service/process_attach.h"
#include "service/process_convert.h"

static box_sessions *sessions_of(const box_call *call)
{
    return box_call_context(call);
}

/* --- calls that wait for something ------------------------------------------------------------ */

/* One call; lives until its end. */
typedef struct waiting {
    box_call *call; /* a reference */
    box_process_call *under_way;
    /* Puts the process (NULL: there is none) into the answer of one method. */
    void (*give)(box_call *call, Box__V1__ManagedProcess *process, bool flag);
} waiting;

static void call_ended(box_call *call, void *arg, const box_error *why)
{
    (void)why;
    waiting *w = arg;
    box_process_call_drop(w->under_way);
    free(w);
    box_call_unref(call);
}

static waiting *waiting_new(box_call *call,
                            void (*give)(box_call *call, Box__V1__ManagedProcess *p, bool flag))
{
    waiting *w = box_alloc(sizeof *w);
    w->call = box_call_ref(call);
    w->give = give;
    return w;
}

/* info is borrowed and const only because nobody else may change it. */
static void done(void *arg, const box_process_info *info, bool flag, const box_error *err)
{
    waiting *w = arg;
    if (err != NULL) {
        box_call_finish(w->call, err); /* w may be gone */
        return;
    }
    if (info == NULL) {
        w->give(w->call, NULL, flag);
        return;
    }
    BOX_AUTO(box_freep) box_process_view *view = box_alloc(sizeof *view);
    box_process_info shown = *info;
    box_view_process(view, &shown);
    w->give(w->call, &view->message, flag);
    box_process_view_done(view);
}

/* --- start ------------------------------------------------------------------------------------ */

static void give_started(box_call *call, Box__V1__ManagedProcess *process, bool replaced)
{
    Box__V1__StartManagedProcessResponse response;
    box__v1__start_managed_process_response__init(&response);
    response.process = process;
    response.replaced = replaced;
    box_v1_process_service_start_managed_process_answer(call, &response);
}

static int start(box_call *call, const Box__V1__StartManagedProcessRequest *r, box_error *err)
{
    uint8_t digest[32];
    BOX_AUTO(box_process_request_view_done) box_process_request_view view = {0};
    const char *tenant;
    if (box_convert_tenant(call, &tenant, err) < 0)
        return -1;
    if (box_convert_process(r, &view, err) < 0) {
        if (view.request.command != NULL)
            BOX_IGNORE(box_process_check(&view.request, err)); /* the other violations too */
        return -1;
    }
    view.request.tenant = tenant;
    if (r->idempotency_key[0] != '\0')
        box_convert_digest(&r->base, digest);
    view.request.digest = digest;
    waiting *w = waiting_new(call, give_started);
    box_process_start(sessions_of(call), &view.request, done, w, &w->under_way);
    box_call_on_end(call, call_ended, w);
    return 0;
}

/* --- get, stop, signal, wait ------------------------------------------------------------------ */

static void give_got(box_call *call, Box__V1__ManagedProcess *process, bool flag)
{
    (void)flag;
    Box__V1__GetManagedProcessResponse response;
    box__v1__get_managed_process_response__init(&response);
    response.process = process;
    box_v1_process_service_get_managed_process_answer(call, &response);
}

static int get(box_call *call, const Box__V1__GetManagedProcessRequest *r, box_error *err)
{
    const char *tenant;
    if (box_convert_tenant(call, &tenant, err) < 0)
        return -1;
    waiting *w = waiting_new(call, give_got);
    box_process_get(sessions_of(call), tenant, r->session_id, r->process_id, done, w,
                    &w->under_way);
    box_call_on_end(call, call_ended, w);
    return 0;
}

static void give_stopped(box_call *call, Box__V1__ManagedProcess *process, bool flag)
{
    (void)flag;
    Box__V1__StopManagedProcessResponse response;
    box__v1__stop_managed_process_response__init(&response);
    response.process = process;
    box_v1_process_service_stop_managed_process_answer(call, &response);
}

static int stop(box_call *call, const Box__V1__StopManagedProcessRequest *r, box_error *err)
{
    const char *tenant;
    int64_t grace_ns = 0;
    if (box_convert_tenant(call, &tenant, err) < 0 ||
        (r->grace != NULL && box_convert_span(r->grace, "grace", &grace_ns, err) < 0))
        return -1;
    waiting *w = waiting_new(call, give_stopped);
    box_process_stop(sessions_of(call), tenant, r->session_id, r->process_id, r->grace != NULL,
                     grace_ns, r->allow_missing, done, w, &w->under_way);
    box_call_on_end(call, call_ended, w);
    return 0;
}

static void give_signalled(box_call *call, Box__V1__ManagedProcess *process, bool flag)
{
    (void)process;
    (void)flag;
    Box__V1__SignalManagedProcessResponse response;
    box__v1__signal_managed_process_response__init(&response);
    box_v1_process_service_signal_managed_process_answer(call, &response);
}

static int send_signal(box_call *call, const Box__V1__SignalManagedProcessRequest *r,
                       box_error *err)
{
    const char *tenant;
    bool tree;
    if (box_convert_tenant(call, &tenant, err) < 0)
        return -1;
    if (r->signal == NULL)
        return box_violation(err, "signal", "must be set");
    if (box_convert_scope(r->signal, &tree, err) < 0)
        return -1;
    waiting *w = waiting_new(call, give_signalled);
    box_process_signal(sessions_of(call), tenant, r->session_id, r->process_id, r->signal->number,
                       tree, done, w, &w->under_way);
    box_call_on_end(call, call_ended, w);
    return 0;
}

static void give_waited(box_call *call, Box__V1__ManagedProcess *process, bool met)
{
    Box__V1__WaitManagedProcessResponse response;
    box__v1__wait_managed_process_response__init(&response);
    response.process = process;
    response.met = met;
    box_v1_process_service_wait_managed_process_answer(call, &response);
}

static int wait(box_call *call, const Box__V1__WaitManagedProcessRequest *r, box_error *err)
{
    const char *tenant;
    int64_t timeout_ns = 0;
    bool ready = r->condition == BOX__V1__WAIT_CONDITION__WAIT_CONDITION_READY;
    if (box_convert_tenant(call, &tenant, err) < 0)
        return -1;
    int bad = r->timeout != NULL ? box_convert_span(r->timeout, "timeout", &timeout_ns, err) : 0;
    if (!ready && r->condition != BOX__V1__WAIT_CONDITION__WAIT_CONDITION_UNSPECIFIED &&
        r->condition != BOX__V1__WAIT_CONDITION__WAIT_CONDITION_EXITED)
        bad |= box_violation(err, "condition", "is no known value");
    if (bad != 0)
        return -1;
    waiting *w = waiting_new(call, give_waited);
    box_process_wait(sessions_of(call), tenant, r->session_id, r->process_id, ready,
                     r->timeout != NULL, timeout_ns, done, w, &w->under_way);
    box_call_on_end(call, call_ended, w);
    return 0;
}

/* --- list ------------------------------------------------------------------------------------- */

/* What the token is bound to: everything of the request but the page. */
static uint64_t binding_of(const Box__V1__ListManagedProcessesRequest *r, const char *tenant)
{
    Box__V1__ListManagedProcessesRequest filter = *r;
    uint8_t digest[32];
    filter.page_size = 0;
    filter.page_token = (char *)(uintptr_t)protobuf_c_empty_string;
    box_convert_digest(&filter.base, digest);
    return box_page_binding("processes", tenant, digest, sizeof digest);
}

static int states_of(const Box__V1__ListManagedProcessesRequest *r, uint32_t *out, box_error *err)
{
    for (size_t i = 0; i < r->n_states; i++) {
        if (r->states[i] <= 0 || r->states[i] > BOX__V1__PROCESS_STATE__PROCESS_STATE_EXITED)
            return box_violation(err, "states", "holds no known value");
        *out |= UINT32_C(1) << r->states[i];
    }
    return 0;
}

static void answer_list(box_call *call, box_process_info *infos, size_t n, const char *next)
{
    BOX_AUTO(box_freep) box_process_view *views = box_alloc_array(n + 1, sizeof *views);
    BOX_AUTO(box_freep) Box__V1__ManagedProcess **messages = box_alloc_array(n + 1, sizeof(void *));
    for (size_t i = 0; i < n; i++) {
        box_view_process(&views[i], &infos[i]);
        messages[i] = &views[i].message;
    }
    Box__V1__ListManagedProcessesResponse response;
    box__v1__list_managed_processes_response__init(&response);
    response.processes = messages;
    response.n_processes = n;
    response.next_page_token = (char *)(uintptr_t)next; /* only packed */
    box_v1_process_service_list_managed_processes_answer(call, &response);
    for (size_t i = 0; i < n; i++)
        box_process_view_done(&views[i]);
}

static int list(box_call *call, const Box__V1__ListManagedProcessesRequest *r, box_error *err)
{
    const char *tenant;
    box_process_filter filter = {.session_id = r->session_id};
    size_t limit = 0;
    box_position after;
    if (box_convert_tenant(call, &tenant, err) < 0)
        return -1;
    uint64_t binding = binding_of(r, tenant);
    int bad = states_of(r, &filter.states, err);
    bad |= box_page_size(r->page_size, &limit, err);
    bad |= box_page_parse(r->page_token, binding, &after, err);
    if (bad != 0)
        return -1;
    box_process_info *infos = NULL;
    size_t n;
    bool more;
    if (box_process_list(sessions_of(call), tenant, &filter, after.created_ns,
                         after.id[0] != '\0' ? after.id : NULL, limit, &infos, &n, &more, err) < 0)
        return -1;
    char next[BOX_PAGE_TOKEN_TEXT] = "";
    if (more) {
        box_position at = {.created_ns = infos[n - 1].created_wall_ns};
        box_process_key(&infos[n - 1], at.id);
        box_page_token(binding, &at, next);
    }
    answer_list(call, infos, n, next);
    box_process_list_free(infos, n);
    return 0;
}

static const box_v1_process_service_handlers handlers = {
    .start_managed_process = start,
    .get_managed_process = get,
    .list_managed_processes = list,
    .stop_managed_process = stop,
    .signal_managed_process = send_signal,
    .wait_managed_process = wait,
    .attach_managed_process = box_process_attach,
    .attach_managed_process_message = box_process_attach_message,
    .attach_managed_process_half_close = box_process_attach_half_close,
};

box_service box_process_service(box_sessions *sessions)
{
    return (box_service){
        .type = &box_v1_process_service, .handlers = &handlers, .context = sessions};
}
