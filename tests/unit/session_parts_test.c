/* The parts of server/session that need no loop: specs, profiles, commands, states, kept output,
 * idempotency keys, control group files. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/limits.h"
#include "session/cgroup.h"
#include "session/command.h"
#include "session/idem.h"
#include "session/machine.h"
#include "session/output.h"
#include "session/profile.h"
#include "session/program.h"

static char *text(const char *s)
{
    return (char *)(uintptr_t)s; /* only read */
}

/* --- states ----------------------------------------------------------------------------------- */

static void only_these_steps_exist_between_states(void **state)
{
    (void)state;
    const struct {
        box_session_state from;
        box_session_event event;
        box_session_state to;
    } steps[] = {
        {BOX_SESSION_CREATED, BOX_EVENT_START, BOX_SESSION_STARTING},
        {BOX_SESSION_CREATED, BOX_EVENT_FAIL, BOX_SESSION_ERROR},
        {BOX_SESSION_CREATED, BOX_EVENT_STOP, BOX_SESSION_STOPPING},
        {BOX_SESSION_STARTING, BOX_EVENT_READY, BOX_SESSION_RUNNING},
        {BOX_SESSION_STARTING, BOX_EVENT_FAIL, BOX_SESSION_ERROR},
        {BOX_SESSION_STARTING, BOX_EVENT_STOP, BOX_SESSION_STOPPING},
        {BOX_SESSION_STARTING, BOX_EVENT_LOST, BOX_SESSION_ERROR},
        {BOX_SESSION_RUNNING, BOX_EVENT_STOP, BOX_SESSION_STOPPING},
        {BOX_SESSION_RUNNING, BOX_EVENT_LOST, BOX_SESSION_ERROR},
        {BOX_SESSION_STOPPING, BOX_EVENT_GONE, BOX_SESSION_STOPPED},
    };
    for (int s = BOX_SESSION_CREATED; s <= BOX_SESSION_ERROR; s++) {
        for (int e = BOX_EVENT_START; e <= BOX_EVENT_LOST; e++) {
            box_session_state expect = (box_session_state)s;
            bool valid = false;
            for (size_t i = 0; i < BOX_COUNT(steps); i++) {
                if ((int)steps[i].from != s || (int)steps[i].event != e)
                    continue;
                expect = steps[i].to;
                valid = true;
            }
            box_session_state now = (box_session_state)s;
            assert_int_equal(box_session_next(&now, (box_session_event)e), valid);
            assert_int_equal(now, expect);
        }
    }
}

/* --- specs and profiles ----------------------------------------------------------------------- */

static void every_violation_of_a_spec_is_named(void **state)
{
    (void)state;
    box_error err = {0};
    box_spec bad = {.set = BOX_SPEC_ALL & ~(uint32_t)BOX_SPEC_LABELS,
                    .cpu_millis = 9,
                    .memory_bytes = (32 << 20) - 1,
                    .pids = 0,
                    .workspace_limit_bytes = -1,
                    .idle_ttl_ns = BOX_SECOND - 1,
                    .host_path = text("C:\\data"),
                    .mount_path = text("/"),
                    .workdir = text("here"),
                    .profile = text(""),
                    .backend = text(""),
                    .image = text("")};
    assert_int_equal(box_spec_check(&bad, "spec.", &err), -1);
    const char *fields[] = {
        "cpu_millis",   "memory_bytes",    "pids_limit",        "workspace_limit_bytes",
        "host_path",    "mount_path",      "workdir",           "idle_ttl",
        "max_lifetime", "command_timeout", "max_parallel_execs"};
    for (size_t i = 0; i < BOX_COUNT(fields); i++) {
        char key[64];
        (void)snprintf(key, sizeof key, "field:spec.%s", fields[i]);
        if (box_error_get(&err, key) == NULL && err.more == 0)
            fail_msg("%s is not named", key);
    }
}

