#include "service/admin.h"

#include "service_harness.h"

#include "box/v1/admin.box.h"
#include "policy/token.h"

#define ADMIN(method) "/box.v1.AdminService/" method

typedef struct fixture {
    harness_store state;
    harness h;
    box_policy *policy;
    box_admin admin;
    box_service service;
    char ended[256]; /* tenants told as ended, with commas; "!" for deleted ones */
} fixture;

static int64_t wall;

/* Each look at the clock is a second later, so that creation times differ. */
static int64_t ticking_wall(void)
{
    return __atomic_add_fetch(&wall, 1000000000, __ATOMIC_RELAXED);
}

static void tenant_ended(void *arg, const char *tenant, bool deleted)
{
    fixture *f = arg;
    size_t len = strlen(f->ended);
    (void)snprintf(f->ended + len, sizeof f->ended - len, "%s%s,", tenant, deleted ? "!" : "");
}

static int setup(void **state)
{
    static fixture f;
    box_error err = {0};
    f = (fixture){0};
    wall = 1700000000 * INT64_C(1000000000);
    harness_store_open(&f.state, wall);
    box_policy_config config = {.store = f.state.store,
                                .auth_failures = 100,
                                .max_tenants = 20,
                                .max_tokens_per_tenant = 20,
                                .wall_ns = ticking_wall};
    assert_int_equal(box_policy_new(&config, &f.policy, &err), 0);
    f.admin = (box_admin){f.policy, f.state.store, tenant_ended, &f};
    f.service = box_admin_service(&f.admin);
    harness_start(&f.h);
    *state = &f;
    return 0;
}

static int teardown(void **state)
{
    fixture *f = *state;
    harness_stop(&f->h);
    box_policy_free(f->policy);
    harness_store_close(&f->state);
    return 0;
}

static box_identity someone(const char *tenant, uint32_t scopes)
{
    box_identity who = {.scopes = scopes, .token_id = 1};
    (void)snprintf(who.tenant, sizeof who.tenant, "%s", tenant);
    return who;
}

static box_reason ask(fixture *f, const char *path, const ProtobufCMessage *request,
                      const box_identity *who, void *response)
{
    return harness_ask(&f->h, &f->service, path, request, who, response);
}

static const char *violation(const fixture *f, const char *field)
{
    char key[96];
    (void)snprintf(key, sizeof key, "field:%s", field);
    return box_error_get(&f->h.status, key);
}

static box_reason create_tenant(fixture *f, const char *id, const box_identity *who)
{
    Box__V1__CreateTenantRequest r;
    Box__V1__Tenant t;
    box__v1__create_tenant_request__init(&r);
    box__v1__tenant__init(&t);
    t.tenant_id = harness_text(id);
    r.tenant = &t;
    return ask(f, ADMIN("CreateTenant"), &r.base, who, NULL);
}

/* The secret is the caller's to free; NULL when refused. */
static char *create_token(fixture *f, const char *tenant, const char *scope,
                          const box_identity *who, char id[BOX_TOKEN_ID_TEXT])
{
    Box__V1__CreateTokenRequest r;
    Box__V1__CreateTokenResponse *made = NULL;
    char *scopes[] = {harness_text(scope)};
    box__v1__create_token_request__init(&r);
    r.tenant_id = harness_text(tenant);
    r.scopes = scopes;
    r.n_scopes = 1;
    if (ask(f, ADMIN("CreateToken"), &r.base, who, &made) != BOX_NONE)
        return NULL;
    char *secret = strdup(made->secret);
    if (id != NULL)
        (void)snprintf(id, BOX_TOKEN_ID_TEXT, "%s", made->token->token_id);
    harness_drop(made);
    return secret;
}

static box_reason try_token(fixture *f, const char *secret, const char *path)
{
    box_admit admit = box_policy_admit(f->policy);
    box_peer peer = {.address = "192.0.2.1:1"};
    box_metadata md = {0};
    box_error err = {0};
    const void *identity = NULL;
    char header[128];
    (void)snprintf(header, sizeof header, "Bearer %s", secret);
    assert_int_equal(box_metadata_add_text(&md, "authorization", header, &err), 0);
    if (admit.admit(admit.arg, &peer, path, &md, &identity, &err) == 0)
        admit.release(admit.arg, identity);
    box_metadata_done(&md);
    return err.reason;
}

