/* A warden's own configuration: a root-owned file that boxd's policy can only narrow. */
#pragma once

#include <stdio.h>
#include <sys/types.h>

#include "base/config.h"

enum {
    BOX_WARDEN_MIN_OWNER = 1000, /* an idmapped root owned by a system uid gives the host away
                                    (sandbox-facts.md, section 4) */
};

/* One entry of allowed_roots: a host directory that host_path may name or lie beneath. */
typedef struct box_allowed_root {
    char *path;
    int64_t owner_uid; /* the one host uid (and gid of that number) shown inside as 1000 */
} box_allowed_root;

/* Images of one size that are kept ready: empty, attached, mounted nowhere yet. */
typedef struct box_disk_class {
    int64_t bytes; /* a workspace of up to so many fits */
    int64_t ready; /* how many */
} box_disk_class;

/* Workspaces on disk (namespace/image.h). */
typedef struct box_disk_config {
    char *directory;         /* NULL = there are none */
    box_config_records pool; /* box_disk_class, smallest first, no size twice */
    int64_t total_bytes;     /* 0 = as much as there is room for */
    int64_t keep_free_bytes;
} box_disk_config;

typedef struct box_warden_maxima {
    int64_t memory_bytes;
    int64_t pids;
    int64_t cpu_millis;
    int64_t workspace_bytes;
    int64_t tmp_bytes;
    int64_t home_bytes;
    int64_t shm_bytes;
    int64_t sandboxes;
    int64_t total_memory_bytes; /* 0 = none */
} box_warden_maxima;

typedef struct box_warden_config {
    char *socket;       /* NULL with --boxd-fd */
    char *peer_uid;     /* user name or number as written; NULL = the warden's own uid */
    char *instance_dir; /* state files; gone at a reboot, so below /run */
    char *agent;        /* NULL = box-agent beside the warden */
    char *cgroup;       /* NULL = the warden's own control group */
    int64_t standbys;   /* helpers with their preparations made */
    box_config_records allowed_roots; /* box_allowed_root */
    box_disk_config disk;
    box_warden_maxima maxima;
    int log_level;  /* box_log_level */
    int log_format; /* box_log_format */
} box_warden_config;

/* FILE NULL = defaults; it must be root's or this user's own, and writable by nobody else.
 * Environment overrides are BOX__SECTION__KEY; boxd's are passed over. Free with
 * box_warden_config_done. */
int box_warden_config_load(const char *file, char *const *env, box_warden_config *out,
                           box_error *err) BOX_MUST_USE;
int box_warden_config_parse(const char *name, const char *yaml, size_t len, box_warden_config *out,
                            box_error *err) BOX_MUST_USE;
void box_warden_config_done(box_warden_config *config);
int box_warden_config_print(const box_warden_config *config, FILE *to);

/* The uid that peer_uid names. VALIDATION when there is no such user. */
int box_warden_config_peer(const box_warden_config *config, uid_t *out, box_error *err)
    BOX_MUST_USE;
