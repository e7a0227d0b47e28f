/* AdminService: tokens. */
#include "base/alloc.h"
#include "base/limits.h"
#include "service/admin_impl.h"
#include "service/session_convert.h"

static const int64_t hundred_years_seconds = INT64_C(36525) * 86400;

/* A token as a message, with what it points to. */
typedef struct token_view {
    Box__V1__Token message;
    char id[BOX_TOKEN_ID_TEXT];
    char *scopes[BOX_ADMIN_MAX_SCOPES];
    Google__Protobuf__Timestamp created;
    Google__Protobuf__Timestamp expires;
    Google__Protobuf__Timestamp used;
    Google__Protobuf__Timestamp revoked;
} token_view;

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

size_t box_admin_scope_names(uint32_t scopes, char *names[])
{
    size_t n = 0;
    for (uint32_t bit = 1; bit <= BOX_ALL_SCOPES; bit <<= 1) {
        if ((scopes & bit) != 0)
            names[n++] = (char *)(uintptr_t)box_scope_name(bit); /* read only, while packing */
    }
    qsort(names, n, sizeof *names, by_text);
    return n;
}

/* Borrows from t. */
static void view_token(token_view *v, box_token *t)
{
    box__v1__token__init(&v->message);
    box_token_id_text(t->id, v->id);
    v->message.token_id = v->id;
    v->message.tenant_id = t->tenant;
    v->message.name = t->name;
    v->message.prefix = t->prefix;
    v->message.scopes = v->scopes;
    v->message.n_scopes = box_admin_scope_names(t->scopes, v->scopes);
    v->message.created_at = box_times_stamp(&v->created, t->created_ns);
    v->message.expires_at = box_times_stamp(&v->expires, t->expires_ns);
    v->message.last_used_at = box_times_stamp(&v->used, t->used_ns);
    v->message.revoked_at = box_times_stamp(&v->revoked, t->revoked_ns);
}

/* --- CreateToken ------------------------------------------------------------------------------ */

BOX_WORKER static int create_work(admin_job *job, box_error *err)
{
    return box_policy_token_create(job->admin->policy, &job->token, job->secret, err);
}

static void create_answer(admin_job *job)
{
    token_view v;
    Box__V1__CreateTokenResponse response;
    box__v1__create_token_response__init(&response);
    view_token(&v, &job->token);
    response.token = &v.message;
    response.secret = job->secret;
    box_v1_admin_service_create_token_answer(job->call, &response);
}

static int take_scopes(const Box__V1__CreateTokenRequest *r, uint32_t *out, box_error *err)
{
    int bad = 0;
    if (r->n_scopes == 0)
        return box_violation(err, "scopes", "name at least one");
    for (size_t i = 0; i < r->n_scopes; i++) {
        uint32_t scope = box_scope_from_name(r->scopes[i]);
        if (scope == 0)
            bad |= box_violation(err, "scopes", "%.40s is not a scope", r->scopes[i]);
        *out |= scope;
    }
    return bad;
}

static int take_ttl(const Google__Protobuf__Duration *ttl, int64_t now_ns, int64_t *out,
                    box_error *err)
{
    int64_t ns;
    if (ttl == NULL)
        return 0;
    if (!box_times_positive(ttl, hundred_years_seconds, &ns))
        return box_violation(err, "ttl", "must be above zero and at most 100 years");
    *out = now_ns + ns;
    return 0;
}

/* A caller cannot give what it does not have. */
static int check_grant(const box_identity *who, uint32_t scopes, box_error *err)
{
    uint32_t lacking = scopes & ~who->scopes;
    if (lacking == 0)
        return 0;
    const char *name = box_scope_name(lacking & (~lacking + 1)); /* the lowest bit */
    (void)box_fail(err, BOX_PERMISSION, "you cannot give scope %s: your own token lacks it", name);
    box_error_add(err, "rule", "scope");
    box_error_add(err, "scope", name);
    return -1;
}

static int create_check(const Box__V1__CreateTokenRequest *r, admin_job *job, box_error *err)
{
    box_token *t = &job->token;
    int bad = 0;
    if (strlen(r->name) > BOX_TOKEN_NAME_BYTES)
        bad |= box_violation(err, "name", "is longer than %d bytes", BOX_TOKEN_NAME_BYTES);
    else
        memcpy(t->name, r->name, strlen(r->name) + 1);
    bad |= take_scopes(r, &t->scopes, err);
    bad |= take_ttl(r->ttl, box_policy_wall_ns(job->admin->policy), &t->expires_ns, err);
    if (bad != 0)
        return -1;
    if (r->idempotency_key[0] != '\0')
        return box_convert_not_built("idempotency_key", err);
    return check_grant(&job->who, t->scopes, err);
}

