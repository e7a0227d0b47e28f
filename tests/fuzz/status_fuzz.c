/* A status that a server sent, and a box_error that a warden or agent sent. Layout: code, length of
 * the text, text, details; or, when the first byte is 255, a whole box_error. */
#include <assert.h>

#include "base/alloc.h"
#include "base/utf8.h"
#include "fuzz.h"
#include "wire/status.h"

/* layout: a peer's tabs and line ends may be there. */
static void check_text(const char *text, bool layout)
{
    assert(box_utf8_valid(text, strlen(text)));
    for (; *text != '\0'; text++)
        assert(((unsigned char)*text >= 0x20 && *text != 0x7f) ||
               (layout && strchr("\t\r\n", *text) != NULL));
}

static void check(const box_error *e)
{
    assert((unsigned)e->reason < BOX_REASON_COUNT);
    assert(memchr(e->msg, '\0', sizeof e->msg) != NULL);
    assert(e->detail_len <= sizeof e->detail);
    check_text(e->msg, true);
    size_t at = 0;
    const char *key;
    const char *value;
    while (box_error_next(e, &at, &key, &value)) {
        assert(at <= e->detail_len);
        check_text(key, false);
        check_text(value, false);
    }
}

/* Said again and read again it is the same. */
static void round_trip(const box_error *e)
{
    BOX_AUTO(box_buf_done)
    box_buf details = {0};
    box_error err;
    box_error back;
    int rc = box_status_encode(e, &details, &err);
    assert(rc == 0);
    box_code code = box_error_code(e);
    if (code == BOX_CODE_OK || code > BOX_CODE_UNAUTHENTICATED)
        return;
    box_status_decode((int)code, e->msg, box_buf_data(&details), box_buf_len(&details), &back);
    check(&back);
    assert(box_error_code(&back) == code);
    assert(strcmp(back.msg, e->msg) == 0);
    assert(back.retry_ms == e->retry_ms);
}

static void decode(box_bytes in)
{
    int code = fuzz_u8(&in);
    BOX_AUTO(box_freep)
    char *text = fuzz_text(fuzz_take(&in, fuzz_u8(&in)));
    BOX_AUTO(box_freep)
    uint8_t *details = fuzz_copy(in);
    box_error e;
    box_status_decode(code, text, in.len > 0 ? details : NULL, in.len, &e);
    check(&e);
    assert(code > BOX_CODE_UNAUTHENTICATED || box_error_code(&e) == (box_code)code);
    round_trip(&e);
}

static void sanitize(box_bytes in)
{
    box_error e;
    memset(&e, 0xff, sizeof e);
    if (in.len > 0)
        memcpy(&e, in.data, in.len < sizeof e ? in.len : sizeof e);
    box_error_sanitize(&e);
    check(&e);
    round_trip(&e);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size > 0 && data[0] == 255)
        sanitize((box_bytes){data + 1, size - 1});
    else
        decode((box_bytes){data, size});
    return 0;
}
