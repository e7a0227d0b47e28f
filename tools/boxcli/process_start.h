/* boxcli process start. */
#pragma once

#include "cli.h"

int cli_process_start(cli *c, int argc, char **argv);
