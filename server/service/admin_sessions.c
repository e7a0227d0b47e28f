/* What AdminService asks of the session manager: the end of a tenant's sessions. */
#include "base/limits.h"
#include "service/admin.h"
#include "session/session.h"

/* Nobody waits: a session that cannot be stopped now stops when it is swept. */
static void ended(void *arg, const box_session_info *info, const box_error *err)
{
    (void)arg;
    (void)info;
    (void)err;
}

BOX_LOOP void box_admin_end_sessions(void *sessions, const char *tenant, bool deleted)
{
    if (!deleted) {
        box_sessions_revoke(sessions, tenant);
        return;
    }
    box_session_filter all = {0};
    int64_t created = 0;
    char after[BOX_MAX_ID_BYTES + 1];
    const char *after_id = NULL;
    bool more = true;
    while (more) {
        box_session_info *page = NULL;
        size_t n = 0;
        box_session_list(sessions, tenant, &all, created, after_id, BOX_MAX_PAGE, &page, &n, &more);
        for (size_t i = 0; i < n; i++)
            box_session_delete(sessions, tenant, page[i].id, true, ended, NULL);
        if (n > 0) {
            created = page[n - 1].created_wall_ns;
            (void)snprintf(after, sizeof after, "%s", page[n - 1].id); /* ids fit */
            after_id = after;
        }
        more = more && n > 0;
        box_session_list_free(page, n);
    }
}
