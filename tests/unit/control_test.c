#include "service/control.h"

#include "service_harness.h"

#include <limits.h>

#include "box/v1/control.box.h"
#include "box/v1/types.fields.h"
#include "policy/token.h"
#include "warden/protocol.h"

#define CONTROL(method) "/box.v1.ControlService/" method

typedef struct fixture {
    harness_store state;
    harness h;
    box_policy *policy;
    box_control *control;
    box_control_config config;
    box_service service;
    /* what the fakes answer and were told */
    box_backend_report backends[3];
    size_t n_backends;
    unsigned looks; /* how often the last of them is still connecting; 0 = it is not */
    box_control_settings applied;
    int applies;
    bool refuse_apply;
    int shutdowns;
} fixture;

static size_t fake_backends(void *arg, box_backend_report *out, size_t max)
{
    fixture *f = arg;
    size_t n = f->n_backends < max ? f->n_backends : max;
    memcpy(out, f->backends, n * sizeof *out);
    if (f->looks > 0 && n > 0) {
        f->looks--;
        out[n - 1].connecting = true;
        out[n - 1].available = false;
        (void)snprintf(out[n - 1].detail, sizeof out[n - 1].detail, "not connected yet");
    }
    return n;
}

static void fake_stats(void *arg, const char *tenant, box_sessions_stats *out)
{
    (void)arg;
    out->live = tenant == NULL ? 12 : 5;
    out->running_execs = tenant == NULL ? 7 : 2;
}

static void fake_states(void *arg, const char *tenant, uint32_t counts[BOX_CONTROL_STATES])
{
    (void)arg;
    assert_string_equal(tenant, "default");
    counts[BOX_SESSION_RUNNING] = 5;
    counts[BOX_SESSION_STOPPED] = 3;
}

static int fake_session(void *arg, const char *tenant, const char *id, box_session_info *out,
                        box_error *err)
{
    (void)arg;
    if (strcmp(tenant, "default") != 0 || strcmp(id, "there") != 0)
        return box_fail(err, BOX_SESSION_NOT_FOUND, "no session %s", id);
    *out = (box_session_info){0};
    out->spec = (box_spec){.cpu_millis = 1500,
                           .memory_bytes = INT64_C(256) << 20,
                           .pids = 17,
                           .workspace_limit_bytes = INT64_C(32) << 20,
                           .network_on = true,
                           .command_timeout_ns = 20 * BOX_SECOND};
    out->spec.mount_path = strdup("/data");
    out->spec.host_path = strdup("");
    out->spec.profile = strdup("default");
    return 0;
}

static int fake_apply(void *arg, box_control_settings *next, bool *reselected, box_error *err)
{
    fixture *f = arg;
    if (f->refuse_apply)
        return box_fail(err, BOX_RATE_LIMIT, "not now");
    f->applied = *next;
    f->applies++;
    *reselected = true;
    return 0;
}

static void fake_traffic(void *arg, box_control_traffic *out)
{
    (void)arg;
    *out = (box_control_traffic){.connections = 3, .calls = 4, .refused_held = 5};
}

static unsigned fake_waiting(void *arg, unsigned loop)
{
    (void)arg;
    return 7 + loop;
}

static void fake_each_call_count(void *arg,
                                 void (*visit)(void *arg, const char *path, box_code code,
                                               uint64_t count),
                                 void *visit_arg)
{
    (void)arg;
    visit(visit_arg, "/box.v1.ExecService/Exec", BOX_CODE_OK, 12);
    visit(visit_arg, "", BOX_CODE_UNIMPLEMENTED, 1);
}

static void fake_shutdown(void *arg)
{
    ((fixture *)arg)->shutdowns++;
}

static int64_t fake_wall(void)
{
    return 1700000000 * INT64_C(1000000000);
}

static void renew(fixture *f)
{
    box_control_free(f->control);
    f->control = box_control_new(&f->config);
    f->service = box_control_service(f->control);
}

static int setup(void **state)
{
    static fixture f;
    static const char *const warnings[] = {"development certificates are in use", NULL};
    box_error err = {0};
    f = (fixture){0};
    harness_store_open(&f.state, fake_wall());
    box_policy_config policy = {.store = f.state.store,
                                .auth_failures = 10,
                                .max_tenants = 10,
                                .max_tokens_per_tenant = 10,
                                .require_init = true,
                                .wall_ns = fake_wall};
    assert_int_equal(box_policy_new(&policy, &f.policy, &err), 0);
    f.backends[0] = (box_backend_report){.name = "namespace",
                                         .available = true,
                                         .selected = true,
                                         .guarantees = BOX_G_MEMORY | BOX_G_PIDS,
                                         .isolation = 1,
                                         .detail = "cgroup v2"};
    f.backends[1] = (box_backend_report){.name = "docker", .detail = "its warden does not answer"};
    f.n_backends = 2;
    f.config = (box_control_config){
        .policy = f.policy,
        .facts = {&f, fake_backends, fake_stats, fake_states, fake_session},
        .hooks = {&f, fake_apply, fake_shutdown, fake_traffic, fake_waiting, fake_each_call_count},
        .settings = {.enabled = true,
                     .backend = "auto",
                     .default_profile = "default",
                     .max_sessions = 10000},
        .idle_ttl_ns = 300 * BOX_SECOND,
        .max_sessions_per_tenant = 256,
        .max_tokens_per_tenant = 100,
        .loops = 2,
        .warnings = warnings};
    renew(&f);
    harness_start(&f.h);
    *state = &f;
    return 0;
}

