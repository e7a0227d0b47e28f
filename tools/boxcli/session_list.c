#include "session_list.h"

#include "args.h"
#include "base/alloc.h"
#include "base/limits.h"
#include "box/v1/session.client.h"
#include "session_view.h"
#include "spec.h"

enum { OPT_LABEL = 0x400, OPT_STATE, OPT_IDS };

typedef struct list_args {
    cli_words words;
    Box__V1__ListSessionsRequest request; /* its filters */
    bool ids;
} list_args;

static Box__V1__SessionState parse_state(struct argp_state *state, const char *text)
{
    const ProtobufCEnumDescriptor *type = &box__v1__session_state__descriptor;
    for (unsigned i = 0; i < type->n_values; i++) {
        Box__V1__SessionState value = (Box__V1__SessionState)type->values[i].value;
        if (value != BOX__V1__SESSION_STATE__SESSION_STATE_UNSPECIFIED &&
            strcasecmp(cli_session_state(value), text) == 0)
            return value;
    }
    argp_error(state, "--state %s: expected running, stopped, error, created, starting or stopping",
               text);
    return BOX__V1__SESSION_STATE__SESSION_STATE_UNSPECIFIED;
}

static void add_state(Box__V1__ListSessionsRequest *r, Box__V1__SessionState value)
{
    Box__V1__SessionState *grown = box_alloc_array(r->n_states + 1, sizeof *grown);
    if (r->n_states > 0)
        memcpy(grown, r->states, r->n_states * sizeof *grown);
    grown[r->n_states++] = value;
    free(r->states);
    r->states = grown;
}

static error_t parse_list(int key, char *arg, struct argp_state *state)
{
    list_args *a = state->input;
    switch (key) {
    case OPT_LABEL:
        CLI_MAP_ADD(&a->request.n_labels, &a->request.labels,
                    Box__V1__ListSessionsRequest__LabelsEntry,
                    box__v1__list_sessions_request__labels_entry__init, state, arg);
        return 0;
    case OPT_STATE:
        add_state(&a->request, parse_state(state, arg));
        return 0;
    case OPT_IDS:
        a->ids = true;
        return 0;
    default:
        return cli_words_take(&a->words, key, arg, state);
    }
}

static int print_page(const cli *c, const list_args *a, const Box__V1__ListSessionsResponse *r)
{
    if (c->json)
        return cli_print_json(c, &r->base);
    for (size_t i = 0; i < r->n_sessions; i++) {
        if (a->ids)
            puts(cli_clean(r->sessions[i]->session_id));
        else
            cli_session_line(r->sessions[i]);
    }
    return CLI_OK;
}

/* With --json one message a page. */
static int list_page(cli *c, void *arg, char *token, char **next)
{
    list_args *a = arg;
    box_error err;
    BOX_AUTO(cli_message_freep) Box__V1__ListSessionsResponse *r = NULL;
    a->request.page_size = BOX_MAX_PAGE;
    a->request.page_token = token;
    box_client_options o = cli_options(c);
    if (box_v1_session_service_list_sessions(c->channel, &o, &a->request, &r, &err) < 0)
        return cli_fail(c, &err);
    *next = box_strdup(r->next_page_token);
    return print_page(c, a, r);
}

static int list_pages(cli *c, list_args *a)
{
    if (cli_connect(c) < 0)
        return CLI_FAILED;
    if (!a->ids)
        cli_session_heading(c);
    return cli_pages(c, list_page, a);
}

int cli_session_list(cli *c, int argc, char **argv)
{
    static const struct argp_option options[] = {
        {.name = "label",
         .key = OPT_LABEL,
         .arg = "K=V",
         .doc = "only with this label; may be repeated"},
        {.name = "state",
         .key = OPT_STATE,
         .arg = "STATE",
         .doc = "only in this state; may be repeated"},
        {.name = "ids", .key = OPT_IDS, .doc = "print ids alone, one a line"},
        {0},
    };
    const struct argp parser = {
        .options = options, .parser = parse_list, .doc = "Lists your tenant's sessions."};
    list_args a = {0};
    box__v1__list_sessions_request__init(&a.request);
    cli_parse(&parser, argc, argv, &a);
    int code = list_pages(c, &a);
    for (size_t i = 0; i < a.request.n_labels; i++)
        cli_message_free(a.request.labels[i]);
    free(a.request.labels);
    free(a.request.states);
    return code;
}
