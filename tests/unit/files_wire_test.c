#include "files/wire.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "base/alloc.h"

static box_bytes bytes(const char *text)
{
    return (box_bytes){.data = (const uint8_t *)text, .len = strlen(text)};
}

static void assert_bytes(box_bytes b, const char *text)
{
    assert_int_equal(b.len, strlen(text));
    if (b.len > 0)
        assert_memory_equal(b.data, text, b.len);
}

/* The body of the one frame in b. */
static box_bytes body_of(const box_buf *b, box_files_sender from, uint32_t type)
{
    box_files_frame f;
    box_error err;
    assert_int_equal(box_files_frame_look(box_buf_data(b), box_buf_len(b), from, &f, &err), 1);
    assert_int_equal(f.type, type);
    assert_int_equal(f.size, box_buf_len(b) - sizeof f);
    return (box_bytes){.data = box_buf_data(b) + sizeof f, .len = f.size};
}

static void fill_ask(box_files_ask *ask)
{
    *ask = (box_files_ask){.head = {.op = BOX_FILES_GREP,
                                    .flags = BOX_FILES_IGNORE_CASE,
                                    .permissions = -1,
                                    .n_include = 2,
                                    .n_exclude = 1,
                                    .n_skip = 1,
                                    .n_edits = 1,
                                    .max_items = 7},
                           .path = bytes("/a/b"),
                           .pattern = bytes("x+"),
                           .include = {{0}},
                           .exclude = {{0}}};
    ask->include[0] = bytes("*.c");
    ask->include[1] = bytes("*.h");
    ask->exclude[0] = bytes("gen/*");
    ask->skip[0] = bytes(".git");
    ask->edits[0] = (box_files_edit){.old_data = bytes("old"), .new_data = bytes(""), .all = true};
}

static void a_call_is_read_as_it_was_written(void **state)
{
    (void)state;
    box_error err;
    BOX_AUTO(box_buf_done) box_buf out = {0};
    BOX_AUTO(box_freep) box_files_ask *ask = box_alloc(sizeof *ask);
    BOX_AUTO(box_freep) box_files_ask *got = box_alloc(sizeof *got);
    fill_ask(ask);
    assert_int_equal(box_files_put_ask(&out, ask, &err), 0);
    box_bytes body = body_of(&out, BOX_FILES_FROM_BOXD, BOX_FILES_ASK);
    assert_int_equal(box_files_ask_parse(body, got, &err), 0);
    assert_memory_equal(&got->head, &ask->head, sizeof got->head);
    assert_bytes(got->path, "/a/b");
    assert_bytes(got->target, "");
    assert_bytes(got->pattern, "x+");
    assert_bytes(got->include[1], "*.h");
    assert_bytes(got->exclude[0], "gen/*");
    assert_bytes(got->skip[0], ".git");
    assert_bytes(got->edits[0].old_data, "old");
    assert_bytes(got->edits[0].new_data, "");
    assert_true(got->edits[0].all);
}

/* Cut anywhere, and with a byte more. */
static void a_call_of_another_size_is_refused(void **state)
{
    (void)state;
    box_error err;
    BOX_AUTO(box_buf_done) box_buf out = {0};
    BOX_AUTO(box_freep) box_files_ask *ask = box_alloc(sizeof *ask);
    fill_ask(ask);
    assert_int_equal(box_files_put_ask(&out, ask, &err), 0);
    box_bytes body = body_of(&out, BOX_FILES_FROM_BOXD, BOX_FILES_ASK);
    BOX_AUTO(box_freep) uint8_t *copy = box_alloc(body.len + 1);
    memcpy(copy, body.data, body.len);
    for (size_t len = 0; len < body.len; len++) {
        box_bytes part = {.data = copy, .len = len};
        assert_int_equal(box_files_ask_parse(part, ask, &err), -1);
        assert_int_equal(err.reason, BOX_PROTOCOL);
    }
    assert_int_equal(box_files_ask_parse((box_bytes){copy, body.len + 1}, ask, &err), -1);
}

