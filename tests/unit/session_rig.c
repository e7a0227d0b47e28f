#include "session_rig.h"

#include <dirent.h>
#include <unistd.h>

#include "base/alloc.h"
#include "temp_dir.h"

static int nothing(void *arg, box_error *err)
{
    (void)arg;
    (void)err;
    return 0;
}

/* Two loops, connected to the fake warden. */
static void begin(rig *r)
{
    box_error err = {0};
    box_backend_config backend = {.name = "namespace", .fd = r->warden.peer};
    r->warden.peer = -1;
    if (box_loops_new(2, 0, &r->loops, &err) < 0)
        abort();
    fake_loop_enter(box_loops_get(r->loops, 1));
    if (r->state[0] != '\0' && box_store_open(r->state, &r->store, &err) < 0)
        abort();
    box_sessions_config c = r->config;
    c.loops = r->loops;
    c.run_dir = r->dir;
    c.backends = &backend;
    c.n_backends = 1;
    c.store = r->store;
    if (box_sessions_new(&c, &r->all, &err) < 0)
        abort();
    rig_settle(r);
}

static void prepare(rig *r, const box_sessions_config *config)
{
    *r = (rig){0};
    fake_warden_init(&r->warden);
    (void)snprintf(r->dir, sizeof r->dir, "/tmp/box-run-XXXXXX");
    if (mkdtemp(r->dir) == NULL)
        abort();
    if (config != NULL)
        r->config = *config;
    r->config.instance = box_uid_new();
}

void rig_init(rig *r, const box_sessions_config *config)
{
    prepare(r, config);
    begin(r);
}

void rig_init_stored(rig *r, const box_sessions_config *config)
{
    box_error err;
    box_store *store;
    bool seeded;
    box_tenant t = {.id = "t"};
    box_token token = {.id = 1, .tenant = "t"};
    prepare(r, config);
    (void)snprintf(r->state, sizeof r->state, "/tmp/box-state-XXXXXX");
    if (mkdtemp(r->state) == NULL || box_store_open(r->state, &store, &err) < 0 ||
        box_store_seed(store, &t, &token, nothing, NULL, &seeded, &err) < 0)
        abort();
    box_store_close(store);
    r->config.wall_ns = fake_wall_ns;
    begin(r);
}

static void drained(void *arg)
{
    *(bool *)arg = true;
}

static void drain(rig *r)
{
    bool over = false;
    box_sessions_drain(r->all, drained, &over);
    for (int i = 0; i < 60 && !over; i++)
        rig_wait(r, BOX_SECOND);
    rig_wait(r, 30 * BOX_SECOND);
}

static void end(rig *r)
{
    box_sessions_free(r->all);
    box_loops_free(r->loops);
    box_store_close(r->store);
    r->store = NULL;
}

void rig_restart(rig *r, bool killed)
{
    if (!killed)
        drain(r);
    end(r);
    while (fake_warden_step(&r->warden)) /* the agents see it go */
        continue;
    fake_warden_reconnect(&r->warden);
    begin(r);
}

/* Persistent sessions would stay. */
static void delete_all(rig *r)
{
    box_session_info *infos;
    size_t n;
    bool more;
    const box_session_filter any = {0};
    box_session_list(r->all, "t", &any, 0, NULL, 1000, &infos, &n, &more);
    for (size_t i = 0; i < n; i++) {
        answer a = {0};
        box_session_delete(r->all, "t", infos[i].id, true, answer_done, &a);
        rig_wait(r, 2 * BOX_SECOND);
        answer_free(&a);
    }
    box_session_list_free(infos, n);
}

void rig_done(rig *r)
{
    if (r->store != NULL)
        delete_all(r);
    drain(r);
    end(r);
    fake_warden_done(&r->warden);
    if (r->state[0] != '\0')
        temp_dir_remove_path(r->state);
    if (rmdir(r->dir) < 0)
        abort(); /* a socket was left behind */
}

int rig_set_up(void **state)
{
    rig *r = calloc(1, sizeof *r);
    rig_init(r, NULL);
    *state = r;
    return 0;
}

int rig_tear_down(void **state)
{
    rig_done(*state);
    free(*state);
    return 0;
}

void rig_settle(rig *r)
{
    int quiet = 0;
    while (quiet < 2) {
        bool any = fake_loops_turn(r->loops);
        any |= fake_warden_step(&r->warden);
        quiet = any ? 0 : quiet + 1;
    }
}

void rig_wait(rig *r, uint64_t ns)
{
    rig_settle(r);
    while (ns > 0) {
        uint64_t step = ns < BOX_SECOND ? ns : BOX_SECOND;
        fake_time_advance(step);
        rig_settle(r);
        ns -= step;
    }
}