static void a_tenant_is_made_and_read_back(void **state)
{
    fixture *f = *state;
    Box__V1__CreateTenantRequest r;
    Box__V1__CreateTenantResponse *made = NULL;
    Box__V1__GetTenantRequest g;
    Box__V1__GetTenantResponse *got = NULL;
    Box__V1__Tenant t;
    Box__V1__Tenant__LabelsEntry label;
    Box__V1__Tenant__LabelsEntry *labels[] = {&label};
    box__v1__create_tenant_request__init(&r);
    box__v1__get_tenant_request__init(&g);
    box__v1__tenant__init(&t);
    box__v1__tenant__labels_entry__init(&label);
    label.key = harness_text("tier");
    label.value = harness_text("gold");
    t.tenant_id = harness_text("acme");
    t.display_name = harness_text("Acme, Inc.");
    t.labels = labels;
    t.n_labels = 1;
    r.tenant = &t;
    assert_int_equal(ask(f, ADMIN("CreateTenant"), &r.base, &harness_root, &made), BOX_NONE);
    assert_string_equal(made->tenant->tenant_id, "acme");
    assert_true(made->tenant->created_at->seconds > 1700000000);
    g.tenant_id = harness_text("acme");
    assert_int_equal(ask(f, ADMIN("GetTenant"), &g.base, &harness_root, &got), BOX_NONE);
    assert_string_equal(got->tenant->display_name, "Acme, Inc.");
    assert_int_equal(got->tenant->n_labels, 1);
    assert_string_equal(got->tenant->labels[0]->key, "tier");
    assert_string_equal(got->tenant->labels[0]->value, "gold");
    assert_null(got->tenant->limits);
    harness_drop(made);
    harness_drop(got);
    assert_int_equal(create_tenant(f, "acme", &harness_root), BOX_TENANT_EXISTS);
}