static int teardown(void **state)
{
    fixture *f = *state;
    harness_stop(&f->h);
    box_control_free(f->control);
    box_policy_free(f->policy);
    harness_store_close(&f->state);
    return 0;
}

static box_reason ask(fixture *f, const char *path, const ProtobufCMessage *request,
                      const box_identity *who, void *response)
{
    return harness_ask(&f->h, &f->service, path, request, who, response);
}

static void health_names_the_selected_backend(void **state)
{
    fixture *f = *state;
    Box__V1__HealthRequest r;
    Box__V1__HealthResponse *health = NULL;
    box__v1__health_request__init(&r);
    assert_int_equal(ask(f, CONTROL("Health"), &r.base, &harness_root, &health), BOX_NONE);
    assert_string_equal(health->name, "namespace");
    assert_true(health->available);
    assert_string_equal(health->detail, "");
    assert_false(health->unsafe_direct_execution);
    harness_drop(health);
    f->backends[0].available = false;
    (void)snprintf(f->backends[0].detail, sizeof f->backends[0].detail, "no answer");
    assert_int_equal(ask(f, CONTROL("Health"), &r.base, &harness_root, &health), BOX_NONE);
    assert_false(health->available);
    assert_string_equal(health->detail, "no answer");
    harness_drop(health);
    f->n_backends = 0;
    assert_int_equal(ask(f, CONTROL("Health"), &r.base, &harness_root, &health), BOX_NONE);
    assert_string_equal(health->name, "");
    assert_false(health->available);
    assert_true(health->detail[0] != '\0');
    harness_drop(health);
}

static void a_backend_without_isolation_is_called_unsafe(void **state)
{
    fixture *f = *state;
    Box__V1__HealthRequest r;
    Box__V1__HealthResponse *health = NULL;
    Box__V1__GetStatusRequest s;
    Box__V1__GetStatusResponse *status = NULL;
    f->backends[0].isolation = 0;
    box__v1__health_request__init(&r);
    box__v1__get_status_request__init(&s);
    assert_int_equal(ask(f, CONTROL("Health"), &r.base, &harness_root, &health), BOX_NONE);
    assert_true(health->unsafe_direct_execution);
    harness_drop(health);
    assert_int_equal(ask(f, CONTROL("GetStatus"), &s.base, &harness_root, &status), BOX_NONE);
    assert_int_equal(status->n_warnings, 2);
    assert_string_equal(status->warnings[0], "backend host: commands run without isolation");
    harness_drop(status);
}

static void backends_are_listed_by_name_with_every_guarantee(void **state)
{
    fixture *f = *state;
    Box__V1__ListBackendsRequest r;
    Box__V1__ListBackendsResponse *list = NULL;
    box__v1__list_backends_request__init(&r);
    assert_int_equal(ask(f, CONTROL("ListBackends"), &r.base, &harness_root, &list), BOX_NONE);
    assert_int_equal(list->n_backends, 2);
    const Box__V1__BackendInfo *docker = list->backends[0];
    const Box__V1__BackendInfo *namespace = list->backends[1];
    assert_string_equal(docker->name, "docker");
    assert_false(docker->available);
    assert_string_equal(docker->error, "its warden does not answer");
    assert_string_equal(docker->detail, "");
    assert_int_equal(docker->isolation, BOX__V1__ISOLATION_LEVEL__ISOLATION_LEVEL_UNSPECIFIED);
    assert_string_equal(namespace->detail, "cgroup v2");
    assert_int_equal(namespace->isolation, BOX__V1__ISOLATION_LEVEL__ISOLATION_LEVEL_PROCESS);
    assert_int_equal(namespace->n_guarantees, 20);
    assert_int_equal(docker->n_guarantees, 20);
    size_t holds = 0;
    for (size_t i = 0; i < namespace->n_guarantees; i++) {
        const Box__V1__Guarantee *g = namespace->guarantees[i];
        bool expected = strcmp(g->name, "memory") == 0 || strcmp(g->name, "pids") == 0;
        assert_int_equal(g->holds, expected);
        holds += g->holds != 0;
    }
    assert_int_equal(holds, 2);
    harness_drop(list);
}

