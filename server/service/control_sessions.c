/* The numbers of ControlService from the session manager. */
#include "base/limits.h"
#include "service/control.h"

static size_t backends(void *arg, box_backend_report *out, size_t max)
{
    size_t n = box_backends_count(arg);
    n = n < max ? n : max;
    for (size_t i = 0; i < n; i++)
        box_backends_report(arg, i, &out[i]);
    return n;
}

static void stats(void *arg, const char *tenant, box_sessions_stats *out)
{
    box_sessions_stats_get(arg, tenant, out);
}

static void states(void *arg, const char *tenant, uint32_t counts[BOX_CONTROL_STATES])
{
    box_session_filter all = {0};
    int64_t created = 0;
    char after[BOX_MAX_ID_BYTES + 1];
    const char *after_id = NULL;
    bool more = true;
    while (more) {
        box_session_info *page = NULL;
        size_t n = 0;
        box_session_list(arg, tenant, &all, created, after_id, BOX_MAX_PAGE, &page, &n, &more);
        for (size_t i = 0; i < n; i++)
            counts[page[i].state]++;
        if (n > 0) {
            created = page[n - 1].created_wall_ns;
            (void)snprintf(after, sizeof after, "%s", page[n - 1].id); /* ids fit */
            after_id = after;
        }
        more = more && n > 0;
        box_session_list_free(page, n);
    }
}

box_control_facts box_control_session_facts(box_sessions *all)
{
    return (box_control_facts){.arg = all, .backends = backends, .stats = stats, .states = states};
}
