/* Internal to boxd's configuration: config.c has the table, config_check.c what no table says. */
#pragma once

#include "base/config.h"

/* box_config_schema.check: conf is a box_server_config, whose listeners' addresses it puts into the
 * one form box_net takes. arg: NULL-ended names of backends whose wardens come as descriptors, or
 * NULL. VALIDATION with the place of the value. */
int box_server_config_check(void *conf, const box_config_origin *origin, const void *arg,
                            box_error *err) BOX_MUST_USE;