static void one_backend_is_found_by_name_or_selection(void **state)
{
    fixture *f = *state;
    Box__V1__GetBackendInfoRequest r;
    Box__V1__GetBackendInfoResponse *info = NULL;
    box__v1__get_backend_info_request__init(&r);
    assert_int_equal(ask(f, CONTROL("GetBackendInfo"), &r.base, &harness_root, &info), BOX_NONE);
    assert_string_equal(info->backend->name, "namespace");
    harness_drop(info);
    r.backend = harness_text("docker");
    assert_int_equal(ask(f, CONTROL("GetBackendInfo"), &r.base, &harness_root, &info), BOX_NONE);
    assert_string_equal(info->backend->name, "docker");
    harness_drop(info);
    r.backend = harness_text("lxc");
    assert_int_equal(ask(f, CONTROL("GetBackendInfo"), &r.base, &harness_root, NULL),
                     BOX_VALIDATION);
    f->backends[0].selected = false;
    r.backend = harness_text("");
    assert_int_equal(ask(f, CONTROL("GetBackendInfo"), &r.base, &harness_root, NULL),
                     BOX_BACKEND_UNAVAILABLE);
}

static void backends_that_are_connecting_are_waited_for(void **state)
{
    fixture *f = *state;
    Box__V1__HealthRequest h;
    Box__V1__HealthResponse *health = NULL;
    Box__V1__GetStatusRequest s;
    Box__V1__GetStatusResponse *status = NULL;
    Box__V1__ListBackendsRequest l;
    Box__V1__ListBackendsResponse *list = NULL;
    Box__V1__GetBackendInfoRequest i;
    Box__V1__GetBackendInfoResponse *info = NULL;
    box__v1__health_request__init(&h);
    box__v1__get_status_request__init(&s);
    box__v1__list_backends_request__init(&l);
    box__v1__get_backend_info_request__init(&i);
    f->n_backends = 1;
    f->looks = 3;
    assert_int_equal(ask(f, CONTROL("Health"), &h.base, &harness_root, &health), BOX_NONE);
    assert_true(health->available);
    harness_drop(health);
    f->looks = 3;
    assert_int_equal(ask(f, CONTROL("GetStatus"), &s.base, &harness_root, &status), BOX_NONE);
    assert_true(status->available);
    harness_drop(status);
    f->looks = 3;
    assert_int_equal(ask(f, CONTROL("ListBackends"), &l.base, &harness_root, &list), BOX_NONE);
    assert_true(list->backends[0]->available);
    harness_drop(list);
    f->looks = 3;
    i.backend = harness_text("namespace");
    assert_int_equal(ask(f, CONTROL("GetBackendInfo"), &i.base, &harness_root, &info), BOX_NONE);
    assert_true(info->backend->available);
    harness_drop(info);
    f->looks = 3;
    i.backend = harness_text("lxc");
    assert_int_equal(ask(f, CONTROL("GetBackendInfo"), &i.base, &harness_root, NULL),
                     BOX_VALIDATION);
    assert_int_equal(f->looks, 0);
}

static void a_backend_that_never_answers_is_not_waited_for_forever(void **state)
{
    fixture *f = *state;
    Box__V1__ListBackendsRequest r;
    Box__V1__ListBackendsResponse *list = NULL;
    box__v1__list_backends_request__init(&r);
    f->looks = UINT_MAX;
    assert_int_equal(ask(f, CONTROL("ListBackends"), &r.base, &harness_root, &list), BOX_NONE);
    assert_string_equal(list->backends[0]->error, "not connected yet");
    assert_true(list->backends[1]->available);
    harness_drop(list);
}

static void a_caller_who_goes_while_they_connect_leaves_nothing(void **state)
{
    fixture *f = *state;
    Box__V1__HealthRequest r;
    box__v1__health_request__init(&r);
    f->looks = UINT_MAX;
    f->h.cancel = true;
    assert_int_equal(ask(f, CONTROL("Health"), &r.base, &harness_root, NULL), BOX_CANCELLED);
    f->h.cancel = false;
    assert_int_equal(f->looks, UINT_MAX - 1);
}

static void metrics_need_the_scope_of_the_whole_server(void **state)
{
    fixture *f = *state;
    const box_identity reader = {.tenant = "default", .scopes = BOX_SCOPE_SESSION_READ};
    BOX_AUTO(box_buf_done) box_buf out = {0};
    box_error err = {0};
    assert_int_equal(box_control_metrics(f->control, NULL, &out, &err), -1);
    assert_int_equal(box_control_metrics(f->control, &reader, &out, &err), -1);
    assert_int_equal(err.reason, BOX_PERMISSION);
    assert_non_null(strstr(err.msg, "admin.read"));
    assert_int_equal(box_buf_len(&out), 0);
}

