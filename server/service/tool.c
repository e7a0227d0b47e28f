#include "service/tool.h"

#include "base/alloc.h"
#include "base/limits.h"
#include "box/v1/tool.box.h"
#include "loop/loop.h"
#include "policy/identity.h"
#include "service/exec_convert.h"
#include "tool/json.h"

static const box_toolbox *toolbox_of(const box_call *call)
{
    return box_call_context(call);
}

static char *text(const char *s)
{
    return (char *)(uintptr_t)s; /* only packed */
}

static uint32_t scope_of(const box_tool *t)
{
    static const uint32_t scopes[] = {[BOX_TOOL_RUNS] = BOX_SCOPE_EXEC_WRITE,
                                      [BOX_TOOL_READS] = BOX_SCOPE_FILE_READ,
                                      [BOX_TOOL_WRITES] = BOX_SCOPE_FILE_WRITE};
    return scopes[t->need];
}

/* --- ListTools -------------------------------------------------------------------------------- */

typedef struct tool_view {
    Box__V1__Tool message;
    Google__Protobuf__Duration timeout;
    char *definition; /* owned */
} tool_view;

static void view_tool(tool_view *v, const box_tools *tools, const box_tool *t,
                      const box_tool_setting *setting)
{
    bool described = setting != NULL && setting->description[0] != '\0';
    const char *description = described ? setting->description : t->description;
    box__v1__tool__init(&v->message);
    v->definition = box_tools_definition(tools, t, description);
    v->message.name = text(t->name);
    v->message.description = text(description);
    if (setting != NULL && setting->timeout_ns > 0)
        v->message.timeout = box_times_span(&v->timeout, setting->timeout_ns);
    v->message.parameters_json = text(t->parameters);
    v->message.definition_json = v->definition;
    v->message.read_only = t->need == BOX_TOOL_READS;
}

/* Those of the session that the caller's scopes let it call. */
static size_t view_tools(tool_view *views, const box_tools *tools, const box_identity *who,
                         const box_tool_choice *choice)
{
    size_t n = 0;
    for (size_t i = 0; i < box_tools_count(tools); i++) {
        const box_tool *t = box_tools_at(tools, i);
        if ((scope_of(t) & ~who->scopes) == 0 && box_tool_choice_has(choice, t->name))
            view_tool(&views[n++], tools, t, box_tool_choice_setting(choice, t->name));
    }
    return n;
}

static int list_tools(box_call *call, const Box__V1__ListToolsRequest *r, box_error *err)
{
    const box_toolbox *box = toolbox_of(call);
    const box_identity *who = box_call_identity(call);
    BOX_AUTO(box_session_info_done) box_session_info info = {.spec = {.tools = {.all = true}}};
    if (who == NULL)
        return box_fail(err, BOX_UNAUTHENTICATED, "this call needs a known caller");
    if (r->session_id[0] != '\0' &&
        box_session_get(box->sessions, who->tenant, r->session_id, &info, err) < 0)
        return -1;
    tool_view views[BOX_MAX_TOOLS] = {0};
    Box__V1__Tool *pointers[BOX_MAX_TOOLS];
    Box__V1__ListToolsResponse response;
    box__v1__list_tools_response__init(&response);
    response.n_tools = view_tools(views, box->tools, who, &info.spec.tools);
    for (size_t i = 0; i < response.n_tools; i++)
        pointers[i] = &views[i].message;
    response.tools = pointers;
    box_v1_tool_service_list_tools_answer(call, &response);
    for (size_t i = 0; i < response.n_tools; i++)
        free(views[i].definition);
    return 0;
}

/* --- CallTool --------------------------------------------------------------------------------- */

/* One CallTool; lives until its call's end. */
typedef struct tool_call {
    box_call *call; /* a reference */
    const box_tool *tool;
    box_tool_run *run; /* NULL before it started and once it is over */
    char call_id[BOX_MAX_CALL_ID_BYTES + 1];
    char session_id[BOX_MAX_ID_BYTES + 1];
} tool_call;

