#include "service/session.h"

#include "base/alloc.h"
#include "base/limits.h"
#include "box/v1/session.box.h"
#include "service/page.h"
#include "service/port_forward.h"
#include "service/process_convert.h"
#include "service/session_convert.h"
#include "service/session_resolve.h"
#include "service/session_watch.h"

static box_sessions *sessions_of(const box_call *call)
{
    return box_call_context(call);
}

/* The session's id where it must name one. */
static int need_id(const char *id, box_error *err)
{
    return id[0] != '\0' ? 0 : box_violation(err, "session_id", "must not be empty");
}

/* Puts the session into the answer of one method. */
typedef void give_session(box_call *call, Box__V1__Session *session, const box_session_info *info);

static void answer_session(box_call *call, const box_session_info *info,
                           const box_session_usage *usage, give_session *give)
{
    BOX_AUTO(box_freep) box_session_view *view = box_alloc(sizeof *view);
    box_view_session(view, info);
    if (usage != NULL)
        box_view_usage(view, usage);
    give(call, &view->message, info);
    box_session_view_done(view);
}

/* The end of a job: err, or the session. Takes the job's reference. */
static void end_job(box_call *call, const box_session_info *info, const box_session_usage *usage,
                    const box_error *err, give_session *give)
{
    if (err != NULL)
        box_call_finish(call, err);
    else
        answer_session(call, info, usage, give);
    box_call_unref(call);
}

/* --- create ----------------------------------------------------------------------------------- */

static void give_created(box_call *call, Box__V1__Session *session, const box_session_info *info)
{
    Box__V1__CreateSessionResponse response;
    box__v1__create_session_response__init(&response);
    response.session = session;
    response.created = info->created;
    box_v1_session_service_create_session_answer(call, &response);
}

static void created(void *call, const box_session_info *info, const box_error *err)
{
    end_job(call, info, NULL, err, give_created);
}

static int create_session(box_call *call, const Box__V1__CreateSessionRequest *r, box_error *err)
{
    const char *tenant;
    uint8_t digest[32];
    if (box_convert_tenant(call, &tenant, err) < 0)
        return -1;
    BOX_AUTO(box_spec_done) box_spec spec = {0};
    if (box_convert_spec(r->spec, &spec, err) < 0) {
        BOX_IGNORE(box_session_check(r->session_id, &spec, err)); /* the other violations too */
        return -1;
    }
    if (r->idempotency_key[0] != '\0')
        box_convert_digest(&r->base, digest);
    box_create_request request = {.tenant = tenant,
                                  .id = r->session_id,
                                  .spec = &spec,
                                  .idempotency_key = r->idempotency_key,
                                  .digest = digest};
    box_session_create(sessions_of(call), &request, created, box_call_ref(call));
    return 0;
}

/* --- get -------------------------------------------------------------------------------------- */

static int by_id(const void *a, const void *b)
{
    return strcmp(((const box_process_info *)a)->id, ((const box_process_info *)b)->id);
}

/* With its processes: they are few (BOX_MAX_PROCESSES). */
static void give_got(box_call *call, Box__V1__Session *session, const box_session_info *info)
{
    const box_process_filter filter = {.session_id = info->id};
    box_process_info *found = NULL;
    size_t n = 0;
    bool more;
    box_error gone; /* between the two looks: it has none then */
    if (box_process_list(sessions_of(call), info->tenant, &filter, 0, NULL, BOX_MAX_PROCESSES,
                         &found, &n, &more, &gone) < 0)
        n = 0;
    if (n > 1)
        qsort(found, n, sizeof *found, by_id);
    BOX_AUTO(box_freep) box_process_view *views = box_alloc_array(n + 1, sizeof *views);
    BOX_AUTO(box_freep) Box__V1__ManagedProcess **messages = box_alloc_array(n + 1, sizeof(void *));
    for (size_t i = 0; i < n; i++) {
        box_view_process(&views[i], &found[i]);
        messages[i] = &views[i].message;
    }
    Box__V1__GetSessionResponse response;
    box__v1__get_session_response__init(&response);
    response.session = session;
    response.processes = messages;
    response.n_processes = n;
    box_v1_session_service_get_session_answer(call, &response);
    for (size_t i = 0; i < n; i++)
        box_process_view_done(&views[i]);
    box_process_list_free(found, n);
}

static void got(void *call, const box_session_info *info, const box_session_usage *usage,
                const box_error *err)
{
    end_job(call, info, usage, err, give_got);
}

static int get_session(box_call *call, const Box__V1__GetSessionRequest *r, box_error *err)
{
    const char *tenant;
    if (box_convert_tenant(call, &tenant, err) < 0 || need_id(r->session_id, err) < 0)
        return -1;
    box_session_get_usage(sessions_of(call), tenant, r->session_id, got, box_call_ref(call));
    return 0;
}

