/* The whole worker on a folder of its own, in a child, with sanitizers where the build has them:
 * frames in, frames out. */
#include <fcntl.h>
#include <ftw.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "files/worker.h"

typedef struct rig {
    char dir[64];
    int root;
    int socket;
    pid_t worker;
    box_buf in;
    /* of the last call */
    box_files_answer answer;
    size_t n_infos, n_lines;
    char paths[4096]; /* of infos, a line each */
    char data[65536];
    size_t data_len;
} rig;

static box_bytes bytes(const char *text)
{
    return (box_bytes){.data = (const uint8_t *)text, .len = strlen(text)};
}

static int set_up(void **state)
{
    rig *r = box_alloc(sizeof *r);
    int ends[2];
    (void)snprintf(r->dir, sizeof r->dir, "/tmp/box-test-XXXXXX");
    assert_non_null(mkdtemp(r->dir));
    r->root = open(r->dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    assert_true(r->root >= 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    r->worker = fork();
    assert_true(r->worker >= 0);
    if (r->worker == 0) {
        box_error err;
        (void)close(ends[0]);
        int rc = box_files_serve(ends[1], r->root, &err);
        _exit(rc < 0 ? 1 : 0);
    }
    (void)close(ends[1]);
    r->socket = ends[0];
    *state = r;
    return 0;
}

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *at)
{
    (void)st;
    (void)type;
    (void)at;
    return remove(path);
}

static int tear_down(void **state)
{
    rig *r = *state;
    int status = 0;
    box_closep(&r->socket);
    assert_int_equal(waitpid(r->worker, &status, 0), r->worker);
    assert_true(WIFEXITED(status));
    box_closep(&r->root);
    assert_int_equal(nftw(r->dir, remove_entry, 16, FTW_DEPTH | FTW_PHYS), 0);
    box_buf_done(&r->in);
    free(r);
    return 0;
}

static void send_all(const rig *r, const box_buf *out, size_t piece)
{
    for (size_t at = 0; at < box_buf_len(out);) {
        size_t n = box_buf_len(out) - at < piece ? box_buf_len(out) - at : piece;
        ssize_t sent = send(r->socket, box_buf_data(out) + at, n, MSG_NOSIGNAL);
        assert_true(sent > 0);
        at += (size_t)sent;
    }
}

static void on_frame(rig *r, uint32_t type, box_bytes body)
{
    box_error err;
    box_files_info info;
    box_files_line line;
    if (type == BOX_FILES_INFO) {
        assert_int_equal(box_files_info_parse(body, &info, &err), 0);
        size_t len = strlen(r->paths);
        (void)snprintf(r->paths + len, sizeof r->paths - len, "%.*s\n", (int)info.path.len,
                       (const char *)info.path.data);
        r->n_infos++;
    } else if (type == BOX_FILES_LINE) {
        assert_int_equal(box_files_line_parse(body, &line, &err), 0);
        r->n_lines++;
    } else if (type == BOX_FILES_DATA) {
        assert_true(r->data_len + body.len < sizeof r->data);
        memcpy(r->data + r->data_len, body.data, body.len);
        r->data_len += body.len;
        r->data[r->data_len] = '\0';
    } else if (type == BOX_FILES_ANSWER) {
        assert_int_equal(box_files_answer_parse(body, &r->answer, &err), 0);
    }
}

/* Frames until one of that type came. */
static void receive_until(rig *r, uint32_t wanted)
{
    for (;;) {
        box_error err;
        box_files_frame f;
        size_t have = box_buf_len(&r->in);
        int rc = box_files_frame_look(box_buf_data(&r->in), have, BOX_FILES_FROM_WORKER, &f, &err);
        assert_true(rc >= 0);
        if (rc == 1 && have >= sizeof f + f.size) {
            on_frame(r, f.type, (box_bytes){box_buf_data(&r->in) + sizeof f, f.size});
            box_buf_consume(&r->in, sizeof f + f.size);
            if (f.type == wanted)
                return;
            continue;
        }
        uint8_t *room;
        assert_int_equal(box_buf_reserve(&r->in, 65536, &room, &err), 0);
        ssize_t n = recv(r->socket, room, 65536, 0);
        assert_true(n > 0);
        box_buf_commit(&r->in, (size_t)n);
    }
}

static void begin(rig *r)
{
    r->n_infos = r->n_lines = r->data_len = 0;
    r->paths[0] = r->data[0] = '\0';
}

static box_files_ask ask_of(box_files_op op, const char *path)
{
    return (box_files_ask){.head = {.op = op, .permissions = -1}, .path = bytes(path)};
}

/* One call without content; the reason it failed with. */
static box_reason call(rig *r, const box_files_ask *ask)
{
    box_error err;
    BOX_AUTO(box_buf_done) box_buf out = {0};
    begin(r);
    assert_int_equal(box_files_put_ask(&out, ask, &err), 0);
    send_all(r, &out, 65536);
    receive_until(r, BOX_FILES_ANSWER);
    return r->answer.error.reason;
}

static box_reason put_in_pieces(rig *r, const box_files_ask *ask, const char *content, size_t piece)
{
    box_error err;
    BOX_AUTO(box_buf_done) box_buf out = {0};
    begin(r);
    assert_int_equal(box_files_put_ask(&out, ask, &err), 0);
    for (size_t i = 0; i < strlen(content); i += 3) {
        size_t n = strlen(content + i) < 3 ? strlen(content + i) : 3;
        assert_int_equal(box_files_put_frame(&out, BOX_FILES_DATA, content + i, n, &err), 0);
    }
    assert_int_equal(box_files_put_frame(&out, BOX_FILES_END, NULL, 0, &err), 0);
    send_all(r, &out, piece);
    receive_until(r, BOX_FILES_ANSWER);
    return r->answer.error.reason;
}

static box_reason put(rig *r, const char *path, const char *content)
{
    box_files_ask ask = ask_of(BOX_FILES_PUT, path);
    ask.head.flags = BOX_FILES_PARENTS | BOX_FILES_REPLACE;
    return put_in_pieces(r, &ask, content, 65536);
}

static const char *get(rig *r, const char *path)
{
    box_files_ask ask = ask_of(BOX_FILES_GET, path);
    assert_int_equal(call(r, &ask), BOX_NONE);
    return r->data;
}

/* --- tests ------------------------------------------------------------------------------------ */

static void it_says_its_version_first(void **state)
{
    rig *r = *state;
    receive_until(r, BOX_FILES_HELLO);
}

static void a_call_may_arrive_byte_by_byte(void **state)
{
    rig *r = *state;
    box_files_ask ask = ask_of(BOX_FILES_PUT, "/d/e/f");
    ask.head.flags = BOX_FILES_PARENTS;
    for (size_t piece = 1; piece < 12; piece++) {
        ask.head.flags |= piece > 1 ? BOX_FILES_REPLACE : 0;
        assert_int_equal(put_in_pieces(r, &ask, "0123456789", piece), BOX_NONE);
        assert_int_equal(r->answer.bytes, 10);
        assert_string_equal(get(r, "/d/e/f"), "0123456789");
    }
}

static void after_an_early_error_it_is_good_for_another_call(void **state)
{
    rig *r = *state;
    assert_int_equal(put(r, "/a", "first"), BOX_NONE);
    box_files_ask ask = ask_of(BOX_FILES_PUT, "/a");
    assert_int_equal(put_in_pieces(r, &ask, "second", 4), BOX_FILE_EXISTS);
    assert_string_equal(get(r, "/a"), "first");
}

static void links_do_not_lead_out_of_the_root(void **state)
{
    rig *r = *state;
    assert_int_equal(symlinkat("/etc/passwd", r->root, "out"), 0);
    assert_int_equal(symlinkat("../../../../../../etc", r->root, "up"), 0);
    box_files_ask ask = ask_of(BOX_FILES_READ, "/out");
    ask.head.max_bytes = ask.head.max_items = 100;
    assert_int_equal(call(r, &ask), BOX_FILE_NOT_FOUND);
    ask.path = bytes("/up/passwd");
    assert_int_equal(call(r, &ask), BOX_FILE_NOT_FOUND);
    ask.path = bytes("/../../../etc/passwd");
    assert_int_equal(call(r, &ask), BOX_FILE_NOT_FOUND);
    /* Written through, they make files inside. */
    assert_int_equal(put(r, "/etc/x", ""), BOX_NONE);
    assert_int_equal(put(r, "/up/new", "inside"), BOX_NONE);
    assert_string_equal(get(r, "/etc/new"), "inside");
    assert_int_equal(put(r, "/out", "inside too"), BOX_NONE);
    assert_string_equal(get(r, "/etc/passwd"), "inside too");
}

static void a_call_that_is_broken_off_leaves_nothing(void **state)
{
    rig *r = *state;
    box_error err;
    box_files_ask ask = ask_of(BOX_FILES_PUT, "/big");
    BOX_AUTO(box_buf_done) box_buf out = {0};
    assert_int_equal(box_files_put_ask(&out, &ask, &err), 0);
    assert_int_equal(box_files_put_frame(&out, BOX_FILES_DATA, "half", 4, &err), 0);
    send_all(r, &out, 65536);
    assert_int_equal(shutdown(r->socket, SHUT_WR), 0);
    char byte[4096];
    while (recv(r->socket, byte, sizeof byte, 0) > 0)
        ;
    assert_int_equal(waitid(P_PID, (id_t)r->worker, NULL, WEXITED | WNOWAIT), 0);
    assert_int_equal(faccessat(r->root, "big", F_OK, 0), -1);
}

static void walks_are_in_order_and_may_begin_anywhere(void **state)
{
    rig *r = *state;
    static const char *const files[] = {"/t/a/1", "/t/a/2", "/t/a-b", "/t/a.c", "/t/b", "/t/a/x/y"};
    static const char *const all[] = {"a", "a-b", "a.c", "a/1", "a/2", "a/x", "a/x/y", "b"};
    for (size_t i = 0; i < BOX_COUNT(files); i++)
        assert_int_equal(put(r, files[i], ""), BOX_NONE);
    for (size_t from = 0; from <= BOX_COUNT(all); from++) {
        char after[64] = "";
        char want[512] = "";
        box_files_ask ask = ask_of(BOX_FILES_LIST, "/t");
        ask.head.depth = 32;
        ask.head.max_items = 1000;
        if (from > 0)
            (void)snprintf(after, sizeof after, "/%s", all[from - 1]);
        ask.target = bytes(after);
        for (size_t i = from; i < BOX_COUNT(all); i++)
            (void)snprintf(want + strlen(want), sizeof want - strlen(want), "/t/%s\n", all[i]);
        assert_int_equal(call(r, &ask), BOX_NONE);
        assert_string_equal(r->paths, want);
    }
}

static void what_is_no_call_ends_it(void **state)
{
    rig *r = *state;
    box_error err;
    BOX_AUTO(box_buf_done) box_buf out = {0};
    assert_int_equal(box_files_put_frame(&out, BOX_FILES_DATA, "x", 1, &err), 0);
    send_all(r, &out, 65536);
    char byte[256];
    while (recv(r->socket, byte, sizeof byte, 0) > 0)
        ;
}

static void everything_else_answers(void **state)
{
    rig *r = *state;
    assert_int_equal(put(r, "/d/a", "one\ntwo\nthree\n"), BOX_NONE);
    box_files_ask ask = ask_of(BOX_FILES_EDIT, "/d/a");
    ask.head.n_edits = 1;
    ask.edits[0] = (box_files_edit){.old_data = bytes("two"), .new_data = bytes("2")};
    assert_int_equal(call(r, &ask), BOX_NONE);
    assert_non_null(strstr(r->data, "-two\n+2\n"));
    ask = ask_of(BOX_FILES_GREP, "/");
    ask.pattern = bytes("^(one|2)$");
    ask.head.max_items = 10;
    ask.head.max_bytes = 100;
    assert_int_equal(call(r, &ask), BOX_NONE);
    assert_int_equal(r->n_lines, 2);
    ask.pattern = bytes("(");
    assert_int_equal(call(r, &ask), BOX_VALIDATION);
    ask = ask_of(BOX_FILES_GLOB, "/");
    ask.pattern = bytes("*");
    ask.head.max_items = 1;
    assert_int_equal(call(r, &ask), BOX_NONE);
    assert_int_equal(r->answer.total, 2);
    assert_int_equal(r->answer.cut, BOX_FILES_CUT_MATCHES);
    ask = ask_of(BOX_FILES_MKDIR, "/x/y");
    assert_int_equal(call(r, &ask), BOX_FILE_NOT_FOUND);
    ask.head.flags = BOX_FILES_PARENTS;
    assert_int_equal(call(r, &ask), BOX_NONE);
    ask = ask_of(BOX_FILES_MOVE, "/d/a");
    ask.target = bytes("/x/y/z");
    assert_int_equal(call(r, &ask), BOX_NONE);
    ask = ask_of(BOX_FILES_REMOVE, "/x");
    assert_int_equal(call(r, &ask), BOX_FILE_CONFLICT);
    ask.head.flags = BOX_FILES_RECURSIVE;
    assert_int_equal(call(r, &ask), BOX_NONE);
    assert_int_equal(r->answer.total, 3);
    ask = ask_of(BOX_FILES_STAT, "/d");
    assert_int_equal(call(r, &ask), BOX_NONE);
    assert_string_equal(r->paths, "/d\n");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(it_says_its_version_first),
        TEST(a_call_may_arrive_byte_by_byte),
        TEST(after_an_early_error_it_is_good_for_another_call),
        TEST(links_do_not_lead_out_of_the_root),
        TEST(a_call_that_is_broken_off_leaves_nothing),
        TEST(walks_are_in_order_and_may_begin_anywhere),
        TEST(what_is_no_call_ends_it),
        TEST(everything_else_answers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
