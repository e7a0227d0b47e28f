/* spawn: channels: a private boxd and warden that come and go with the channel. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "box/v1/control.client.h"

static const char *target(char text[512], const char *arguments)
{
    const char *boxd = getenv("BOX_BOXD");
    assert_non_null(boxd);
    (void)snprintf(text, 512, "spawn:%s%s", boxd, arguments);
    return text;
}

static int who_am_i(box_channel *c, box_error *err)
{
    const box_client_options o = {.timeout_ns = 30 * BOX_SECOND};
    Box__V1__WhoAmIRequest request;
    Box__V1__WhoAmIResponse *response = NULL;
    box__v1__who_am_irequest__init(&request);
    if (box_v1_control_service_who_am_i(c, &o, &request, &response, err) < 0)
        return -1;
    assert_string_equal(response->tenant_id, "default");
    box__v1__who_am_iresponse__free_unpacked(response, NULL);
    return 0;
}

static size_t open_descriptors(void)
{
    size_t n = 0;
    DIR *dir = opendir("/proc/self/fd");
    assert_non_null(dir);
    while (readdir(dir) != NULL)
        n++;
    (void)closedir(dir);
    return n;
}

static void no_child_is_left(void)
{
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    assert_int_equal(errno, ECHILD);
}

static void a_private_server_lives_as_long_as_its_channel(void **state)
{
    (void)state;
    char text[512];
    box_error err;
    size_t before = open_descriptors();
    for (int i = 0; i < 3; i++) {
        box_channel *c;
        if (box_channel_new(target(text, ""), NULL, &c, &err) < 0 || who_am_i(c, &err) < 0)
            fail_msg("%s", err.msg);
        box_channel_free(c);
        no_child_is_left();
    }
    assert_int_equal(open_descriptors(), before);
}

static void a_channel_that_was_never_used_ends_its_server_too(void **state)
{
    (void)state;
    char text[512];
    box_channel *c;
    box_error err;
    box_time start = box_now();
    assert_int_equal(box_channel_new(target(text, ""), NULL, &c, &err), 0);
    box_channel_free(c);
    no_child_is_left();
    assert_true(box_now() - start < 6 * BOX_SECOND); /* not killed: it was told */
}

/* Descriptors of ours that have the very numbers the children get. */
static void descriptors_of_any_number_do_not_get_in_the_way(void **state)
{
    (void)state;
    char text[512];
    box_channel *c;
    box_error err;
    int low[8];
    int n = 0;
    for (; n < 8; n++) {
        low[n] = open("/dev/null", O_RDONLY | O_CLOEXEC);
        assert_true(low[n] >= 0);
    }
    for (int i = 0; i < n; i += 2)
        (void)close(low[i]);
    if (box_channel_new(target(text, ""), NULL, &c, &err) < 0 || who_am_i(c, &err) < 0)
        fail_msg("%s", err.msg);
    box_channel_free(c);
    no_child_is_left();
    for (int i = 1; i < n; i += 2)
        (void)close(low[i]);
}

static void a_program_that_is_not_there_is_said_at_once(void **state)
{
    (void)state;
    box_channel *c;
    box_error err;
    assert_int_equal(box_channel_new("spawn:/nonexistent/boxd", NULL, &c, &err), -1);
    assert_int_equal(err.reason, BOX_RUNTIME_UNAVAILABLE);
    assert_int_equal(box_channel_new("spawn:  ", NULL, &c, &err), -1);
    assert_int_equal(err.reason, BOX_VALIDATION);
    no_child_is_left();
}

/* Neither boxd nor its warden comes from where the program happens to be. */
static void a_bare_name_is_looked_for_in_path_alone(void **state)
{
    (void)state;
    char folder[] = "/tmp/box-spawn-XXXXXX";
    char text[1024];
    char path[512];
    box_channel *c;
    box_error err;
    (void)snprintf(path, sizeof path, "%s", getenv("BOX_BOXD"));
    *strrchr(path, '/') = '\0';
    assert_non_null(mkdtemp(folder));
    assert_int_equal(chdir(folder), 0);
    assert_int_equal(symlink("/bin/true", "boxd"), 0);
    assert_int_equal(symlink("/bin/true", "box-warden"), 0);
    (void)setenv("PATH", "::.:relative", 1);
    assert_int_equal(box_channel_new("spawn:boxd", NULL, &c, &err), -1);
    assert_int_equal(err.reason, BOX_RUNTIME_UNAVAILABLE);
    (void)snprintf(text, sizeof text, ".:%s:/usr/bin:/bin", path);
    (void)setenv("PATH", text, 1);
    if (box_channel_new("spawn:boxd", NULL, &c, &err) < 0 || who_am_i(c, &err) < 0)
        fail_msg("%s", err.msg);
    box_channel_free(c);
    no_child_is_left();
    (void)unlink("boxd");
    (void)unlink("box-warden");
    assert_int_equal(chdir("/"), 0);
    (void)rmdir(folder);
}

static void a_server_that_does_not_start_is_unavailable(void **state)
{
    (void)state;
    char text[512];
    box_channel *c;
    box_error err;
    assert_int_equal(box_channel_new(target(text, " --no-such-option"), NULL, &c, &err), 0);
    assert_int_equal(who_am_i(c, &err), -1);
    assert_int_equal(box_error_code(&err), BOX_CODE_UNAVAILABLE);
    assert_int_equal(who_am_i(c, &err), -1);
    assert_int_equal(box_error_code(&err), BOX_CODE_UNAVAILABLE);
    box_channel_free(c);
    no_child_is_left();
}

/* The environment's token is for another server. */
static void a_private_server_needs_no_token(void **state)
{
    (void)state;
    char text[512];
    box_channel *c;
    box_error err;
    (void)setenv("BOX_ENDPOINT", target(text, ""), 1);
    (void)setenv("BOX_TOKEN_FILE", "/nonexistent/token", 1);
    if (box_channel_new(NULL, NULL, &c, &err) < 0 || who_am_i(c, &err) < 0)
        fail_msg("%s", err.msg);
    box_channel_free(c);
    (void)unsetenv("BOX_ENDPOINT");
    (void)unsetenv("BOX_TOKEN_FILE");
    no_child_is_left();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_private_server_lives_as_long_as_its_channel),
        cmocka_unit_test(a_channel_that_was_never_used_ends_its_server_too),
        cmocka_unit_test(descriptors_of_any_number_do_not_get_in_the_way),
        cmocka_unit_test(a_program_that_is_not_there_is_said_at_once),
        cmocka_unit_test(a_bare_name_is_looked_for_in_path_alone),
        cmocka_unit_test(a_server_that_does_not_start_is_unavailable),
        cmocka_unit_test(a_private_server_needs_no_token),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