int box_admin_create_token(box_call *call, const Box__V1__CreateTokenRequest *r, box_error *err)
{
    BOX_AUTO(box_admin_job_freep) admin_job *job = NULL;
    if (box_admin_job_new(call, create_work, create_answer, &job, err) < 0 ||
        box_admin_target(&job->who, "tenant_id", r->tenant_id, job->token.tenant, err) < 0 ||
        create_check(r, job, err) < 0)
        return -1;
    return box_admin_job_start(box_take(job), err);
}

/* --- ListTokens ------------------------------------------------------------------------------- */

BOX_WORKER static int list_work(admin_job *job, box_error *err)
{
    box_tenant tenant = {0};
    if (box_store_tenant_get(job->admin->store, job->token.tenant, &tenant, err) < 0)
        return -1;
    box_tenant_done(&tenant);
    box_token_filter filter = {.tenant = job->token.tenant};
    if (!job->include_ended)
        filter.live_at_ns = box_policy_wall_ns(job->admin->policy);
    return box_store_token_list(job->admin->store, &filter, &job->position, job->limit,
                                &job->tokens, &job->n, &job->more, err);
}

static void list_answer(admin_job *job)
{
    char next[BOX_PAGE_TOKEN_TEXT];
    Box__V1__ListTokensResponse response;
    BOX_AUTO(box_freep) token_view *views = box_alloc_array(job->n + 1, sizeof *views);
    BOX_AUTO(box_freep) Box__V1__Token **messages = box_alloc_array(job->n + 1, sizeof(void *));
    for (size_t i = 0; i < job->n; i++) {
        box_token now;
        /* Memory is a minute ahead of the database. */
        if (box_policy_token(job->admin->policy, job->tokens[i].id, &now))
            job->tokens[i].used_ns = now.used_ns;
        view_token(&views[i], &job->tokens[i]);
        messages[i] = &views[i].message;
    }
    box__v1__list_tokens_response__init(&response);
    response.tokens = messages;
    response.n_tokens = job->n;
    box_admin_next_page(job, next);
    response.next_page_token = next;
    box_v1_admin_service_list_tokens_answer(job->call, &response);
}

int box_admin_list_tokens(box_call *call, const Box__V1__ListTokensRequest *r, box_error *err)
{
    BOX_AUTO(box_admin_job_freep) admin_job *job = NULL;
    if (box_admin_job_new(call, list_work, list_answer, &job, err) < 0 ||
        box_admin_target(&job->who, "tenant_id", r->tenant_id, job->token.tenant, err) < 0)
        return -1;
    job->include_ended = r->include_ended;
    job->binding = box_page_binding("tokens", job->token.tenant, &job->include_ended,
                                    sizeof job->include_ended);
    int bad = box_page_size(r->page_size, &job->limit, err);
    bad |= box_page_parse(r->page_token, job->binding, &job->position, err);
    return bad != 0 ? -1 : box_admin_job_start(box_take(job), err);
}

/* --- RevokeToken ------------------------------------------------------------------------------ */

BOX_WORKER static int revoke_work(admin_job *job, box_error *err)
{
    bool any = (job->who.scopes & BOX_SCOPE_TENANTS_ACT) != 0;
    return box_policy_token_revoke(job->admin->policy, job->token.id, any ? NULL : job->who.tenant,
                                   &job->token, err);
}

static void revoke_answer(admin_job *job)
{
    token_view v;
    Box__V1__RevokeTokenResponse response;
    box__v1__revoke_token_response__init(&response);
    view_token(&v, &job->token);
    response.token = &v.message;
    box_v1_admin_service_revoke_token_answer(job->call, &response);
}

int box_admin_revoke_token(box_call *call, const Box__V1__RevokeTokenRequest *r, box_error *err)
{
    BOX_AUTO(box_admin_job_freep) admin_job *job = NULL;
    if (box_admin_job_new(call, revoke_work, revoke_answer, &job, err) < 0)
        return -1;
    if (r->token_id[0] == '\0')
        return box_violation(err, "token_id", "is required");
    if (!box_token_id_parse(r->token_id, &job->token.id)) {
        (void)box_fail(err, BOX_TOKEN_NOT_FOUND, "no token %.64s", r->token_id);
        box_error_add(err, "kind", "token");
        box_error_add(err, "id", r->token_id);
        return -1;
    }
    return box_admin_job_start(box_take(job), err);
}