static void call_ended(box_call *call, void *arg, const box_error *why)
{
    (void)why;
    tool_call *c = arg;
    box_tool_cancel(c->run);
    free(c);
    box_call_unref(call);
}

typedef struct metadata_view {
    Box__V1__CallToolResponse__MetadataEntry entries[2];
    Box__V1__CallToolResponse__MetadataEntry *pointers[2];
    char timeout[64];
} metadata_view;

static void add_metadata(Box__V1__CallToolResponse *m, metadata_view *v, const char *key,
                         const char *value)
{
    Box__V1__CallToolResponse__MetadataEntry *e = &v->entries[m->n_metadata];
    box__v1__call_tool_response__metadata_entry__init(e);
    e->key = text(key);
    e->value = text(value);
    v->pointers[m->n_metadata++] = e;
    m->metadata = v->pointers;
}

static void view_facts(Box__V1__CallToolResponse *m, metadata_view *v, const box_tool_result *r)
{
    if (r->session != NULL) {
        m->session_id = text(r->session->one_off ? "" : r->session->id);
        m->session_created = r->session->created;
        add_metadata(m, v, "backend", r->session->backend);
    }
    if (r->verdict != NULL && r->verdict->timeout_clamped) {
        (void)snprintf(v->timeout, sizeof v->timeout, "%.9gs (profile.max_timeout)",
                       (double)r->verdict->timeout_ns / (double)BOX_SECOND);
        add_metadata(m, v, "timeout", v->timeout);
    }
}

static void answer(const tool_call *c, const box_tool_result *r)
{
    Box__V1__CallToolResponse m;
    Google__Protobuf__Timestamp finished;
    Google__Protobuf__Duration took;
    box_verdict_view verdict;
    metadata_view metadata;
    box__v1__call_tool_response__init(&m);
    BOX_AUTO(box_freep) char *json = box_json_print(r->json);
    m.tool = text(c->tool->name);
    m.call_id = text(c->call_id);
    m.session_id = text(c->session_id);        /* of one that is used; a made one says so itself */
    m.status = (Box__V1__ToolStatus)r->status; /* the same numbers: asserted in the test */
    m.result_json = json;
    m.output = text(r->output);
    m.output_truncated = r->output_truncated;
    m.error = text(r->error);
    view_facts(&m, &metadata, r);
    m.finished_at = box_times_stamp(&finished, box_wall_ns());
    if (r->verdict != NULL) {
        box_view_verdict(&verdict, r->verdict, true);
        m.verdict = &verdict.message;
        m.execution_time = box_times_span(&took, r->verdict->wall_ns);
    }
    box_v1_tool_service_call_tool_answer(c->call, &m);
}

static void call_done(void *arg, const box_tool_result *result, const box_error *err)
{
    tool_call *c = arg;
    box_call *call = box_call_ref(c->call);
    c->run = NULL;
    if (err != NULL)
        box_call_finish(call, err); /* frees c */
    else
        answer(c, result);
    box_call_unref(call);
}

/* The tool, when there is one and the caller may use it. */
static int find_tool(const box_toolbox *box, const box_identity *who, const char *name,
                     const box_tool **out, box_error *err)
{
    *out = box_tools_find(box->tools, name);
    if (*out == NULL)
        return box_violation(err, "tool", "there is no such tool: see ListTools");
    uint32_t scope = scope_of(*out);
    if ((scope & ~who->scopes) == 0)
        return 0;
    (void)box_fail(err, BOX_PERMISSION, "the tool %s needs a token with scope %s", name,
                   box_scope_name(scope));
    box_error_add(err, "rule", "scope");
    box_error_add(err, "scope", box_scope_name(scope));
    return -1;
}