static void metrics_are_the_servers_numbers_as_text(void **state)
{
    fixture *f = *state;
    static const char *const lines[] = {
        "# TYPE box_build_info gauge\nbox_build_info{version=\"0.1.0\"} 1\n",
        "\nbox_start_time_seconds 1700000000\n",
        "\nbox_uptime_seconds 0\n",
        "\nbox_certificate_expiry_seconds 1800000000\n",
        "\nbox_connections 3\n",
        "\nbox_connections_refused_total{reason=\"held_back\"} 5\n",
        "\nbox_loop_waiting_connections{loop=\"1\"} 8\n",
        "\nbox_calls_total{method=\"/box.v1.ExecService/Exec\",code=\"OK\"} 12\n",
        "\nbox_calls_total{method=\"\",code=\"UNIMPLEMENTED\"} 1\n",
        "\nbox_sessions{state=\"running\"} 0\n",
        "\nbox_sandboxes 12\n",
        "\nbox_execs_running 7\n",
        "\nbox_execs_total{status=\"oom_killed\"} 0\n",
        "\nbox_backend_available{backend=\"docker\"} 0\n",
        "\nbox_backend_available{backend=\"namespace\"} 1\n",
        "\nbox_tenants 1\n",
    };
    BOX_AUTO(box_buf_done) box_buf out = {0};
    box_error err = {0};
    const char *text = NULL;
    box_control_set_certificate(f->control, 1800000000 * INT64_C(1000000000));
    assert_int_equal(box_control_metrics(f->control, &harness_root, &out, &err), 0);
    assert_int_equal(box_buf_text(&out, &text, &err), 0);
    for (size_t i = 0; i < BOX_COUNT(lines); i++)
        assert_non_null(strstr(text, lines[i]));
}

static void a_page_without_room_is_an_error(void **state)
{
    fixture *f = *state;
    BOX_AUTO(box_buf_done) box_buf out = {.max_bytes = 1000};
    box_error err = {0};
    assert_int_equal(box_control_metrics(f->control, &harness_root, &out, &err), -1);
    assert_int_equal(err.reason, BOX_INTERNAL);
}

static void status_counts_the_callers_tenant(void **state)
{
    fixture *f = *state;
    box_identity reader = {.tenant = "default", .scopes = BOX_SCOPE_SESSION_READ, .token_id = 1};
    Box__V1__GetStatusRequest r;
    Box__V1__GetStatusResponse *s = NULL;
    box__v1__get_status_request__init(&r);
    assert_int_equal(ask(f, CONTROL("GetStatus"), &r.base, &reader, &s), BOX_NONE);
    assert_string_equal(s->version, "0.1.0");
    assert_int_equal(s->started_at->seconds, 1700000000);
    assert_true(s->enabled);
    assert_string_equal(s->backend, "namespace");
    assert_true(s->available);
    assert_string_equal(s->backend_error, "");
    assert_int_equal(s->active_sessions, 5);
    assert_int_equal(s->active_execs, 2);
    assert_int_equal(s->n_sessions_by_state, 2);
    assert_int_equal(s->sessions_by_state[0]->state, BOX__V1__SESSION_STATE__SESSION_STATE_RUNNING);
    assert_int_equal(s->sessions_by_state[0]->count, 5);
    assert_int_equal(s->session_ttl->seconds, 300);
    assert_string_equal(s->profile, "default");
    assert_true(s->n_profiles >= 1);
    assert_string_equal(s->profiles[0]->name, "default");
    assert_int_equal(s->profiles[0]->memory_bytes, 512 << 20);
    assert_int_equal(s->limits->max_sessions, 256);
    assert_int_equal(s->n_warnings, 1);
    assert_false(s->initialized);
    assert_null(s->server); /* without admin.read */
    harness_drop(s);
    assert_int_equal(ask(f, CONTROL("GetStatus"), &r.base, &harness_root, &s), BOX_NONE);
    assert_int_equal(s->server->active_sessions, 12);
    assert_int_equal(s->server->active_execs, 7);
    assert_int_equal(s->server->tenants, 1);
    assert_int_equal(s->server->connections, 3);
    assert_int_equal(s->server->active_calls, 4);
    assert_int_equal(s->server->loop_threads, 2);
    assert_true(s->server->resident_bytes > 1 << 20);
    assert_int_equal(s->server->limits->max_sessions, 10000);
    harness_drop(s);
}

static void whoami_tells_how_the_caller_was_recognised(void **state)
{
    fixture *f = *state;
    Box__V1__WhoAmIRequest r;
    Box__V1__WhoAmIResponse *me = NULL;
    box_error err = {0};
    box__v1__who_am_irequest__init(&r);
    assert_int_equal(ask(f, CONTROL("WhoAmI"), &r.base, &harness_root, &me), BOX_NONE);
    assert_string_equal(me->tenant_id, "default");
    assert_int_equal(me->auth_method, BOX__V1__AUTH_METHOD__AUTH_METHOD_PEER);
    assert_int_equal(me->n_scopes, 15);
    assert_string_equal(me->scopes[0], "admin.read");
    assert_string_equal(me->token_id, "");
    harness_drop(me);
    box_identity off = {.tenant = "default", .scopes = BOX_ALL_SCOPES};
    assert_int_equal(ask(f, CONTROL("WhoAmI"), &r.base, &off, &me), BOX_NONE);
    assert_int_equal(me->auth_method, BOX__V1__AUTH_METHOD__AUTH_METHOD_OFF);
    harness_drop(me);
    box_token t = {.tenant = "default", .name = "ci", .scopes = 1, .expires_ns = fake_wall() + 5};
    char secret[BOX_TOKEN_SECRET_LEN + 1];
    assert_int_equal(box_policy_token_create(f->policy, &t, secret, &err), 0);
    box_identity acting = {.tenant = "acme", .scopes = 1, .token_id = t.id};
    assert_int_equal(ask(f, CONTROL("WhoAmI"), &r.base, &acting, &me), BOX_NONE);
    assert_int_equal(me->auth_method, BOX__V1__AUTH_METHOD__AUTH_METHOD_TOKEN);
    assert_string_equal(me->tenant_id, "acme");
    assert_string_equal(me->acting_from_tenant_id, "default");
    assert_string_equal(me->token_name, "ci");
    assert_string_equal(me->token_prefix, t.prefix);
    assert_int_equal(me->expires_at->seconds, 1700000000);
    assert_int_equal(me->expires_at->nanos, 5);
    harness_drop(me);
}

