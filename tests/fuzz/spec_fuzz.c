/* A request's session spec from its bytes to what the session manager takes: converted, checked,
 * copied, compared. */
#include <assert.h>

#include "base/alloc.h"
#include "base/limits.h"
#include "box/v1/session.pb-c.h"
#include "fuzz.h"
#include "service/session_convert.h"
#include "session/spec.h"
#include "wire/validate.h"

static void convert(const Box__V1__SessionSpec *message)
{
    box_spec copy;
    BOX_AUTO(box_spec_done)
    box_spec spec = {0};
    box_error err = {0};
    int rc = box_convert_spec(message, &spec, &err);
    if (rc == 0)
        rc = box_spec_check(&spec, "spec.", &err);
    if (rc < 0) {
        assert(err.reason == BOX_VALIDATION || err.reason == BOX_GUARANTEE_UNSUPPORTED);
        return;
    }
    assert(spec.n_labels <= BOX_MAX_LABELS);
    box_spec_copy(&copy, &spec);
    assert(box_spec_differences(&spec, &copy) == 0);
    box_spec_done(&copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    box_arena arena;
    box_error err;
    ProtobufCMessage *message = NULL;
    box_arena_init(&arena, BOX_CALL_BUDGET_FACTOR * size + BOX_CALL_BUDGET_BYTES);
    if (box_message_unpack(&box__v1__session_spec__descriptor, data, size, &arena, &message,
                           &err) == 0)
        convert((const Box__V1__SessionSpec *)message);
    box_arena_done(&arena);
    return 0;
}
