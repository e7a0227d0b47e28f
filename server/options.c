#include "options.h"

#include <argp.h>
#include <fcntl.h>

enum { OPT_CONFIG = 'c', OPT_CHECK = 0x100, OPT_PRINT, OPT_RPC_FD, OPT_WARDEN_FD };

static const struct argp_option options[] = {
    {.name = "config",
     .key = OPT_CONFIG,
     .arg = "FILE",
     .doc = "YAML configuration; see --print-config"},
    {.name = "check-config",
     .key = OPT_CHECK,
     .doc = "say whether the configuration is valid, and end"},
    {.name = "print-config",
     .key = OPT_PRINT,
     .doc = "print the configuration in force with comments, and end"},
    {.name = "rpc-fd",
     .key = OPT_RPC_FD,
     .arg = "N",
     .doc = "serve this connected socket as a trusted Unix peer; end when it closes"},
    {.name = "warden-fd",
     .key = OPT_WARDEN_FD,
     .arg = "NAME=N",
     .doc = "connected socket to the warden of this backend; may be repeated"},
    {0},
};

/* An inherited descriptor's number; it is made close-on-exec. */
static int parse_fd(struct argp_state *state, const char *option, const char *text)
{
    char *end;
    long fd = strtol(text, &end, 10);
    if (end == text || *end != '\0' || fd < 3 || fd > 1 << 20 ||
        fcntl((int)fd, F_SETFD, FD_CLOEXEC) < 0)
        argp_error(state, "%s %s: expected the number of an open descriptor above 2", option, text);
    return (int)fd;
}

static void add_warden(box_options *o, char *arg, struct argp_state *state)
{
    char *equals = strchr(arg, '=');
    if (equals == NULL || equals == arg) {
        argp_error(state, "--warden-fd %s: expected NAME=N", arg); /* ends the program */
        return;
    }
    if (o->n_warden_fds == BOX_MAX_WARDEN_FDS) {
        argp_error(state, "more than %d --warden-fd", BOX_MAX_WARDEN_FDS);
        return;
    }
    *equals = '\0';
    o->warden_fds[o->n_warden_fds++] =
        (box_warden_fd){.backend = arg, .fd = parse_fd(state, "--warden-fd", equals + 1)};
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    box_options *o = state->input;
    switch (key) {
    case OPT_CONFIG:
        o->config_file = arg;
        return 0;
    case OPT_CHECK:
        o->check_config = true;
        return 0;
    case OPT_PRINT:
        o->print_config = true;
        return 0;
    case OPT_RPC_FD:
        o->rpc_fd = parse_fd(state, "--rpc-fd", arg);
        return 0;
    case OPT_WARDEN_FD:
        add_warden(o, arg, state);
        return 0;
    case ARGP_KEY_ARG:
        argp_error(state, "unexpected argument %s", arg);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

void box_options_parse(int argc, char **argv, box_options *out)
{
    static const struct argp parser = {
        .options = options,
        .parser = parse,
        .doc = "Serves sandboxes over gRPC. Needs no privileges; box-warden makes the sandboxes.",
    };
    argp_program_version = "boxd " BOX_VERSION;
    argp_err_exit_status = 2;
    *out = (box_options){.rpc_fd = -1};
    (void)argp_parse(&parser, argc, argv, 0, NULL, out);
}
