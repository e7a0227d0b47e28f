/* AdminService: tenants. */
#include "base/alloc.h"
#include "base/limits.h"
#include "service/admin_impl.h"
#include "service/session_convert.h"

/* A tenant as a message, with what it points to. */
typedef struct tenant_view {
    Box__V1__Tenant message;
    Google__Protobuf__Timestamp created;
    Google__Protobuf__Timestamp updated;
    Box__V1__Tenant__LabelsEntry *entries;
    Box__V1__Tenant__LabelsEntry **labels;
} tenant_view;

static void view_done(tenant_view *v)
{
    free(v->entries);
    free(v->labels);
}

/* Messages are read only while they are packed; protobuf-c has no const fields. */
static char *text(const char *s)
{
    return (char *)(uintptr_t)s;
}

static void view_labels(tenant_view *v, const box_labels *labels)
{
    size_t at = 0;
    size_t n = 0;
    const char *key;
    const char *value;
    while (box_labels_next(labels, &at, &key, &value))
        n++;
    if (n == 0)
        return;
    v->entries = box_alloc_array(n, sizeof *v->entries);
    v->labels = box_alloc_array(n, sizeof(void *));
    at = n = 0;
    while (box_labels_next(labels, &at, &key, &value)) {
        Box__V1__Tenant__LabelsEntry *e = &v->entries[n];
        box__v1__tenant__labels_entry__init(e);
        e->key = text(key);
        e->value = text(value);
        v->labels[n++] = e;
    }
    v->message.labels = v->labels;
    v->message.n_labels = n;
}

/* Borrows from t. */
static void view_tenant(tenant_view *v, box_tenant *t)
{
    *v = (tenant_view){0};
    box__v1__tenant__init(&v->message);
    v->message.tenant_id = t->id;
    v->message.display_name = t->display_name;
    v->message.disabled = t->disabled;
    v->message.created_at = box_times_stamp(&v->created, t->created_ns);
    v->message.updated_at = box_times_stamp(&v->updated, t->updated_ns);
    view_labels(v, &t->labels);
}

/* --- checks ----------------------------------------------------------------------------------- */