static void init_request(Box__V1__InitializeRequest *r, Box__V1__BoxConfig *config)
{
    box__v1__initialize_request__init(r);
    box__v1__box_config__init(config);
    r->config = config;
}

static void initialize_changes_what_is_set_and_answers_all(void **state)
{
    fixture *f = *state;
    Box__V1__InitializeRequest r;
    Box__V1__InitializeResponse *done = NULL;
    Box__V1__BoxConfig config;
    box__v1__initialize_request__init(&r);
    assert_false(box_policy_is_initialized(f->policy));
    assert_int_equal(ask(f, CONTROL("Initialize"), &r.base, &harness_root, &done), BOX_NONE);
    assert_true(box_policy_is_initialized(f->policy));
    assert_true(done->initialized);
    assert_true(done->backend_reselected);
    assert_string_equal(done->backend, "namespace");
    assert_string_equal(done->config->backend, "auto");
    assert_true(done->config->enabled);
    harness_drop(done);
    box__v1__box_config__init(&config);
    box__v1__box_config__set_backend(&config, "docker");
    box__v1__box_config__set_default_profile(&config, "network_basic");
    box__v1__box_config__set_default_memory_bytes(&config, 1 << 30);
    r.config = &config;
    assert_int_equal(ask(f, CONTROL("Initialize"), &r.base, &harness_root, &done), BOX_NONE);
    assert_string_equal(f->applied.backend, "docker");
    assert_string_equal(f->applied.default_profile, "network_basic");
    assert_string_equal(done->config->backend, "docker");
    assert_string_equal(done->config->default_profile, "network_basic");
    assert_true(box__v1__box_config__has_image(done->config));
    assert_true(done->config->default_memory_bytes == 1 << 30);
    harness_drop(done);
    free(config.backend);
    free(config.default_profile);
}

static void a_wrong_initialize_changes_nothing(void **state)
{
    fixture *f = *state;
    Box__V1__InitializeRequest r;
    Box__V1__BoxConfig config;
    init_request(&r, &config);
    box__v1__box_config__set_enabled(&config, false);
    box__v1__box_config__set_default_profile(&config, "none");
    box__v1__box_config__set_default_memory_bytes(&config, (32 << 20) - 1);
    assert_int_equal(ask(f, CONTROL("Initialize"), &r.base, &harness_root, NULL), BOX_VALIDATION);
    assert_string_equal(box_error_get(&f->h.status, "field:config.default_profile"),
                        "is none of default, offline_readonly, network_basic, network_extended");
    assert_non_null(box_error_get(&f->h.status, "field:config.default_memory_bytes"));
    box__v1__box_config__set_default_profile(&config, "default");
    box__v1__box_config__set_default_memory_bytes(&config, 0);
    box__v1__box_config__set_backend(&config, "lxc");
    assert_int_equal(ask(f, CONTROL("Initialize"), &r.base, &harness_root, NULL), BOX_VALIDATION);
    box__v1__box_config__set_backend(&config, "auto");
    box__v1__box_config__set_skills_root(&config, "/x");
    assert_int_equal(ask(f, CONTROL("Initialize"), &r.base, &harness_root, NULL),
                     BOX_GUARANTEE_UNSUPPORTED);
    assert_string_equal(box_error_get(&f->h.status, "guarantees"), "config.skills_root");
    assert_int_equal(f->applies, 0);
    assert_false(box_policy_is_initialized(f->policy));
    free(config.backend);
    free(config.default_profile);
    free(config.skills_root);
}

static void backend_host_is_refused_where_it_must_not_be(void **state)
{
    fixture *f = *state;
    Box__V1__InitializeRequest r;
    Box__V1__BoxConfig config;
    f->config.host_refused = "admission.required is set";
    renew(f);
    init_request(&r, &config);
    box__v1__box_config__set_backend(&config, "host");
    assert_int_equal(ask(f, CONTROL("Initialize"), &r.base, &harness_root, NULL), BOX_PERMISSION);
    assert_string_equal(box_error_get(&f->h.status, "rule"), "backend.host");
    free(config.backend);
}

static void what_cannot_be_applied_does_not_hold(void **state)
{
    fixture *f = *state;
    Box__V1__InitializeRequest r;
    Box__V1__InitializeResponse *done = NULL;
    Box__V1__BoxConfig config;
    init_request(&r, &config);
    box__v1__box_config__set_backend(&config, "docker");
    f->refuse_apply = true;
    assert_int_equal(ask(f, CONTROL("Initialize"), &r.base, &harness_root, NULL), BOX_RATE_LIMIT);
    f->refuse_apply = false;
    r.config = NULL;
    assert_int_equal(ask(f, CONTROL("Initialize"), &r.base, &harness_root, &done), BOX_NONE);
    assert_string_equal(done->config->backend, "auto");
    harness_drop(done);
    free(config.backend);
}

