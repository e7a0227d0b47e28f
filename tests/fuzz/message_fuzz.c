/* box_message_validate before protobuf-c: what it lets through unpacks within its estimate, for
 * messages of the API and for one of every shape. The first byte picks the type. */
#include <assert.h>

#include "base/alloc.h"
#include "base/limits.h"
#include "box/golden/shapes.pb-c.h"
#include "box/v1/control.pb-c.h"
#include "box/v1/exec.pb-c.h"
#include "box/v1/file.pb-c.h"
#include "box/v1/session.pb-c.h"
#include "box/v1/tool.pb-c.h"
#include "fuzz.h"
#include "wire/validate.h"

static const ProtobufCMessageDescriptor *const types[] = {
    &box__golden__outer__descriptor,
    &box__golden__nest__descriptor,
    &box__golden__optionals__descriptor,
    &box__v1__exec_request__descriptor,
    &box__v1__exec_stream_request__descriptor,
    &box__v1__create_session_request__descriptor,
    &box__v1__update_session_request__descriptor,
    &box__v1__list_sessions_request__descriptor,
    &box__v1__initialize_request__descriptor,
    &box__v1__call_tool_request__descriptor,
    &box__v1__edit_file_request__descriptor,
    &box__v1__upload_file_request__descriptor,
};

/* What was unpacked can be packed, and is a valid message then. */
static void pack_again(const ProtobufCMessage *message)
{
    BOX_AUTO(box_buf_done)
    box_buf out = {0};
    uint8_t *room;
    box_error err;
    size_t len = protobuf_c_message_get_packed_size(message);
    if (box_buf_reserve(&out, len, &room, &err) < 0)
        return;
    assert(protobuf_c_message_pack(message, room) == len);
    int rc = box_message_validate(message->descriptor, room, len, SIZE_MAX / 2, &err);
    assert(rc == 0);
}

static void check(const ProtobufCMessageDescriptor *type, box_bytes in, size_t budget)
{
    box_error err = {0};
    box_arena arena;
    ProtobufCMessage *message = NULL;
    if (box_message_validate(type, in.data, in.len, budget, &err) < 0) {
        assert(err.reason == BOX_VALIDATION || err.reason == BOX_PROTOCOL ||
               err.reason == BOX_MEMORY_BUDGET);
        return;
    }
    box_arena_init(&arena, budget);
    int rc = box_message_unpack(type, in.data, in.len, &arena, &message, &err);
    assert(rc == 0);
    assert(arena.used_bytes <= budget);
    pack_again(message);
    box_arena_done(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    box_bytes in = {data, size};
    const ProtobufCMessageDescriptor *type = types[fuzz_u8(&in) % BOX_COUNT(types)];
    BOX_AUTO(box_freep)
    uint8_t *exact = fuzz_copy(in);
    in.data = exact;
    check(type, in, BOX_CALL_BUDGET_FACTOR * in.len + BOX_CALL_BUDGET_BYTES);
    /* Close to what it takes, so that an estimate that is too low is seen. */
    for (size_t budget = 64; budget <= 16 * in.len + 4096; budget += budget / 4)
        check(type, in, budget);
    return 0;
}