/* --- list ------------------------------------------------------------------------------------- */

/* What the token is bound to: everything of the request but the page. */
static uint64_t binding_of(const Box__V1__ListSessionsRequest *r, const char *tenant)
{
    Box__V1__ListSessionsRequest filter = *r;
    uint8_t digest[32];
    filter.page_size = 0;
    filter.page_token = (char *)(uintptr_t)protobuf_c_empty_string;
    box_convert_digest(&filter.base, digest);
    return box_page_binding("sessions", tenant, digest, sizeof digest);
}

static int states_of(const Box__V1__ListSessionsRequest *r, uint32_t *out, box_error *err)
{
    for (size_t i = 0; i < r->n_states; i++) {
        if (r->states[i] <= 0 || r->states[i] > BOX__V1__SESSION_STATE__SESSION_STATE_ERROR)
            return box_violation(err, "states", "holds no known value");
        *out |= UINT32_C(1) << r->states[i];
    }
    return 0;
}

static void answer_list(box_call *call, const box_session_info *infos, size_t n, const char *next)
{
    BOX_AUTO(box_freep) box_session_view *views = box_alloc_array(n + 1, sizeof *views);
    BOX_AUTO(box_freep) Box__V1__Session **messages = box_alloc_array(n + 1, sizeof(void *));
    for (size_t i = 0; i < n; i++) {
        box_view_session(&views[i], &infos[i]);
        messages[i] = &views[i].message;
    }
    Box__V1__ListSessionsResponse response;
    box__v1__list_sessions_response__init(&response);
    response.sessions = messages;
    response.n_sessions = n;
    response.next_page_token = (char *)(uintptr_t)next;
    box_v1_session_service_list_sessions_answer(call, &response);
    for (size_t i = 0; i < n; i++)
        box_session_view_done(&views[i]);
}

static int list_sessions(box_call *call, const Box__V1__ListSessionsRequest *r, box_error *err)
{
    const char *tenant;
    if (box_convert_tenant(call, &tenant, err) < 0)
        return -1;
    size_t limit = 0;
    box_position from = {0};
    box_session_filter filter = {.backend = r->backend};
    uint64_t binding = binding_of(r, tenant);
    int bad = box_page_size(r->page_size, &limit, err);
    bad |= box_page_parse(r->page_token, binding, &from, err);
    bad |= states_of(r, &filter.states, err);
    if (r->n_labels > BOX_MAX_LABELS)
        bad |= box_violation(err, "labels", "more than %d labels", BOX_MAX_LABELS);
    if (bad != 0)
        return -1;
    box_label labels[BOX_MAX_LABELS];
    for (size_t i = 0; i < r->n_labels; i++)
        labels[i] = (box_label){r->labels[i]->key, r->labels[i]->value};
    filter.labels = labels;
    filter.n_labels = r->n_labels;
    box_session_info *infos;
    size_t n;
    bool more;
    box_session_list(sessions_of(call), tenant, &filter, from.created_ns,
                     from.id[0] != '\0' ? from.id : NULL, limit, &infos, &n, &more);
    char next[BOX_PAGE_TOKEN_TEXT] = "";
    if (more) {
        const box_session_info *last = &infos[n - 1];
        from.created_ns = last->created_wall_ns;
        memcpy(from.id, last->id, strlen(last->id) + 1);
        box_page_token(binding, &from, next);
    }
    answer_list(call, infos, n, next);
    box_session_list_free(infos, n);
    return 0;
}

/* --- update ----------------------------------------------------------------------------------- */

static void give_updated(box_call *call, Box__V1__Session *session, const box_session_info *info)
{
    (void)info;
    Box__V1__UpdateSessionResponse response;
    box__v1__update_session_response__init(&response);
    response.session = session;
    box_v1_session_service_update_session_answer(call, &response);
}

static void updated(void *call, const box_session_info *info, const box_error *err)
{
    end_job(call, info, NULL, err, give_updated);
}

static uint32_t field_of(const char *path)
{
    for (uint32_t bit = 1; bit <= BOX_SPEC_ALL; bit <<= 1) {
        if (strcmp(box_spec_field_name(bit), path) == 0)
            return bit;
    }
    return 0;
}

static int read_mask(const Google__Protobuf__FieldMask *mask, uint32_t *fields, box_error *err)
{
    int bad = 0;
    for (size_t i = 0; mask != NULL && i < mask->n_paths; i++) {
        const char *path = mask->paths[i];
        uint32_t bit = field_of(path);
        *fields |= bit;
        if ((bit & BOX_SPEC_LIVE) == 0)
            bad |=
                box_violation(err, "update_mask", "%s cannot be changed in a live session", path);
    }
    if (*fields == 0 && bad == 0)
        bad |= box_violation(err, "update_mask", "names nothing to change");
    return bad;
}

