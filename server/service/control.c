#include "service/control.h"

#include "base/alloc.h"
#include "service/admin_impl.h"
#include "service/control_impl.h"
#include "service/times.h"

/* --- WhoAmI ----------------------------------------------------------------------------------- */

static int who_am_i(box_call *call, const Box__V1__WhoAmIRequest *r, box_error *err)
{
    const box_control *c = box_call_context(call);
    const box_identity *who = box_call_identity(call);
    Box__V1__WhoAmIResponse response;
    Google__Protobuf__Timestamp expires;
    char *scopes[BOX_ADMIN_MAX_SCOPES];
    box_token token = {0};
    (void)r; /* has no fields */
    if (who == NULL)
        return box_fail(err, BOX_UNAUTHENTICATED, "this call needs a known caller");
    char id[BOX_TOKEN_ID_TEXT] = "";
    box_identity copy = *who; /* messages have no const text */
    box__v1__who_am_iresponse__init(&response);
    response.tenant_id = copy.tenant;
    response.client_certificate = copy.certificate;
    response.scopes = scopes;
    response.n_scopes = box_admin_scope_names(copy.scopes, scopes);
    response.auth_method = copy.token_id != 0 ? BOX__V1__AUTH_METHOD__AUTH_METHOD_TOKEN
                           : copy.by_peer     ? BOX__V1__AUTH_METHOD__AUTH_METHOD_PEER
                                              : BOX__V1__AUTH_METHOD__AUTH_METHOD_OFF;
    if (copy.token_id != 0 && box_policy_token(c->config.policy, copy.token_id, &token)) {
        box_token_id_text(token.id, id);
        response.token_id = id;
        response.token_name = token.name;
        response.token_prefix = token.prefix;
        response.expires_at = box_times_stamp(&expires, token.expires_ns);
        if (strcmp(token.tenant, copy.tenant) != 0)
            response.acting_from_tenant_id = token.tenant;
    }
    box_v1_control_service_who_am_i_answer(call, &response);
    return 0;
}

/* --- Shutdown --------------------------------------------------------------------------------- */

static int shutdown_server(box_call *call, const Box__V1__ShutdownRequest *r, box_error *err)
{
    const box_control *c = box_call_context(call);
    Box__V1__ShutdownResponse response;
    (void)r;   /* has no fields */
    (void)err; /* cannot fail */
    box__v1__shutdown_response__init(&response);
    box_v1_control_service_shutdown_answer(call, &response);
    c->config.hooks.shutdown(c->config.hooks.arg);
    return 0;
}

/* --- the service ------------------------------------------------------------------------------ */

/* CheckPolicy is left NULL: UNIMPLEMENTED, as control.proto says. */
static const box_v1_control_service_handlers handlers = {
    .initialize = box_control_initialize,
    .health = box_control_health,
    .get_status = box_control_get_status,
    .get_backend_info = box_control_get_backend_info,
    .list_backends = box_control_list_backends,
    .shutdown = shutdown_server,
    .list_errors = box_control_list_errors,
    .get_guidance = box_control_get_guidance,
    .who_am_i = who_am_i,
};

box_control *box_control_new(const box_control_config *config)
{
    box_control *c = box_alloc(sizeof *c);
    c->config = *config;
    c->settings = config->settings;
    atomic_init(&c->certificate_expires_ns, config->certificate_expires_ns);
    c->started_ns = box_policy_wall_ns(config->policy);
    box_lock_init(&c->lock);
    return c;
}

void box_control_set_certificate(box_control *c, int64_t expires_ns)
{
    atomic_store(&c->certificate_expires_ns, expires_ns);
}

void box_control_free(box_control *c)
{
    if (c == NULL)
        return;
    box_lock_done(&c->lock);
    free(c);
}

box_service box_control_service(box_control *c)
{
    return (box_service){.type = &box_v1_control_service, .handlers = &handlers, .context = c};
}

box_control_settings box_control_settings_get(box_control *c)
{
    box_lock_take(&c->lock);
    box_control_settings s = c->settings;
    box_lock_release(&c->lock);
    return s;
}
