/* host_path: a host directory beneath an allowed root, as an idmapped mount. */
#pragma once

#include "base/error.h"
#include "warden/config.h"

/* A detached mount of path: nosuid, nodev, and with read_only read-only; the root's one owner uid
 * stands for uid and gid 1000 of the sandbox whose range begins at uid_base. PERMISSION {rule}
 * when no rule allows the path; GUARANTEE_UNSUPPORTED when its file system cannot be idmapped. */
int box_hostpath_open(const box_warden_config *config, const char *path, bool read_only,
                      uint32_t uid_base, int *out, box_error *err) BOX_MUST_USE;

/* The rule alone, without looking at the file system: the root that covers the path. PERMISSION
 * {rule: allowed_roots or system} when there is none or the path is never to be mounted. */
int box_hostpath_rule(const box_warden_config *config, const char *path,
                      const box_allowed_root **out, box_error *err) BOX_MUST_USE;
