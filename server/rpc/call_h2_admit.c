/* Who may begin a call, or have the page. */
#include "base/alloc.h"
#include "rpc/call_h2_impl.h"

/* --- calls ------------------------------------------------------------------------------------ */

/* The first caller of a connection takes one of its tenant's places. Unix sockets are this host's
 * own and not counted. */
static int take_place(box_rpc_connection *n, const void *identity, box_error *err)
{
    const box_rpc *rpc = n->rpc;
    if (n->tenant != NULL || identity == NULL || rpc->tenants == NULL ||
        rpc->admit.tenant == NULL || n->peer->is_unix)
        return 0;
    const char *tenant = rpc->admit.tenant(identity);
    if (!box_tally_add(rpc->tenants, tenant, strlen(tenant))) {
        int64_t max = box_tally_limit(rpc->tenants);
        (void)box_fail(err, BOX_QUOTA, "the tenant has too many connections");
        return box_error_limit(err, "connections_per_tenant", max, max);
    }
    n->tenant = box_strdup(tenant);
    return 0;
}

static int admit(box_rpc_connection *n, const box_h2_request *request, const void **identity,
                 box_error *err)
{
    const box_admit *a = &n->rpc->admit;
    if (a->admit == NULL)
        return 0;
    if (a->admit(a->arg, n->peer, request->path, request->metadata, identity, err) < 0)
        return -1;
    if (take_place(n, *identity, err) == 0)
        return 0;
    if (a->failed != NULL)
        a->failed(a->arg, *identity, request->path, "", request->metadata, err);
    if (a->release != NULL)
        a->release(a->arg, *identity);
    return -1;
}

int box_rpc_admit_request(box_rpc_connection *n, const box_h2_request *request,
                          const box_service **service, const box_method **method,
                          const void **identity, box_error *err)
{
    const box_rpc *rpc = n->rpc;
    if (!box_service_find(rpc->services, rpc->n_services, request->path, service, method))
        return box_fail(err, BOX_UNIMPLEMENTED, "unknown method %s", request->path);
    if (n->n_calls >= n->max_calls)
        return box_fail(err, BOX_RATE_LIMIT, "%u calls of this connection are still being ended",
                        n->n_calls);
    return admit(n, request, identity, err);
}

/* --- the page --------------------------------------------------------------------------------- */

static int http_status(const box_error *err)
{
    switch (box_error_code(err)) {
    case BOX_CODE_UNAUTHENTICATED:
        return 401;
    case BOX_CODE_PERMISSION_DENIED:
    case BOX_CODE_NOT_FOUND: /* the tenant it wants to be */
        return 403;
    case BOX_CODE_RESOURCE_EXHAUSTED:
        return 429;
    case BOX_CODE_INTERNAL:
        return 500;
    default:
        return 503;
    }
}

static int make_page(box_rpc_connection *n, const box_h2_request *request, box_buf *out,
                     box_error *err)
{
    const box_rpc_page *page = &n->rpc->page;
    const box_admit *a = &n->rpc->admit;
    const void *identity = NULL;
    const box_h2_request as = {.path = page->method, .metadata = request->metadata};
    if (admit(n, &as, &identity, err) < 0)
        return -1;
    n->known |= identity != NULL;
    int rc = page->make(page->arg, identity, out, err);
    if (identity != NULL && a->release != NULL)
        a->release(a->arg, identity);
    return rc;
}

int box_rpc_answer_page(void *owner, const box_h2_request *request, box_buf *out)
{
    box_rpc_connection *n = owner;
    const char *path = n->rpc->page.path;
    box_error err = {0}, unused;
    if (path == NULL || strcmp(request->path, path) != 0)
        return 0;
    if (make_page(n, request, out, &err) == 0)
        return 200;
    box_buf_clear(out);
    BOX_IGNORE(box_buf_printf(out, &unused, "%s\n", err.msg)); /* one line fits */
    return http_status(&err);
}