static void assert_ask_refused(const box_files_ask *ask)
{
    box_error err;
    BOX_AUTO(box_buf_done) box_buf out = {0};
    BOX_AUTO(box_freep) box_files_ask *got = box_alloc(sizeof *got);
    assert_int_equal(box_files_put_ask(&out, ask, &err), 0);
    box_bytes body = {.data = box_buf_data(&out) + sizeof(box_files_frame),
                      .len = box_buf_len(&out) - sizeof(box_files_frame)};
    assert_int_equal(box_files_ask_parse(body, got, &err), -1);
}

static void calls_that_make_no_sense_are_refused(void **state)
{
    (void)state;
    BOX_AUTO(box_freep) box_files_ask *ask = box_alloc(sizeof *ask);
    const box_files_ask_head bad[] = {
        {.op = 0},
        {.op = BOX_FILES_OP_END},
        {.op = BOX_FILES_STAT, .flags = 1 << 30},
        {.op = BOX_FILES_PUT, .permissions = 01777},
        {.op = BOX_FILES_PUT, .permissions = -2},
        {.op = BOX_FILES_GLOB, .kind = BOX_FILES_KIND_END},
        {.op = BOX_FILES_READ, .offset = -1},
        {.op = BOX_FILES_READ, .max_bytes = -1},
        {.op = BOX_FILES_GREP, .before = 21},
        {.op = BOX_FILES_PUT, .has_digest = 2},
    };
    for (size_t i = 0; i < BOX_COUNT(bad); i++) {
        *ask = (box_files_ask){.head = bad[i], .path = bytes("/a")};
        assert_ask_refused(ask);
    }
    const char *const paths[] = {"", "a", "./a"};
    for (size_t i = 0; i < BOX_COUNT(paths); i++) {
        *ask = (box_files_ask){.head = {.op = BOX_FILES_STAT}, .path = bytes(paths[i])};
        assert_ask_refused(ask);
    }
    *ask = (box_files_ask){.head = {.op = BOX_FILES_STAT}, .path = {(const uint8_t *)"/a\0b", 4}};
    assert_ask_refused(ask);
    *ask = (box_files_ask){.head = {.op = BOX_FILES_MOVE}, .path = bytes("/a")};
    assert_ask_refused(ask); /* without a target */
    *ask = (box_files_ask){.head = {.op = BOX_FILES_EDIT, .n_edits = 1}, .path = bytes("/a")};
    assert_ask_refused(ask); /* which finds nothing */
}

/* Whatever arrives of it first. */
static void a_frame_is_seen_once_its_head_is_there(void **state)
{
    (void)state;
    box_error err;
    box_files_frame f;
    BOX_AUTO(box_buf_done) box_buf out = {0};
    assert_int_equal(box_files_put_frame(&out, BOX_FILES_DATA, "abc", 3, &err), 0);
    for (size_t len = 0; len <= box_buf_len(&out); len++) {
        int rc = box_files_frame_look(box_buf_data(&out), len, BOX_FILES_FROM_WORKER, &f, &err);
        assert_int_equal(rc, len < sizeof f ? 0 : 1);
    }
    assert_int_equal(f.size, 3);
}

static int look(uint32_t type, uint32_t size, box_files_sender from)
{
    box_error err;
    box_files_frame f = {.type = type, .size = size};
    uint8_t data[sizeof f];
    memcpy(data, &f, sizeof f);
    return box_files_frame_look(data, sizeof data, from, &f, &err);
}

