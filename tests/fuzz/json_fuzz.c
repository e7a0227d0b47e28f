/* proto3 JSON: what is read can be written, and what was written is read as the same. The first
 * byte picks the type, the second the flags and whether the input is JSON or a message's bytes. */
#include <assert.h>

#include "base/alloc.h"
#include "base/limits.h"
#include "box/golden/shapes.pb-c.h"
#include "box/v1/admin.pb-c.h"
#include "box/v1/exec.pb-c.h"
#include "box/v1/session.pb-c.h"
#include "fuzz.h"
#include "wire/validate.h"
#include "json/json.h"

static const ProtobufCMessageDescriptor *const types[] = {
    &box__golden__outer__descriptor,
    &box__golden__nest__descriptor,
    &box__golden__optionals__descriptor,
    &box__golden__times__descriptor,
    &box__golden__maps__descriptor,
    &box__golden__choice__descriptor,
    &box__golden__lists__descriptor,
    &box__v1__exec_request__descriptor,
    &box__v1__exec_response__descriptor,
    &box__v1__update_session_request__descriptor,
    &box__v1__create_token_request__descriptor,
};

enum { FROM_BYTES = 0x80 };

static void message_freep(ProtobufCMessage **m)
{
    protobuf_c_message_free_unpacked(*m, NULL);
}

/* Written, read, written again: twice the same text. */
static void round_trip(const ProtobufCMessage *m, unsigned flags)
{
    BOX_AUTO(box_buf_done)
    box_buf once = {0};
    BOX_AUTO(box_buf_done)
    box_buf twice = {0};
    BOX_AUTO(message_freep)
    ProtobufCMessage *back = NULL;
    box_error err;
    int rc = box_json_from_message(m, flags, &once, &err);
    assert(rc == 0);
    rc = box_json_to_message(m->descriptor, (const char *)box_buf_data(&once), box_buf_len(&once),
                             0, &back, &err);
    assert(rc == 0);
    rc = box_json_from_message(back, flags, &twice, &err);
    assert(rc == 0 && box_buf_len(&once) == box_buf_len(&twice));
    assert(memcmp(box_buf_data(&once), box_buf_data(&twice), box_buf_len(&once)) == 0);
}

static void read_json(const ProtobufCMessageDescriptor *type, box_bytes in, unsigned flags)
{
    BOX_AUTO(box_freep)
    char *text = (char *)fuzz_copy(in);
    BOX_AUTO(message_freep)
    ProtobufCMessage *m = NULL;
    box_error err = {0};
    if (box_json_to_message(type, text, in.len, flags & BOX_JSON_IGNORE_UNKNOWN, &m, &err) < 0) {
        assert(err.reason == BOX_VALIDATION || err.reason == BOX_MESSAGE_SIZE);
        return;
    }
    round_trip(m, flags & (BOX_JSON_PRETTY | BOX_JSON_EMIT_DEFAULTS));
}

/* A message that came from a server, as boxcli prints it. */
static void write_json(const ProtobufCMessageDescriptor *type, box_bytes in, unsigned flags)
{
    box_arena arena;
    ProtobufCMessage *m = NULL;
    box_error err = {0};
    BOX_AUTO(box_buf_done)
    box_buf out = {0};
    box_arena_init(&arena, BOX_CALL_BUDGET_FACTOR * in.len + BOX_CALL_BUDGET_BYTES);
    if (box_message_unpack(type, in.data, in.len, &arena, &m, &err) == 0) {
        if (box_json_from_message(m, 0, &out, &err) == 0)
            round_trip(m, flags & (BOX_JSON_PRETTY | BOX_JSON_EMIT_DEFAULTS));
        else
            assert(err.reason == BOX_VALIDATION);
    }
    box_arena_done(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    box_bytes in = {data, size};
    const ProtobufCMessageDescriptor *type = types[fuzz_u8(&in) % BOX_COUNT(types)];
    unsigned flags = fuzz_u8(&in);
    if ((flags & FROM_BYTES) != 0)
        write_json(type, in, flags);
    else
        read_json(type, in, flags);
    return 0;
}
