/* boxcli tenant create|get|list|update|delete. */
#include "args.h"
#include "base/alloc.h"
#include "base/limits.h"
#include "box/v1/admin.client.h"
#include "spec.h"

enum { OPT_NAME = 0x500, OPT_LABEL, OPT_DISABLE, OPT_ENABLE, OPT_MISSING };

/* Everything the commands of this file can be told. */
typedef struct tenant_args {
    cli_words words;
    Box__V1__Tenant *tenant; /* create, update */
    char *paths[4];          /* the update mask: each of its three fields once */
    size_t n_paths;
    bool allow_missing;
} tenant_args;

static void name_path(tenant_args *a, const char *path)
{
    for (size_t i = 0; i < a->n_paths; i++) {
        if (strcmp(a->paths[i], path) == 0)
            return;
    }
    a->paths[a->n_paths++] = (char *)(uintptr_t)path;
}

static error_t parse_tenant(int key, char *arg, struct argp_state *state)
{
    tenant_args *a = state->input;
    switch (key) {
    case OPT_NAME:
        if (a->tenant->display_name != (const char *)protobuf_c_empty_string)
            free(a->tenant->display_name);
        a->tenant->display_name = box_strdup(arg);
        name_path(a, "display_name");
        return 0;
    case OPT_LABEL:
        CLI_MAP_ADD(&a->tenant->n_labels, &a->tenant->labels, Box__V1__Tenant__LabelsEntry,
                    box__v1__tenant__labels_entry__init, state, arg);
        name_path(a, "labels");
        return 0;
    case OPT_DISABLE:
    case OPT_ENABLE:
        a->tenant->disabled = key == OPT_DISABLE;
        name_path(a, "disabled");
        return 0;
    case OPT_MISSING:
        a->allow_missing = true;
        return 0;
    default:
        return cli_words_take(&a->words, key, arg, state);
    }
}

static void parse_with(const struct argp_option *options, const char *doc, tenant_args *a, int argc,
                       char **argv)
{
    const struct argp p = {
        .options = options, .parser = parse_tenant, .args_doc = a->words.doc, .doc = doc};
    cli_parse(&p, argc, argv, a);
}

static char *text(const char *value)
{
    return (char *)(uintptr_t)(value != NULL ? value : "");
}

static void print_tenant(const Box__V1__Tenant *t)
{
    printf("%-24s %-9s", cli_clean(t->tenant_id), t->disabled ? "disabled" : "enabled");
    printf(" %s\n", cli_clean(t->display_name));
}

static int show_tenant(const cli *c, const ProtobufCMessage *response, const Box__V1__Tenant *t)
{
    if (c->json)
        return cli_print_json(c, response);
    if (t != NULL)
        print_tenant(t);
    return CLI_OK;
}

static const struct argp_option tenant_options[] = {
    {.name = "name", .key = OPT_NAME, .arg = "TEXT", .doc = "name for people"},
    {.name = "label", .key = OPT_LABEL, .arg = "K=V", .doc = "mark of your own; may be repeated"},
    {.name = "disable", .key = OPT_DISABLE, .doc = "refuse all its calls"},
    {.name = "enable", .key = OPT_ENABLE, .doc = "take its calls again"},
    {0},
};

/* A tenant message with the id and options of the command line. */
static Box__V1__Tenant *tenant_from(tenant_args *a, const char *doc, int argc, char **argv)
{
    a->tenant = box_alloc(sizeof *a->tenant);
    box__v1__tenant__init(a->tenant);
    a->words = (cli_words){.doc = "TENANT", .min = 1, .max = 1};
    parse_with(tenant_options, doc, a, argc, argv);
    a->tenant->tenant_id = box_strdup(a->words.word[0]);
    return a->tenant;
}

static int tenant_create(cli *c, int argc, char **argv)
{
    box_error err;
    tenant_args a = {0};
    BOX_AUTO(cli_message_freep)
    Box__V1__Tenant *tenant = tenant_from(&a, "Makes a tenant.", argc, argv);
    BOX_AUTO(cli_message_freep) Box__V1__CreateTenantResponse *r = NULL;
    Box__V1__CreateTenantRequest request;
    box__v1__create_tenant_request__init(&request);
    request.tenant = tenant;
    if (cli_connect(c) < 0)
        return CLI_FAILED;
    box_client_options o = cli_options(c);
    if (box_v1_admin_service_create_tenant(c->channel, &o, &request, &r, &err) < 0)
        return cli_fail(c, &err);
    return show_tenant(c, &r->base, r->tenant);
}