static void initialize_narrows_limits_and_admission(void **state)
{
    fixture *f = *state;
    f->config.settings.max_sessions = 50;
    f->config.settings.guarantees = BOX_G_SECCOMP;
    renew(f);
    Box__V1__InitializeRequest r;
    Box__V1__InitializeResponse *done = NULL;
    Box__V1__BoxConfig config;
    Box__V1__Limits limits;
    Box__V1__AdmissionConfig admission;
    Box__V1__GuaranteeList list;
    static char memory[] = "memory", seccomp[] = "seccomp", wrong[] = "teleport";
    char *names[] = {memory, seccomp};
    box__v1__initialize_request__init(&r);
    box__v1__box_config__init(&config);
    box__v1__limits__init(&limits);
    box__v1__admission_config__init(&admission);
    box__v1__guarantee_list__init(&list);
    r.config = &config;
    config.limits = &limits;
    config.admission = &admission;
    admission.guarantees = &list;
    list.names = names;
    list.n_names = 2;
    box__v1__limits__set_max_sessions(&limits, 20);
    box__v1__admission_config__set_required(&admission, true);
    assert_int_equal(ask(f, CONTROL("Initialize"), &r.base, &harness_root, &done), BOX_NONE);
    assert_int_equal(f->applied.max_sessions, 20);
    assert_int_equal(f->applied.guarantees, BOX_G_SECCOMP | BOX_G_MEMORY);
    assert_true(f->applied.admission_required);
    assert_int_equal(done->config->limits->max_sessions, 20);
    assert_true(done->config->admission->required);
    assert_int_equal(done->config->admission->guarantees->n_names, 2);
    assert_string_equal(done->config->admission->guarantees->names[0], "seccomp");
    harness_drop(done);
    box__v1__limits__set_max_sessions(&limits, 50); /* what it narrowed it may widen again */
    box__v1__admission_config__set_required(&admission, false);
    assert_int_equal(ask(f, CONTROL("Initialize"), &r.base, &harness_root, NULL), BOX_NONE);
    assert_int_equal(f->applied.max_sessions, 50);
    assert_false(f->applied.admission_required);
    box__v1__limits__set_max_sessions(&limits, 51);
    list.n_names = 1; /* not what the file asks for */
    assert_int_equal(ask(f, CONTROL("Initialize"), &r.base, &harness_root, NULL), BOX_VALIDATION);
    assert_string_equal(box_error_get(&f->h.status, "field:config.limits.max_sessions"),
                        "must be 1 to 50, as boxd's configuration says");
    assert_string_equal(box_error_get(&f->h.status, "field:config.admission.guarantees"),
                        "must keep seccomp, which boxd's configuration asks for");
    box__v1__limits__set_max_sessions(&limits, 0);
    names[0] = wrong;
    assert_int_equal(ask(f, CONTROL("Initialize"), &r.base, &harness_root, NULL), BOX_VALIDATION);
    assert_string_equal(box_error_get(&f->h.status, "field:config.admission.guarantees"),
                        "there is no guarantee called teleport");
    assert_int_equal(f->applies, 2);
    box__v1__limits__set_max_sessions(&limits, 1);
    box__v1__limits__set_max_execs(&limits, 1);
    assert_int_equal(ask(f, CONTROL("Initialize"), &r.base, &harness_root, NULL),
                     BOX_GUARANTEE_UNSUPPORTED);
    assert_string_equal(box_error_get(&f->h.status, "guarantees"), "config.limits.max_execs");
}

static void what_the_file_requires_stays_required(void **state)
{
    fixture *f = *state;
    f->config.settings.admission_required = true;
    renew(f);
    Box__V1__InitializeRequest r;
    Box__V1__BoxConfig config;
    Box__V1__AdmissionConfig admission;
    init_request(&r, &config);
    box__v1__admission_config__init(&admission);
    config.admission = &admission;
    box__v1__admission_config__set_required(&admission, false);
    assert_int_equal(ask(f, CONTROL("Initialize"), &r.base, &harness_root, NULL), BOX_VALIDATION);
    assert_non_null(box_error_get(&f->h.status, "field:config.admission.required"));
}

static void isolation_and_backend_host_exclude_each_other(void **state)
{
    fixture *f = *state;
    f->backends[1] = (box_backend_report){.name = "host", .available = true};
    Box__V1__InitializeRequest r;
    Box__V1__BoxConfig config;
    Box__V1__AdmissionConfig admission;
    init_request(&r, &config);
    box__v1__admission_config__init(&admission);
    box__v1__box_config__set_backend(&config, "host");
    assert_int_equal(ask(f, CONTROL("Initialize"), &r.base, &harness_root, NULL), BOX_NONE);
    free(config.backend);
    box__v1__box_config__init(&config);
    config.admission = &admission;
    box__v1__admission_config__set_required(&admission, true);
    assert_int_equal(ask(f, CONTROL("Initialize"), &r.base, &harness_root, NULL), BOX_PERMISSION);
    assert_string_equal(box_error_get(&f->h.status, "rule"), "backend.host");
}

