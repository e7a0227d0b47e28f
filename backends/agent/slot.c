#include "agent/slot.h"

#include <errno.h>

void box_slot_clear(box_slot *slot)
{
    atomic_store(&slot->pid, 0);
    atomic_store(&slot->reaper, 0);
    atomic_store(&slot->step, BOX_STEP_NONE);
    atomic_store(&slot->sys_errno, 0);
    slot->name[0] = '\0';
}

void box_slot_fail(box_slot *slot, box_start_step step, int sys_errno, const char *name)
{
    size_t len = name == NULL ? 0 : strnlen(name, sizeof slot->name - 1);
    if (len > 0)
        memcpy(slot->name, name, len);
    slot->name[len] = '\0';
    atomic_store(&slot->sys_errno, sys_errno);
    atomic_store(&slot->step, (int32_t)step);
}

static int quota(box_error *err, const char *limit, int sys_errno, const char *text)
{
    (void)box_fail(err, BOX_QUOTA, "%s", text);
    err->sys_errno = sys_errno;
    box_error_add(err, "limit", limit);
    return -1;
}

static int clone_error(int sys_errno, box_error *err)
{
    if (sys_errno == EAGAIN)
        return quota(err, "pids", sys_errno, "the sandbox has as many processes as it may have");
    if (sys_errno == ENOMEM)
        return quota(err, "memory", sys_errno, "the sandbox is out of memory");
    if (sys_errno == EMFILE || sys_errno == ENFILE)
        return quota(err, "descriptors", sys_errno, "out of descriptors");
    errno = sys_errno;
    (void)box_fail_errno(err, "start a process");
    err->reason = BOX_INTERNAL;
    return -1;
}

/* A failed chdir or execve: about the thing that was named. */
static int named_error(const char *kind, const char *name, int sys_errno, box_error *err)
{
    errno = sys_errno;
    switch (sys_errno) {
    case ENOMEM:
    case EAGAIN:
        return clone_error(sys_errno, err);
    case ENOENT:
    case ENOTDIR:
        (void)box_fail(err, BOX_FILE_NOT_FOUND, "no %s %s", kind, name);
        break;
    case EACCES:
    case EPERM:
        (void)box_fail(err, BOX_PERMISSION, "%s %s: permission denied", kind, name);
        break;
    case ENOEXEC:
        (void)box_fail(err, BOX_VALIDATION, "%s %s is not a program", kind, name);
        break;
    case E2BIG:
        (void)box_fail(err, BOX_VALIDATION, "argv and env are too long");
        break;
    default:
        (void)box_fail_errno(err, "%s %s", kind, name);
        break;
    }
    err->sys_errno = sys_errno;
    box_error_add(err, "kind", kind);
    box_error_add(err, "id", name);
    return -1;
}

int box_slot_error(const box_slot *slot, box_error *err)
{
    int sys_errno = atomic_load(&slot->sys_errno);
    switch ((box_start_step)atomic_load(&slot->step)) {
    case BOX_STEP_CLONE:
    case BOX_STEP_MEMORY:
        return clone_error(sys_errno, err);
    case BOX_STEP_WORKDIR:
        return named_error("workdir", slot->name, sys_errno, err);
    case BOX_STEP_EXEC:
        return named_error("command", slot->name, sys_errno, err);
    case BOX_STEP_TEXT:
        return box_fail(err, BOX_VALIDATION, "the command's text is not what was announced");
    case BOX_STEP_ZYGOTE:
        return box_fail(err, BOX_INTERNAL, "the process that starts commands ended");
    case BOX_STEP_STUCK:
        return box_fail(err, BOX_INTERNAL, "the command was kept from starting for too long");
    case BOX_STEP_CGROUP:
    case BOX_STEP_SETUP:
    case BOX_STEP_NONE:
        break;
    }
    errno = sys_errno;
    (void)box_fail_errno(err, "prepare the command's process");
    err->reason = BOX_INTERNAL;
    return -1;
}
