/* What AdminService asks of the session manager: the end of a tenant's sessions. */
#include "service/admin.h"
#include "session/session.h"

/* Nobody waits: a session that cannot be stopped now stops when it is swept. */
static void ended(void *arg, const box_session_info *info, const box_error *err)
{
    (void)arg;
    (void)info;
    (void)err;
}

typedef struct ending {
    box_sessions *sessions;
    const char *tenant;
} ending;

static void end_one(void *arg, const box_session_info *info)
{
    const ending *e = arg;
    box_session_delete(e->sessions, e->tenant, info->id, true, ended, NULL);
}

BOX_LOOP void box_admin_end_sessions(void *sessions, const char *tenant, bool deleted)
{
    ending e = {.sessions = sessions, .tenant = tenant};
    if (deleted)
        box_session_each(sessions, tenant, end_one, &e);
    else
        box_sessions_revoke(sessions, tenant);
}
