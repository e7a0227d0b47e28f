/* boxd's command line. */
#pragma once

#include "base/error.h"

enum { BOX_MAX_WARDEN_FDS = 16 };

/* --warden-fd NAME=N: a connected socket to that backend's warden. */
typedef struct box_warden_fd {
    const char *backend;
    int fd;
} box_warden_fd;

typedef struct box_options {
    const char *config_file; /* NULL: defaults */
    bool check_config;
    bool print_config;
    int rpc_fd; /* --rpc-fd N: a connected socket of a spawn: channel; -1 = none */
    box_warden_fd warden_fds[BOX_MAX_WARDEN_FDS];
    size_t n_warden_fds;
} box_options;

/* --help, --version and mistakes end the program. Texts are argv's. */
void box_options_parse(int argc, char **argv, box_options *out);
