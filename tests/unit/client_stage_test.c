#include "box/stage.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/fd.h"
#include "base/macros.h"
#include "box/inproc.h"
#include "fake_files.h"

typedef struct fixture {
    char top[64];
    char project[96];
    char path[512]; /* what `in` and `inside` gave last */
    fake_files files;
    box_channel *channel;
    box_error err;
} fixture;

static const char *in(fixture *f, const char *name)
{
    (void)snprintf(f->path, sizeof f->path, "%s/%s", f->project, name);
    return f->path;
}

static const char *inside(fixture *f, const char *name)
{
    (void)snprintf(f->path, sizeof f->path, "%s/%s", f->files.root, name);
    return f->path;
}

static void folder(fixture *f, const char *name)
{
    assert_int_equal(mkdir(in(f, name), 0700), 0);
}

static void file(fixture *f, const char *name, const char *text, mode_t mode)
{
    BOX_AUTO(box_closep)
    int fd = open(in(f, name), O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, mode);
    assert_true(fd >= 0);
    assert_int_equal(box_fd_write_all(fd, text, strlen(text), &f->err), 0);
    assert_int_equal(fchmod(fd, mode), 0);
}

static int set_up(void **state)
{
    static fixture fixture_;
    fixture *f = &fixture_;
    *f = (fixture){0};
    (void)snprintf(f->top, sizeof f->top, "/tmp/box-stage-XXXXXX");
    assert_non_null(mkdtemp(f->top));
    (void)snprintf(f->project, sizeof f->project, "%.63s/project", f->top);
    (void)snprintf(f->files.root, sizeof f->files.root, "%.63s/inside", f->top);
    assert_int_equal(mkdir(f->project, 0700) | mkdir(f->files.root, 0700), 0);
    folder(f, "src");
    folder(f, "empty");
    file(f, "server.py", "print(1)\n", 0644);
    file(f, "src/run.sh", "#!/bin/sh\n", 0755);
    file(f, "requirements.txt", "", 0600);
    static box_service offered;
    offered = (box_service){&box_v1_file_service, &fake_files_handlers, &f->files};
    assert_int_equal(box_channel_inproc(&offered, 1, NULL, NULL, &f->channel, &f->err), 0);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    fixture *f = *state;
    box_channel_free(f->channel);
    fake_files_remove_tree(f->top);
    return 0;
}

static box_stage *scan(fixture *f)
{
    box_stage *s = NULL;
    assert_int_equal(box_stage_scan(f->project, &s, &f->err), 0);
    return s;
}

static void hash_of(fixture *f, char out[BOX_STAGE_HASH_TEXT])
{
    box_stage *s = scan(f);
    (void)snprintf(out, BOX_STAGE_HASH_TEXT, "%s", box_stage_hash(s));
    box_stage_free(s);
}

/* --- scanning --------------------------------------------------------------------------------- */

static void a_scan_knows_what_is_there(void **state)
{
    fixture *f = *state;
    const char *example;
    box_stage *s = scan(f);
    assert_int_equal(box_stage_files(s), 3);
    assert_int_equal(box_stage_bytes(s), 19);
    assert_true(box_stage_has(s, "requirements.txt"));
    assert_true(box_stage_has(s, "src/run.sh"));
    assert_false(box_stage_has(s, "src"));
    assert_false(box_stage_has(s, "setup.py"));
    assert_int_equal(box_stage_left_out(s, &example), 0);
    assert_string_equal(box_stage_root(s), f->project);
    assert_int_equal(strlen(box_stage_hash(s)), 64);
    box_stage_free(s);
}

