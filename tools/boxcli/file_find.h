/* boxcli file stat|ls|glob|grep: what files there are, and lines in them. */
#pragma once

#include "cli.h"

int cli_file_stat(cli *c, int argc, char **argv);
int cli_file_list(cli *c, int argc, char **argv);
int cli_file_glob(cli *c, int argc, char **argv);
int cli_file_grep(cli *c, int argc, char **argv);