static void paths_with_dots_are_refused(void **state)
{
    (void)state;
    const char *bad[] = {"relative", "/a/../b",         "/..",   "/a/.", "/./a",
                         "/a\nb",    "\\\\host\\share", "/a//b", "/a/"};
    const char *good[] = {"/a", "/a/b.c", "/.hidden", "/a/..b", "/a/b.."};
    for (size_t i = 0; i < BOX_COUNT(bad); i++) {
        box_spec s = {.set = BOX_SPEC_HOST_PATH, .host_path = text(bad[i])};
        box_error err = {0};
        assert_int_equal(box_spec_check(&s, "", &err), -1);
        assert_non_null(box_error_get(&err, "field:host_path"));
    }
    for (size_t i = 0; i < BOX_COUNT(good); i++) {
        box_spec s = {.set = BOX_SPEC_HOST_PATH, .host_path = text(good[i])};
        box_error err = {0};
        assert_int_equal(box_spec_check(&s, "", &err), 0);
    }
}

static void labels_have_limits(void **state)
{
    (void)state;
    char key[65], value[258];
    memset(key, 'k', 64);
    memset(value, 'v', 257);
    key[64] = value[257] = '\0';
    box_label long_key = {key, text("")}, long_value = {text("a"), value};
    box_label twice[] = {{text("a"), text("1")}, {text("a"), text("2")}},
              empty = {text(""), text("")};
    box_error err = {0};
    assert_int_equal(box_spec_labels_check(&long_key, 1, "labels", &err), -1);
    assert_int_equal(box_spec_labels_check(&long_value, 1, "labels", &err), -1);
    assert_int_equal(box_spec_labels_check(twice, 2, "labels", &err), -1);
    assert_int_equal(box_spec_labels_check(&empty, 1, "labels", &err), -1);
    key[63] = value[256] = '\0';
    assert_int_equal(box_spec_labels_check(&long_key, 1, "labels", &err), 0);
    assert_int_equal(box_spec_labels_check(&long_value, 1, "labels", &err), 0);
}

static void a_copy_of_a_spec_owns_what_it_holds(void **state)
{
    (void)state;
    box_label labels[] = {{text("a"), text("1")}};
    char *names[] = {text("exec"), text("read")};
    box_tool_setting setting = {text("exec"), text("words"), 7};
    box_spec from = {
        .set = BOX_SPEC_LABELS | BOX_SPEC_IMAGE,
        .image = text("i"),
        .labels = labels,
        .n_labels = 1,
        .tools = {.names = names, .n_names = 2, .settings = &setting, .n_settings = 1}};
    box_spec to;
    box_spec_copy(&to, &from);
    assert_ptr_not_equal(to.tools.names[1], names[1]);
    assert_true(box_tool_choice_has(&to.tools, "read"));
    assert_false(box_tool_choice_has(&to.tools, "rea"));
    assert_null(box_tool_choice_setting(&to.tools, "read"));
    assert_int_equal(box_tool_choice_setting(&to.tools, "exec")->timeout_ns, 7);
    assert_true(box_spec_bytes(&to) > 2 * sizeof(char *));
    assert_ptr_not_equal(to.image, from.image);
    assert_ptr_not_equal(to.labels, from.labels);
    assert_string_equal(to.labels[0].value, "1");
    box_spec_refuse(&to, "skills");
    box_spec_refuse(&to, "tools");
    assert_string_equal(to.unsupported, "skills,tools");
    box_spec_done(&to);
    box_spec_done(&to); /* empty again */
}

