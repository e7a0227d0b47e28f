#include "warden/protocol.h"

typedef struct guarantee_row {
    uint32_t bit;
    const char *name;
} guarantee_row;

static const guarantee_row guarantees[] = {
    {BOX_G_FILESYSTEM, "filesystem"},
    {BOX_G_PROCESS, "process"},
    {BOX_G_NETWORK_OFF, "network_off"},
    {BOX_G_NETWORK_ON, "network_on"},
    {BOX_G_USER, "user"},
    {BOX_G_SECCOMP, "seccomp"},
    {BOX_G_MEMORY, "memory"},
    {BOX_G_PIDS, "pids"},
    {BOX_G_CPU, "cpu"},
    {BOX_G_WORKSPACE_LIMIT, "workspace_limit"},
    {BOX_G_READ_ONLY_ROOT, "read_only_root"},
    {BOX_G_WRITABLE_ROOT, "writable_root"},
    {BOX_G_HOST_MOUNT, "host_mount"},
    {BOX_G_IMAGES, "images"},
    {BOX_G_PERSISTENT, "persistent"},
    {BOX_G_COMMAND_CGROUP, "command_cgroup"},
    {BOX_G_AGENT_SEPARATED, "agent_separated"},
    {BOX_G_LIVE_LIMITS, "live_limits"},
    {BOX_G_DISK_WORKSPACE, "disk_workspace"},
    {BOX_G_PROCESS_LIMITS, "process_limits"},
};

const char *box_guarantee_name(uint32_t bit)
{
    for (size_t i = 0; i < BOX_COUNT(guarantees); i++) {
        if (guarantees[i].bit == bit)
            return guarantees[i].name;
    }
    return NULL;
}

uint32_t box_guarantee_from_name(const char *name)
{
    for (size_t i = 0; i < BOX_COUNT(guarantees); i++) {
        if (strcmp(guarantees[i].name, name) == 0)
            return guarantees[i].bit;
    }
    return 0;
}