static void initialize_sets_the_default_workspace(void **state)
{
    fixture *f = *state;
    Box__V1__InitializeRequest r;
    Box__V1__InitializeResponse *done = NULL;
    Box__V1__BoxConfig config;
    init_request(&r, &config);
    box__v1__box_config__set_default_workspace(&config, "/srv/work");
    box__v1__box_config__set_default_workspace_limit_bytes(&config, 1 << 20);
    assert_int_equal(ask(f, CONTROL("Initialize"), &r.base, &harness_root, &done), BOX_NONE);
    assert_string_equal(f->applied.default_workspace, "/srv/work");
    assert_int_equal(f->applied.default_workspace_limit_bytes, 1 << 20);
    assert_string_equal(done->config->default_workspace, "/srv/work");
    harness_drop(done);
    box__v1__box_config__set_default_workspace(&config, "/srv/../etc");
    box__v1__box_config__set_default_workspace_limit_bytes(&config, -1);
    assert_int_equal(ask(f, CONTROL("Initialize"), &r.base, &harness_root, NULL), BOX_VALIDATION);
    assert_non_null(box_error_get(&f->h.status, "field:config.default_workspace"));
    assert_non_null(box_error_get(&f->h.status, "field:config.default_workspace_limit_bytes"));
    box__v1__box_config__set_default_workspace(&config, "");
    box__v1__box_config__set_default_workspace_limit_bytes(&config, 0);
    assert_int_equal(ask(f, CONTROL("Initialize"), &r.base, &harness_root, NULL), BOX_NONE);
    assert_string_equal(f->applied.default_workspace, "");
    free(config.default_workspace);
}

static box_reason exec_reason(fixture *f)
{
    box_admit admit = box_policy_admit(f->policy);
    box_peer peer = {.is_unix = true, .uid = 0, .address = "unix"};
    box_metadata md = {0};
    box_error err = {0};
    const void *identity = NULL;
    if (admit.admit(admit.arg, &peer, "/box.v1.ExecService/Exec", &md, &identity, &err) == 0)
        admit.release(admit.arg, identity);
    return err.reason;
}

static void initialize_opens_the_gate_and_switches_sandboxes(void **state)
{
    fixture *f = *state;
    Box__V1__InitializeRequest r;
    Box__V1__BoxConfig config;
    init_request(&r, &config);
    assert_int_equal(exec_reason(f), BOX_INIT_REQUIRED);
    box__v1__box_config__set_enabled(&config, false);
    assert_int_equal(ask(f, CONTROL("Initialize"), &r.base, &harness_root, NULL), BOX_NONE);
    assert_int_equal(exec_reason(f), BOX_BOX_DISABLED);
    box__v1__box_config__set_enabled(&config, true);
    assert_int_equal(ask(f, CONTROL("Initialize"), &r.base, &harness_root, NULL), BOX_NONE);
    assert_int_equal(exec_reason(f), BOX_NONE);
}

static void shutdown_answers_and_then_tells_main(void **state)
{
    fixture *f = *state;
    Box__V1__ShutdownRequest r;
    Box__V1__ShutdownResponse *done = NULL;
    box__v1__shutdown_request__init(&r);
    assert_int_equal(ask(f, CONTROL("Shutdown"), &r.base, &harness_root, &done), BOX_NONE);
    assert_non_null(done);
    assert_int_equal(f->shutdowns, 1);
    harness_drop(done);
}

#define WITH_CONTROL(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

static char *guidance(fixture *f, const char *session)
{
    Box__V1__GetGuidanceRequest r;
    Box__V1__GetGuidanceResponse *got = NULL;
    box__v1__get_guidance_request__init(&r);
    r.session_id = harness_text(session);
    assert_int_equal(ask(f, CONTROL("GetGuidance"), &r.base, &harness_root, &got), BOX_NONE);
    char *text = strdup(got->text);
    harness_drop(got);
    return text;
}

static void guidance_says_what_the_sandbox_can_do(void **state)
{
    fixture *f = *state;
    char *text = guidance(f, "");
    assert_non_null(strstr(text, "/workspace"));
    assert_non_null(strstr(text, "no network"));
    assert_non_null(strstr(text, "after 30 s"));
    assert_non_null(strstr(text, "at most 120 s"));
    assert_non_null(strstr(text, "512 MiB of memory"));
    assert_non_null(strstr(text, "64 MiB of files"));
    free(text);
    text = guidance(f, "there");
    assert_non_null(strstr(text, "below /data"));
    assert_non_null(strstr(text, "reach the network"));
    assert_non_null(strstr(text, "after 20 s"));
    assert_non_null(strstr(text, "256 MiB of memory, 1.5 of a CPU and 17 processes, and 32 MiB"));
    free(text);
    snprintf(f->config.settings.default_workspace, sizeof f->config.settings.default_workspace,
             "/srv/x");
    snprintf(f->config.settings.default_profile, sizeof f->config.settings.default_profile,
             "offline_readonly");
    renew(f);
    text = guidance(f, "");
    assert_non_null(strstr(text, "can be read but not changed"));
    assert_null(strstr(text, "MiB of files"));
    assert_null(strstr(text, "/srv"));
    free(text);
}