static void only_the_right_side_may_send_a_type(void **state)
{
    (void)state;
    static const bool from_boxd[] = {
        [BOX_FILES_ASK] = true, [BOX_FILES_DATA] = true, [BOX_FILES_END] = true};
    static const bool from_worker[] = {[BOX_FILES_DATA] = true,
                                       [BOX_FILES_HELLO] = true,
                                       [BOX_FILES_INFO] = true,
                                       [BOX_FILES_LINE] = true,
                                       [BOX_FILES_ANSWER] = true};
    const uint32_t sizes[] = {0, 4, 128, sizeof(box_files_answer)};
    for (uint32_t type = 0; type < 300; type++) {
        bool boxd = false;
        bool worker = false;
        for (size_t i = 0; i < BOX_COUNT(sizes); i++) {
            boxd |= look(type, sizes[i], BOX_FILES_FROM_BOXD) == 1;
            worker |= look(type, sizes[i], BOX_FILES_FROM_WORKER) == 1;
        }
        assert_int_equal(boxd, type < BOX_COUNT(from_boxd) && from_boxd[type]);
        assert_int_equal(worker, type < BOX_COUNT(from_worker) && from_worker[type]);
    }
}

static void a_worker_sends_small_frames_only(void **state)
{
    (void)state;
    assert_int_equal(look(BOX_FILES_DATA, BOX_FILES_CHUNK_BYTES, BOX_FILES_FROM_WORKER), 1);
    assert_int_equal(look(BOX_FILES_DATA, BOX_FILES_CHUNK_BYTES + 1, BOX_FILES_FROM_WORKER), -1);
    assert_int_equal(look(BOX_FILES_INFO, 64 * 1024, BOX_FILES_FROM_WORKER), -1);
    assert_int_equal(look(BOX_FILES_LINE, UINT32_MAX, BOX_FILES_FROM_WORKER), -1);
    assert_int_equal(look(BOX_FILES_DATA, 0, BOX_FILES_FROM_WORKER), -1);
    assert_int_equal(look(BOX_FILES_ASK, BOX_FILES_ASK_BYTES + 1, BOX_FILES_FROM_BOXD), -1);
}

static void a_file_is_read_as_it_was_written(void **state)
{
    (void)state;
    box_error err;
    box_files_info got;
    BOX_AUTO(box_buf_done) box_buf out = {0};
    box_files_info info = {.head = {.kind = BOX_FILES_SYMLINK, .permissions = 0777, .links = 1},
                           .path = bytes("/w/\xff"),
                           .target = bytes("../t")};
    assert_int_equal(box_files_put_info(&out, &info, &err), 0);
    box_bytes body = body_of(&out, BOX_FILES_FROM_WORKER, BOX_FILES_INFO);
    assert_int_equal(box_files_info_parse(body, &got, &err), 0);
    assert_memory_equal(&got.head, &info.head, sizeof got.head);
    assert_bytes(got.path, "/w/\xff");
    assert_bytes(got.target, "../t");
    for (size_t len = 0; len < body.len; len++)
        assert_int_equal(box_files_info_parse((box_bytes){body.data, len}, &got, &err), -1);
}

static void files_that_make_no_sense_are_refused(void **state)
{
    (void)state;
    const box_files_info_head bad[] = {{.kind = 0},
                                       {.kind = BOX_FILES_KIND_END},
                                       {.kind = 1, .permissions = 010000},
                                       {.kind = 1, .uid = UINT32_MAX},
                                       {.kind = 1, .size_bytes = -1},
                                       {.kind = 1, .links = -1}};
    for (size_t i = 0; i < BOX_COUNT(bad); i++) {
        box_error err;
        box_files_info got;
        BOX_AUTO(box_buf_done) box_buf out = {0};
        box_files_info info = {.head = bad[i], .path = bytes("/a")};
        assert_int_equal(box_files_put_info(&out, &info, &err), 0);
        box_bytes body = body_of(&out, BOX_FILES_FROM_WORKER, BOX_FILES_INFO);
        assert_int_equal(box_files_info_parse(body, &got, &err), -1);
        assert_int_equal(err.reason, BOX_PROTOCOL);
    }
}

static int parse_line(const box_files_line *line, box_files_line *got)
{
    box_error err;
    BOX_AUTO(box_buf_done) box_buf out = {0};
    assert_int_equal(box_files_put_line(&out, line, &err), 0);
    box_bytes body = body_of(&out, BOX_FILES_FROM_WORKER, BOX_FILES_LINE);
    for (size_t len = 0; len < body.len; len++)
        assert_int_equal(box_files_line_parse((box_bytes){body.data, len}, got, &err), -1);
    return box_files_line_parse(body, got, &err);
}