/* One that vanished is rebuilt as it was; any other end begins anew. */
static bool lives(const box_session_info *info)
{
    return info->state != BOX_SESSION_STOPPED &&
           (info->state != BOX_SESSION_ERROR || info->stop_reason == BOX_STOP_LOST);
}

/* Does the session offer the tool, and how? One that is yet to be made, or made again, is what the
 * request says. */
static int check_choice(const box_toolbox *box, const box_tool *t, const box_tool_request *r,
                        uint64_t *timeout_ns, box_error *err)
{
    static const box_tool_choice all = {.all = true};
    BOX_AUTO(box_session_info_done) box_session_info info = {0};
    box_error none = {0};
    bool asks = r->spec != NULL && (r->spec->set & BOX_SPEC_TOOLS) != 0;
    const box_tool_choice *choice = asks ? &r->spec->tools : &all;
    if (r->session_id[0] != '\0' &&
        box_session_get(box->sessions, r->tenant, r->session_id, &info, &none) == 0 && lives(&info))
        choice = &info.spec.tools;
    const box_tool_setting *setting = box_tool_choice_setting(choice, t->name);
    *timeout_ns = setting != NULL ? setting->timeout_ns : 0;
    if (box_tool_choice_has(choice, t->name))
        return 0;
    (void)box_fail(err, BOX_PERMISSION, "the session does not offer the tool %s: see ListTools",
                   t->name);
    box_error_add(err, "rule", "session.tools");
    return -1;
}

static int take_timeout(const Google__Protobuf__Duration *d, uint64_t *out_ns, box_error *err)
{
    int64_t ns = 0;
    if (d == NULL)
        return 0;
    if (box_convert_span(d, "timeout", &ns, err) < 0)
        return -1;
    if (ns == 0)
        return box_violation(err, "timeout", "must be greater than 0");
    *out_ns = (uint64_t)ns;
    return 0;
}

/* What only a tool that makes its session can be given. */
static int check_session(const box_tool *t, const Box__V1__CallToolRequest *r, box_error *err)
{
    int bad = 0;
    if (t->makes_session)
        return 0;
    if (r->session_id[0] == '\0')
        bad |= box_violation(err, "session_id", "the tool %s needs a session", t->name);
    if (r->spec != NULL)
        bad |= box_violation(err, "spec", "the tool %s makes no session", t->name);
    if (r->idempotency_key[0] != '\0')
        bad |= box_violation(err, "idempotency_key", "the tool %s has none", t->name);
    return bad;
}

static int take_arguments(const char *json, json_t **out, box_error *err)
{
    const char *given = json[0] != '\0' ? json : "{}";
    return box_json_object(given, strlen(given), "arguments_json", out, err);
}

/* arguments: NULL when err says what is wrong with them. */
static int start(tool_call *c, const Box__V1__CallToolRequest *r, const box_identity *who,
                 const json_t *arguments, box_error *err)
{
    const box_toolbox *box = toolbox_of(c->call);
    uint8_t digest[32];
    BOX_AUTO(box_spec_done) box_spec spec = {0};
    box_tool_request request = {.sessions = box->sessions,
                                .tenant = who->tenant,
                                .session_id = r->session_id,
                                .spec = r->spec != NULL ? &spec : NULL,
                                .arguments = arguments,
                                .idempotency_key = r->idempotency_key,
                                .digest = digest};
    if (find_tool(box, who, r->tool, &c->tool, err) < 0)
        return -1;
    int bad = arguments == NULL ? -1 : 0;
    bad |= check_session(c->tool, r, err);
    bad |= take_timeout(r->timeout, &request.timeout_ns, err);
    bad |= box_convert_spec(r->spec, &spec, err);
    if (strlen(r->call_id) >= sizeof c->call_id)
        bad |= box_violation(err, "call_id", "longer than %d bytes", BOX_MAX_CALL_ID_BYTES);
    if (bad != 0) {
        BOX_IGNORE(box_session_check(r->session_id, &spec, err)); /* the other violations too */
        return -1;
    }
    if (check_choice(box, c->tool, &request, &request.default_timeout_ns, err) < 0)
        return -1;
    (void)snprintf(c->call_id, sizeof c->call_id, "%s", r->call_id);
    (void)snprintf(c->session_id, sizeof c->session_id, "%s", r->session_id);
    if (r->idempotency_key[0] != '\0')
        box_convert_digest(&r->base, digest);
    return box_tools_start(box->tools, c->tool, &request, call_done, c, &c->run, err);
}