static int update_session(box_call *call, const Box__V1__UpdateSessionRequest *r, box_error *err)
{
    const char *tenant;
    uint32_t fields = 0;
    if (box_convert_tenant(call, &tenant, err) < 0)
        return -1;
    BOX_AUTO(box_spec_done) box_spec spec = {0};
    int bad = need_id(r->session_id, err);
    bad |= read_mask(r->update_mask, &fields, err);
    if (bad != 0 || box_convert_spec(r->spec, &spec, err) < 0)
        return -1;
    spec.set &= fields; /* what is not named is not taken */
    box_session_update(sessions_of(call), tenant, r->session_id, &spec, fields, updated,
                       box_call_ref(call));
    return 0;
}

/* --- extend, stop, delete --------------------------------------------------------------------- */

static void give_extended(box_call *call, Box__V1__Session *session, const box_session_info *info)
{
    (void)info;
    Box__V1__ExtendSessionResponse response;
    box__v1__extend_session_response__init(&response);
    response.session = session;
    box_v1_session_service_extend_session_answer(call, &response);
}

static void extended(void *call, const box_session_info *info, const box_error *err)
{
    end_job(call, info, NULL, err, give_extended);
}

static int extend_session(box_call *call, const Box__V1__ExtendSessionRequest *r, box_error *err)
{
    const char *tenant;
    int64_t ns = 0;
    if (box_convert_tenant(call, &tenant, err) < 0)
        return -1;
    int bad = need_id(r->session_id, err);
    if (r->duration != NULL && box_convert_span(r->duration, "duration", &ns, err) < 0)
        bad = -1;
    else if (r->duration != NULL && ns == 0)
        bad |= box_violation(err, "duration", "must be greater than 0");
    if (bad != 0)
        return -1;
    box_session_extend(sessions_of(call), tenant, r->session_id, (uint64_t)ns, extended,
                       box_call_ref(call));
    return 0;
}

static void give_stopped(box_call *call, Box__V1__Session *session, const box_session_info *info)
{
    (void)info;
    Box__V1__StopSessionResponse response;
    box__v1__stop_session_response__init(&response);
    response.session = session;
    box_v1_session_service_stop_session_answer(call, &response);
}

static void stopped(void *call, const box_session_info *info, const box_error *err)
{
    end_job(call, info, NULL, err, give_stopped);
}

static int stop_session(box_call *call, const Box__V1__StopSessionRequest *r, box_error *err)
{
    const char *tenant;
    if (box_convert_tenant(call, &tenant, err) < 0 || need_id(r->session_id, err) < 0)
        return -1;
    box_session_stop(sessions_of(call), tenant, r->session_id, stopped, box_call_ref(call));
    return 0;
}

typedef struct deletion {
    box_call *call;
    char *id; /* as given */
} deletion;

static void deleted(void *arg, const box_session_info *info, const box_error *err)
{
    deletion *d = arg;
    if (err != NULL) {
        box_call_finish(d->call, err);
    } else {
        Box__V1__DeleteSessionResponse response;
        box__v1__delete_session_response__init(&response);
        response.session_id = d->id;
        response.deleted = info != NULL;
        box_v1_session_service_delete_session_answer(d->call, &response);
    }
    box_call_unref(d->call);
    free(d->id);
    free(d);
}

static int delete_session(box_call *call, const Box__V1__DeleteSessionRequest *r, box_error *err)
{
    const char *tenant;
    if (box_convert_tenant(call, &tenant, err) < 0 || need_id(r->session_id, err) < 0)
        return -1;
    deletion *d = box_alloc(sizeof *d);
    d->call = box_call_ref(call);
    d->id = box_strdup(r->session_id);
    box_session_delete(sessions_of(call), tenant, r->session_id, r->allow_missing, deleted, d);
    return 0;
}

static const box_v1_session_service_handlers handlers = {
    .create_session = create_session,
    .get_session = get_session,
    .list_sessions = list_sessions,
    .update_session = update_session,
    .extend_session = extend_session,
    .stop_session = stop_session,
    .delete_session = delete_session,
    .watch_sessions = box_watch_sessions,
    .resolve_session_id = box_resolve_session_id,
    .port_forward = box_port_forward,
    .port_forward_message = box_port_forward_message,
    .port_forward_half_close = box_port_forward_half_close,
};

box_service box_session_service(box_sessions *sessions)
{
    return (box_service){
        .type = &box_v1_session_service, .handlers = &handlers, .context = sessions};
}