static void profiles_hold_the_values_of_the_reference(void **state)
{
    (void)state;
    const struct {
        const char *name;
        bool network, read_only;
        int32_t cpu;
        int64_t memory_mib, pids, max_timeout;
    } rows[] = {
        {"default", false, true, 1000, 512, 128, 120},
        {"offline_readonly", false, true, 500, 256, 64, 60},
        {"network_basic", true, true, 1000, 512, 128, 120},
        {"network_extended", true, false, 2000, 1024, 256, 300},
    };
    for (size_t i = 0; i < BOX_COUNT(rows); i++) {
        const box_profile *p = box_profile_find(rows[i].name);
        assert_non_null(p);
        assert_ptr_equal(p, box_profile_at(i));
        assert_int_equal(p->network_on, rows[i].network);
        assert_int_equal(p->read_only_rootfs, rows[i].read_only);
        assert_int_equal(p->cpu_millis, rows[i].cpu);
        assert_int_equal(p->memory_bytes, rows[i].memory_mib << 20);
        assert_int_equal(p->pids, rows[i].pids);
        assert_int_equal(p->timeout_ns, 30 * BOX_SECOND);
        assert_int_equal(p->max_timeout_ns, (uint64_t)rows[i].max_timeout * BOX_SECOND);
    }
    assert_null(box_profile_at(4));
    assert_null(box_profile_find("Default"));
}

static void merging_takes_profile_then_request_then_locks(void **state)
{
    (void)state;
    const box_spec_defaults defaults = {.image = "base",
                                        .memory_bytes = 99 << 20,
                                        .idle_ttl_ns = 300 * BOX_SECOND,
                                        .max_lifetime_ns = 1000 * BOX_SECOND};
    box_spec asked = {.set = BOX_SPEC_PIDS | BOX_SPEC_NETWORK | BOX_SPEC_MAX_LIFETIME,
                      .pids = 5,
                      .network_on = true,
                      .max_lifetime_ns = 5000 * BOX_SECOND};
    box_spec whole;
    box_adjustment adjustments[BOX_MAX_ADJUSTMENTS];
    size_t n = box_profile_merge(box_profile_find("offline_readonly"), &asked, &defaults, &whole,
                                 adjustments);
    assert_int_equal(n, 1);
    assert_string_equal(adjustments[0].field, "network");
    assert_string_equal(adjustments[0].requested, "ON");
    assert_string_equal(adjustments[0].effective, "OFF");
    assert_false(whole.network_on);
    assert_int_equal(whole.pids, 5);
    assert_int_equal(whole.cpu_millis, 500);
    assert_int_equal(whole.memory_bytes, 99 << 20);
    assert_int_equal(whole.host_path_mode, BOX_HOST_PATH_RO);
    assert_string_equal(whole.image, "base");
    assert_string_equal(whole.mount_path, "/workspace");
    assert_string_equal(whole.workdir, "/workspace");
    assert_string_equal(whole.profile, "offline_readonly");
    assert_int_equal(whole.max_lifetime_ns, 1000 * BOX_SECOND); /* the server's is the most */
    assert_int_equal(whole.max_parallel_execs, 1);
    assert_int_equal(whole.set, BOX_SPEC_ALL);
    box_spec_done(&whole);
}

static void timeouts_come_from_command_then_session_and_are_cut(void **state)
{
    (void)state;
    const box_profile *p = box_profile_find("default");
    bool clamped;
    assert_int_equal(box_profile_timeout(p, 5, 7, &clamped), 5);
    assert_false(clamped);
    assert_int_equal(box_profile_timeout(p, 0, 7, &clamped), 7);
    assert_int_equal(box_profile_timeout(p, UINT64_MAX, 7, &clamped), 120 * BOX_SECOND);
    assert_true(clamped);
    assert_int_equal(box_profile_timeout(p, 0, 500 * BOX_SECOND, &clamped), 120 * BOX_SECOND);
    assert_true(clamped);
}

static void differences_count_only_what_is_asked(void **state)
{
    (void)state;
    box_spec have = {.set = BOX_SPEC_ALL, .cpu_millis = 1000, .pids = 128, .image = text("")};
    box_spec asked = {.set = BOX_SPEC_CPU, .cpu_millis = 1000, .pids = 1};
    assert_int_equal(box_spec_differences(&asked, &have), 0);
    asked.set |= BOX_SPEC_PIDS | BOX_SPEC_IMAGE; /* image: NULL is "" */
    assert_int_equal(box_spec_differences(&asked, &have), BOX_SPEC_PIDS);
}

/* --- commands --------------------------------------------------------------------------------- */