static void a_tenants_id_has_its_rules(void **state)
{
    fixture *f = *state;
    static const char *const bad[] = {
        "",
        ".x",
        "-x",
        "a/b",
        "a b",
        "\xc3\xb6",
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"};
    for (size_t i = 0; i < BOX_COUNT(bad); i++) {
        assert_int_equal(create_tenant(f, bad[i], &harness_root), BOX_VALIDATION);
        assert_non_null(violation(f, "tenant.tenant_id"));
    }
    assert_int_equal(
        create_tenant(f, "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
                      &harness_root),
        BOX_NONE);
    assert_int_equal(create_tenant(f, "A.z_0-9", &harness_root), BOX_NONE);
}

static void all_that_is_wrong_with_a_request_is_told_at_once(void **state)
{
    fixture *f = *state;
    Box__V1__CreateTenantRequest r;
    Box__V1__Tenant t;
    Google__Protobuf__Timestamp now;
    Box__V1__Tenant__LabelsEntry label;
    Box__V1__Tenant__LabelsEntry *labels[] = {&label};
    char name[300];
    memset(name, 'n', sizeof name);
    name[257] = '\0';
    box__v1__create_tenant_request__init(&r);
    assert_int_equal(ask(f, ADMIN("CreateTenant"), &r.base, &harness_root, NULL), BOX_VALIDATION);
    assert_non_null(violation(f, "tenant"));
    box__v1__tenant__init(&t);
    google__protobuf__timestamp__init(&now);
    box__v1__tenant__labels_entry__init(&label);
    t.tenant_id = harness_text("/");
    t.display_name = name;
    t.created_at = &now;
    t.labels = labels;
    t.n_labels = 1;
    r.tenant = &t;
    assert_int_equal(ask(f, ADMIN("CreateTenant"), &r.base, &harness_root, NULL), BOX_VALIDATION);
    assert_non_null(violation(f, "tenant.tenant_id"));
    assert_non_null(violation(f, "tenant.display_name"));
    assert_non_null(violation(f, "tenant.created_at"));
    assert_non_null(violation(f, "tenant.labels"));
}

static void fields_that_are_not_built_are_refused_by_name(void **state)
{
    fixture *f = *state;
    Box__V1__CreateTenantRequest r;
    Box__V1__CreateTokenRequest k;
    Box__V1__Tenant t;
    Box__V1__Limits limits;
    char *scopes[] = {harness_text("exec.write")};
    box__v1__create_tenant_request__init(&r);
    box__v1__tenant__init(&t);
    box__v1__limits__init(&limits);
    t.tenant_id = harness_text("acme");
    t.limits = &limits;
    r.tenant = &t;
    assert_int_equal(ask(f, ADMIN("CreateTenant"), &r.base, &harness_root, NULL),
                     BOX_GUARANTEE_UNSUPPORTED);
    assert_string_equal(box_error_get(&f->h.status, "guarantees"), "tenant.limits");
    t.limits = NULL;
    r.idempotency_key = harness_text("k");
    assert_int_equal(ask(f, ADMIN("CreateTenant"), &r.base, &harness_root, NULL),
                     BOX_GUARANTEE_UNSUPPORTED);
    box__v1__create_token_request__init(&k);
    k.scopes = scopes;
    k.n_scopes = 1;
    k.idempotency_key = harness_text("k");
    assert_int_equal(ask(f, ADMIN("CreateToken"), &k.base, &harness_root, NULL),
                     BOX_GUARANTEE_UNSUPPORTED);
}

static void without_tenants_act_only_the_own_tenant_exists(void **state)
{
    fixture *f = *state;
    box_identity who = someone("acme", BOX_SCOPE_ADMIN_READ | BOX_SCOPE_ADMIN_WRITE);
    Box__V1__GetTenantRequest g;
    Box__V1__GetTenantResponse *got = NULL;
    Box__V1__ListTenantsRequest l;
    Box__V1__ListTenantsResponse *list = NULL;
    Box__V1__DeleteTenantRequest d;
    char id[BOX_TOKEN_ID_TEXT];
    assert_int_equal(create_tenant(f, "acme", &harness_root), BOX_NONE);
    assert_int_equal(create_tenant(f, "other", &harness_root), BOX_NONE);
    box__v1__get_tenant_request__init(&g);
    box__v1__list_tenants_request__init(&l);
    box__v1__delete_tenant_request__init(&d);
    assert_int_equal(ask(f, ADMIN("GetTenant"), &g.base, &who, &got), BOX_NONE);
    assert_string_equal(got->tenant->tenant_id, "acme");
    harness_drop(got);
    g.tenant_id = harness_text("other");
    assert_int_equal(ask(f, ADMIN("GetTenant"), &g.base, &who, NULL), BOX_TENANT_NOT_FOUND);
    box_error theirs = f->h.status;
    g.tenant_id = harness_text("rehto");
    assert_int_equal(ask(f, ADMIN("GetTenant"), &g.base, &who, NULL), BOX_TENANT_NOT_FOUND);
    assert_int_equal(strlen(theirs.msg), strlen(f->h.status.msg));
    assert_int_equal(theirs.detail_len, f->h.status.detail_len);
    assert_int_equal(ask(f, ADMIN("ListTenants"), &l.base, &who, &list), BOX_NONE);
    assert_int_equal(list->n_tenants, 1);
    assert_string_equal(list->tenants[0]->tenant_id, "acme");
    assert_string_equal(list->next_page_token, "");
    harness_drop(list);
    assert_int_equal(create_tenant(f, "new", &who), BOX_PERMISSION);
    assert_string_equal(box_error_get(&f->h.status, "scope"), "tenants.act");
    d.tenant_id = harness_text("acme");
    assert_int_equal(ask(f, ADMIN("DeleteTenant"), &d.base, &who, NULL), BOX_PERMISSION);
    assert_null(create_token(f, "other", "admin.read", &who, NULL));
    assert_int_equal(f->h.status.reason, BOX_TENANT_NOT_FOUND);
    free(create_token(f, "other", "exec.write", &harness_root, id));
    Box__V1__RevokeTokenRequest v;
    box__v1__revoke_token_request__init(&v);
    v.token_id = id;
    assert_int_equal(ask(f, ADMIN("RevokeToken"), &v.base, &who, NULL), BOX_TOKEN_NOT_FOUND);
    assert_int_equal(ask(f, ADMIN("RevokeToken"), &v.base, &harness_root, NULL), BOX_NONE);
}

static void tenants_come_in_pages(void **state)
{
    fixture *f = *state;
    static const char *const ids[] = {"default", "zz", "mm", "aa", "bb"};
    Box__V1__ListTenantsRequest l;
    Box__V1__ListTenantsResponse *list = NULL;
    char next[BOX_MAX_TENANT_ID * 4] = "";
    size_t seen = 0;
    for (size_t i = 1; i < BOX_COUNT(ids); i++)
        assert_int_equal(create_tenant(f, ids[i], &harness_root), BOX_NONE);
    do {
        box__v1__list_tenants_request__init(&l);
        l.page_size = 2;
        l.page_token = next;
        assert_int_equal(ask(f, ADMIN("ListTenants"), &l.base, &harness_root, &list), BOX_NONE);
        for (size_t i = 0; i < list->n_tenants; i++)
            assert_string_equal(list->tenants[i]->tenant_id, ids[seen++]);
        (void)snprintf(next, sizeof next, "%s", list->next_page_token);
        harness_drop(list);
    } while (next[0] != '\0');
    assert_int_equal(seen, BOX_COUNT(ids));
    l.page_size = -1;
    assert_int_equal(ask(f, ADMIN("ListTenants"), &l.base, &harness_root, NULL), BOX_VALIDATION);
    l.page_size = 2;
    l.page_token = harness_text("0123");
    assert_int_equal(ask(f, ADMIN("ListTenants"), &l.base, &harness_root, NULL), BOX_VALIDATION);
}

static void an_update_takes_the_fields_of_its_mask(void **state)
{
    fixture *f = *state;
    Box__V1__UpdateTenantRequest u;
    Box__V1__UpdateTenantResponse *after = NULL;
    Box__V1__Tenant t;
    Google__Protobuf__FieldMask mask;
    char *paths[] = {harness_text("display_name"), harness_text("disabled")};
    assert_int_equal(create_tenant(f, "acme", &harness_root), BOX_NONE);
    box__v1__update_tenant_request__init(&u);
    box__v1__tenant__init(&t);
    google__protobuf__field_mask__init(&mask);
    t.tenant_id = harness_text("acme");
    t.display_name = harness_text("New");
    t.disabled = true;
    u.tenant = &t;
    assert_int_equal(ask(f, ADMIN("UpdateTenant"), &u.base, &harness_root, NULL), BOX_VALIDATION);
    assert_non_null(violation(f, "update_mask"));
    u.update_mask = &mask;
    mask.paths = paths;
    mask.n_paths = 1;
    assert_int_equal(ask(f, ADMIN("UpdateTenant"), &u.base, &harness_root, &after), BOX_NONE);
    assert_string_equal(after->tenant->display_name, "New");
    assert_false(after->tenant->disabled);
    assert_true(after->tenant->updated_at->seconds > after->tenant->created_at->seconds);
    assert_string_equal(f->ended, "");
    harness_drop(after);
    mask.n_paths = 2;
    assert_int_equal(ask(f, ADMIN("UpdateTenant"), &u.base, &harness_root, &after), BOX_NONE);
    assert_true(after->tenant->disabled);
    assert_string_equal(f->ended, "acme,");
    harness_drop(after);
    paths[0] = harness_text("limits");
    assert_int_equal(ask(f, ADMIN("UpdateTenant"), &u.base, &harness_root, NULL),
                     BOX_GUARANTEE_UNSUPPORTED);
    paths[0] = harness_text("tenant_id");
    assert_int_equal(ask(f, ADMIN("UpdateTenant"), &u.base, &harness_root, NULL), BOX_VALIDATION);
    t.tenant_id = harness_text("nobody");
    paths[0] = harness_text("labels");
    assert_int_equal(ask(f, ADMIN("UpdateTenant"), &u.base, &harness_root, NULL),
                     BOX_TENANT_NOT_FOUND);
    t.tenant_id = harness_text("default");
    assert_int_equal(ask(f, ADMIN("UpdateTenant"), &u.base, &harness_root, NULL), BOX_VALIDATION);
    assert_non_null(violation(f, "tenant.disabled"));
}

static void a_deleted_tenant_is_gone_with_its_tokens(void **state)
{
    fixture *f = *state;
    Box__V1__DeleteTenantRequest d;
    Box__V1__DeleteTenantResponse *deleted = NULL;
    assert_int_equal(create_tenant(f, "acme", &harness_root), BOX_NONE);
    char *secret = create_token(f, "acme", "exec.write", &harness_root, NULL);
    assert_int_equal(try_token(f, secret, "/box.v1.ExecService/Exec"), BOX_NONE);
    box__v1__delete_tenant_request__init(&d);
    d.tenant_id = harness_text("acme");
    assert_int_equal(ask(f, ADMIN("DeleteTenant"), &d.base, &harness_root, &deleted), BOX_NONE);
    assert_true(deleted->deleted);
    harness_drop(deleted);
    assert_string_equal(f->ended, "acme!,");
    assert_int_equal(try_token(f, secret, "/box.v1.ExecService/Exec"), BOX_UNAUTHENTICATED);
    assert_int_equal(ask(f, ADMIN("DeleteTenant"), &d.base, &harness_root, NULL),
                     BOX_TENANT_NOT_FOUND);
    d.allow_missing = true;
    assert_int_equal(ask(f, ADMIN("DeleteTenant"), &d.base, &harness_root, &deleted), BOX_NONE);
    assert_false(deleted->deleted);
    harness_drop(deleted);
    d.tenant_id = harness_text("default");
    assert_int_equal(ask(f, ADMIN("DeleteTenant"), &d.base, &harness_root, NULL), BOX_VALIDATION);
    free(secret);
}

static void a_token_is_shown_once_and_works_with_its_scopes_only(void **state)
{
    fixture *f = *state;
    Box__V1__CreateTokenRequest r;
    Box__V1__CreateTokenResponse *made = NULL;
    Box__V1__ListTokensRequest l;
    Box__V1__ListTokensResponse *list = NULL;
    char *scopes[] = {harness_text("session.read"), harness_text("exec.write"),
                      harness_text("exec.write")};
    assert_int_equal(create_tenant(f, "acme", &harness_root), BOX_NONE);
    box__v1__create_token_request__init(&r);
    r.tenant_id = harness_text("acme");
    r.name = harness_text("ci");
    r.scopes = scopes;
    r.n_scopes = 3;
    assert_int_equal(ask(f, ADMIN("CreateToken"), &r.base, &harness_root, &made), BOX_NONE);
    assert_int_equal(strlen(made->secret), 47);
    assert_memory_equal(made->secret, made->token->prefix, 12);
    assert_int_equal(made->token->n_scopes, 2);
    assert_string_equal(made->token->scopes[0], "exec.write");
    assert_string_equal(made->token->scopes[1], "session.read");
    assert_null(made->token->expires_at);
    assert_null(made->token->last_used_at);
    assert_int_equal(try_token(f, made->secret, "/box.v1.ExecService/Exec"), BOX_NONE);
    assert_int_equal(try_token(f, made->secret, "/box.v1.AdminService/ListTokens"), BOX_PERMISSION);
    box__v1__list_tokens_request__init(&l);
    l.tenant_id = harness_text("acme");
    assert_int_equal(ask(f, ADMIN("ListTokens"), &l.base, &harness_root, &list), BOX_NONE);
    assert_int_equal(list->n_tokens, 1);
    assert_string_equal(list->tokens[0]->name, "ci");
    assert_string_equal(list->tokens[0]->token_id, made->token->token_id);
    assert_non_null(list->tokens[0]->last_used_at);
    harness_drop(list);
    harness_drop(made);
}

static void a_caller_cannot_give_what_it_lacks(void **state)
{
    fixture *f = *state;
    assert_int_equal(create_tenant(f, "acme", &harness_root), BOX_NONE);
    box_identity who = someone("acme", BOX_SCOPE_ADMIN_WRITE | BOX_SCOPE_EXEC_WRITE);
    assert_null(create_token(f, "", "tenants.act", &who, NULL));
    assert_int_equal(f->h.status.reason, BOX_PERMISSION);
    assert_string_equal(box_error_get(&f->h.status, "scope"), "tenants.act");
    char *secret = create_token(f, "", "exec.write", &who, NULL);
    assert_non_null(secret);
    free(secret);
}

static void wrong_scopes_and_times_are_told_together(void **state)
{
    fixture *f = *state;
    Box__V1__CreateTokenRequest r;
    Google__Protobuf__Duration ttl;
    char *scopes[] = {harness_text("exec.write"), harness_text("root")};
    box__v1__create_token_request__init(&r);
    google__protobuf__duration__init(&ttl);
    r.ttl = &ttl;
    assert_int_equal(ask(f, ADMIN("CreateToken"), &r.base, &harness_root, NULL), BOX_VALIDATION);
    assert_non_null(violation(f, "scopes"));
    assert_non_null(violation(f, "ttl"));
    r.scopes = scopes;
    r.n_scopes = 2;
    assert_int_equal(ask(f, ADMIN("CreateToken"), &r.base, &harness_root, NULL), BOX_VALIDATION);
    assert_string_equal(violation(f, "scopes"), "root is not a scope");
    r.n_scopes = 1;
    static const int64_t bad[][2] = {
        {-1, 0}, {0, -1}, {1, 1000000000}, {INT64_MAX, 0}, {3155760000, 1}};
    for (size_t i = 0; i < BOX_COUNT(bad); i++) {
        ttl.seconds = bad[i][0];
        ttl.nanos = (int32_t)bad[i][1];
        assert_int_equal(ask(f, ADMIN("CreateToken"), &r.base, &harness_root, NULL),
                         BOX_VALIDATION);
    }
    ttl.seconds = 3155760000;
    ttl.nanos = 0;
    assert_int_equal(ask(f, ADMIN("CreateToken"), &r.base, &harness_root, NULL), BOX_NONE);
}

static void ended_tokens_are_listed_when_asked_for(void **state)
{
    fixture *f = *state;
    char id[BOX_TOKEN_ID_TEXT];
    Box__V1__RevokeTokenRequest v;
    Box__V1__RevokeTokenResponse *revoked = NULL;
    Box__V1__ListTokensRequest l;
    Box__V1__ListTokensResponse *list = NULL;
    assert_int_equal(create_tenant(f, "acme", &harness_root), BOX_NONE);
    char *secret = create_token(f, "acme", "exec.write", &harness_root, id);
    free(create_token(f, "acme", "exec.write", &harness_root, NULL));
    box__v1__revoke_token_request__init(&v);
    v.token_id = id;
    for (int i = 0; i < 2; i++) { /* idempotent */
        assert_int_equal(ask(f, ADMIN("RevokeToken"), &v.base, &harness_root, &revoked), BOX_NONE);
        assert_non_null(revoked->token->revoked_at);
        harness_drop(revoked);
    }
    assert_int_equal(try_token(f, secret, "/box.v1.ExecService/Exec"), BOX_UNAUTHENTICATED);
    box__v1__list_tokens_request__init(&l);
    l.tenant_id = harness_text("acme");
    assert_int_equal(ask(f, ADMIN("ListTokens"), &l.base, &harness_root, &list), BOX_NONE);
    assert_int_equal(list->n_tokens, 1);
    harness_drop(list);
    l.include_ended = true;
    l.page_size = 1;
    assert_int_equal(ask(f, ADMIN("ListTokens"), &l.base, &harness_root, &list), BOX_NONE);
    assert_int_equal(list->n_tokens, 1);
    assert_string_equal(list->tokens[0]->token_id, id);
    char next[256];
    (void)snprintf(next, sizeof next, "%s", list->next_page_token);
    assert_true(next[0] != '\0');
    harness_drop(list);
    l.page_token = next;
    assert_int_equal(ask(f, ADMIN("ListTokens"), &l.base, &harness_root, &list), BOX_NONE);
    assert_int_equal(list->n_tokens, 1);
    assert_string_not_equal(list->tokens[0]->token_id, id);
    assert_string_equal(list->next_page_token, "");
    harness_drop(list);
    l.include_ended = false; /* another filter */
    assert_int_equal(ask(f, ADMIN("ListTokens"), &l.base, &harness_root, NULL), BOX_VALIDATION);
    free(secret);
}

static void a_token_that_is_not_there_is_told(void **state)
{
    fixture *f = *state;
    Box__V1__RevokeTokenRequest v;
    Box__V1__ListTokensRequest l;
    box__v1__revoke_token_request__init(&v);
    assert_int_equal(ask(f, ADMIN("RevokeToken"), &v.base, &harness_root, NULL), BOX_VALIDATION);
    v.token_id = harness_text("xyz");
    assert_int_equal(ask(f, ADMIN("RevokeToken"), &v.base, &harness_root, NULL),
                     BOX_TOKEN_NOT_FOUND);
    v.token_id = harness_text("0000000000000001");
    assert_int_equal(ask(f, ADMIN("RevokeToken"), &v.base, &harness_root, NULL),
                     BOX_TOKEN_NOT_FOUND);
    assert_string_equal(box_error_get(&f->h.status, "id"), "0000000000000001");
    box__v1__list_tokens_request__init(&l);
    l.tenant_id = harness_text("nobody");
    assert_int_equal(ask(f, ADMIN("ListTokens"), &l.base, &harness_root, NULL),
                     BOX_TENANT_NOT_FOUND);
}

static void a_caller_that_goes_away_leaves_nothing_behind(void **state)
{
    fixture *f = *state;
    f->h.cancel = true;
    assert_int_equal(create_tenant(f, "acme", &harness_root), BOX_CANCELLED);
    f->h.cancel = false;
    /* The change was on its way and was made. */
    assert_int_equal(create_tenant(f, "acme", &harness_root), BOX_TENANT_EXISTS);
}

static void a_call_without_a_caller_is_refused(void **state)
{
    fixture *f = *state;
    assert_int_equal(create_tenant(f, "acme", NULL), BOX_UNAUTHENTICATED);
}

static void what_is_not_built_is_unimplemented(void **state)
{
    fixture *f = *state;
    Box__V1__GetUsageRequest r;
    box__v1__get_usage_request__init(&r);
    assert_int_equal(ask(f, ADMIN("GetUsage"), &r.base, &harness_root, NULL), BOX_UNIMPLEMENTED);
}

#define WITH_ADMIN(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_ADMIN(a_tenant_is_made_and_read_back),
        WITH_ADMIN(a_tenants_id_has_its_rules),
        WITH_ADMIN(all_that_is_wrong_with_a_request_is_told_at_once),
        WITH_ADMIN(fields_that_are_not_built_are_refused_by_name),
        WITH_ADMIN(without_tenants_act_only_the_own_tenant_exists),
        WITH_ADMIN(tenants_come_in_pages),
        WITH_ADMIN(an_update_takes_the_fields_of_its_mask),
        WITH_ADMIN(a_deleted_tenant_is_gone_with_its_tokens),
        WITH_ADMIN(a_token_is_shown_once_and_works_with_its_scopes_only),
        WITH_ADMIN(a_caller_cannot_give_what_it_lacks),
        WITH_ADMIN(wrong_scopes_and_times_are_told_together),
        WITH_ADMIN(ended_tokens_are_listed_when_asked_for),
        WITH_ADMIN(a_token_that_is_not_there_is_told),
        WITH_ADMIN(a_caller_that_goes_away_leaves_nothing_behind),
        WITH_ADMIN(a_call_without_a_caller_is_refused),
        WITH_ADMIN(what_is_not_built_is_unimplemented),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