static void guidance_for_no_session_is_not_found(void **state)
{
    fixture *f = *state;
    Box__V1__GetGuidanceRequest r;
    box__v1__get_guidance_request__init(&r);
    r.session_id = harness_text("none");
    assert_int_equal(ask(f, CONTROL("GetGuidance"), &r.base, &harness_root, NULL),
                     BOX_SESSION_NOT_FOUND);
}

static void errors_are_listed_and_counted(void **state)
{
    fixture *f = *state;
    box_error err = {0};
    (void)box_fail(&err, BOX_QUOTA, "full");
    BOX_IGNORE(box_error_limit(&err, "x", 3, 3));
    for (int i = 1; i <= 4; i++)
        box_recent_add(box_policy_recent(f->policy), i == 2 ? "other" : "default", "/m",
                       i == 3 ? "s" : "", "req", i * INT64_C(1000000000), &err);
    Box__V1__ListErrorsRequest r;
    Box__V1__ListErrorsResponse *got = NULL;
    box__v1__list_errors_request__init(&r);
    assert_int_equal(ask(f, CONTROL("ListErrors"), &r.base, &harness_root, &got), BOX_NONE);
    assert_int_equal(got->n_errors, 3);
    assert_int_equal(got->errors[0]->occurred_at->seconds, 1);
    assert_string_equal(got->errors[1]->session_id, "s");
    assert_string_equal(got->errors[2]->reason, "QUOTA");
    assert_string_equal(got->errors[2]->message, "full");
    assert_string_equal(got->errors[2]->request_id, "req");
    assert_int_equal(got->errors[2]->n_metadata, 3);
    assert_string_equal(got->errors[2]->metadata[0]->key, "limit");
    assert_string_equal(got->errors[2]->metadata[0]->value, "x");
    harness_drop(got);
    r.page_size = 2;
    assert_int_equal(ask(f, CONTROL("ListErrors"), &r.base, &harness_root, &got), BOX_NONE);
    assert_int_equal(got->n_errors, 2);
    assert_int_equal(got->errors[1]->occurred_at->seconds, 4);
    harness_drop(got);
    r.page_size = 1000;
    r.session_id = harness_text("s");
    assert_int_equal(ask(f, CONTROL("ListErrors"), &r.base, &harness_root, &got), BOX_NONE);
    assert_int_equal(got->n_errors, 1);
    harness_drop(got);
    r.page_size = -1;
    assert_int_equal(ask(f, CONTROL("ListErrors"), &r.base, &harness_root, NULL), BOX_VALIDATION);
    Box__V1__GetStatusRequest status;
    Box__V1__GetStatusResponse *said = NULL;
    box__v1__get_status_request__init(&status);
    assert_int_equal(ask(f, CONTROL("GetStatus"), &status.base, &harness_root, &said), BOX_NONE);
    assert_int_equal(said->recent_error_count, 3);
    harness_drop(said);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_CONTROL(health_names_the_selected_backend),
        WITH_CONTROL(a_backend_without_isolation_is_called_unsafe),
        WITH_CONTROL(backends_are_listed_by_name_with_every_guarantee),
        WITH_CONTROL(one_backend_is_found_by_name_or_selection),
        WITH_CONTROL(backends_that_are_connecting_are_waited_for),
        WITH_CONTROL(a_backend_that_never_answers_is_not_waited_for_forever),
        WITH_CONTROL(a_caller_who_goes_while_they_connect_leaves_nothing),
        WITH_CONTROL(metrics_need_the_scope_of_the_whole_server),
        WITH_CONTROL(metrics_are_the_servers_numbers_as_text),
        WITH_CONTROL(a_page_without_room_is_an_error),
        WITH_CONTROL(status_counts_the_callers_tenant),
        WITH_CONTROL(whoami_tells_how_the_caller_was_recognised),
        WITH_CONTROL(initialize_changes_what_is_set_and_answers_all),
        WITH_CONTROL(a_wrong_initialize_changes_nothing),
        WITH_CONTROL(initialize_narrows_limits_and_admission),
        WITH_CONTROL(what_the_file_requires_stays_required),
        WITH_CONTROL(isolation_and_backend_host_exclude_each_other),
        WITH_CONTROL(initialize_sets_the_default_workspace),
        WITH_CONTROL(backend_host_is_refused_where_it_must_not_be),
        WITH_CONTROL(what_cannot_be_applied_does_not_hold),
        WITH_CONTROL(initialize_opens_the_gate_and_switches_sandboxes),
        WITH_CONTROL(shutdown_answers_and_then_tells_main),
        WITH_CONTROL(guidance_says_what_the_sandbox_can_do),
        WITH_CONTROL(guidance_for_no_session_is_not_found),
        WITH_CONTROL(errors_are_listed_and_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