static int check_argument(size_t len, bool as_shell)
{
    char *big = box_alloc(len + 1);
    memset(big, 'a', len);
    const char *argv[] = {"p", big};
    box_command c = {.argv = argv, .argc = 2};
    box_command shell = {.shell_command = big};
    box_error err = {0};
    int rc = box_command_check(as_shell ? &shell : &c, "", &err);
    free(big);
    return rc;
}

static void arguments_have_the_kernels_limits(void **state)
{
    (void)state;
    assert_int_equal(check_argument(131071, false), 0);
    assert_int_equal(check_argument(131072, false), -1);
    assert_int_equal(check_argument(200000, false), -1);
    assert_int_equal(check_argument(131071, true), 0);
    assert_int_equal(check_argument(131072, true), -1);
}

static void arguments_and_environment_together_have_a_limit(void **state)
{
    (void)state;
    enum { N = 17, LEN = 131000 };
    char *big = box_alloc(LEN + 1);
    memset(big, 'a', LEN);
    box_env env[N];
    for (int i = 0; i < N; i++)
        env[i] = (box_env){"K", big};
    const char *argv[] = {"p"};
    box_command c = {.argv = argv, .argc = 1, .env = env, .n_env = N};
    box_error err = {0};
    assert_int_equal(box_command_check(&c, "", &err), -1);
    assert_non_null(box_error_get(&err, "field:argv"));
    c.n_env = N - 2;
    assert_int_equal(box_command_check(&c, "", &(box_error){0}), 0);
    free(big);
}

static void bad_environment_keys_are_refused(void **state)
{
    (void)state;
    const char *argv[] = {"p"};
    const char *bad[] = {"", "A=B", "="};
    for (size_t i = 0; i < BOX_COUNT(bad); i++) {
        box_env env = {bad[i], "x"};
        box_command c = {.argv = argv, .argc = 1, .env = &env, .n_env = 1};
        box_error err = {0};
        assert_int_equal(box_command_check(&c, "command.", &err), -1);
        assert_non_null(box_error_get(&err, "field:command.env"));
    }
    box_env odd = {"new\nline", "quotes\" {json: 1}"};
    box_command c = {.argv = argv, .argc = 1, .env = &odd, .n_env = 1};
    assert_int_equal(box_command_check(&c, "", &(box_error){0}), 0);
}

static void exactly_one_of_argv_and_shell_is_needed(void **state)
{
    (void)state;
    const char *argv[] = {"p"};
    box_command both = {.argv = argv, .argc = 1, .shell_command = "x"};
    box_command none = {0};
    const char *nameless[] = {""};
    box_command empty = {.argv = nameless, .argc = 1};
    assert_int_equal(box_command_check(&both, "", &(box_error){0}), -1);
    assert_int_equal(box_command_check(&none, "", &(box_error){0}), -1);
    assert_int_equal(box_command_check(&empty, "", &(box_error){0}), -1);
}

static void numbers_of_a_command_are_checked(void **state)
{
    (void)state;
    const char *argv[] = {"p"};
    const int64_t bad[] = {0, -1, INT64_MIN};
    for (size_t i = 0; i < BOX_COUNT(bad); i++) {
        box_command c = {.argv = argv,
                         .argc = 1,
                         .has_timeout = true,
                         .timeout_ns = bad[i],
                         .has_idle_timeout = true,
                         .idle_timeout_ns = bad[i],
                         .has_output_kill = true,
                         .output_kill_bytes = bad[i]};
        box_error err = {0};
        assert_int_equal(box_command_check(&c, "", &err), -1);
        assert_non_null(box_error_get(&err, "field:timeout"));
        assert_non_null(box_error_get(&err, "field:idle_timeout"));
        assert_non_null(box_error_get(&err, "field:output_kill_bytes"));
    }
    box_command zero = {.argv = argv, .argc = 1, .has_output_limit = true};
    assert_int_equal(box_command_check(&zero, "", &(box_error){0}), 0); /* 0: keep none */
    zero.output_limit_bytes = BOX_MAX_OUTPUT_LIMIT_BYTES + 1;
    assert_int_equal(box_command_check(&zero, "", &(box_error){0}), -1);
}

