/* The services of boxd, and what ControlService may ask of its other parts. */
#include <assert.h>

#include "box/v1/image.box.h"
#include "box/v1/skill.box.h"
#include "box_rpc_descriptor_set.h"
#include "box_v1_descriptor_set.h"
#include "boxd.h"
#include "service/exec.h"
#include "service/file.h"
#include "service/process.h"
#include "service/session.h"
#include "service/tool.h"
#include "warden/protocol.h"

/* The configuration has checked the length. */
static void set_text(char *to, size_t size, const char *text)
{
    (void)snprintf(to, size, "%s", text != NULL ? text : "");
}

static void add_service(boxd *b, box_service service)
{
    assert(b->n_services < BOXD_MAX_SERVICES);
    b->services[b->n_services++] = service;
}

/* Declared and not built: known to reflection, every method answers UNIMPLEMENTED. */
static void add_unbuilt(boxd *b, const box_service_type *type)
{
    add_service(b, (box_service){.type = type});
}

static int apply_settings(void *arg, box_control_settings *next, bool *reselected, box_error *err)
{
    boxd *b = arg;
    box_session_defaults defaults = {
        .memory_bytes = next->default_memory_bytes,
        .workspace_limit_bytes = next->default_workspace_limit_bytes,
        .required_guarantees = next->guarantees | (next->admission_required ? BOX_G_ISOLATED : 0),
        .max_sessions = (uint32_t)next->max_sessions,
        .disabled = !next->enabled};
    set_text(defaults.backend, sizeof defaults.backend, next->backend);
    set_text(defaults.profile, sizeof defaults.profile, next->default_profile);
    set_text(defaults.image, sizeof defaults.image, next->image);
    set_text(defaults.workspace, sizeof defaults.workspace, next->default_workspace);
    if (box_sessions_set_defaults(b->sessions, &defaults, reselected, err) < 0)
        return -1;
    set_text(next->backend, sizeof next->backend, defaults.backend);
    return 0;
}

static void note_traffic(void *arg, box_control_traffic *out)
{
    const boxd *b = arg;
    box_net_stats stats;
    box_net_stats_get(b->net, &stats);
    *out = (box_control_traffic){.connections = stats.connections_open,
                                 .calls = stats.calls_open,
                                 .connections_total = stats.connections_total,
                                 .ended_badly = stats.ended_badly,
                                 .holds = stats.holds,
                                 .refused_held = stats.refused_held,
                                 .refused_peer = stats.refused_peer,
                                 .handshakes_queued = stats.handshakes_queued,
                                 .handshakes_waiting = stats.handshakes_waiting};
}

static unsigned count_waiting(void *arg, unsigned loop)
{
    const boxd *b = arg;
    return box_net_waiting(b->net, loop);
}

static void each_call_count(void *arg,
                            void (*visit)(void *arg, const char *path, box_code code,
                                          uint64_t count),
                            void *visit_arg)
{
    const boxd *b = arg;
    box_call_counts_each(box_net_call_counts(b->net), visit, visit_arg);
}

static void open_control(boxd *b)
{
    box_control_config config = {
        .policy = b->policy,
        .facts = box_control_session_facts(b->sessions),
        .hooks = {.arg = b,
                  .apply = apply_settings,
                  .shutdown = boxd_drain,
                  .traffic = note_traffic,
                  .waiting = count_waiting,
                  .each_call_count = each_call_count},
        .settings = {.enabled = b->conf.box_enabled,
                     .default_memory_bytes = b->conf.box_default_memory_bytes,
                     .default_workspace_limit_bytes = b->conf.box_default_workspace_limit_bytes,
                     .max_sessions = (int32_t)b->conf.max_sessions,
                     .admission_required = b->conf.admission_required,
                     .guarantees = b->conf.required_guarantees},
        .host_refused = box_server_config_host_refused(&b->conf),
        .idle_ttl_ns = b->conf.idle_ttl_ns,
        .max_sessions_per_tenant = (int32_t)b->conf.max_sessions_per_tenant,
        .max_tokens_per_tenant = (int32_t)b->conf.max_tokens_per_tenant,
        .loops = (int32_t)box_loops_count(b->loops),
        .certificate_expires_ns = b->certificate_expires_ns,
    };
    set_text(config.settings.backend, sizeof config.settings.backend, b->conf.box_backend);
    set_text(config.settings.default_profile, sizeof config.settings.default_profile,
             b->conf.box_default_profile);
    set_text(config.settings.default_workspace, sizeof config.settings.default_workspace,
             b->conf.box_default_workspace);
    b->control = box_control_new(&config);
}

static int open_tools(boxd *b, box_error *err)
{
    b->tools = box_tools_new();
    b->toolbox = (box_toolbox){.sessions = b->sessions, .tools = b->tools};
    return box_tools_add_own(b->tools, err);
}

int boxd_open_services(boxd *b, box_error *err)
{
    static const box_descriptor_set *const embedded[] = {&box_v1_descriptor_set,
                                                         &box_rpc_descriptor_set};
    box_descriptor_set sets[BOX_COUNT(embedded)];
    box_service reflection[BOX_REFLECTION_SERVICES];
    for (size_t i = 0; i < BOX_COUNT(embedded); i++)
        sets[i] = *embedded[i];
    if (box_reflection_new(sets, BOX_COUNT(sets), &b->reflection, err) < 0)
        return -1;
    if (open_tools(b, err) < 0)
        return -1;
    open_control(b);
    b->health = box_health_new(b->loops);
    add_service(b, box_admin_service(&b->admin));
    add_service(b, box_control_service(b->control));
    add_service(b, box_session_service(b->sessions));
    add_service(b, box_exec_service(b->sessions));
    add_service(b, box_process_service(b->sessions));
    add_service(b, box_file_service(b->sessions));
    add_unbuilt(b, &box_v1_skill_service);
    add_service(b, box_tool_service(&b->toolbox));
    add_unbuilt(b, &box_v1_image_service);
    add_service(b, box_health_service(b->health));
    box_reflection_services(b->reflection, reflection);
    for (size_t i = 0; i < BOX_REFLECTION_SERVICES && b->conf.reflection; i++)
        add_service(b, reflection[i]);
    box_reflection_set_listed(b->reflection, b->services, b->n_services);
    return 0;
}

void boxd_tell_serving(boxd *b)
{
    for (size_t i = 0; i < b->n_services; i++)
        box_health_set(b->health, b->services[i].type->name, BOX_HEALTH_SERVING);
    box_health_set(b->health, "", BOX_HEALTH_SERVING);
}
