#include "rpc/health.h"

#include <assert.h>

#include "base/alloc.h"
#include "base/limits.h"
#include "grpc/health/v1/health.box.h"
#include "loop/lock.h"

typedef Grpc__Health__V1__HealthCheckResponse check_response;

enum { SERVICE_UNKNOWN = GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__SERVICE_UNKNOWN };

typedef struct entry {
    char *service;
    box_health_status status;
} entry;

/* The watch calls of one loop. */
typedef struct loop_part {
    box_health *health;
    box_list watches;
} loop_part;

struct box_health {
    box_loops *loops;
    box_lock lock; /* guards what follows, up to the loops' own parts */
    entry entries[BOX_MAX_HEALTH_SERVICES];
    size_t n_entries;
    bool draining;
    loop_part parts[];
};

typedef struct watch {
    box_list link;
    box_health *health;
    box_call *call; /* lives until on_end, which frees this */
    char *service;
    int last; /* status sent; -1: none */
} watch;

/* --- states ----------------------------------------------------------------------------------- */

static entry *find_entry(box_health *h, const char *service)
{
    for (size_t i = 0; i < h->n_entries; i++) {
        if (strcmp(h->entries[i].service, service) == 0)
            return &h->entries[i];
    }
    return NULL;
}

/* A ServingStatus. */
static int status_of(box_health *h, const char *service)
{
    box_lock_take(&h->lock);
    const entry *e = find_entry(h, service);
    int status = e == NULL ? SERVICE_UNKNOWN : (int)e->status;
    box_lock_release(&h->lock);
    return status;
}

static bool is_draining(box_health *h)
{
    box_lock_take(&h->lock);
    bool draining = h->draining;
    box_lock_release(&h->lock);
    return draining;
}

static void set_entry(box_health *h, const char *service, box_health_status status)
{
    entry *e = find_entry(h, service);
    if (e == NULL) {
        assert(h->n_entries < BOX_MAX_HEALTH_SERVICES);
        e = &h->entries[h->n_entries++];
        e->service = box_strdup(service);
    }
    e->status = status;
}

/* --- watches ---------------------------------------------------------------------------------- */

static void update(watch *w)
{
    int status = status_of(w->health, w->service);
    if (status == w->last || !box_call_is_writable(w->call))
        return;
    w->last = status;
    check_response response = GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__INIT;
    response.status = (Grpc__Health__V1__HealthCheckResponse__ServingStatus)status;
    grpc_health_v1_health_watch_reply(w->call, &response);
}

static void on_watch_writable(box_call *call, void *arg)
{
    (void)call;
    update(arg);
}

static void on_watch_end(box_call *call, void *arg, const box_error *why)
{
    (void)call;
    (void)why;
    watch *w = arg;
    box_list_remove(&w->link);
    free(w->service);
    free(w);
}

static void finish_all(loop_part *part)
{
    box_error stopping = {0};
    (void)box_fail(&stopping, BOX_SHUTTING_DOWN, "the server is stopping");
    while (!box_list_empty(&part->watches))
        box_call_finish(BOX_CONTAINER(part->watches.next, watch, link)->call, &stopping);
}

static void on_change(void *arg)
{
    loop_part *part = arg;
    for (box_list *at = part->watches.next, *next; at != &part->watches; at = next) {
        next = at->next; /* sending on a stream that breaks ends its watch */
        update(BOX_CONTAINER(at, watch, link));
    }
    if (is_draining(part->health))
        finish_all(part);
}

static void tell_loops(box_health *h)
{
    for (unsigned i = 0; i < box_loops_count(h->loops); i++)
        box_loop_post(box_loops_get(h->loops, i), on_change, &h->parts[i]);
}

/* --- handlers --------------------------------------------------------------------------------- */