static void a_shell_command_is_given_to_the_shell(void **state)
{
    (void)state;
    box_command c = {.shell_command = "echo $HOME"};
    box_spec session = {.workdir = text("/w")};
    box_program p;
    box_error err = {0};
    assert_int_equal(box_program_init(&p, &c, &session, &err), 0);
    assert_int_equal(p.argc, 3);
    assert_string_equal(p.argv[0], "/bin/sh");
    assert_string_equal(p.argv[1], "-c");
    assert_string_equal(p.argv[2], "echo $HOME");
    assert_string_equal(p.workdir, "/w");
    box_program_done(&p);
}

static void of_two_variables_with_one_name_the_later_one_counts(void **state)
{
    (void)state;
    box_label of_session[] = {{text("A"), text("1")},
                              {text("B"), text("2")},
                              {text("A"), text("3")},
                              {text("LANG"), text("C")}};
    const box_env of_command[] = {{"B", "4"}, {"C", "5"}, {"B", "6"}};
    const char *argv[] = {"p"};
    box_spec session = {.workdir = text("/"), .env = of_session, .n_env = 4};
    box_command c = {.argv = argv, .argc = 1, .env = of_command, .n_env = 3};
    box_program p;
    box_error err = {0};
    assert_int_equal(box_program_init(&p, &c, &session, &err), 0);
    const char *const wanted[] = {"HOME=/home", "USER=box", "A=3", "LANG=C", "C=5", "B=6"};
    assert_int_equal(p.envc, BOX_COUNT(wanted) + 1); /* and PATH first */
    for (size_t i = 0; i < BOX_COUNT(wanted); i++)
        assert_string_equal(p.env[i + 1], wanted[i]);
    box_program_done(&p);
}

/* A list for each name took minutes of a loop thread that others share. */
static void many_variables_take_no_longer_than_their_number(void **state)
{
    (void)state;
    enum { N = 60000, NAME = 8 };
    char *names = box_alloc_array(2 * N, NAME);
    box_label *of_session = box_alloc_array(N, sizeof *of_session);
    box_env *of_command = box_alloc_array(N, sizeof *of_command);
    for (int i = 0; i < 2 * N; i++)
        (void)snprintf(names + i * NAME, NAME, "%c%d", i < N ? 'S' : 'C', i);
    for (int i = 0; i < N; i++) {
        of_session[i] = (box_label){names + i * NAME, text("")};
        of_command[i] = (box_env){names + (N + i) * NAME, ""};
    }
    const char *argv[] = {"p"};
    box_spec session = {.workdir = text("/"), .env = of_session, .n_env = N};
    box_command c = {.argv = argv, .argc = 1, .env = of_command, .n_env = N};
    box_program p;
    box_error err = {0};
    clock_t begin = clock();
    assert_int_equal(box_program_init(&p, &c, &session, &err), -1); /* more than 65,536 */
    assert_true(clock() - begin < 5 * CLOCKS_PER_SEC);              /* 0.1 s; the list took 40 s */
    free(names);
    free(of_session);
    free(of_command);
}

static void session_and_command_together_keep_the_limit(void **state)
{
    (void)state;
    enum { LEN = 131000, N = 9 };
    char *big = box_alloc(LEN + 1);
    memset(big, 'a', LEN);
    char names[2 * N][8];
    box_label of_session[N];
    box_env of_command[N];
    for (int i = 0; i < N; i++) {
        (void)snprintf(names[i], sizeof names[i], "S%d", i);
        (void)snprintf(names[N + i], sizeof names[N + i], "C%d", i);
        of_session[i] = (box_label){names[i], big};
        of_command[i] = (box_env){names[N + i], big};
    }
    const char *argv[] = {"p"};
    box_spec session = {.workdir = text("/"), .env = of_session, .n_env = N};
    box_command c = {.argv = argv, .argc = 1, .env = of_command, .n_env = N};
    box_program p;
    box_error err = {0};
    assert_int_equal(box_program_init(&p, &c, &session, &err), -1);
    assert_int_equal(err.reason, BOX_VALIDATION);
    c.n_env = 2;
    assert_int_equal(box_program_init(&p, &c, &session, &err), 0);
    box_program_done(&p);
    free(big);
}

