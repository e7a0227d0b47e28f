/* box_spec: what a caller asks of a session's sandbox. Open struct; zero is valid and asks for
 * nothing. A field counts only when its bit is in `set`: unset means the profile's default at
 * creation and "whatever it is" on reuse. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "session/tool_choice.h"

/* Order of the bits is the order in which differences are named. */
typedef enum box_spec_field {
    BOX_SPEC_NETWORK = 1 << 0,
    BOX_SPEC_IMAGE = 1 << 1,
    BOX_SPEC_HOST_PATH = 1 << 2,
    BOX_SPEC_HOST_PATH_MODE = 1 << 3,
    BOX_SPEC_MOUNT_PATH = 1 << 4,
    BOX_SPEC_PERSISTENT = 1 << 5,
    BOX_SPEC_CPU = 1 << 6,
    BOX_SPEC_MEMORY = 1 << 7,
    BOX_SPEC_PIDS = 1 << 8,
    BOX_SPEC_READ_ONLY_ROOTFS = 1 << 9,
    BOX_SPEC_WORKSPACE_LIMIT = 1 << 10,
    BOX_SPEC_PROFILE = 1 << 11,
    BOX_SPEC_BACKEND = 1 << 12,
    /* Not compared: */
    BOX_SPEC_IDLE_TTL = 1 << 13,
    BOX_SPEC_MAX_PARALLEL_EXECS = 1 << 14,
    BOX_SPEC_LABELS = 1 << 15,
    BOX_SPEC_ENV = 1 << 16,
    BOX_SPEC_WORKDIR = 1 << 17,
    BOX_SPEC_COMMAND_TIMEOUT = 1 << 18,
    BOX_SPEC_MAX_LIFETIME = 1 << 19,
    BOX_SPEC_DESTROY_ON_TIMEOUT = 1 << 20,
    BOX_SPEC_TOOLS = 1 << 21,
} box_spec_field;

enum {
    BOX_SPEC_COMPARED = (1 << 13) - 1,
    BOX_SPEC_ALL = (1 << 22) - 1,
    /* What box_session_update may change. */
    BOX_SPEC_LIVE = BOX_SPEC_LABELS | BOX_SPEC_IDLE_TTL | BOX_SPEC_MAX_PARALLEL_EXECS |
                    BOX_SPEC_CPU | BOX_SPEC_MEMORY | BOX_SPEC_PIDS | BOX_SPEC_TOOLS,
};

typedef enum box_host_path_mode {
    BOX_HOST_PATH_RW,
    BOX_HOST_PATH_RO,
    BOX_HOST_PATH_NONE,
} box_host_path_mode;

/* A label or an environment variable. */
typedef struct box_label {
    char *key;
    char *value;
} box_label;

/* A value that a profile changed. */
typedef struct box_adjustment {
    char field[24]; /* "network" */
    char rule[24];  /* "profile.locked" */
    char requested[48];
    char effective[48];
} box_adjustment;

enum { BOX_MAX_ADJUSTMENTS = 4 };

/* Strings and arrays are owned (box_spec_done). */
typedef struct box_spec {
    uint32_t set; /* box_spec_field */
    bool network_on;
    bool persistent;
    bool read_only_rootfs;
    box_host_path_mode host_path_mode;
    int32_t cpu_millis;
    uint32_t max_parallel_execs;
    int64_t memory_bytes;
    int64_t pids;
    int64_t workspace_limit_bytes; /* 0 = the default, 64 MiB */
    bool destroy_on_timeout;
    uint64_t idle_ttl_ns; /* 0 = none */
    uint64_t max_lifetime_ns;
    uint64_t command_timeout_ns;
    uint32_t guarantees; /* box_guarantee bits that must hold, besides those of set fields */
    char *image;         /* "" = the backend's own */
    char *host_path;
    char *mount_path;
    char *profile;
    char *backend;
    char *workdir; /* where commands start that name none */
    box_label *labels;
    size_t n_labels;
    box_label *env; /* of every command, under its own */
    size_t n_env;
    box_tool_choice tools;
    /* Names, separated by ',', of fields the request set that are not built yet; owned; NULL:
     * none. They are refused with GUARANTEE_UNSUPPORTED. */
    char *unsupported;
} box_spec;

void box_spec_done(box_spec *s);
/* Deep; *to is overwritten, not freed. */
void box_spec_copy(box_spec *to, const box_spec *from);
/* The same without env, which may have 2 MiB: what comparing and most looking needs. */
void box_spec_copy_but_env(box_spec *to, const box_spec *from);
/* About what its variables, labels and tools take in memory. */
size_t box_spec_bytes(const box_spec *s);
/* Adds name to s->unsupported. */
void box_spec_refuse(box_spec *s, const char *name);
/* Replaces them by a copy. */
void box_spec_set_env(box_spec *s, const box_label *env, size_t n);
/* Only the names: every value is NULL. */
void box_spec_set_env_names(box_spec *s, const box_label *env, size_t n);
void box_spec_set_labels(box_spec *s, const box_label *labels, size_t n);

/* "memory" for BOX_SPEC_MEMORY: the name used in errors, the proto field's. */
const char *box_spec_field_name(uint32_t bit);

/* Why a path cannot be a host_path or a mount; NULL: it can. Static text. */
const char *box_spec_path_problem(const char *path);
/* VALIDATION with every violation; prefix ("spec.") stands before the field names. */
int box_spec_check(const box_spec *s, const char *prefix, box_error *err) BOX_MUST_USE;
int box_spec_labels_check(const box_label *labels, size_t n, const char *field, box_error *err)
    BOX_MUST_USE;

/* Bits of the fields set in `asked` that differ from `have` (a complete spec). */
uint32_t box_spec_differences(const box_spec *asked, const box_spec *have);
