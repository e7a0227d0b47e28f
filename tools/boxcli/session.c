/* boxcli session create|get|list|update|extend|stop|delete|watch. */
#include <errno.h>

#include "args.h"
#include "base/alloc.h"
#include "base/config.h"
#include "box/v1/session.client.h"
#include "session_list.h"
#include "session_view.h"
#include "spec.h"

enum { MAX_PATHS = 64 };

/* A message's answer in the form asked for. */
static int show(const cli *c, const ProtobufCMessage *response, const Box__V1__Session *session)
{
    if (c->json)
        return cli_print_json(c, response);
    if (session != NULL)
        cli_session_print(session);
    return CLI_OK;
}

typedef struct create_args {
    cli_words words;
    cli_spec_args spec;
    const char *idempotency_key;
} create_args;

enum { OPT_IDEMPOTENCY = 0x400, OPT_MISSING };

static const struct argp_child spec_children[] = {{.argp = &cli_spec_argp}, {0}};

static error_t parse_create(int key, char *arg, struct argp_state *state)
{
    create_args *a = state->input;
    if (key == ARGP_KEY_INIT)
        state->child_inputs[0] = &a->spec;
    if (key == OPT_IDEMPOTENCY)
        a->idempotency_key = arg;
    if (key == ARGP_KEY_INIT || key == OPT_IDEMPOTENCY)
        return 0;
    return cli_words_take(&a->words, key, arg, state);
}

static int create(cli *c, int argc, char **argv)
{
    static const struct argp_option options[] = {
        {.name = "idempotency-key",
         .key = OPT_IDEMPOTENCY,
         .arg = "KEY",
         .doc = "a repeated call has no second effect"},
        {0},
    };
    const struct argp parser = {.options = options,
                                .parser = parse_create,
                                .args_doc = "[SESSION]",
                                .doc = "Makes a session, or finds a compatible one of that id.",
                                .children = spec_children};
    box_error err;
    create_args a = {.words = {.max = 1}};
    cli_parse(&parser, argc, argv, &a);
    Box__V1__CreateSessionRequest request;
    box__v1__create_session_request__init(&request);
    BOX_AUTO(cli_message_freep) Box__V1__SessionSpec *spec = a.spec.spec;
    BOX_AUTO(cli_message_freep) Box__V1__CreateSessionResponse *r = NULL;
    request.session_id = a.words.count > 0 ? a.words.word[0] : request.session_id;
    request.spec = spec;
    if (a.idempotency_key != NULL)
        request.idempotency_key = (char *)(uintptr_t)a.idempotency_key;
    if (cli_connect(c) < 0)
        return CLI_FAILED;
    box_client_options o = cli_options(c);
    if (box_v1_session_service_create_session(c->channel, &o, &request, &r, &err) < 0)
        return cli_fail(c, &err);
    return show(c, &r->base, r->session);
}

/* The one word that most commands take. */
static char *session_word(int argc, char **argv, const char *summary)
{
    cli_words words = {.doc = "SESSION", .summary = summary, .min = 1, .max = 1};
    cli_parse_words(&words, argc, argv);
    return words.word[0];
}

static int get(cli *c, int argc, char **argv)
{
    box_error err;
    Box__V1__GetSessionRequest request;
    box__v1__get_session_request__init(&request);
    BOX_AUTO(cli_message_freep) Box__V1__GetSessionResponse *r = NULL;
    request.session_id = session_word(argc, argv, "Shows one session.");
    if (cli_connect(c) < 0)
        return CLI_FAILED;
    box_client_options o = cli_options(c);
    if (box_v1_session_service_get_session(c->channel, &o, &request, &r, &err) < 0)
        return cli_fail(c, &err);
    return show(c, &r->base, r->session);
}

