#include "box/project.h"

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

typedef struct tree {
    char top[64];
    char root[96];  /* top/project */
    char *path[32]; /* what `in` gave */
    int used;
} tree;

static const char *in(tree *t, const char *name)
{
    char *path = NULL;
    assert_true(asprintf(&path, "%s/%s", t->top, name) > 0);
    free(t->path[t->used % 32]);
    return t->path[t->used++ % 32] = path;
}

static void folder(tree *t, const char *name)
{
    assert_int_equal(mkdir(in(t, name), 0700), 0);
}

static void file(tree *t, const char *name)
{
    int fd = open(in(t, name), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    (void)close(fd);
}

static int set_up(void **state)
{
    static tree t;
    t = (tree){0};
    (void)snprintf(t.top, sizeof t.top, "/tmp/box-project-XXXXXX");
    assert_non_null(mkdtemp(t.top));
    (void)snprintf(t.root, sizeof t.root, "%s/project", t.top);
    folder(&t, "project");
    folder(&t, "project/src");
    folder(&t, "project/.venv");
    folder(&t, "project/.venv/bin");
    folder(&t, "projects");
    file(&t, "project/src/server.py");
    file(&t, "project/config.json");
    file(&t, "projects/other.py");
    assert_int_equal(symlink("/usr/bin/env", in(&t, "project/.venv/bin/python3.11")), 0);
    assert_int_equal(symlink("../projects/other.py", in(&t, "project/out.py")), 0);
    assert_int_equal(symlink("project", in(&t, "link")), 0);
    *state = &t;
    return 0;
}

static int tear_down(void **state)
{
    tree *t = *state;
    static const char *const files[] = {"link",
                                        "project/out.py",
                                        "project/.venv/bin/python3.11",
                                        "projects/other.py",
                                        "project/config.json",
                                        "project/src/server.py"};
    static const char *const folders[] = {"projects", "project/.venv/bin", "project/.venv",
                                          "project/src", "project"};
    for (size_t i = 0; i < BOX_COUNT(files); i++)
        assert_int_equal(unlink(in(t, files[i])), 0);
    for (size_t i = 0; i < BOX_COUNT(folders); i++)
        assert_int_equal(rmdir(in(t, folders[i])), 0);
    for (size_t i = 0; i < BOX_COUNT(t->path); i++)
        free(t->path[i]);
    return rmdir(t->top);
}

static void expect(char *got, const char *text)
{
    if (text == NULL)
        assert_null(got);
    else
        assert_string_equal(got, text);
    free(got);
}

static void the_root_is_what_the_words_have_in_common(void **state)
{
    tree *t = *state;
    char src[128];
    (void)snprintf(src, sizeof src, "%s/src", t->root);
    const char *one[] = {"python3", in(t, "project/src/server.py")};
    expect(box_project_root(one, 2), src);
    const char *two[] = {"/usr/bin/python3", in(t, "project/src/server.py"), "--config",
                         in(t, "project/config.json")};
    expect(box_project_root(two, 4), t->root);
    const char *venv[] = {in(t, "project/.venv/bin/python3.11"), in(t, "project/src/server.py")};
    expect(box_project_root(venv, 2), t->root);
    const char *apart[] = {in(t, "project/config.json"), in(t, "projects/other.py")};
    expect(box_project_root(apart, 2), t->top);
    const char *linked[] = {in(t, "link/src")};
    expect(box_project_root(linked, 1), src);
}

static void there_may_be_none_and_it_is_never_the_whole_machine(void **state)
{
    tree *t = *state;
    const char *none[] = {"npx",
                          "-y",
                          "server",
                          "relative/path",
                          "/usr/bin/env",
                          "/bin/sh",
                          "/etc/hostname",
                          "/proc/self/status",
                          "/var/lib/dpkg/status"};
    expect(box_project_root(none, BOX_COUNT(none)), NULL);
    expect(box_project_root(NULL, 0), NULL);
    const char *missing[] = {in(t, "project/none.py")};
    expect(box_project_root(missing, 1), NULL);
    const char *far[] = {in(t, "project/config.json"), "/srv"};
    expect(box_project_root(far, 2), NULL);
    const char *of_system[] = {far[0], "/etc/passwd"};
    char *root = box_project_root(of_system, 2);
    assert_string_equal(root, t->root);
    free(root);
    const char *top[] = {"/"};
    expect(box_project_root(top, 1), NULL);
}

static void interpreters_of_environments_are_known_by_name(void **state)
{
    (void)state;
    static const char *const good[] = {"/a/.venv/bin/python", "/a/b/venv/bin/python3",
                                       "/a/env/bin/python3.11", "/a/.env/Scripts/python.exe"};
    static const char *const bad[] = {
        "/a/.venv/bin/pip",    "/usr/bin/python3",       "python", "/a/xvenv/bin/python",
        "/a/.venv/lib/python", ".venv/bin/python",       "",       "/",
        "/bin/python",         "/a/.venv/bin/sub/python"};
    for (size_t i = 0; i < BOX_COUNT(good); i++)
        assert_true(box_project_is_venv_python(good[i]));
    for (size_t i = 0; i < BOX_COUNT(bad); i++)
        assert_false(box_project_is_venv_python(bad[i]));
}

static void paths_are_mapped_by_what_they_are(void **state)
{
    tree *t = *state;
    expect(box_project_map(in(t, "project/src/server.py"), t->root, "/workspace/x"),
           "/workspace/x/src/server.py");
    expect(box_project_map(t->root, t->root, "/workspace/x"), "/workspace/x");
    expect(box_project_map(in(t, "project/src/../config.json"), t->root, "/w"), "/w/config.json");
    expect(box_project_map(in(t, "link/config.json"), t->root, "/w"), "/w/config.json");
    expect(box_project_map(in(t, "projects/other.py"), t->root, "/w"), NULL);
    expect(box_project_map(in(t, "project/out.py"), t->root, "/w"), NULL);
    expect(box_project_map(in(t, "project/none"), t->root, "/w"), NULL);
    expect(box_project_map("config.json", t->root, "/w"), NULL);
    expect(box_project_map("/etc/passwd", t->root, "/w"), NULL);
}

static void words_are_rewritten_whole_or_not_at_all(void **state)
{
    tree *t = *state;
    char option[256], inside[256];
    expect(box_project_rewrite(in(t, "project/.venv/bin/python3.11"), t->root, "/w"), "python");
    expect(box_project_rewrite(in(t, "project/src"), t->root, "/w"), "/w/src");
    (void)snprintf(option, sizeof option, "--config=%s", in(t, "project/config.json"));
    expect(box_project_rewrite(option, t->root, "/w"), "--config=/w/config.json");
    (void)snprintf(inside, sizeof inside, "see %s", in(t, "project/config.json"));
    expect(box_project_rewrite(inside, t->root, "/w"), inside);
    (void)snprintf(inside, sizeof inside, "A=%s", in(t, "project/config.json"));
    expect(box_project_rewrite(inside, t->root, "/w"), inside);
    expect(box_project_rewrite("--verbose", t->root, "/w"), "--verbose");
    expect(box_project_rewrite("", t->root, "/w"), "");
    expect(box_project_rewrite("/usr/bin/node", t->root, "/w"), "/usr/bin/node");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(the_root_is_what_the_words_have_in_common),
        TEST(there_may_be_none_and_it_is_never_the_whole_machine),
        TEST(interpreters_of_environments_are_known_by_name),
        TEST(paths_are_mapped_by_what_they_are),
        TEST(words_are_rewritten_whole_or_not_at_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
