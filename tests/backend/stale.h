/* What tests left that were killed: their names say whose they were. */
#pragma once

/* Kills and removes control groups, and files in `folder`, whose name is "PREFIX.PID." and more,
 * when no process has that pid. */
void test_stale_sweep(const char *folder, const char *prefix);
