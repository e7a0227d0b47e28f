#include "idle.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/alloc.h"
#include "box/channel.h"
#include "box/v1/control.client.h"
#include "memory.h"

enum { DESCRIPTORS_BESIDE = 64 };

typedef struct idle_connection {
    box_channel *channel;
} idle_connection;

/* Any method will do: the server does not know it, and says so. */
static int call_once(box_channel *channel, box_error *err)
{
    Box__V1__HealthRequest request;
    Box__V1__HealthResponse *response = NULL;
    box__v1__health_request__init(&request);
    int rc = box_v1_control_service_health(channel, NULL, &request, &response, err);
    box__v1__health_response__free_unpacked(response, NULL);
    return rc == 0 || err->reason == BOX_UNIMPLEMENTED ? 0 : -1;
}

static int open_one(const bench_peer *peer, const bench_files *files, box_channel **out,
                    box_error *err)
{
    char target[64];
    (void)snprintf(target, sizeof target, "dns:///127.0.0.1:%u", peer->port);
    const box_channel_options options = {.ca_file = files->cert};
    return box_channel_new(target, &options, out, err) < 0 ? -1 : call_once(*out, err);
}

static int allow_descriptors(size_t n, box_error *err)
{
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) < 0)
        return box_fail_errno(err, "getrlimit");
    if (files.rlim_cur < n)
        files.rlim_cur = files.rlim_max < n ? files.rlim_max : n;
    if (files.rlim_cur < n || setrlimit(RLIMIT_NOFILE, &files) < 0)
        return box_fail(err, BOX_QUOTA, "%zu descriptors are needed (ulimit -n)", n);
    return 0;
}

int bench_idle(const bench_peer *peer, const bench_files *files, size_t connections, double *out,
               box_error *err)
{
    /* The first one pays for what all share. */
    box_channel *first = NULL;
    double before = 0, after = 0;
    if (allow_descriptors(2 * connections + DESCRIPTORS_BESIDE, err) < 0)
        return -1;
    idle_connection *all = box_alloc(connections * sizeof *all);
    int rc = open_one(peer, files, &first, err);
    if (rc == 0)
        rc = bench_pss_bytes(peer->process.pid, &before, err);
    for (size_t i = 0; rc == 0 && i < connections; i++)
        rc = open_one(peer, files, &all[i].channel, err);
    if (rc == 0)
        rc = bench_pss_bytes(peer->process.pid, &after, err);
    box_channel_free(first);
    for (size_t i = 0; i < connections; i++)
        box_channel_free(all[i].channel);
    free(all);
    *out = (after - before) / (double)connections;
    return rc < 0 ? box_wrap(err, "idle connections to %s", peer->name) : 0;
}