static void lines_are_text_and_matches_have_a_path(void **state)
{
    (void)state;
    box_files_line got;
    box_files_line line = {.head = {.place = BOX_FILES_MATCH, .number = 3, .offset = 9},
                           .path = bytes("/a"),
                           .text = bytes("caf\xc3\xa9")};
    assert_int_equal(parse_line(&line, &got), 0);
    line.text = bytes("caf\xe9");
    assert_int_equal(parse_line(&line, &got), -1);
    line.text = (box_bytes){(const uint8_t *)"a\0b", 3};
    assert_int_equal(parse_line(&line, &got), -1);
    line.text = bytes("x");
    line.path = bytes("");
    assert_int_equal(parse_line(&line, &got), -1);
    line.head.place = BOX_FILES_AFTER;
    assert_int_equal(parse_line(&line, &got), 0);
    line.head.number = 0;
    assert_int_equal(parse_line(&line, &got), -1);
    line.head = (box_files_line_head){.place = 4, .number = 1};
    assert_int_equal(parse_line(&line, &got), -1);
}

static int parse_answer(const box_files_answer *a, box_files_answer *got)
{
    box_error err;
    BOX_AUTO(box_buf_done) box_buf out = {0};
    assert_int_equal(box_files_put_answer(&out, a, &err), 0);
    return box_files_answer_parse(body_of(&out, BOX_FILES_FROM_WORKER, BOX_FILES_ANSWER), got,
                                  &err);
}

static void an_answers_error_is_made_safe(void **state)
{
    (void)state;
    box_files_answer got;
    box_files_answer a = {.total_lines = -1, .error = {.reason = (box_reason)9999}};
    memset(a.error.msg, '\xff', sizeof a.error.msg);
    a.error.detail_len = UINT16_MAX;
    assert_int_equal(parse_answer(&a, &got), 0);
    assert_int_equal(got.error.reason, BOX_INTERNAL);
    assert_string_not_equal(got.error.msg, "");
    assert_int_equal(got.error.msg[0], '?');
    assert_int_equal(got.error.detail_len, 0);
}

static void answers_that_make_no_sense_are_refused(void **state)
{
    (void)state;
    box_files_answer got;
    const box_files_answer bad[] = {{.flags = 1 << 20},  {.cut = BOX_FILES_CUT_END},
                                    {.total = -1},       {.next_offset = -5},
                                    {.total_lines = -2}, {.start_line = INT64_MIN}};
    for (size_t i = 0; i < BOX_COUNT(bad); i++)
        assert_int_equal(parse_answer(&bad[i], &got), -1);
    assert_int_equal(parse_answer(&(box_files_answer){.total = 3}, &got), 0);
}

static void another_version_is_refused(void **state)
{
    (void)state;
    box_error err;
    uint32_t version = BOX_FILES_VERSION;
    assert_int_equal(
        box_files_hello_parse((box_bytes){(const uint8_t *)&version, sizeof version}, &err), 0);
    version++;
    assert_int_equal(
        box_files_hello_parse((box_bytes){(const uint8_t *)&version, sizeof version}, &err), -1);
    assert_int_equal(err.reason, BOX_VERSION_MISMATCH);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_call_is_read_as_it_was_written),
        cmocka_unit_test(a_call_of_another_size_is_refused),
        cmocka_unit_test(calls_that_make_no_sense_are_refused),
        cmocka_unit_test(a_frame_is_seen_once_its_head_is_there),
        cmocka_unit_test(only_the_right_side_may_send_a_type),
        cmocka_unit_test(a_worker_sends_small_frames_only),
        cmocka_unit_test(a_file_is_read_as_it_was_written),
        cmocka_unit_test(files_that_make_no_sense_are_refused),
        cmocka_unit_test(lines_are_text_and_matches_have_a_path),
        cmocka_unit_test(an_answers_error_is_made_safe),
        cmocka_unit_test(answers_that_make_no_sense_are_refused),
        cmocka_unit_test(another_version_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
