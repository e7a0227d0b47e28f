/* What boxd sends to a warden: a packet, then the checks of its request against a configuration.
 * The first bytes are the guarantees a backend has; a header size of 0 stands for the right one,
 * and a body that is too short is filled up with zeros, as the fuzzer would have to write 2 KiB. */
#include <assert.h>

#include "base/alloc.h"
#include "base/utf8.h"
#include "fuzz.h"
#include "warden/request.h"

static const char backend[] = "namespace";

static void check_create(const void *body, const box_warden_config *conf, uint32_t guarantees)
{
    box_warden_create r;
    box_error err = {0};
    memcpy(&r, body, sizeof r);
    if (box_warden_create_check(&r, conf, backend, guarantees, &err) < 0) {
        assert(err.reason == BOX_PROTOCOL || err.reason == BOX_VALIDATION ||
               err.reason == BOX_QUOTA || err.reason == BOX_GUARANTEE_UNSUPPORTED);
        return;
    }
    const box_warden_maxima *m = &conf->maxima;
    assert(r.memory_bytes > 0 && r.memory_bytes <= m->memory_bytes);
    assert(r.pids > 0 && r.pids <= m->pids);
    assert(r.cpu_millis > 0 && r.cpu_millis <= m->cpu_millis);
    assert(r.workspace_bytes > 0 && r.workspace_bytes <= m->workspace_bytes);
    assert(r.tmp_bytes > 0 && r.home_bytes > 0 && r.shm_bytes > 0);
    assert((r.required & ~guarantees) == 0);
    assert(r.mount_path[0] == '/' && box_utf8_valid(r.mount_path, strlen(r.mount_path)));
    assert(strstr(r.mount_path, "/../") == NULL && !box_path_within(r.mount_path, "/etc"));
    assert(r.host_path[0] == '/' || r.host_path[0] == '\0');
    assert(strstr(r.host_path, "//") == NULL && strstr(r.host_path, "/../") == NULL);
}

static void check_limits(const void *body, const box_warden_config *conf, uint32_t guarantees)
{
    box_warden_limits l;
    box_error err;
    memcpy(&l, body, sizeof l);
    if (box_warden_limits_check(&l, conf, backend, guarantees, &err) < 0)
        return;
    assert(l.memory_bytes >= 0 && l.memory_bytes <= conf->maxima.memory_bytes);
    assert(l.pids >= 0 && l.pids <= conf->maxima.pids && l.cpu_millis >= 0);
}

static void check_hello(const void *body)
{
    box_warden_hello hello;
    box_error err;
    memcpy(&hello, body, sizeof hello);
    if (box_warden_hello_check(&hello, backend, &err) == 0)
        assert(strcmp(hello.backend, backend) == 0);
}

static size_t body_size(uint32_t type)
{
    switch (type) {
    case BOX_WARDEN_HELLO:
        return sizeof(box_warden_hello);
    case BOX_WARDEN_CREATE:
        return sizeof(box_warden_create);
    case BOX_WARDEN_LIMITS:
        return sizeof(box_warden_limits);
    default:
        return sizeof(box_warden_target);
    }
}

/* The packet to be parsed, in memory of exactly its size. */
static uint8_t *packet_of(box_bytes in, size_t *len)
{
    box_warden_header h = {0};
    if (in.len >= sizeof h)
        memcpy(&h, in.data, sizeof h);
    bool helped = in.len >= sizeof h && h.size == 0;
    size_t whole = sizeof h + body_size(h.type);
    if (!helped) {
        *len = in.len;
        return fuzz_copy(in);
    }
    *len = whole;
    uint8_t *packet = box_alloc(whole);
    memcpy(packet, in.data, in.len < whole ? in.len : whole);
    h.size = (uint32_t)whole;
    memcpy(packet, &h, sizeof h);
    return packet;
}

static void check_request(box_bytes in, const box_warden_config *conf, uint32_t guarantees)
{
    size_t len;
    BOX_AUTO(box_freep)
    uint8_t *packet = packet_of(in, &len);
    box_warden_header header;
    const void *body;
    box_error err = {0};
    if (box_warden_packet_parse(packet, len, &header, &body, &err) < 0) {
        assert(err.reason == BOX_PROTOCOL);
        return;
    }
    assert(body == packet + sizeof header && header.size == len);
    if (header.type == BOX_WARDEN_CREATE)
        check_create(body, conf, guarantees);
    else if (header.type == BOX_WARDEN_LIMITS)
        check_limits(body, conf, guarantees);
    else if (header.type == BOX_WARDEN_HELLO)
        check_hello(body);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char yaml[] = "maxima: {memory: 1GiB, pids: 512, cpu_millis: 4000}\n";
    box_bytes in = {data, size};
    box_warden_config conf;
    box_error err;
    uint32_t guarantees = fuzz_u32(&in);
    int rc = box_warden_config_parse("fuzz", yaml, sizeof yaml - 1, &conf, &err);
    assert(rc == 0);
    check_request(in, &conf, guarantees);
    box_warden_config_done(&conf);
    return 0;
}