static void the_hash_changes_with_all_that_counts_and_nothing_else(void **state)
{
    fixture *f = *state;
    char first[BOX_STAGE_HASH_TEXT], now[BOX_STAGE_HASH_TEXT];
    hash_of(f, first);
    file(f, "server.py", "print(1)\n", 0640); /* written anew, another mode of reading */
    hash_of(f, now);
    assert_string_equal(now, first);
    file(f, "server.py", "print(2)\n", 0644);
    hash_of(f, now);
    assert_string_not_equal(now, first);
    file(f, "server.py", "print(1)\n", 0755);
    hash_of(f, now);
    assert_string_not_equal(now, first);
    file(f, "server.py", "print(1)\n", 0644);
    char from[512];
    (void)snprintf(from, sizeof from, "%s", in(f, "server.py"));
    assert_int_equal(rename(from, in(f, "server2.py")), 0);
    hash_of(f, now);
    assert_string_not_equal(now, first);
    assert_int_equal(rename(in(f, "server2.py"), from), 0);
    folder(f, "empty2");
    hash_of(f, now);
    assert_string_not_equal(now, first);
}

static void caches_and_environments_are_left_at_home(void **state)
{
    fixture *f = *state;
    char first[BOX_STAGE_HASH_TEXT], now[BOX_STAGE_HASH_TEXT];
    hash_of(f, first);
    static const char *const folders[] = {".git", "src/__pycache__", "src/.cache", ".venv", "env"};
    for (size_t i = 0; i < BOX_COUNT(folders); i++)
        folder(f, folders[i]);
    file(f, ".git/config", "x", 0644);
    file(f, ".venv/pyvenv.cfg", "x", 0644);
    file(f, "env/pyvenv.cfg", "x", 0644);
    hash_of(f, now);
    assert_string_equal(now, first);
    folder(f, "venv"); /* called so, but none */
    file(f, "venv/__init__.py", "", 0644);
    file(f, ".env", "KEY=1", 0644);
    box_stage *s = scan(f);
    assert_true(box_stage_has(s, "venv/__init__.py"));
    assert_true(box_stage_has(s, ".env"));
    box_stage_free(s);
}

static void links_are_files_of_the_project_or_nothing(void **state)
{
    fixture *f = *state;
    const char *example = NULL;
    assert_int_equal(symlink("../server.py", in(f, "src/inner.py")), 0);
    assert_int_equal(symlink("/etc/passwd", in(f, "src/outer")), 0);
    assert_int_equal(symlink("../../../etc/passwd", in(f, "src/outer2")), 0);
    assert_int_equal(symlink("src", in(f, "folder")), 0);
    assert_int_equal(symlink("loop", in(f, "loop")), 0);
    assert_int_equal(symlink("none", in(f, "broken")), 0);
    assert_int_equal(mkfifo(in(f, "fifo"), 0600), 0);
    box_stage *s = scan(f);
    assert_true(box_stage_has(s, "src/inner.py"));
    assert_false(box_stage_has(s, "src/outer"));
    assert_int_equal(box_stage_files(s), 4);
    assert_int_equal(box_stage_left_out(s, &example), 6);
    assert_non_null(example);
    box_stage_free(s);
}

static void what_has_no_end_is_refused(void **state)
{
    fixture *f = *state;
    box_stage *s = NULL;
    char path[512] = "deep";
    folder(f, path);
    for (int i = 0; i < BOX_STAGE_MAX_DEPTH; i++) {
        size_t len = strlen(path);
        (void)snprintf(path + len, sizeof path - len, "/d");
        folder(f, path);
    }
    assert_int_equal(box_stage_scan(f->project, &s, &f->err), -1);
    assert_int_equal(f->err.reason, BOX_QUOTA);
    fake_files_remove_tree(in(f, "deep"));
    file(f, "large", "", 0644); /* a hole: it takes no room */
    assert_int_equal(truncate(in(f, "large"), BOX_STAGE_MAX_BYTES), 0);
    assert_int_equal(box_stage_scan(f->project, &s, &f->err), -1);
    assert_int_equal(f->err.reason, BOX_QUOTA);
    assert_null(s);
}

static void a_folder_that_is_none_is_said(void **state)
{
    fixture *f = *state;
    box_stage *s = NULL;
    assert_int_equal(box_stage_scan(in(f, "none"), &s, &f->err), -1);
    assert_int_equal(f->err.reason, BOX_FILE_NOT_FOUND);
    assert_int_equal(box_stage_scan(in(f, "server.py"), &s, &f->err), -1);
    assert_null(s);
    box_stage_free(NULL);
}

