/* ControlService: Health, GetBackendInfo, ListBackends. */
#include "base/alloc.h"
#include "service/control_impl.h"
#include "service/session_convert.h"
#include "warden/protocol.h"

size_t box_control_reports(box_control *c, box_backend_report out[BOX_CONTROL_MAX_BACKENDS])
{
    const box_control_facts *f = &c->config.facts;
    return f->backends(f->arg, out, BOX_CONTROL_MAX_BACKENDS);
}

static box_backend_report *new_reports(void)
{
    return box_alloc_array(BOX_CONTROL_MAX_BACKENDS, sizeof(box_backend_report));
}

bool box_control_selected(box_control *c, box_backend_report *out)
{
    BOX_AUTO(box_freep) box_backend_report *reports = new_reports();
    size_t n = box_control_reports(c, reports);
    for (size_t i = 0; i < n; i++) {
        if (reports[i].selected) {
            *out = reports[i];
            return true;
        }
    }
    return false;
}

static bool is_unsafe(const box_backend_report *b)
{
    return b->available && b->isolation == 0;
}

static int answer_health(box_call *call, const char *name, box_error *err)
{
    box_backend_report b;
    Box__V1__HealthResponse response;
    static char none[] = "no backend works: see ListBackends";
    (void)name; /* asks for none */
    (void)err;  /* cannot fail */
    box__v1__health_response__init(&response);
    if (box_control_selected(box_call_context(call), &b)) {
        response.name = b.name;
        response.available = b.available;
        response.unsafe_direct_execution = is_unsafe(&b);
        if (!b.available)
            response.detail = b.detail;
    } else {
        response.detail = none;
    }
    box_v1_control_service_health_answer(call, &response);
    return 0;
}

int box_control_health(box_call *call, const Box__V1__HealthRequest *r, box_error *err)
{
    (void)r; /* has no fields */
    return box_control_when_known(call, "", answer_health, err);
}

/* A backend as a message, with what it points to. */
typedef struct backend_view {
    Box__V1__BackendInfo message;
    Box__V1__Guarantee guarantees[BOX_VIEW_GUARANTEES];
    Box__V1__Guarantee *list[BOX_VIEW_GUARANTEES];
} backend_view;

static void view_guarantees(backend_view *v, uint32_t holds)
{
    size_t n = 0;
    for (unsigned i = 0; i < BOX_VIEW_GUARANTEES; i++) {
        const char *name = box_guarantee_name(UINT32_C(1) << i);
        if (name == NULL)
            continue;
        Box__V1__Guarantee *g = &v->guarantees[n];
        box__v1__guarantee__init(g);
        g->name = (char *)(uintptr_t)name; /* read only, while packing */
        g->holds = (holds >> i & 1) != 0;
        v->list[n++] = g;
    }
    v->message.guarantees = v->list;
    v->message.n_guarantees = n;
}

/* Borrows from b. */
static void view_backend(backend_view *v, box_backend_report *b)
{
    static const Box__V1__IsolationLevel levels[] = {
        BOX__V1__ISOLATION_LEVEL__ISOLATION_LEVEL_NONE,
        BOX__V1__ISOLATION_LEVEL__ISOLATION_LEVEL_PROCESS,
        BOX__V1__ISOLATION_LEVEL__ISOLATION_LEVEL_CONTAINER,
        BOX__V1__ISOLATION_LEVEL__ISOLATION_LEVEL_VIRTUAL_MACHINE,
    };
    box__v1__backend_info__init(&v->message);
    v->message.name = b->name;
    v->message.available = b->available;
    v->message.selected = b->selected;
    v->message.unsafe_direct_execution = is_unsafe(b);
    if (b->available && b->isolation < BOX_COUNT(levels))
        v->message.isolation = levels[b->isolation];
    if (b->available)
        v->message.detail = b->detail;
    else
        v->message.error = b->detail;
    view_guarantees(v, b->available ? b->guarantees : 0);
}

static box_backend_report *find_named(box_backend_report *reports, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++) {
        if (name[0] == '\0' ? reports[i].selected : strcmp(reports[i].name, name) == 0)
            return &reports[i];
    }
    return NULL;
}

static int answer_info(box_call *call, const char *name, box_error *err)
{
    BOX_AUTO(box_freep) box_backend_report *reports = new_reports();
    size_t n = box_control_reports(box_call_context(call), reports);
    box_backend_report *b = find_named(reports, n, name);
    if (b == NULL && name[0] == '\0')
        return box_fail(err, BOX_BACKEND_UNAVAILABLE, "no backend works: see ListBackends");
    if (b == NULL)
        return box_violation(err, "backend", "no backend %.64s is configured", name);
    backend_view v;
    Box__V1__GetBackendInfoResponse response;
    box__v1__get_backend_info_response__init(&response);
    view_backend(&v, b);
    response.backend = &v.message;
    box_v1_control_service_get_backend_info_answer(call, &response);
    return 0;
}

int box_control_get_backend_info(box_call *call, const Box__V1__GetBackendInfoRequest *r,
                                 box_error *err)
{
    return box_control_when_known(call, r->backend, answer_info, err);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const box_backend_report *)a)->name, ((const box_backend_report *)b)->name);
}

static int answer_list(box_call *call, const char *name, box_error *err)
{
    BOX_AUTO(box_freep) box_backend_report *reports = new_reports();
    size_t n = box_control_reports(box_call_context(call), reports);
    Box__V1__BackendInfo *messages[BOX_CONTROL_MAX_BACKENDS];
    BOX_AUTO(box_freep) backend_view *views = box_alloc_array(n + 1, sizeof *views);
    Box__V1__ListBackendsResponse response;
    (void)name; /* asks for none */
    (void)err;  /* cannot fail */
    qsort(reports, n, sizeof *reports, by_name);
    for (size_t i = 0; i < n; i++) {
        view_backend(&views[i], &reports[i]);
        messages[i] = &views[i].message;
    }
    box__v1__list_backends_response__init(&response);
    response.backends = messages;
    response.n_backends = n;
    box_v1_control_service_list_backends_answer(call, &response);
    return 0;
}

int box_control_list_backends(box_call *call, const Box__V1__ListBackendsRequest *r, box_error *err)
{
    (void)r; /* has no fields */
    return box_control_when_known(call, "", answer_list, err);
}
