/* boxcli session list. */
#pragma once

#include "cli.h"

int cli_session_list(cli *c, int argc, char **argv);
