/* Frames between boxd and box-files, read by either end; what was read is written again and must be
 * the same. The first byte: who sent it. A frame's size of 0 stands for all that is left, which the
 * fuzzer could not guess. */
#include <assert.h>

#include "base/alloc.h"
#include "base/utf8.h"
#include "files/wire.h"
#include "fuzz.h"

static void same(const box_buf *out, box_bytes body)
{
    assert(box_buf_len(out) == sizeof(box_files_frame) + body.len);
    assert(memcmp(box_buf_data(out) + sizeof(box_files_frame), body.data, body.len) == 0);
}

static void read_ask(box_bytes body)
{
    box_error err;
    BOX_AUTO(box_buf_done) box_buf out = {0};
    BOX_AUTO(box_freep) box_files_ask *ask = box_alloc(sizeof *ask);
    if (box_files_ask_parse(body, ask, &err) < 0) {
        assert(err.reason == BOX_PROTOCOL);
        return;
    }
    assert(ask->path.len >= 1 && ask->path.len <= BOX_FILES_MAX_PATH && ask->path.data[0] == '/');
    int rc = box_files_put_ask(&out, ask, &err);
    assert(rc == 0);
    same(&out, body);
}

static void read_info(box_bytes body)
{
    box_error err;
    box_files_info info;
    BOX_AUTO(box_buf_done) box_buf out = {0};
    if (box_files_info_parse(body, &info, &err) < 0)
        return;
    int rc = box_files_put_info(&out, &info, &err);
    assert(rc == 0);
    same(&out, body);
}

static void read_line(box_bytes body)
{
    box_error err;
    box_files_line line;
    BOX_AUTO(box_buf_done) box_buf out = {0};
    if (box_files_line_parse(body, &line, &err) < 0)
        return;
    assert(box_utf8_valid((const char *)line.text.data, line.text.len));
    int rc = box_files_put_line(&out, &line, &err);
    assert(rc == 0);
    same(&out, body);
}

static void read_answer(box_bytes body)
{
    box_error err;
    box_files_answer answer;
    if (box_files_answer_parse(body, &answer, &err) < 0)
        return;
    assert(memchr(answer.error.msg, '\0', sizeof answer.error.msg) != NULL);
    assert(answer.cut < BOX_FILES_CUT_END && answer.total >= 0);
}

static void read_body(uint32_t type, box_bytes body)
{
    box_error err;
    if (type == BOX_FILES_ASK)
        read_ask(body);
    else if (type == BOX_FILES_INFO)
        read_info(body);
    else if (type == BOX_FILES_LINE)
        read_line(body);
    else if (type == BOX_FILES_ANSWER)
        read_answer(body);
    else if (type == BOX_FILES_HELLO)
        BOX_IGNORE(box_files_hello_parse(body, &err)); /* either is right */
}

static void fix_size(uint8_t *data, size_t len)
{
    box_files_frame f;
    if (len < sizeof f)
        return;
    memcpy(&f, data, sizeof f);
    if (f.size == 0)
        f.size = (uint32_t)(len - sizeof f);
    memcpy(data, &f, sizeof f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    box_bytes in = {data, size};
    box_error err;
    box_files_sender from = fuzz_u8(&in) % 2 != 0 ? BOX_FILES_FROM_WORKER : BOX_FILES_FROM_BOXD;
    for (;;) {
        box_files_frame f;
        BOX_AUTO(box_freep) uint8_t *exact = fuzz_copy(in);
        fix_size(exact, in.len);
        int rc = box_files_frame_look(exact, in.len, from, &f, &err);
        assert(rc >= 0 || err.reason == BOX_PROTOCOL);
        if (rc <= 0 || in.len - sizeof f < f.size)
            return 0;
        BOX_AUTO(box_freep)
        uint8_t *body = fuzz_copy((box_bytes){exact + sizeof f, f.size});
        read_body(f.type, (box_bytes){body, f.size});
        (void)fuzz_take(&in, sizeof f + f.size);
    }
}