static bool is_set(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *f)
{
    const char *base = (const char *)message;
    const void *value = base + f->offset;
    if (f->label == PROTOBUF_C_LABEL_REPEATED)
        return *(const size_t *)(const void *)(base + f->quantifier_offset) > 0;
    if ((f->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) != 0)
        return *(const uint32_t *)(const void *)(base + f->quantifier_offset) == f->id;
    if (f->type == PROTOBUF_C_TYPE_MESSAGE)
        return *(void *const *)value != NULL;
    if (f->type == PROTOBUF_C_TYPE_STRING)
        return **(char *const *)value != '\0';
    return f->type == PROTOBUF_C_TYPE_ENUM && *(const int *)value != 0;
}

/* Whatever the options set is the mask. */
static size_t mask_of(const Box__V1__SessionSpec *spec, char *paths[MAX_PATHS])
{
    const ProtobufCMessageDescriptor *type = spec->base.descriptor;
    size_t n = 0;
    for (unsigned i = 0; i < type->n_fields && n < MAX_PATHS; i++) {
        if (is_set(&spec->base, &type->fields[i]))
            paths[n++] = (char *)(uintptr_t)type->fields[i].name;
    }
    return n;
}

static int update(cli *c, int argc, char **argv)
{
    static const struct argp_child children[] = {{.argp = &cli_live_argp}, {0}};
    const struct argp parser = {.parser = parse_create,
                                .args_doc = "SESSION",
                                .doc = "Changes a live session. Labels are replaced as a whole.",
                                .children = children};
    box_error err;
    create_args a = {.words = {.doc = "SESSION", .min = 1, .max = 1}};
    cli_parse(&parser, argc, argv, &a);
    BOX_AUTO(cli_message_freep) Box__V1__SessionSpec *spec = a.spec.spec;
    BOX_AUTO(cli_message_freep) Box__V1__UpdateSessionResponse *r = NULL;
    Box__V1__UpdateSessionRequest request;
    box__v1__update_session_request__init(&request);
    Google__Protobuf__FieldMask mask;
    google__protobuf__field_mask__init(&mask);
    char *paths[MAX_PATHS];
    mask.paths = paths;
    mask.n_paths = spec != NULL ? mask_of(spec, paths) : 0;
    request.session_id = a.words.word[0];
    request.spec = spec;
    request.update_mask = &mask;
    if (cli_connect(c) < 0)
        return CLI_FAILED;
    box_client_options o = cli_options(c);
    if (box_v1_session_service_update_session(c->channel, &o, &request, &r, &err) < 0)
        return cli_fail(c, &err);
    if (!c->json)
        cli_print_adjustments(r->adjustments, r->n_adjustments);
    return show(c, &r->base, r->session);
}

static error_t parse_extend(int key, char *arg, struct argp_state *state)
{
    return cli_words_take(state->input, key, arg, state);
}

static int extend(cli *c, int argc, char **argv)
{
    const struct argp parser = {
        .parser = parse_extend,
        .args_doc = "SESSION [TIME]",
        .doc = "Puts a session's idle end off: it lives at least TIME from now."};
    box_error err;
    uint64_t ns = 0;
    cli_words words = {.doc = "SESSION [TIME]", .min = 1, .max = 2};
    cli_parse(&parser, argc, argv, &words);
    if (words.count > 1 && box_parse_duration(words.word[1], &ns, &err) < 0) {
        fprintf(stderr, "boxcli: %s: %s\n", words.word[1], err.msg);
        return CLI_MISUSED;
    }
    Box__V1__ExtendSessionRequest request;
    box__v1__extend_session_request__init(&request);
    BOX_AUTO(cli_message_freep) Box__V1__ExtendSessionResponse *r = NULL;
    BOX_AUTO(box_freep)
    Google__Protobuf__Duration *duration = words.count > 1 ? cli_duration_message(ns) : NULL;
    request.session_id = words.word[0];
    request.duration = duration;
    if (cli_connect(c) < 0)
        return CLI_FAILED;
    box_client_options o = cli_options(c);
    if (box_v1_session_service_extend_session(c->channel, &o, &request, &r, &err) < 0)
        return cli_fail(c, &err);
    return show(c, &r->base, r->session);
}