/* --- kept output ------------------------------------------------------------------------------ */

/* Adds `total` bytes of a pattern in pieces and checks what is kept. */
static void keep_and_check(size_t limit, size_t total, size_t piece)
{
    box_keeper k;
    box_keeper_init(&k, limit, NULL);
    uint8_t *all = box_alloc(total + 1);
    for (size_t i = 0; i < total; i++)
        all[i] = (uint8_t)(i * 31 + i / 251);
    for (size_t at = 0; at < total; at += piece)
        box_keeper_add(&k, all + at, total - at < piece ? total - at : piece);
    box_bytes head, tail;
    uint64_t dropped = box_keeper_get(&k, &head, &tail);
    size_t kept = total < limit ? total : limit;
    assert_int_equal(head.len + tail.len, kept);
    assert_int_equal(dropped, total - kept);
    assert_int_equal(k.total_bytes, total);
    if (head.len > 0)
        assert_memory_equal(head.data, all, head.len);
    if (tail.len > 0)
        assert_memory_equal(tail.data, all + total - tail.len, tail.len);
    if (total > limit)
        assert_int_equal(head.len, limit * 60 / 100);
    free(all);
    box_keeper_done(&k);
}

static void head_and_tail_are_exact_for_every_size_and_split(void **state)
{
    (void)state;
    const size_t limits[] = {0, 1, 2, 3, 10, 99, 100, 1000};
    for (size_t l = 0; l < BOX_COUNT(limits); l++) {
        for (size_t total = 0; total <= 2 * limits[l] + 7; total += 1 + limits[l] / 37) {
            for (size_t piece = 1; piece <= total + 1; piece += 1 + piece / 2)
                keep_and_check(limits[l], total, piece);
        }
    }
    keep_and_check(BOX_DEFAULT_OUTPUT_LIMIT_BYTES, 5000000, 65536);
}

/* --- idempotency keys ------------------------------------------------------------------------- */

static void a_key_is_remembered_and_forgotten(void **state)
{
    (void)state;
    box_idem *t = box_idem_new();
    uint8_t a[BOX_IDEM_DIGEST] = {1}, b[BOX_IDEM_DIGEST] = {2};
    box_idem_outcome outcome;
    const char *session;
    box_error err = {0};
    assert_int_equal(box_idem_begin(t, "t", "m", "k", a, 1, &outcome, &session, &err), 0);
    assert_int_equal(outcome, BOX_IDEM_NEW);
    box_idem_note(t, "t", "m", "k", "s1");
    assert_int_equal(box_idem_begin(t, "t", "m", "k", a, 1, &outcome, &session, &err), 0);
    assert_int_equal(outcome, BOX_IDEM_RUNNING);
    assert_string_equal(session, "s1");
    assert_int_equal(box_idem_begin(t, "t", "m", "k", b, 1, &outcome, &session, &err), -1);
    assert_int_equal(err.reason, BOX_IDEMPOTENCY_MISMATCH);
    assert_int_equal(box_idem_begin(t, "u", "m", "k", b, 1, &outcome, &session, &err), 0);
    assert_int_equal(outcome, BOX_IDEM_NEW); /* another tenant's key is another key */
    assert_int_equal(box_idem_begin(t, "t", "n", "k", b, 1, &outcome, &session, &err), 0);
    assert_int_equal(outcome, BOX_IDEM_NEW);
    box_idem_end(t, "t", "m", "k", true, 1);
    box_time later = BOX_IDEMPOTENCY_SECONDS * BOX_SECOND;
    assert_int_equal(box_idem_begin(t, "t", "m", "k", a, later, &outcome, &session, &err), 0);
    assert_int_equal(outcome, BOX_IDEM_ENDED);
    assert_int_equal(box_idem_begin(t, "t", "m", "k", b, later + 2, &outcome, &session, &err), 0);
    assert_int_equal(outcome, BOX_IDEM_NEW);
    box_idem_end(t, "t", "m", "k", false, later);
    assert_int_equal(box_idem_begin(t, "t", "m", "k", a, later, &outcome, &session, &err), 0);
    assert_int_equal(outcome, BOX_IDEM_NEW);
    box_idem_free(t);
}