/* --- copying ---------------------------------------------------------------------------------- */

static int put(fixture *f, const box_stage *s, bool *made)
{
    return box_stage_put(s, f->channel, NULL, "mcp", "/workspace/.mcp/x/hash", made, &f->err);
}

/* What lies beside the copy, the copy counted. */
static int beside(fixture *f)
{
    char text[600];
    (void)snprintf(text, sizeof text, "ls %s/workspace/.mcp/x | wc -l", f->files.root);
    FILE *p = popen(text, "re");
    int n = -1;
    assert_non_null(p);
    assert_int_equal(fscanf(p, "%d", &n), 1);
    (void)pclose(p);
    return n;
}

static void a_copy_is_whole(void **state)
{
    fixture *f = *state;
    bool made = false;
    struct stat st;
    box_stage *s = scan(f);
    assert_int_equal(put(f, s, &made), 0);
    assert_true(made);
    assert_int_equal(stat(inside(f, "workspace/.mcp/x/hash/src/run.sh"), &st), 0);
    assert_int_equal(st.st_mode & 0777, 0755);
    assert_int_equal(stat(inside(f, "workspace/.mcp/x/hash/server.py"), &st), 0);
    assert_int_equal(st.st_size, 9);
    assert_int_equal(stat(inside(f, "workspace/.mcp/x/hash/empty"), &st), 0);
    assert_int_equal(beside(f), 1);
    assert_int_equal(f->files.uploads, 3);
    assert_int_equal(put(f, s, &made), 0); /* once is enough */
    assert_false(made);
    assert_int_equal(f->files.uploads, 3);
    box_stage_free(s);
}

static void a_copy_that_fails_leaves_nothing(void **state)
{
    fixture *f = *state;
    bool made = true;
    box_stage *s = scan(f);
    f->files.fail_upload_at = 3;
    assert_int_equal(put(f, s, &made), -1);
    assert_int_equal(f->err.reason, BOX_QUOTA);
    assert_false(made);
    assert_int_equal(beside(f), 0);
    box_stage_free(s);
}

static void a_file_that_changed_meanwhile_is_noticed(void **state)
{
    fixture *f = *state;
    box_stage *s = scan(f);
    file(f, "server.py", "print(3)\n", 0644);
    assert_int_equal(put(f, s, NULL), -1);
    assert_int_equal(f->err.reason, BOX_DIGEST_MISMATCH);
    assert_non_null(strstr(f->err.msg, "server.py"));
    assert_int_equal(unlink(in(f, "server.py")), 0);
    assert_int_equal(symlink("/etc/passwd", in(f, "server.py")), 0); /* and never leads out */
    assert_int_equal(put(f, s, NULL), -1);
    assert_int_equal(beside(f), 0);
    box_stage_free(s);
}

static void who_is_second_takes_what_the_first_made(void **state)
{
    fixture *f = *state;
    bool made = true;
    box_stage *s = scan(f);
    f->files.taken_meanwhile = true;
    assert_int_equal(put(f, s, &made), 0);
    assert_false(made);
    assert_int_equal(beside(f), 0);
    assert_int_equal(box_stage_put(s, f->channel, NULL, "mcp", "relative", NULL, &f->err), -1);
    assert_int_equal(f->err.reason, BOX_VALIDATION);
    box_stage_free(s);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(a_scan_knows_what_is_there),
        TEST(the_hash_changes_with_all_that_counts_and_nothing_else),
        TEST(caches_and_environments_are_left_at_home),
        TEST(links_are_files_of_the_project_or_nothing),
        TEST(what_has_no_end_is_refused),
        TEST(a_folder_that_is_none_is_said),
        TEST(a_copy_is_whole),
        TEST(a_copy_that_fails_leaves_nothing),
        TEST(a_file_that_changed_meanwhile_is_noticed),
        TEST(who_is_second_takes_what_the_first_made),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