static int stop(cli *c, int argc, char **argv)
{
    box_error err;
    Box__V1__StopSessionRequest request;
    box__v1__stop_session_request__init(&request);
    BOX_AUTO(cli_message_freep) Box__V1__StopSessionResponse *r = NULL;
    request.session_id =
        session_word(argc, argv, "Ends a session's sandbox; a record stays for an hour.");
    if (cli_connect(c) < 0)
        return CLI_FAILED;
    box_client_options o = cli_options(c);
    if (box_v1_session_service_stop_session(c->channel, &o, &request, &r, &err) < 0)
        return cli_fail(c, &err);
    return show(c, &r->base, r->session);
}

typedef struct delete_args {
    cli_words words;
    bool allow_missing;
} delete_args;

static error_t parse_delete(int key, char *arg, struct argp_state *state)
{
    delete_args *a = state->input;
    if (key != OPT_MISSING)
        return cli_words_take(&a->words, key, arg, state);
    a->allow_missing = true;
    return 0;
}

static int delete_session(cli *c, int argc, char **argv)
{
    static const struct argp_option options[] = {
        {.name = "allow-missing", .key = OPT_MISSING, .doc = "one that does not exist is no error"},
        {0},
    };
    const struct argp parser = {.options = options,
                                .parser = parse_delete,
                                .args_doc = "SESSION",
                                .doc = "Ends a session and forgets it."};
    box_error err;
    delete_args a = {.words = {.doc = "SESSION", .min = 1, .max = 1}};
    cli_parse(&parser, argc, argv, &a);
    Box__V1__DeleteSessionRequest request;
    box__v1__delete_session_request__init(&request);
    BOX_AUTO(cli_message_freep) Box__V1__DeleteSessionResponse *r = NULL;
    request.session_id = a.words.word[0];
    request.allow_missing = a.allow_missing;
    if (cli_connect(c) < 0)
        return CLI_FAILED;
    box_client_options o = cli_options(c);
    if (box_v1_session_service_delete_session(c->channel, &o, &request, &r, &err) < 0)
        return cli_fail(c, &err);
    return show(c, &r->base, NULL);
}

static int watch(cli *c, int argc, char **argv)
{
    cli_words words = {
        .doc = "[SESSION]", .summary = "Prints what happens to sessions, until Ctrl-C.", .max = 1};
    cli_parse_words(&words, argc, argv);
    Box__V1__WatchSessionsRequest request;
    box__v1__watch_sessions_request__init(&request);
    Box__V1__WatchSessionsResponse *event;
    box_client_call *call;
    box_error err;
    int rc;
    request.include_existing = true;
    if (words.count > 0)
        request.session_id = words.word[0];
    if (cli_connect(c) < 0)
        return CLI_FAILED;
    box_client_options o = cli_options(c);
    o.timeout_ns = 0;
    if (box_v1_session_service_watch_sessions(c->channel, &o, &request, &call, &err) < 0)
        return cli_fail(c, &err);
    while ((rc = box_v1_session_service_watch_sessions_receive(call, &event, &err)) == 1) {
        if (c->json)
            (void)cli_print_json(c, &event->base);
        else
            cli_session_event(event);
        cli_message_free(event);
        if (fflush(stdout) != 0) {
            c->output_errno = errno;
            break;
        }
    }
    box_client_free(call);
    return rc < 0 ? cli_fail(c, &err) : CLI_OK;
}

const cli_command cli_session_commands[] = {
    {"session", "create", "make a session", create},
    {"session", "get", "show a session", get},
    {"session", "list", "list your sessions", cli_session_list},
    {"session", "update", "change limits or labels", update},
    {"session", "extend", "put the idle end off", extend},
    {"session", "stop", "end the sandbox, keep a record", stop},
    {"session", "delete", "end and forget a session", delete_session},
    {"session", "watch", "follow what happens", watch},
    {0},
};
