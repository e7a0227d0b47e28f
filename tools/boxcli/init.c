/* boxcli init: changes the server's settings, and lets tenants in where it waits for that. */
#include "args.h"
#include "box/v1/control.client.h"
#include "box/v1/control.fields.h"

enum {
    OPT_BACKEND = 0x600,
    OPT_PROFILE,
    OPT_IMAGE,
    OPT_MEMORY,
    OPT_ENABLE,
    OPT_DISABLE,
};

static const struct argp_option options[] = {
    {.name = "backend",
     .key = OPT_BACKEND,
     .arg = "NAME",
     .doc = "of sessions that name none: auto, namespace..."},
    {.name = "default-profile",
     .key = OPT_PROFILE,
     .arg = "NAME",
     .doc = "profile of sessions that name none"},
    {.name = "image",
     .key = OPT_IMAGE,
     .arg = "NAME",
     .doc = "of sessions that name none (not built yet)"},
    {.name = "default-memory",
     .key = OPT_MEMORY,
     .arg = "SIZE",
     .doc = "of sessions that name none; 0: the profile's"},
    {.name = "enable", .key = OPT_ENABLE, .doc = "take calls that use sandboxes"},
    {.name = "disable", .key = OPT_DISABLE, .doc = "refuse them with BOX_DISABLED"},
    {0},
};

typedef struct init_args {
    cli_words words;
    Box__V1__BoxConfig *config; /* owned */
} init_args;

static error_t parse(int key, char *arg, struct argp_state *state)
{
    init_args *a = state->input;
    switch (key) {
    case OPT_BACKEND:
        box__v1__box_config__set_backend(a->config, arg);
        return 0;
    case OPT_PROFILE:
        box__v1__box_config__set_default_profile(a->config, arg);
        return 0;
    case OPT_IMAGE:
        box__v1__box_config__set_image(a->config, arg);
        return 0;
    case OPT_MEMORY:
        box__v1__box_config__set_default_memory_bytes(a->config,
                                                      cli_bytes(state, "--default-memory", arg));
        return 0;
    case OPT_ENABLE:
    case OPT_DISABLE:
        box__v1__box_config__set_enabled(a->config, key == OPT_ENABLE);
        return 0;
    default:
        return cli_words_take(&a->words, key, arg, state);
    }
}

static void print_answer(const Box__V1__InitializeResponse *r)
{
    const Box__V1__BoxConfig *now = r->config;
    printf("backend   %s (%s)\n", r->backend[0] != '\0' ? cli_clean(r->backend) : "none available",
           r->backend_reselected ? "chosen anew" : "kept: sessions live");
    if (now == NULL)
        return;
    printf("profile   %s\n", cli_clean(now->default_profile));
    printf("image     %s\n", now->image[0] != '\0' ? cli_clean(now->image) : "the backend's own");
    if (now->default_memory_bytes > 0)
        printf("memory    %lld bytes\n", (long long)now->default_memory_bytes);
    else
        printf("memory    the profile's\n");
    printf("sandboxes %s\n", now->enabled ? "enabled" : "disabled");
}

static int init(cli *c, int argc, char **argv)
{
    const struct argp parser = {
        .options = options,
        .parser = parse,
        .doc = "Initializes the server: changes its settings until it restarts, and lets tenants "
               "in where server.require_init makes them wait. For administrators."};
    box_error err;
    init_args a = {.config = box_alloc(sizeof *a.config)};
    box__v1__box_config__init(a.config);
    cli_parse(&parser, argc, argv, &a);
    BOX_AUTO(cli_message_freep) Box__V1__BoxConfig *config = a.config;
    BOX_AUTO(cli_message_freep) Box__V1__InitializeResponse *r = NULL;
    Box__V1__InitializeRequest request;
    box__v1__initialize_request__init(&request);
    request.config = config;
    if (cli_connect(c) < 0)
        return CLI_FAILED;
    box_client_options o = cli_options(c);
    if (box_v1_control_service_initialize(c->channel, &o, &request, &r, &err) < 0)
        return cli_fail(c, &err);
    if (c->json)
        return cli_print_json(c, &r->base);
    print_answer(r);
    return CLI_OK;
}

const cli_command cli_init_commands[] = {
    {"init", NULL, "change settings, let tenants in", init},
    {0},
};