static int start_call(box_call *call, const Box__V1__CallToolRequest *r, const box_identity *who,
                      const json_t *arguments, box_error *err)
{
    tool_call *c = box_alloc(sizeof *c);
    c->call = box_call_ref(call);
    if (start(c, r, who, arguments, err) < 0) {
        free(c);
        box_call_unref(call);
        return -1;
    }
    box_call_on_end(call, call_ended, c);
    return 0;
}

/* --- long arguments, read by a worker --------------------------------------------------------- */

typedef struct reading {
    box_call *call;   /* a reference */
    box_identity who; /* a copy: the call may end meanwhile */
    size_t len;
    uint8_t *packed; /* the request: its own memory goes when its handler returns */
    Box__V1__CallToolRequest *request;
    json_t *arguments; /* NULL: err says why */
    box_error err;
} reading;

static void reading_freep(reading **j)
{
    if (*j == NULL)
        return;
    if ((*j)->request != NULL)
        box__v1__call_tool_request__free_unpacked((*j)->request, NULL);
    json_decref((*j)->arguments);
    box_call_unref((*j)->call);
    free((*j)->packed);
    free(*j);
}

BOX_WORKER static void read_run(void *arg)
{
    reading *j = arg; /* ours until read_done */
    j->request = box__v1__call_tool_request__unpack(NULL, j->len, j->packed);
    if (j->request == NULL)
        abort(); /* only without memory: we packed it */
    BOX_IGNORE(take_arguments(j->request->arguments_json, &j->arguments, &j->err)); /* err says */
}

BOX_LOOP static void read_done(void *arg)
{
    BOX_AUTO(reading_freep) reading *j = arg;
    if (!box_call_is_open(j->call))
        return;
    if (start_call(j->call, j->request, &j->who, j->arguments, &j->err) < 0)
        box_call_finish(j->call, &j->err);
}

static int read_later(box_call *call, const Box__V1__CallToolRequest *r, const box_identity *who,
                      box_error *err)
{
    BOX_AUTO(reading_freep) reading *j = box_alloc(sizeof *j);
    j->call = box_call_ref(call);
    j->who = *who;
    j->packed = box_alloc(box__v1__call_tool_request__get_packed_size(r));
    j->len = box__v1__call_tool_request__pack(r, j->packed);
    if (box_loop_offload(box_loop_current(), read_run, read_done, j, err) < 0)
        return -1;
    j = NULL;
    return 0;
}

static int call_tool(box_call *call, const Box__V1__CallToolRequest *r, box_error *err)
{
    const box_identity *who = box_call_identity(call);
    BOX_AUTO(box_json_freep) json_t *arguments = NULL;
    if (who == NULL)
        return box_fail(err, BOX_UNAUTHENTICATED, "this call needs a known caller");
    if (strlen(r->arguments_json) > BOX_TOOL_JSON_LOOP_BYTES)
        return read_later(call, r, who, err);
    BOX_IGNORE(take_arguments(r->arguments_json, &arguments, err)); /* err says why it is NULL */
    return start_call(call, r, who, arguments, err);
}

static const box_v1_tool_service_handlers handlers = {
    .list_tools = list_tools,
    .call_tool = call_tool,
};

box_service box_tool_service(box_toolbox *toolbox)
{
    return (box_service){.type = &box_v1_tool_service, .handlers = &handlers, .context = toolbox};
}
