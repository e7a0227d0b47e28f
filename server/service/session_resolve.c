#include "service/session_resolve.h"

#include "base/alloc.h"
#include "session/id_template.h"

int box_resolve_session_id(box_call *call, const Box__V1__ResolveSessionIdRequest *r,
                           box_error *err)
{
    box_label variables[BOX_MAX_ID_TEMPLATE_VARIABLES];
    if (r->n_variables > BOX_COUNT(variables))
        return box_violation(err, "variables", "more than %d", BOX_MAX_ID_TEMPLATE_VARIABLES);
    for (size_t i = 0; i < r->n_variables; i++)
        variables[i] = (box_label){r->variables[i]->key, r->variables[i]->value};
    box_resolved_id resolved;
    if (box_id_template_resolve(r->id_template, variables, r->n_variables, &resolved, err) < 0)
        return -1;
    Box__V1__ResolveSessionIdResponse response;
    box__v1__resolve_session_id_response__init(&response);
    char *names[BOX_COUNT(resolved.unknown) / 2]; /* each has a letter and its NUL */
    for (char *at = resolved.unknown; response.n_unknown_names < resolved.n_unknown;
         at += strlen(at) + 1)
        names[response.n_unknown_names++] = at;
    response.session_id = resolved.id;
    response.unknown_names = names;
    box_v1_session_service_resolve_session_id_answer(call, &response);
    return 0;
}
