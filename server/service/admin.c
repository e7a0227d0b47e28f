#include "service/admin.h"

#include "base/alloc.h"
#include "loop/loop.h"
#include "service/admin_impl.h"

/* Policies, grants, usage, audit and backup are left NULL: UNIMPLEMENTED, as admin.proto says. */
static const box_v1_admin_service_handlers handlers = {
    .create_tenant = box_admin_create_tenant,
    .get_tenant = box_admin_get_tenant,
    .list_tenants = box_admin_list_tenants,
    .update_tenant = box_admin_update_tenant,
    .delete_tenant = box_admin_delete_tenant,
    .create_token = box_admin_create_token,
    .list_tokens = box_admin_list_tokens,
    .revoke_token = box_admin_revoke_token,
};

box_service box_admin_service(box_admin *admin)
{
    return (box_service){.type = &box_v1_admin_service, .handlers = &handlers, .context = admin};
}

/* --- jobs ------------------------------------------------------------------------------------- */

static void job_free(admin_job *job)
{
    if (job == NULL)
        return;
    box_call_unref(job->call);
    box_tenant_done(&job->tenant);
    box_labels_done(&job->filter.labels);
    if (job->tenants != NULL)
        box_tenants_free(job->tenants, job->n);
    free(job->tokens);
    free(job);
}

void box_admin_job_freep(admin_job **job)
{
    job_free(*job);
}

int box_admin_job_new(box_call *call, int (*work)(admin_job *job, box_error *err),
                      void (*answer)(admin_job *job), admin_job **out, box_error *err)
{
    const box_identity *who = box_call_identity(call);
    if (who == NULL)
        return box_fail(err, BOX_UNAUTHENTICATED, "this call needs a known caller");
    admin_job *job = box_alloc(sizeof *job);
    job->call = box_call_ref(call);
    job->admin = box_call_context(call);
    job->who = *who;
    job->work = work;
    job->answer = answer;
    *out = job;
    return 0;
}

BOX_WORKER static void job_run(void *arg)
{
    admin_job *job = arg; /* ours until job_done */
    job->rc = job->work(job, &job->err);
}

BOX_LOOP static void job_done(void *arg)
{
    BOX_AUTO(box_admin_job_freep) admin_job *job = arg;
    if (job->rc < 0)
        box_call_finish(job->call, &job->err);
    else
        job->answer(job); /* a cancelled call just drops it */
}

int box_admin_job_start(admin_job *job, box_error *err)
{
    if (box_loop_offload(box_loop_current(), job_run, job_done, job, err) == 0)
        return 0;
    job_free(job);
    return -1;
}

/* --- what all handlers check ------------------------------------------------------------------ */

int box_admin_target(const box_identity *who, const char *field, const char *asked, char *out,
                     box_error *err)
{
    if (strlen(asked) > BOX_TENANT_ID_BYTES)
        return box_violation(err, field, "is longer than %d bytes", BOX_TENANT_ID_BYTES);
    const char *tenant = asked[0] != '\0' ? asked : who->tenant;
    if (strcmp(tenant, who->tenant) != 0 && (who->scopes & BOX_SCOPE_TENANTS_ACT) == 0)
        return box_store_tenant_missing(tenant, err);
    memcpy(out, tenant, strlen(tenant) + 1);
    return 0;
}

int box_admin_need_act(const box_identity *who, box_error *err)
{
    if ((who->scopes & BOX_SCOPE_TENANTS_ACT) != 0)
        return 0;
    (void)box_fail(err, BOX_PERMISSION,
                   "tenants are made, changed and deleted with scope tenants.act only");
    box_error_add(err, "rule", "scope");
    box_error_add(err, "scope", "tenants.act");
    return -1;
}

void box_admin_next_page(const admin_job *job, char out[BOX_PAGE_TOKEN_TEXT])
{
    box_position at = {0};
    out[0] = '\0';
    if (!job->more || job->n == 0)
        return;
    if (job->tenants != NULL) {
        const box_tenant *last = &job->tenants[job->n - 1];
        at.created_ns = last->created_ns;
        memcpy(at.id, last->id, sizeof at.id);
    } else {
        const box_token *last = &job->tokens[job->n - 1];
        at.created_ns = last->created_ns;
        box_token_id_text(last->id, at.id);
    }
    box_page_token(job->binding, &at, out);
}
