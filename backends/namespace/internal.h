/* What the files of the backend's operations share: create.c makes sandboxes, namespace.c has the
 * rest. */
#pragma once

#include "backend.h"
#include "namespace/cgroup.h"
#include "namespace/image.h"
#include "namespace/outer.h"
#include "namespace/sandbox.h"
#include "namespace/template.h"
#include "warden/config.h"

struct box_backend {
    const box_warden_config *config;
    box_cgroups *cgroups;
    box_template *template;
    box_images *images; /* NULL = none */
    box_outer *outer;   /* NULL: the warden is root */
    box_ids ids;
    char owner[48]; /* of its control groups: names instance_dir */
    int agent;
    int files;
    int filter;
    uint32_t guarantees;
};

/* create.c */
int box_namespace_prepare(box_backend *b, const box_journal *journal, box_sandbox_record *record,
                          box_prepared *out, box_error *err) BOX_MUST_USE;
int box_namespace_create(box_backend *b, box_prepared *prepared, const box_warden_create *request,
                         int listen_fd, int image, const box_journal *journal,
                         box_sandbox_record *record, box_sandbox_fds *fds,
                         box_warden_answer *answer, box_error *err) BOX_MUST_USE;
/* Everything up to the agent's start is done for real once, in a process as a helper's, so that a
 * host that cannot do it says so now. */
int box_namespace_probe(const box_backend *b, box_error *err) BOX_MUST_USE;
/* A directory of the sandbox's own view. Links could only be the sandbox's work: none is
 * followed. */
int box_namespace_open_inside(pid_t pid, const char *path, int flags);
/* box_sandbox_fds.mounts. -1: it is not to be had, and the last process takes them down. */
int box_namespace_open_mounts(pid_t pid);
/* The descriptors of box_sandbox_fds that control groups are. */
void box_namespace_open_groups(const box_sandbox_record *record, box_sandbox_fds *fds);