static void a_tenant_cannot_fill_the_table_of_keys(void **state)
{
    (void)state;
    box_idem *t = box_idem_new();
    uint8_t digest[BOX_IDEM_DIGEST] = {0};
    box_idem_outcome outcome;
    const char *session;
    box_error err = {0};
    char key[200];
    for (int i = 0; i < BOX_MAX_IDEMPOTENCY_KEYS_PER_TENANT; i++) {
        (void)snprintf(key, sizeof key, "%d", i);
        assert_int_equal(box_idem_begin(t, "t", "m", key, digest, 1, &outcome, &session, &err), 0);
    }
    assert_int_equal(box_idem_begin(t, "t", "m", "more", digest, 1, &outcome, &session, &err), -1);
    assert_int_equal(err.reason, BOX_QUOTA);
    assert_string_equal(box_error_get(&err, "limit"), "idempotency_keys_per_tenant");
    assert_int_equal(box_idem_begin(t, "u", "m", "more", digest, 1, &outcome, &session, &err), 0);
    memset(key, 'k', 129);
    key[129] = '\0';
    assert_int_equal(box_idem_begin(t, "u", "m", key, digest, 1, &outcome, &session, &err), -1);
    box_idem_free(t);
}

/* --- control groups --------------------------------------------------------------------------- */

static void keyed_files_are_read_line_by_line(void **state)
{
    (void)state;
    uint64_t n = 7;
    assert_true(box_cgroup_find("low 0\noom 3\noom_kill 12\n", "oom_kill", &n));
    assert_int_equal(n, 12);
    assert_true(box_cgroup_find("oom 3\noom_kill 12\n", "oom", &n));
    assert_int_equal(n, 3);
    assert_false(box_cgroup_find("oom_kill 1\n", "kill", &n));
    assert_false(box_cgroup_find("oom_kill\n", "oom_kill", &n));
    assert_false(box_cgroup_find("oom_kill x\n", "oom_kill", &n));
    assert_false(box_cgroup_find("", "oom_kill", &n));
    assert_false(box_cgroup_find("oom_kill 99999999999999999999999\n", "oom_kill", &n));
    assert_int_equal(box_cgroup_oom_kills(-1), 0);
    box_cpu_groups g = {0};
    assert_false(box_cgroup_cpu_ns(&g, -1, 1, &n));
}

static void a_group_is_charged_to_each_of_its_commands_in_turn(void **state)
{
    (void)state;
    box_cpu_groups g = {0};
    uint64_t n;
    assert_true(box_cpu_since(&g, 1, 500, &n));
    assert_int_equal(n, 500);
    assert_true(box_cpu_since(&g, 2, 70, &n));
    assert_int_equal(n, 70);
    assert_true(box_cpu_since(&g, 1, 800, &n));
    assert_int_equal(n, 300);
    assert_true(box_cpu_since(&g, 1, 800, &n));
    assert_int_equal(n, 0);
    for (uint64_t group = 3; group < 3 + BOX_CPU_GROUPS; group++)
        assert_true(box_cpu_since(&g, group, 1000, &n));
    assert_false(box_cpu_since(&g, 1, 900, &n)); /* forgotten: the agent's word counts */
    assert_true(box_cpu_since(&g, 1, 950, &n));  /* from now on it is known again */
    assert_int_equal(n, 50);
}

