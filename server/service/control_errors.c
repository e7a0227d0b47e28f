/* ControlService: ListErrors. */
#include "base/alloc.h"
#include "base/limits.h"
#include "policy/recent.h"
#include "service/control_impl.h"
#include "service/times.h"

typedef struct record_view {
    Box__V1__ErrorRecord message;
    Google__Protobuf__Timestamp occurred;
    Box__V1__ErrorRecord__MetadataEntry *entries; /* owned */
    Box__V1__ErrorRecord__MetadataEntry **pointers;
} record_view;

static char *text(const char *s)
{
    return (char *)(uintptr_t)s; /* only packed */
}

static void view_metadata(record_view *v, const box_recent_error *e)
{
    const char *at = e->metadata;
    v->entries = box_alloc_array(e->n_metadata + 1, sizeof *v->entries);
    v->pointers = box_alloc_array(e->n_metadata + 1, sizeof(void *));
    for (size_t i = 0; i < e->n_metadata; i++) {
        Box__V1__ErrorRecord__MetadataEntry *m = v->pointers[i] = &v->entries[i];
        box__v1__error_record__metadata_entry__init(m);
        m->key = text(at);
        m->value = text(at + strlen(at) + 1);
        at = m->value + strlen(m->value) + 1;
    }
    v->message.metadata = v->pointers;
    v->message.n_metadata = e->n_metadata;
}

static void view_record(record_view *v, const box_recent_error *e)
{
    box__v1__error_record__init(&v->message);
    v->message.occurred_at = box_times_stamp(&v->occurred, e->wall_ns);
    v->message.reason = text(box_reason_name(e->reason));
    v->message.message = text(e->msg);
    v->message.method = text(e->method);
    v->message.session_id = text(e->session_id);
    v->message.request_id = text(e->request_id);
    view_metadata(v, e);
}

static void answer(box_call *call, const box_recent_error *const *errors, size_t n)
{
    record_view views[BOX_RECENT_ERRORS_PER_TENANT];
    Box__V1__ErrorRecord *pointers[BOX_RECENT_ERRORS_PER_TENANT];
    Box__V1__ListErrorsResponse response;
    box__v1__list_errors_response__init(&response);
    for (size_t i = 0; i < n; i++) {
        view_record(&views[i], errors[i]);
        pointers[i] = &views[i].message;
    }
    response.errors = pointers;
    response.n_errors = n;
    box_v1_control_service_list_errors_answer(call, &response);
    for (size_t i = 0; i < n; i++) {
        free(views[i].entries);
        free(views[i].pointers);
    }
}

int box_control_list_errors(box_call *call, const Box__V1__ListErrorsRequest *r, box_error *err)
{
    const box_control *c = box_call_context(call);
    const box_identity *who = box_call_identity(call);
    const box_recent_error *errors[BOX_RECENT_ERRORS_PER_TENANT];
    size_t max = BOX_COUNT(errors);
    if (who == NULL)
        return box_fail(err, BOX_UNAUTHENTICATED, "this call needs a known caller");
    if (r->page_size < 0)
        return box_violation(err, "page_size", "must not be negative");
    if (r->page_size > 0 && (size_t)r->page_size < max)
        max = (size_t)r->page_size;
    box_recent *recent = box_policy_recent(c->config.policy);
    size_t n = box_recent_list(recent, who->tenant, r->session_id, max, errors);
    answer(call, errors, n);
    box_recent_release(recent, errors, n);
    return 0;
}
