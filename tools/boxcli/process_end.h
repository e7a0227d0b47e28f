/* boxcli process stop|signal|wait. */
#pragma once

#include "cli.h"

int cli_process_stop(cli *c, int argc, char **argv);
int cli_process_signal(cli *c, int argc, char **argv);
int cli_process_wait(cli *c, int argc, char **argv);