static void put_usage(int dir, const char *group, const char *text)
{
    char path[32];
    (void)snprintf(path, sizeof path, "%s/cpu.stat", group);
    (void)mkdirat(dir, group, 0700); /* it may be there */
    int fd = openat(dir, path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    assert_int_equal(close(fd), 0);
}

static void remove_group(int dir, const char *group)
{
    char path[32];
    (void)snprintf(path, sizeof path, "%s/cpu.stat", group);
    assert_int_equal(unlinkat(dir, path, 0), 0);
    assert_int_equal(unlinkat(dir, group, AT_REMOVEDIR), 0);
}

/* That a file is kept open shows when it can be read though its name is gone. */
static void files_of_groups_are_kept_open_as_far_as_there_are_any_left(void **state)
{
    (void)state;
    char folder[] = "/tmp/box-cpu-XXXXXX";
    uint64_t n;
    assert_non_null(mkdtemp(folder));
    int dir = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    atomic_int left = 3;
    box_cpu_groups a = {.files_left = &left};
    box_cpu_groups b = {.files_left = &left};
    const char *const groups[] = {"1", "2", "3"};
    for (size_t i = 0; i < BOX_COUNT(groups); i++)
        put_usage(dir, groups[i], "usage_usec 10\n");
    for (uint64_t group = 1; group <= 3; group++)
        assert_true(box_cgroup_cpu_ns(&a, dir, group, &n));
    assert_int_equal(left, 1);
    assert_true(box_cgroup_cpu_ns(&b, dir, 1, &n));
    assert_true(box_cgroup_cpu_ns(&b, dir, 2, &n)); /* none is left for this one */
    assert_int_equal(left, 0);
    put_usage(dir, "3", "usage_usec 14\n");
    for (size_t i = 0; i < BOX_COUNT(groups); i++)
        remove_group(dir, groups[i]);
    assert_false(box_cgroup_cpu_ns(&a, dir, 1, &n)); /* the oldest of three was closed */
    assert_true(box_cgroup_cpu_ns(&a, dir, 3, &n));
    assert_int_equal(n, 4000);
    assert_false(box_cgroup_cpu_ns(&b, dir, 2, &n));
    assert_true(box_cgroup_cpu_ns(&b, dir, 1, &n));
    box_cpu_groups_close(&a);
    box_cpu_groups_close(&b);
    assert_int_equal(left, 3);
    assert_false(box_cgroup_cpu_ns(&b, dir, 1, &n));
    assert_int_equal(close(dir), 0);
    assert_int_equal(rmdir(folder), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_these_steps_exist_between_states),
        cmocka_unit_test(every_violation_of_a_spec_is_named),
        cmocka_unit_test(paths_with_dots_are_refused),
        cmocka_unit_test(labels_have_limits),
        cmocka_unit_test(a_copy_of_a_spec_owns_what_it_holds),
        cmocka_unit_test(profiles_hold_the_values_of_the_reference),
        cmocka_unit_test(merging_takes_profile_then_request_then_locks),
        cmocka_unit_test(timeouts_come_from_command_then_session_and_are_cut),
        cmocka_unit_test(differences_count_only_what_is_asked),
        cmocka_unit_test(arguments_have_the_kernels_limits),
        cmocka_unit_test(arguments_and_environment_together_have_a_limit),
        cmocka_unit_test(bad_environment_keys_are_refused),
        cmocka_unit_test(exactly_one_of_argv_and_shell_is_needed),
        cmocka_unit_test(numbers_of_a_command_are_checked),
        cmocka_unit_test(a_shell_command_is_given_to_the_shell),
        cmocka_unit_test(of_two_variables_with_one_name_the_later_one_counts),
        cmocka_unit_test(many_variables_take_no_longer_than_their_number),
        cmocka_unit_test(session_and_command_together_keep_the_limit),
        cmocka_unit_test(head_and_tail_are_exact_for_every_size_and_split),
        cmocka_unit_test(a_key_is_remembered_and_forgotten),
        cmocka_unit_test(a_tenant_cannot_fill_the_table_of_keys),
        cmocka_unit_test(keyed_files_are_read_line_by_line),
        cmocka_unit_test(a_group_is_charged_to_each_of_its_commands_in_turn),
        cmocka_unit_test(files_of_groups_are_kept_open_as_far_as_there_are_any_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
