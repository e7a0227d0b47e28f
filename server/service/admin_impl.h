/* What the files of AdminService share; nobody else includes it. */
#pragma once

#include "box/v1/admin.box.h"
#include "service/admin.h"
#include "service/page.h"

/* One call while the database works on it. Ours until its answer was given. */
typedef struct admin_job {
    box_call *call; /* a reference */
    const box_admin *admin;
    box_identity who; /* a copy: the call may be gone */
    int (*work)(struct admin_job *job, box_error *err);
    void (*answer)(struct admin_job *job);
    int rc;
    box_error err;

    box_tenant tenant;
    uint32_t set; /* BOX_TENANT_SET_* */
    box_token token;
    char secret[48];
    bool allow_missing;
    bool deleted;

    /* lists */
    box_tenant_filter filter;
    bool include_ended;
    uint64_t binding;
    box_position position;
    size_t limit;
    box_tenant *tenants;
    box_token *tokens;
    size_t n;
    bool more;
} admin_job;

/* *job may be NULL; frees all it holds. */
void box_admin_job_freep(admin_job **job);
/* A job for this call; UNAUTHENTICATED when nobody is known. */
int box_admin_job_new(box_call *call, int (*work)(admin_job *job, box_error *err),
                      void (*answer)(admin_job *job), admin_job **out, box_error *err) BOX_MUST_USE;
/* Takes the job: work on a worker, then answer (or the error) on this loop. */
int box_admin_job_start(admin_job *job, box_error *err) BOX_MUST_USE;

/* Which tenant a request names: "" is the caller's own; another's answers TENANT_NOT_FOUND without
 * tenants.act. out has room for BOX_TENANT_ID_BYTES + 1. */
int box_admin_target(const box_identity *who, const char *field, const char *asked, char *out,
                     box_error *err) BOX_MUST_USE;
/* PERMISSION without tenants.act. */
int box_admin_need_act(const box_identity *who, box_error *err) BOX_MUST_USE;
/* Fills next_page_token's text; "" at the end. */
void box_admin_next_page(const admin_job *job, char out[BOX_PAGE_TOKEN_TEXT]);

/* admin_tokens.c */
/* Names of the bits, sorted; names has room for all. Read only. */
enum { BOX_ADMIN_MAX_SCOPES = 15 };
size_t box_admin_scope_names(uint32_t scopes, char *names[]);
int box_admin_create_token(box_call *call, const Box__V1__CreateTokenRequest *r, box_error *err);
int box_admin_list_tokens(box_call *call, const Box__V1__ListTokensRequest *r, box_error *err);
int box_admin_revoke_token(box_call *call, const Box__V1__RevokeTokenRequest *r, box_error *err);
/* admin_tenants.c */
int box_admin_create_tenant(box_call *call, const Box__V1__CreateTenantRequest *r, box_error *err);
int box_admin_get_tenant(box_call *call, const Box__V1__GetTenantRequest *r, box_error *err);
int box_admin_list_tenants(box_call *call, const Box__V1__ListTenantsRequest *r, box_error *err);
int box_admin_update_tenant(box_call *call, const Box__V1__UpdateTenantRequest *r, box_error *err);
int box_admin_delete_tenant(box_call *call, const Box__V1__DeleteTenantRequest *r, box_error *err);