/* --- commands --------------------------------------------------------------------------------- */

static void on_started(void *arg, const box_exec_started *s)
{
    outcome *o = arg;
    o->started = true;
    (void)snprintf(o->session, sizeof o->session, "%s", s->session->id);
}

static void on_output(void *arg, int stream, const uint8_t *data, size_t len)
{
    outcome *o = arg;
    (void)data;
    (void)stream;
    o->streamed += len;
}

static bool on_writable(void *arg)
{
    outcome *o = arg;
    return o->streamed < o->may_stream;
}

static void on_room(void *arg)
{
    outcome *o = arg;
    o->room++;
}

static size_t keep(char *to, size_t room, const box_output *out)
{
    size_t n = out->head.len < room - 1 ? out->head.len : room - 1;
    if (n > 0)
        memcpy(to, out->head.data, n);
    size_t tail = out->tail.len < room - 1 - n ? out->tail.len : room - 1 - n;
    if (tail > 0)
        memcpy(to + n, out->tail.data, tail);
    to[n + tail] = '\0';
    return n + tail;
}

static void on_done(void *arg, const box_verdict *v, const box_error *err)
{
    outcome *o = arg;
    if (o->done)
        abort();
    o->done = true;
    if (err != NULL) {
        o->error = *err;
        return;
    }
    o->verdict = *v;
    o->created = v->session->created;
    o->rebuilds = v->session->rebuilds;
    (void)snprintf(o->limit, sizeof o->limit, "%s", v->limit);
    o->out_len = keep(o->out, sizeof o->out, &v->output[0]);
    o->err_len = keep(o->err, sizeof o->err, &v->output[1]);
    o->dropped[0] = v->output[0].dropped_bytes;
    o->dropped[1] = v->output[1].dropped_bytes;
    o->verdict.session = NULL;
    o->verdict.limit = o->verdict.detail = NULL;
}

void rig_start(rig *g, outcome *o, const char *session, const char *text, const box_exec_request *r,
               const box_command *c)
{
    static const box_exec_events events = {.started = on_started,
                                           .output = on_output,
                                           .writable = on_writable,
                                           .stdin_room = on_room,
                                           .done = on_done};
    size_t may_stream = o->may_stream;
    *o = (outcome){.rig = g, .may_stream = may_stream};
    char words[4][64] = {{0}};
    const char *argv[4];
    int n = sscanf(text, "%63s %63s %63s %63s", words[0], words[1], words[2], words[3]);
    for (int i = 0; i < n; i++)
        argv[i] = words[i];
    box_command command = c != NULL ? *c : (box_command){0};
    if (command.shell_command == NULL && command.argc == 0) {
        command.argv = argv;
        command.argc = (size_t)(n > 0 ? n : 0);
    }
    box_exec_request request = r != NULL ? *r : (box_exec_request){0};
    request.tenant = request.tenant != NULL ? request.tenant : "t";
    request.session_id = session != NULL ? session : "";
    request.command = &command;
    if (box_exec_start(g->all, &request, &events, o, &o->exec, &o->error) < 0)
        o->done = true;
}

void rig_exec(rig *g, outcome *o, const char *session, const char *text)
{
    rig_start(g, o, session, text, NULL, NULL);
    rig_settle(g);
}

void outcome_free(outcome *o)
{
    if (o->exec == NULL)
        return;
    if (o->done)
        box_exec_free(o->exec);
    else
        box_exec_cancel(o->exec);
    o->exec = NULL;
}

/* --- answers ---------------------------------------------------------------------------------- */

void answer_done(void *arg, const box_session_info *info, const box_error *err)
{
    answer *a = arg;
    a->count++;
    if (err != NULL)
        a->error = *err;
    if (info == NULL)
        return;
    if (a->has_info)
        box_session_info_done(&a->info);
    a->info = *info;
    a->info.id = box_strdup(info->id);
    a->info.tenant = box_strdup(info->tenant);
    a->info.backend = box_strdup(info->backend);
    box_spec_copy_but_env(&a->info.spec, &info->spec);
    box_spec_set_env_names(&a->info.spec, info->spec.env, info->spec.n_env);
    a->has_info = true;
}

void answer_free(answer *a)
{
    if (a->has_info)
        box_session_info_done(&a->info);
    *a = (answer){0};
}

void rig_create(rig *g, answer *a, const char *id, const box_spec *spec)
{
    *a = (answer){0};
    box_create_request r = {.tenant = "t", .id = id, .spec = spec};
    box_session_create(g->all, &r, answer_done, a);
    rig_settle(g);
}