static int tenant_update(cli *c, int argc, char **argv)
{
    box_error err;
    tenant_args a = {0};
    BOX_AUTO(cli_message_freep) Box__V1__Tenant *tenant = tenant_from(
        &a, "Changes a tenant's name, labels (all of them) or whether it is disabled.", argc, argv);
    BOX_AUTO(cli_message_freep) Box__V1__UpdateTenantResponse *r = NULL;
    Box__V1__UpdateTenantRequest request;
    box__v1__update_tenant_request__init(&request);
    Google__Protobuf__FieldMask mask;
    google__protobuf__field_mask__init(&mask);
    mask.paths = a.paths;
    mask.n_paths = a.n_paths;
    request.tenant = tenant;
    request.update_mask = &mask;
    if (cli_connect(c) < 0)
        return CLI_FAILED;
    box_client_options o = cli_options(c);
    if (box_v1_admin_service_update_tenant(c->channel, &o, &request, &r, &err) < 0)
        return cli_fail(c, &err);
    return show_tenant(c, &r->base, r->tenant);
}

static int tenant_get(cli *c, int argc, char **argv)
{
    box_error err;
    cli_words words = {
        .doc = "[TENANT]", .summary = "Shows a tenant; your own when none is named.", .max = 1};
    cli_parse_words(&words, argc, argv);
    Box__V1__GetTenantRequest request;
    box__v1__get_tenant_request__init(&request);
    BOX_AUTO(cli_message_freep) Box__V1__GetTenantResponse *r = NULL;
    request.tenant_id = text(words.word[0]);
    if (cli_connect(c) < 0)
        return CLI_FAILED;
    box_client_options o = cli_options(c);
    if (box_v1_admin_service_get_tenant(c->channel, &o, &request, &r, &err) < 0)
        return cli_fail(c, &err);
    return show_tenant(c, &r->base, r->tenant);
}

static int tenant_page(cli *c, void *arg, char *token, char **next)
{
    box_error err;
    Box__V1__ListTenantsRequest request;
    box__v1__list_tenants_request__init(&request);
    BOX_AUTO(cli_message_freep) Box__V1__ListTenantsResponse *r = NULL;
    (void)arg;
    request.page_size = BOX_MAX_PAGE;
    request.page_token = token;
    box_client_options o = cli_options(c);
    if (box_v1_admin_service_list_tenants(c->channel, &o, &request, &r, &err) < 0)
        return cli_fail(c, &err);
    *next = box_strdup(r->next_page_token);
    if (c->json)
        return cli_print_json(c, &r->base);
    for (size_t i = 0; i < r->n_tenants; i++)
        print_tenant(r->tenants[i]);
    return CLI_OK;
}

static int tenant_list(cli *c, int argc, char **argv)
{
    cli_words words = {.summary = "Lists the tenants you may see."};
    cli_parse_words(&words, argc, argv);
    if (cli_connect(c) < 0)
        return CLI_FAILED;
    cli_heading(c, "TENANT                   STATE     NAME");
    return cli_pages(c, tenant_page, NULL);
}

static const struct argp_option missing_options[] = {
    {.name = "allow-missing", .key = OPT_MISSING, .doc = "one that does not exist is no error"},
    {0},
};

static int tenant_delete(cli *c, int argc, char **argv)
{
    box_error err;
    tenant_args a = {.words = {.doc = "TENANT", .min = 1, .max = 1}};
    parse_with(missing_options, "Deletes a tenant with its tokens and sessions.", &a, argc, argv);
    Box__V1__DeleteTenantRequest request;
    box__v1__delete_tenant_request__init(&request);
    BOX_AUTO(cli_message_freep) Box__V1__DeleteTenantResponse *r = NULL;
    request.tenant_id = a.words.word[0];
    request.allow_missing = a.allow_missing;
    if (cli_connect(c) < 0)
        return CLI_FAILED;
    box_client_options o = cli_options(c);
    if (box_v1_admin_service_delete_tenant(c->channel, &o, &request, &r, &err) < 0)
        return cli_fail(c, &err);
    return show_tenant(c, &r->base, NULL);
}

const cli_command cli_tenant_commands[] = {
    {"tenant", "create", "make a tenant", tenant_create},
    {"tenant", "get", "show a tenant", tenant_get},
    {"tenant", "list", "list tenants", tenant_list},
    {"tenant", "update", "change a tenant", tenant_update},
    {"tenant", "delete", "delete a tenant", tenant_delete},
    {0},
};