static int check_id(const char *field, const char *id, box_error *err)
{
    static const char allowed[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
    size_t len = strlen(id);
    if (len == 0)
        return box_violation(err, field, "is required");
    if (len > BOX_TENANT_ID_BYTES || strspn(id, allowed) != len || id[0] == '.' || id[0] == '-')
        return box_violation(err, field,
                             "must be 1 to 64 of A-Z a-z 0-9 . _ - and not begin with . or -");
    return 0;
}

/* The entries of every map<string, string> field have the same shape. */
typedef struct label_pair {
    const char *key;
    const char *value;
} label_pair;

static int take_label(const char *field, label_pair p, box_labels *out, box_error *err)
{
    size_t len = strlen(p.key);
    if (len == 0 || len > BOX_MAX_LABEL_KEY_BYTES)
        return box_violation(err, field, "a key must be 1 to %d bytes", BOX_MAX_LABEL_KEY_BYTES);
    if (strlen(p.value) > BOX_MAX_LABEL_VALUE_BYTES)
        return box_violation(err, field, "the value of %s is longer than %d bytes", p.key,
                             BOX_MAX_LABEL_VALUE_BYTES);
    box_labels_put(out, p.key, p.value);
    return 0;
}

static int check_label_count(const char *field, size_t n, box_error *err)
{
    return n <= BOX_MAX_LABELS ? 0 : box_violation(err, field, "at most %d labels", BOX_MAX_LABELS);
}

static int take_labels(const Box__V1__Tenant *t, box_labels *out, box_error *err)
{
    if (check_label_count("tenant.labels", t->n_labels, err) < 0)
        return -1;
    int bad = 0;
    for (size_t i = 0; i < t->n_labels; i++)
        bad |= take_label("tenant.labels", (label_pair){t->labels[i]->key, t->labels[i]->value},
                          out, err);
    return bad;
}

static int take_name(const Box__V1__Tenant *t, box_tenant *out, box_error *err)
{
    if (strlen(t->display_name) > BOX_TENANT_NAME_BYTES)
        return box_violation(err, "tenant.display_name", "is longer than %d bytes",
                             BOX_TENANT_NAME_BYTES);
    memcpy(out->display_name, t->display_name, strlen(t->display_name) + 1);
    return 0;
}

/* Nobody could enable the administrator's own tenant again. */
static int take_disabled(const Box__V1__Tenant *t, box_tenant *out, box_error *err)
{
    if (t->disabled && strcmp(t->tenant_id, BOX_DEFAULT_TENANT) == 0)
        return box_violation(err, "tenant.disabled", "tenant default cannot be disabled");
    out->disabled = t->disabled;
    return 0;
}

static int take_id(const Box__V1__Tenant *t, box_tenant *out, box_error *err)
{
    if (check_id("tenant.tenant_id", t->tenant_id, err) < 0)
        return -1;
    memcpy(out->id, t->tenant_id, strlen(t->tenant_id) + 1);
    return 0;
}

/* --- CreateTenant ----------------------------------------------------------------------------- */

BOX_WORKER static int create_work(admin_job *job, box_error *err)
{
    return box_policy_tenant_create(job->admin->policy, &job->tenant, err);
}

static void create_answer(admin_job *job)
{
    BOX_AUTO(view_done) tenant_view v;
    Box__V1__CreateTenantResponse response;
    box__v1__create_tenant_response__init(&response);
    view_tenant(&v, &job->tenant);
    response.tenant = &v.message;
    box_v1_admin_service_create_tenant_answer(job->call, &response);
}

static int create_check(const Box__V1__CreateTenantRequest *r, box_tenant *out, box_error *err)
{
    const Box__V1__Tenant *t = r->tenant;
    if (t == NULL)
        return box_violation(err, "tenant", "is required");
    int bad = take_id(t, out, err);
    bad |= take_name(t, out, err);
    bad |= take_labels(t, &out->labels, err);
    bad |= take_disabled(t, out, err);
    if (t->created_at != NULL)
        bad |= box_violation(err, "tenant.created_at", "is set by the server");
    if (t->updated_at != NULL)
        bad |= box_violation(err, "tenant.updated_at", "is set by the server");
    if (bad != 0)
        return -1;
    if (t->limits != NULL)
        return box_convert_not_built("tenant.limits", err);
    if (r->idempotency_key[0] != '\0')
        return box_convert_not_built("idempotency_key", err);
    return 0;
}

int box_admin_create_tenant(box_call *call, const Box__V1__CreateTenantRequest *r, box_error *err)
{
    BOX_AUTO(box_admin_job_freep) admin_job *job = NULL;
    if (box_admin_job_new(call, create_work, create_answer, &job, err) < 0 ||
        box_admin_need_act(&job->who, err) < 0 || create_check(r, &job->tenant, err) < 0)
        return -1;
    return box_admin_job_start(box_take(job), err);
}

/* --- GetTenant -------------------------------------------------------------------------------- */

BOX_WORKER static int get_work(admin_job *job, box_error *err)
{
    return box_store_tenant_get(job->admin->store, job->tenant.id, &job->tenant, err);
}

static void get_answer(admin_job *job)
{
    BOX_AUTO(view_done) tenant_view v;
    Box__V1__GetTenantResponse response;
    box__v1__get_tenant_response__init(&response);
    view_tenant(&v, &job->tenant);
    response.tenant = &v.message;
    box_v1_admin_service_get_tenant_answer(job->call, &response);
}

int box_admin_get_tenant(box_call *call, const Box__V1__GetTenantRequest *r, box_error *err)
{
    BOX_AUTO(box_admin_job_freep) admin_job *job = NULL;
    if (box_admin_job_new(call, get_work, get_answer, &job, err) < 0 ||
        box_admin_target(&job->who, "tenant_id", r->tenant_id, job->tenant.id, err) < 0)
        return -1;
    return box_admin_job_start(box_take(job), err);
}

/* --- ListTenants ------------------------------------------------------------------------------ */

static int list_own(admin_job *job, box_error *err)
{
    box_tenant own = {0};
    job->tenants = box_alloc(sizeof *job->tenants);
    if (job->position.id[0] != '\0')
        return 0; /* there is one page */
    if (box_store_tenant_get(job->admin->store, job->who.tenant, &own, err) < 0)
        return -1;
    if (!box_labels_match(&own.labels, &job->filter.labels)) {
        box_tenant_done(&own);
        return 0;
    }
    job->tenants[job->n++] = own;
    return 0;
}

BOX_WORKER static int list_work(admin_job *job, box_error *err)
{
    if ((job->who.scopes & BOX_SCOPE_TENANTS_ACT) == 0)
        return list_own(job, err);
    return box_store_tenant_list(job->admin->store, &job->filter, &job->position, job->limit,
                                 &job->tenants, &job->n, &job->more, err);
}

static void list_answer(admin_job *job)
{
    char next[BOX_PAGE_TOKEN_TEXT];
    Box__V1__ListTenantsResponse response;
    BOX_AUTO(box_freep) tenant_view *views = box_alloc_array(job->n + 1, sizeof *views);
    BOX_AUTO(box_freep) Box__V1__Tenant **messages = box_alloc_array(job->n + 1, sizeof(void *));
    for (size_t i = 0; i < job->n; i++) {
        view_tenant(&views[i], &job->tenants[i]);
        messages[i] = &views[i].message;
    }
    box__v1__list_tenants_response__init(&response);
    response.tenants = messages;
    response.n_tenants = job->n;
    box_admin_next_page(job, next);
    response.next_page_token = next;
    box_v1_admin_service_list_tenants_answer(job->call, &response);
    for (size_t i = 0; i < job->n; i++)
        view_done(&views[i]);
}

static int list_check(const Box__V1__ListTenantsRequest *r, admin_job *job, box_error *err)
{
    int bad = box_page_size(r->page_size, &job->limit, err);
    bad |= check_label_count("labels", r->n_labels, err);
    for (size_t i = 0; i < r->n_labels && bad == 0; i++)
        bad |= take_label("labels", (label_pair){r->labels[i]->key, r->labels[i]->value},
                          &job->filter.labels, err);
    if (bad != 0)
        return -1;
    job->binding = box_page_binding("tenants", job->who.tenant, job->filter.labels.data,
                                    job->filter.labels.len);
    return box_page_parse(r->page_token, job->binding, &job->position, err);
}

int box_admin_list_tenants(box_call *call, const Box__V1__ListTenantsRequest *r, box_error *err)
{
    BOX_AUTO(box_admin_job_freep) admin_job *job = NULL;
    if (box_admin_job_new(call, list_work, list_answer, &job, err) < 0 ||
        list_check(r, job, err) < 0)
        return -1;
    return box_admin_job_start(box_take(job), err);
}

/* --- UpdateTenant ----------------------------------------------------------------------------- */

BOX_WORKER static int update_work(admin_job *job, box_error *err)
{
    box_tenant after = {0};
    if (box_policy_tenant_update(job->admin->policy, &job->tenant, job->set, &after, err) < 0)
        return -1;
    box_tenant_done(&job->tenant);
    job->tenant = after;
    return 0;
}

static void tell_ended(const admin_job *job)
{
    if (job->admin->tenant_ended != NULL)
        job->admin->tenant_ended(job->admin->arg, job->tenant.id, job->deleted);
}

static void update_answer(admin_job *job)
{
    BOX_AUTO(view_done) tenant_view v;
    Box__V1__UpdateTenantResponse response;
    if ((job->set & BOX_TENANT_SET_DISABLED) != 0 && job->tenant.disabled)
        tell_ended(job);
    box__v1__update_tenant_response__init(&response);
    view_tenant(&v, &job->tenant);
    response.tenant = &v.message;
    box_v1_admin_service_update_tenant_answer(job->call, &response);
}

static int take_path(const char *path, const Box__V1__Tenant *t, admin_job *job, box_error *err)
{
    if (strcmp(path, "display_name") == 0) {
        job->set |= BOX_TENANT_SET_NAME;
        return take_name(t, &job->tenant, err);
    }
    if (strcmp(path, "labels") == 0) {
        job->set |= BOX_TENANT_SET_LABELS;
        return take_labels(t, &job->tenant.labels, err);
    }
    if (strcmp(path, "disabled") == 0) {
        job->set |= BOX_TENANT_SET_DISABLED;
        return take_disabled(t, &job->tenant, err);
    }
    if (strcmp(path, "limits") == 0)
        return box_convert_not_built("tenant.limits", err);
    return box_violation(err, "update_mask", "%.64s cannot be changed", path);
}

static int update_check(const Box__V1__UpdateTenantRequest *r, admin_job *job, box_error *err)
{
    if (r->tenant == NULL)
        return box_violation(err, "tenant", "is required");
    int bad = take_id(r->tenant, &job->tenant, err);
    if (r->update_mask == NULL || r->update_mask->n_paths == 0)
        bad |= box_violation(err, "update_mask", "name at least one field");
    for (size_t i = 0; r->update_mask != NULL && i < r->update_mask->n_paths && bad == 0; i++)
        bad |= take_path(r->update_mask->paths[i], r->tenant, job, err);
    return bad != 0 ? -1 : 0;
}

int box_admin_update_tenant(box_call *call, const Box__V1__UpdateTenantRequest *r, box_error *err)
{
    BOX_AUTO(box_admin_job_freep) admin_job *job = NULL;
    if (box_admin_job_new(call, update_work, update_answer, &job, err) < 0 ||
        box_admin_need_act(&job->who, err) < 0 || update_check(r, job, err) < 0)
        return -1;
    return box_admin_job_start(box_take(job), err);
}

/* --- DeleteTenant ----------------------------------------------------------------------------- */

BOX_WORKER static int delete_work(admin_job *job, box_error *err)
{
    if (box_policy_tenant_delete(job->admin->policy, job->tenant.id, &job->deleted, err) < 0)
        return -1;
    if (!job->deleted && !job->allow_missing)
        return box_store_tenant_missing(job->tenant.id, err);
    return 0;
}

static void delete_answer(admin_job *job)
{
    Box__V1__DeleteTenantResponse response;
    if (job->deleted)
        tell_ended(job);
    box__v1__delete_tenant_response__init(&response);
    response.deleted = job->deleted;
    box_v1_admin_service_delete_tenant_answer(job->call, &response);
}

int box_admin_delete_tenant(box_call *call, const Box__V1__DeleteTenantRequest *r, box_error *err)
{
    BOX_AUTO(box_admin_job_freep) admin_job *job = NULL;
    if (box_admin_job_new(call, delete_work, delete_answer, &job, err) < 0 ||
        box_admin_need_act(&job->who, err) < 0 || check_id("tenant_id", r->tenant_id, err) < 0)
        return -1;
    if (strcmp(r->tenant_id, BOX_DEFAULT_TENANT) == 0)
        return box_violation(err, "tenant_id", "tenant default cannot be deleted");
    memcpy(job->tenant.id, r->tenant_id, strlen(r->tenant_id) + 1);
    job->allow_missing = r->allow_missing;
    return box_admin_job_start(box_take(job), err);
}
