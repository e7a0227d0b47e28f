/* The numbers of ControlService from the session manager. */
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

static void count_state(void *arg, const box_session_info *info)
{
    uint32_t *counts = arg;
    counts[info->state]++;
}

static void states(void *arg, const char *tenant, uint32_t counts[BOX_CONTROL_STATES])
{
    box_session_each(arg, tenant, count_state, counts);
}

static int session(void *arg, const char *tenant, const char *id, box_session_info *out,
                   box_error *err)
{
    return box_session_get(arg, tenant, id, out, err);
}

box_control_facts box_control_session_facts(box_sessions *all)
{
    return (box_control_facts){
        .arg = all, .backends = backends, .stats = stats, .states = states, .session = session};
}