static int check(box_call *call, const Grpc__Health__V1__HealthCheckRequest *request,
                 box_error *err)
{
    int status = status_of(box_call_context(call), request->service);
    if (status == SERVICE_UNKNOWN) {
        (void)box_fail(err, BOX_UNKNOWN, "unknown service %s", request->service);
        err->code = BOX_CODE_NOT_FOUND;
        return -1;
    }
    check_response response = GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__INIT;
    response.status = (Grpc__Health__V1__HealthCheckResponse__ServingStatus)status;
    grpc_health_v1_health_check_answer(call, &response);
    return 0;
}

static int watch_start(box_call *call, const Grpc__Health__V1__HealthCheckRequest *request,
                       box_error *err)
{
    box_health *h = box_call_context(call);
    if (is_draining(h))
        return box_fail(err, BOX_SHUTTING_DOWN, "the server is stopping");
    watch *w = box_alloc(sizeof *w);
    *w = (watch){.health = h, .call = call, .service = box_strdup(request->service), .last = -1};
    box_list_append(&h->parts[box_loop_index(box_loop_current())].watches, &w->link);
    box_call_on_writable(call, on_watch_writable, w);
    box_call_on_end(call, on_watch_end, w);
    update(w);
    return 0;
}

typedef Grpc__Health__V1__HealthListResponse__StatusesEntry list_entry;

static int list(box_call *call, const Grpc__Health__V1__HealthListRequest *request, box_error *err)
{
    (void)request;
    (void)err;
    box_health *h = box_call_context(call);
    check_response statuses[BOX_MAX_HEALTH_SERVICES];
    list_entry entries[BOX_MAX_HEALTH_SERVICES];
    list_entry *all[BOX_MAX_HEALTH_SERVICES];
    box_lock_take(&h->lock);
    size_t n = h->n_entries;
    for (size_t i = 0; i < n; i++) {
        statuses[i] = (check_response)GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__INIT;
        statuses[i].status =
            (Grpc__Health__V1__HealthCheckResponse__ServingStatus)h->entries[i].status;
        entries[i] = (list_entry)GRPC__HEALTH__V1__HEALTH_LIST_RESPONSE__STATUSES_ENTRY__INIT;
        entries[i].key = h->entries[i].service; /* never changes or goes */
        entries[i].value = &statuses[i];
        all[i] = &entries[i];
    }
    box_lock_release(&h->lock);
    Grpc__Health__V1__HealthListResponse response = GRPC__HEALTH__V1__HEALTH_LIST_RESPONSE__INIT;
    response.statuses = all;
    response.n_statuses = n;
    grpc_health_v1_health_list_answer(call, &response);
    return 0;
}

static const grpc_health_v1_health_handlers handlers = {
    .check = check,
    .list = list,
    .watch = watch_start,
};

/* --- life ------------------------------------------------------------------------------------- */

box_health *box_health_new(box_loops *loops)
{
    unsigned n_loops = box_loops_count(loops);
    box_health *h = box_alloc(sizeof *h + n_loops * sizeof h->parts[0]);
    h->loops = loops;
    box_lock_init(&h->lock);
    for (unsigned i = 0; i < n_loops; i++) {
        h->parts[i].health = h;
        box_list_init(&h->parts[i].watches);
    }
    set_entry(h, "", BOX_HEALTH_NOT_SERVING);
    return h;
}

void box_health_free(box_health *h)
{
    if (h == NULL)
        return;
    for (size_t i = 0; i < h->n_entries; i++)
        free(h->entries[i].service);
    box_lock_done(&h->lock);
    free(h);
}

box_service box_health_service(box_health *h)
{
    return (box_service){.type = &grpc_health_v1_health, .handlers = &handlers, .context = h};
}

void box_health_set(box_health *h, const char *service, box_health_status status)
{
    box_lock_take(&h->lock);
    if (!h->draining)
        set_entry(h, service, status);
    box_lock_release(&h->lock);
    tell_loops(h);
}

void box_health_drain(box_health *h)
{
    box_lock_take(&h->lock);
    h->draining = true;
    for (size_t i = 0; i < h->n_entries; i++)
        h->entries[i].status = BOX_HEALTH_NOT_SERVING;
    box_lock_release(&h->lock);
    tell_loops(h);
}
