/* boxd and box-warden read the same environment when a client spawns them: each passes over what is
 * only the other's. */
#include <ctype.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "server/config.h"
#include "warden/config.h"

static int load_server(char *const *env, box_error *err)
{
    box_server_config c;
    int rc = box_server_config_load(NULL, env, NULL, &c, err);
    if (rc == 0)
        box_server_config_done(&c);
    return rc;
}

static int load_warden(char *const *env, box_error *err)
{
    box_warden_config c;
    int rc = box_warden_config_load(NULL, env, &c, err);
    if (rc == 0)
        box_warden_config_done(&c);
    return rc;
}

static char *print_server(void)
{
    box_server_config c;
    box_error err;
    char *text = NULL;
    size_t len = 0;
    FILE *to = open_memstream(&text, &len);
    assert_int_equal(box_server_config_load(NULL, NULL, NULL, &c, &err), 0);
    assert_int_equal(box_server_config_print(&c, to), 0);
    (void)fclose(to);
    box_server_config_done(&c);
    return text;
}

static char *print_warden(void)
{
    box_warden_config c;
    box_error err;
    char *text = NULL;
    size_t len = 0;
    FILE *to = open_memstream(&text, &len);
    assert_int_equal(box_warden_config_load(NULL, NULL, &c, &err), 0);
    assert_int_equal(box_warden_config_print(&c, to), 0);
    (void)fclose(to);
    box_warden_config_done(&c);
    return text;
}

/* "server:" and "# socket:" begin a top-level key; a comment's sentence begins with a capital. */
static size_t key_at(const char *line, const char **key)
{
    *key = strncmp(line, "# ", 2) == 0 ? line + 2 : line;
    size_t len = strspn(*key, "abcdefghijklmnopqrstuvwxyz_");
    return (*key)[len] == ':' ? len : 0;
}

/* Every top-level key of one program, as a variable of which only the name matters to the other. */
static void each_key_passes(const char *printed, int (*load)(char *const *, box_error *), int least)
{
    int passed = 0;
    for (const char *line = printed; line != NULL; line = strchr(line, '\n')) {
        const char *key;
        char variable[96] = "BOX__";
        box_error err = {0};
        line += *line == '\n';
        size_t len = key_at(line, &key);
        if (len == 0 || (len == 3 && memcmp(key, "log", 3) == 0)) /* log is both's */
            continue;
        for (size_t i = 0; i < len; i++)
            variable[5 + i] = (char)toupper((unsigned char)key[i]);
        (void)snprintf(variable + 5 + len, sizeof variable - 5 - len, "__ANY=x");
        char *env[] = {variable, NULL};
        if (load(env, &err) < 0)
            fail_msg("%s", err.msg);
        passed++;
    }
    assert_true(passed >= least);
}

static void each_program_passes_over_the_keys_of_the_other(void **state)
{
    (void)state;
    char *server = print_server();
    char *warden = print_warden();
    each_key_passes(server, load_warden, 7);
    each_key_passes(warden, load_server, 7);
    free(server);
    free(warden);
}

static void what_neither_knows_is_an_error_for_both(void **state)
{
    (void)state;
    char *env[] = {(char[]){"BOX__SERVERS__AUTH=off"}, NULL};
    char *shared[] = {(char[]){"BOX__LOG__COLOUR=red"}, NULL};
    box_error err = {0};
    assert_int_equal(load_server(env, &err), -1);
    assert_int_equal(load_warden(env, &err), -1);
    assert_int_equal(load_server(shared, &err), -1);
    assert_int_equal(load_warden(shared, &err), -1);
    assert_string_equal(err.msg, "environment variable BOX__LOG__COLOUR: log.colour is not a key");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_program_passes_over_the_keys_of_the_other),
        cmocka_unit_test(what_neither_knows_is_an_error_for_both),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
