#include "agent/packet.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/fd.h"

/* A packet by hand, so that a wrong builder and a wrong parser cannot agree. */
typedef struct raw {
    uint8_t bytes[BOX_AGENT_PACKET_BYTES + 64];
    size_t len;
} raw;

static raw packet_of(uint32_t type, uint64_t id, const void *body, size_t body_size,
                     const char *text, size_t text_len)
{
    raw r = {.len = sizeof(box_agent_header) + body_size + text_len};
    box_agent_header h = {.type = type, .size = (uint32_t)r.len, .id = id};
    memcpy(r.bytes, &h, sizeof h);
    if (body_size > 0)
        memcpy(r.bytes + sizeof h, body, body_size);
    if (text_len > 0)
        memcpy(r.bytes + sizeof h + body_size, text, text_len);
    return r;
}

/* Makes the header tell the length the packet has. */
static void set_len(raw *r, size_t len)
{
    box_agent_header h;
    memcpy(&h, r->bytes, sizeof h);
    h.size = (uint32_t)len;
    memcpy(r->bytes, &h, sizeof h);
    r->len = len;
}

static const char text_ls[] = "ls\0-l\0A=1\0/workspace"; /* its own NUL ends the last string */

static raw start_packet(box_agent_start start)
{
    return packet_of(BOX_AGENT_START, 7, &start, sizeof start, text_ls, sizeof text_ls);
}

static const box_agent_start start_ls = {.argc = 2, .envc = 1, .text_len = sizeof text_ls};

static int parse(const raw *r, size_t n_fds, box_agent_sender from, box_agent_packet *p,
                 box_error *err)
{
    return box_agent_packet_parse(r->bytes, r->len, n_fds, from, p, err);
}

static void assert_refused(const raw *r, size_t n_fds, box_agent_sender from)
{
    box_agent_packet p = {0};
    box_error err = {0};
    assert_int_equal(parse(r, n_fds, from, &p, &err), -1);
    assert_int_equal(err.reason, BOX_PROTOCOL);
    assert_int_equal(p.header.type, 0); /* the output is left alone */
}

static void a_start_is_read_with_its_text(void **state)
{
    (void)state;
    raw r = start_packet(start_ls);
    box_agent_packet p;
    box_error err;
    assert_int_equal(parse(&r, 3, BOX_AGENT_FROM_BOXD, &p, &err), 0);
    assert_int_equal(p.header.id, 7);
    char *argv[3];
    char *env[2];
    const char *workdir;
    box_agent_text_split(&p.body.start, p.text, argv, env, &workdir);
    assert_string_equal(argv[0], "ls");
    assert_string_equal(argv[1], "-l");
    assert_null(argv[2]);
    assert_string_equal(env[0], "A=1");
    assert_null(env[1]);
    assert_string_equal(workdir, "/workspace");
}

static void a_start_on_a_terminal_brings_no_streams(void **state)
{
    (void)state;
    box_agent_start s = start_ls;
    s.flags = BOX_START_TERMINAL;
    s.rows = 24;
    s.columns = UINT16_MAX;
    raw r = start_packet(s);
    box_agent_packet p;
    box_error err;
    assert_int_equal(parse(&r, 0, BOX_AGENT_FROM_BOXD, &p, &err), 0);
    assert_int_equal(p.body.start.columns, UINT16_MAX);
    for (size_t n = 1; n < 5; n++)
        assert_refused(&r, n, BOX_AGENT_FROM_BOXD);
    s.flags |= BOX_START_NO_STDIN; /* one or the other */
    r = start_packet(s);
    for (size_t n = 0; n < 5; n++)
        assert_refused(&r, n, BOX_AGENT_FROM_BOXD);
    s.flags = 0; /* a size without a terminal */
    r = start_packet(s);
    assert_refused(&r, 3, BOX_AGENT_FROM_BOXD);
    for (size_t i = 0; i < BOX_COUNT(s.reserved); i++) {
        s = start_ls;
        s.reserved[i] = 1;
        r = start_packet(s);
        assert_refused(&r, 3, BOX_AGENT_FROM_BOXD);
    }
}

static void a_started_brings_both_sides_of_a_terminal_or_nothing(void **state)
{
    (void)state;
    box_agent_started s = {.pid = 7, .flags = BOX_STARTED_TERMINAL};
    raw r = packet_of(BOX_AGENT_STARTED, 1, &s, sizeof s, NULL, 0);
    box_agent_packet p;
    box_error err;
    assert_int_equal(parse(&r, 2, BOX_AGENT_FROM_AGENT, &p, &err), 0);
    assert_int_equal(box_agent_started_fds(&p.body.started), 2);
    assert_refused(&r, 0, BOX_AGENT_FROM_AGENT);
    assert_refused(&r, 1, BOX_AGENT_FROM_AGENT);
    assert_refused(&r, 3, BOX_AGENT_FROM_AGENT);
    s.flags = 0;
    r = packet_of(BOX_AGENT_STARTED, 1, &s, sizeof s, NULL, 0);
    assert_refused(&r, 2, BOX_AGENT_FROM_AGENT);
    s.flags = 2;
    r = packet_of(BOX_AGENT_STARTED, 1, &s, sizeof s, NULL, 0);
    assert_refused(&r, 0, BOX_AGENT_FROM_AGENT);
    s = (box_agent_started){.flags = BOX_STARTED_TERMINAL}; /* of what does not run */
    (void)box_fail(&s.error, BOX_QUOTA, "no");              /* always -1 */
    r = packet_of(BOX_AGENT_STARTED, 1, &s, sizeof s, NULL, 0);
    assert_refused(&r, 2, BOX_AGENT_FROM_AGENT);
}

static void a_packet_cut_at_any_byte_is_refused(void **state)
{
    (void)state;
    raw r = start_packet(start_ls);
    size_t whole = r.len;
    for (size_t len = 0; len < whole; len++) {
        raw cut = r;
        cut.len = len;
        assert_refused(&cut, 3, BOX_AGENT_FROM_BOXD);
        set_len(&cut, len); /* also when the header tells the truth */
        assert_refused(&cut, 3, BOX_AGENT_FROM_BOXD);
    }
}

static void a_packet_with_more_bytes_than_its_text_is_refused(void **state)
{
    (void)state;
    raw r = start_packet(start_ls);
    r.len++;
    assert_refused(&r, 3, BOX_AGENT_FROM_BOXD);
    set_len(&r, r.len);
    assert_refused(&r, 3, BOX_AGENT_FROM_BOXD);
    set_len(&r, BOX_AGENT_PACKET_BYTES + 1);
    assert_refused(&r, 3, BOX_AGENT_FROM_BOXD);
}

static void lying_counts_in_start_are_refused(void **state)
{
    (void)state;
    const box_agent_start bad[] = {
        {.argc = 0, .envc = 1, .text_len = sizeof text_ls},
        {.argc = 1, .envc = 1, .text_len = sizeof text_ls},
        {.argc = 3, .envc = 1, .text_len = sizeof text_ls},
        {.argc = 2, .envc = 2, .text_len = sizeof text_ls},
        {.argc = 2, .envc = 0, .text_len = sizeof text_ls},
        {.argc = UINT32_MAX, .envc = 1, .text_len = sizeof text_ls},
        {.argc = 2, .envc = UINT32_MAX, .text_len = sizeof text_ls},
        {.argc = 2, .envc = UINT32_MAX - 2, .text_len = sizeof text_ls},
        {.argc = 2, .envc = 1, .text_len = sizeof text_ls - 1},
        {.argc = 2, .envc = 1, .text_len = sizeof text_ls + 1},
        {.argc = 2, .envc = 1, .text_len = UINT32_MAX},
        {.argc = 2, .envc = 1, .text_len = sizeof text_ls, .flags = 1u << 31},
        {.argc = 2, .envc = 1, .text_len = sizeof text_ls, .reserved = {1, 0}},
        {.argc = 2, .envc = 1, .text_len = sizeof text_ls, .flags = BOX_START_TEXT_IN_MEMFD},
    };
    for (size_t i = 0; i < BOX_COUNT(bad); i++) {
        raw r = start_packet(bad[i]);
        assert_refused(&r, 3, BOX_AGENT_FROM_BOXD);
        assert_refused(&r, 4, BOX_AGENT_FROM_BOXD);
    }
}

static void a_text_that_is_no_command_is_refused(void **state)
{
    (void)state;
    const struct {
        const char *text;
        size_t len;
    } bad[] = {
        {"\0-l\0A=1\0/w", 11},       /* no program */
        {"ls\0-l\0=1\0/w", 12},      /* no key */
        {"ls\0-l\0A\0/w", 11},       /* no '=' */
        {"ls\0-l\0A=1\0w", 12},      /* relative */
        {"ls\0-l\0A=1\0", 11},       /* an empty directory */
        {"ls\0-l\0A=1", 10},         /* no directory at all */
        {"ls\0-l\0A=1\0/wxx", 14},   /* not ended: the array's NUL is not counted */
        {"ls\0-l\0A=1\0/w\0\0", 14}, /* one string too many */
    };
    for (size_t i = 0; i < BOX_COUNT(bad); i++) {
        box_agent_start s = {.argc = 2, .envc = 1, .text_len = (uint32_t)bad[i].len};
        raw r = packet_of(BOX_AGENT_START, 7, &s, sizeof s, bad[i].text, bad[i].len);
        assert_refused(&r, 3, BOX_AGENT_FROM_BOXD);
    }
}

static void descriptors_are_taken_only_where_they_belong(void **state)
{
    (void)state;
    raw r = start_packet(start_ls);
    for (size_t n = 0; n <= BOX_FD_PASS_MAX; n++) {
        if (n != 3)
            assert_refused(&r, n, BOX_AGENT_FROM_BOXD);
    }
    raw ping = packet_of(BOX_AGENT_PING, 1, NULL, 0, NULL, 0);
    box_agent_packet p;
    box_error err;
    assert_int_equal(parse(&ping, 0, BOX_AGENT_FROM_BOXD, &p, &err), 0);
    assert_refused(&ping, 1, BOX_AGENT_FROM_BOXD);
}

static void only_the_right_side_may_send_a_type(void **state)
{
    (void)state;
    for (uint32_t type = 0; type < 300; type++) {
        raw r = packet_of(type, 5, NULL, 0, NULL, 0);
        if (type != BOX_AGENT_EXIT_ACK && type != BOX_AGENT_PING && type != BOX_AGENT_FORGET &&
            type != BOX_AGENT_CLOSE_STDIN && type != BOX_AGENT_FILES_STOP)
            assert_refused(&r, 0, BOX_AGENT_FROM_BOXD);
        if (type != BOX_AGENT_PONG)
            assert_refused(&r, 0, BOX_AGENT_FROM_AGENT);
    }
    raw start = start_packet(start_ls);
    assert_refused(&start, 3, BOX_AGENT_FROM_AGENT);
}

static void a_file_worker_needs_its_socket_and_an_id(void **state)
{
    (void)state;
    box_agent_packet p;
    box_error err;
    box_agent_files files = {.flags = BOX_AGENT_FILES_IN_AGENT};
    raw r = packet_of(BOX_AGENT_FILES, 5, &files, sizeof files, NULL, 0);
    assert_int_equal(parse(&r, 1, BOX_AGENT_FROM_BOXD, &p, &err), 0);
    assert_int_equal(p.body.files.flags, BOX_AGENT_FILES_IN_AGENT);
    assert_refused(&r, 0, BOX_AGENT_FROM_BOXD);
    assert_refused(&r, 2, BOX_AGENT_FROM_BOXD);
    const uint64_t bad_ids[] = {0, UINT64_MAX};
    for (size_t i = 0; i < BOX_COUNT(bad_ids); i++) {
        r = packet_of(BOX_AGENT_FILES, bad_ids[i], &files, sizeof files, NULL, 0);
        assert_refused(&r, 1, BOX_AGENT_FROM_BOXD);
    }
    const box_agent_files bad[] = {{.flags = 2}, {.reserved = 1}};
    for (size_t i = 0; i < BOX_COUNT(bad); i++) {
        r = packet_of(BOX_AGENT_FILES, 5, &bad[i], sizeof bad[i], NULL, 0);
        assert_refused(&r, 1, BOX_AGENT_FROM_BOXD);
    }
}

static void a_file_workers_end_is_made_safe(void **state)
{
    (void)state;
    box_agent_packet p;
    box_error err;
    box_agent_files_ended ended = {.signal = SIGKILL};
    memset(&ended.error.msg, 'x', sizeof ended.error.msg);
    raw r = packet_of(BOX_AGENT_FILES_ENDED, 5, &ended, sizeof ended, NULL, 0);
    assert_int_equal(parse(&r, 0, BOX_AGENT_FROM_AGENT, &p, &err), 0);
    assert_true(strlen(p.body.files_ended.error.msg) < sizeof ended.error.msg);
    const box_agent_files_ended bad[] = {{.signal = -1}, {.signal = 65}, {.reserved = 1}};
    for (size_t i = 0; i < BOX_COUNT(bad); i++) {
        r = packet_of(BOX_AGENT_FILES_ENDED, 5, &bad[i], sizeof bad[i], NULL, 0);
        assert_refused(&r, 0, BOX_AGENT_FROM_AGENT);
    }
}

static void a_port_is_asked_for_and_its_socket_comes(void **state)
{
    (void)state;
    box_agent_packet p;
    box_error err;
    box_agent_connect connect = {.port = 65535};
    raw r = packet_of(BOX_AGENT_CONNECT, 5, &connect, sizeof connect, NULL, 0);
    assert_int_equal(parse(&r, 0, BOX_AGENT_FROM_BOXD, &p, &err), 0);
    assert_int_equal(p.body.connect.port, 65535);
    assert_refused(&r, 1, BOX_AGENT_FROM_BOXD);
    r = packet_of(BOX_AGENT_CONNECT, 0, &connect, sizeof connect, NULL, 0);
    assert_refused(&r, 0, BOX_AGENT_FROM_BOXD);
    const box_agent_connect bad[] = {{.port = 0}, {.port = 65536}, {.port = 1, .reserved = 1}};
    for (size_t i = 0; i < BOX_COUNT(bad); i++) {
        r = packet_of(BOX_AGENT_CONNECT, 5, &bad[i], sizeof bad[i], NULL, 0);
        assert_refused(&r, 0, BOX_AGENT_FROM_BOXD);
    }
    box_agent_connected answer = {0};
    r = packet_of(BOX_AGENT_CONNECTED, 5, &answer, sizeof answer, NULL, 0);
    assert_int_equal(parse(&r, 1, BOX_AGENT_FROM_AGENT, &p, &err), 0);
    assert_refused(&r, 0, BOX_AGENT_FROM_AGENT);
    assert_refused(&r, 2, BOX_AGENT_FROM_AGENT);
    r = packet_of(BOX_AGENT_CONNECTED, 0, &answer, sizeof answer, NULL, 0);
    assert_refused(&r, 1, BOX_AGENT_FROM_AGENT);
    answer.error.reason = BOX_RUNTIME_UNAVAILABLE;
    memset(&answer.error.msg, 'x', sizeof answer.error.msg);
    r = packet_of(BOX_AGENT_CONNECTED, 5, &answer, sizeof answer, NULL, 0);
    assert_int_equal(parse(&r, 0, BOX_AGENT_FROM_AGENT, &p, &err), 0);
    assert_true(strlen(p.body.connected.error.msg) < sizeof answer.error.msg);
    assert_refused(&r, 1, BOX_AGENT_FROM_AGENT);
}

static void signals_that_make_no_sense_are_refused(void **state)
{
    (void)state;
    const box_agent_signal bad[] = {
        {.signo = 0, .scope = BOX_SCOPE_MAIN},
        {.signo = 65, .scope = BOX_SCOPE_MAIN},
        {.signo = SIGTERM, .scope = BOX_SCOPE_TREE},
        {.signo = SIGKILL, .scope = 2},
        {.signo = SIGKILL, .scope = BOX_SCOPE_TREE, .cause = 6},
        {.signo = SIGTERM, .scope = BOX_SCOPE_MAIN, .cause = BOX_CAUSE_CANCELLED},
        {.signo = SIGTERM, .scope = BOX_SCOPE_MAIN, .reserved = 1},
    };
    for (size_t i = 0; i < BOX_COUNT(bad); i++) {
        raw r = packet_of(BOX_AGENT_SIGNAL, 1, &bad[i], sizeof bad[i], NULL, 0);
        assert_refused(&r, 0, BOX_AGENT_FROM_BOXD);
    }
    box_agent_signal good = {
        .signo = SIGKILL, .scope = BOX_SCOPE_TREE, .cause = BOX_CAUSE_CANCELLED};
    raw r = packet_of(BOX_AGENT_SIGNAL, 1, &good, sizeof good, NULL, 0);
    box_agent_packet p;
    box_error err;
    assert_int_equal(parse(&r, 0, BOX_AGENT_FROM_BOXD, &p, &err), 0);
    assert_int_equal(p.body.signal.cause, BOX_CAUSE_CANCELLED);
}

static void an_exit_that_contradicts_itself_is_refused(void **state)
{
    (void)state;
    const box_agent_exit bad[] = {
        {.pid = 7, .exit_code = 256},
        {.pid = 7, .exit_code = -1},
        {.pid = 7, .exit_code = 0, .signal = 9},
        {.pid = 7, .exit_code = -1, .signal = 65},
        {.pid = 7, .cause = 6},
        {.pid = 7, .flags = 16},
        {.pid = 0},
    };
    for (size_t i = 0; i < BOX_COUNT(bad); i++) {
        raw r = packet_of(BOX_AGENT_EXIT, 1, &bad[i], sizeof bad[i], NULL, 0);
        assert_refused(&r, 0, BOX_AGENT_FROM_AGENT);
    }
    box_agent_exit good = {
        .pid = 7, .exit_code = -1, .signal = SIGKILL, .cause = BOX_CAUSE_TIMEOUT};
    raw r = packet_of(BOX_AGENT_EXIT, 1, &good, sizeof good, NULL, 0);
    box_agent_packet p;
    box_error err;
    assert_int_equal(parse(&r, 0, BOX_AGENT_FROM_AGENT, &p, &err), 0);
    assert_int_equal(p.body.exit.signal, SIGKILL);
}

static void the_error_in_started_is_made_safe(void **state)
{
    (void)state;
    box_agent_started s = {.pid = 0};
    s.error.reason = 9999;
    memset(s.error.msg, 'x', sizeof s.error.msg);
    memset(s.error.detail, 'y', sizeof s.error.detail);
    s.error.detail_len = 60000;
    raw r = packet_of(BOX_AGENT_STARTED, 1, &s, sizeof s, NULL, 0);
    box_agent_packet p;
    box_error err;
    assert_int_equal(parse(&r, 0, BOX_AGENT_FROM_AGENT, &p, &err), 0);
    assert_int_equal(p.body.started.error.reason, BOX_INTERNAL);
    assert_int_equal(p.body.started.error.detail_len, 0);
    assert_int_equal(strlen(p.body.started.error.msg), BOX_ERROR_MSG - 1);
}

static box_agent_manage good_process(void)
{
    return (box_agent_manage){.name = "mcp-1",
                              .text = {.argc = 1, .len = 10},
                              .restart = BOX_RESTART_NEVER,
                              .journal_bytes = BOX_MIN_JOURNAL_BYTES,
                              .first_backoff_ns = 1,
                              .interval_ns = 1};
}

static void assert_process(box_agent_manage m, size_t n_fds, bool fine)
{
    raw r = packet_of(BOX_AGENT_MANAGE, 1, &m, sizeof m, NULL, 0);
    box_agent_packet p;
    box_error err;
    assert_int_equal(parse(&r, n_fds, BOX_AGENT_FROM_BOXD, &p, &err), fine ? 0 : -1);
}

static void processes_that_make_no_sense_are_refused(void **state)
{
    (void)state;
    box_agent_manage m = good_process();
    assert_process(m, 1, true);
    assert_process(m, 0, false);
    assert_process(m, 2, false);
    const char *names[] = {"", "a/b", "a b", "\xc3\xa4"};
    for (size_t i = 0; i < BOX_COUNT(names); i++) {
        m = good_process();
        memset(m.name, 0, sizeof m.name);
        memcpy(m.name, names[i], strlen(names[i]));
        assert_process(m, 1, false);
    }
    m = good_process();
    memset(m.name, 'a', BOX_MAX_PROCESS_ID_BYTES);
    assert_process(m, 1, true);
    m.name[BOX_MAX_PROCESS_ID_BYTES] = 'a';
    assert_process(m, 1, false);
    m = good_process();
    m.name[30] = 'x'; /* behind the end */
    assert_process(m, 1, false);
#define WRONG(field, value)                                                                        \
    m = good_process();                                                                            \
    m.field = value;                                                                               \
    assert_process(m, 1, false)
    WRONG(flags, 4);
    WRONG(text.argc, 0);
    WRONG(text.len, BOX_AGENT_TEXT_BYTES + 1);
    WRONG(text.reserved, 1);
    WRONG(record_len, BOX_PROCESS_RECORD_BYTES + 1);
    WRONG(restart, 0);
    WRONG(restart, 4);
    WRONG(probe, 4);
    WRONG(port, 80);
    WRONG(line_len, 1);
    WRONG(probe_text.argc, 1);
    WRONG(journal_bytes, BOX_MIN_JOURNAL_BYTES + 1);
    WRONG(journal_bytes, 4096);
    WRONG(journal_bytes, BOX_MAX_JOURNAL_BYTES + 4096);
    WRONG(first_backoff_ns, 0);
    WRONG(interval_ns, 0);
    WRONG(reserved, 1);
#undef WRONG
}

static void a_probe_has_what_it_needs_and_nothing_else(void **state)
{
    (void)state;
    box_agent_manage m = good_process();
    m.probe = BOX_READY_LINE;
    assert_process(m, 1, false);
    m.line_len = BOX_READY_LINE_BYTES;
    assert_process(m, 1, true);
    m.line_len++;
    assert_process(m, 1, false);
    m = good_process();
    m.probe = BOX_READY_PORT;
    assert_process(m, 1, false);
    m.port = 65535;
    assert_process(m, 1, true);
    m.port++;
    assert_process(m, 1, false);
    m = good_process();
    m.probe = BOX_READY_COMMAND;
    m.probe_text = (box_agent_text){.argc = 1, .len = 5};
    assert_process(m, 2, true);
    assert_process(m, 1, false);
}

static void assert_report(const box_agent_managed *m, size_t n_fds, bool fine)
{
    raw r = packet_of(BOX_AGENT_MANAGED, 1, m, sizeof *m, NULL, 0);
    box_agent_packet p;
    box_error err;
    assert_int_equal(parse(&r, n_fds, BOX_AGENT_FROM_AGENT, &p, &err), fine ? 0 : -1);
}

static void a_process_report_that_contradicts_itself_is_refused(void **state)
{
    (void)state;
    box_agent_managed m = {.state = BOX_MANAGED_RUNNING};
    assert_report(&m, 0, true);
    assert_report(&m, 1, false);
    m.flags = BOX_MANAGED_STDIN_COMES;
    assert_report(&m, 1, true);
    assert_report(&m, 0, false);
    m.flags = BOX_MANAGED_HAS_EXIT;
    assert_report(&m, 0, true); /* exit code 0 */
    m.exit.signal = 9;
    assert_report(&m, 0, false);
    m.exit.exit_code = -1;
    assert_report(&m, 0, true);
    m.exit.first_offset[1] = 1;
    assert_report(&m, 0, false);
    m.exit.end_offset[1] = UINT64_MAX;
    assert_report(&m, 0, false);
    const box_agent_run_exit bad[] = {{.own = 2},
                                      {.own = 1, .own_oom_kills = UINT64_MAX},
                                      {.own = 1, .own_pids_refused = UINT64_MAX},
                                      {.own = 1, .own_peak_bytes = UINT64_MAX}};
    for (size_t i = 0; i < BOX_COUNT(bad); i++) {
        m.exit = bad[i];
        assert_report(&m, 0, false);
    }
    m.exit = (box_agent_run_exit){.own = 1, .own_oom_kills = 1, .own_peak_bytes = INT64_MAX};
    assert_report(&m, 0, true);
    m = (box_agent_managed){.state = BOX_MANAGED_FAILED};
    assert_report(&m, 0, false); /* without a reason */
    (void)box_fail(&m.error, BOX_FILE_NOT_FOUND, "no command x");
    assert_report(&m, 0, true);
    m.state = BOX_MANAGED_FAILED + 1;
    assert_report(&m, 0, false);
    m.state = 0;
    assert_report(&m, 0, false);
}

static void another_version_is_refused(void **state)
{
    (void)state;
    box_error err = {0};
    box_agent_hello hello = {.version = BOX_AGENT_VERSION};
    assert_int_equal(box_agent_hello_check(&hello, &err), 0);
    hello.version++;
    assert_int_equal(box_agent_hello_check(&hello, &err), -1);
    assert_int_equal(err.reason, BOX_VERSION_MISMATCH);
}

static void a_built_start_is_what_the_parser_reads(void **state)
{
    (void)state;
    const char *argv[] = {"sh", "-c", ""};
    const char *env[] = {"PATH=/bin", "E="};
    box_agent_command c = {.id = 3,
                           .timeout_ns = 5,
                           .flags = BOX_START_KILL_LEFTOVERS,
                           .argc = 3,
                           .argv = argv,
                           .envc = 2,
                           .env = env,
                           .workdir = "/"};
    BOX_AUTO(box_buf_done) box_buf b = {.max_bytes = BOX_AGENT_PACKET_BYTES};
    int memfd = 99;
    box_error err;
    assert_int_equal(box_agent_start_build(&c, &b, &memfd, &err), 0);
    assert_int_equal(memfd, -1);
    box_agent_packet p;
    assert_int_equal(
        box_agent_packet_parse(box_buf_data(&b), box_buf_len(&b), 3, BOX_AGENT_FROM_BOXD, &p, &err),
        0);
    assert_int_equal(p.body.start.timeout_ns, 5);
    assert_int_equal(p.body.start.flags, BOX_START_KILL_LEFTOVERS);
    char *got_argv[4];
    char *got_env[3];
    const char *workdir;
    box_agent_text_split(&p.body.start, p.text, got_argv, got_env, &workdir);
    assert_string_equal(got_argv[2], "");
    assert_string_equal(got_env[1], "E=");
    assert_string_equal(workdir, "/");
}

static void a_long_text_goes_into_a_sealed_memfd(void **state)
{
    (void)state;
    enum { BIG = 100 * 1000 };
    BOX_AUTO(box_buf_done) box_buf big = {0};
    uint8_t *room;
    box_error err;
    assert_int_equal(box_buf_reserve(&big, BIG + 1, &room, &err), 0);
    memset(room, 'a', BIG);
    room[BIG] = '\0';
    const char *argv[] = {"echo", (const char *)room};
    box_agent_command c = {.id = 3, .argc = 2, .argv = argv, .workdir = "/"};
    BOX_AUTO(box_buf_done) box_buf b = {.max_bytes = BOX_AGENT_PACKET_BYTES};
    BOX_AUTO(box_closep) int memfd = -1;
    assert_int_equal(box_agent_start_build(&c, &b, &memfd, &err), 0);
    assert_true(memfd >= 0);
    box_agent_packet p;
    assert_int_equal(
        box_agent_packet_parse(box_buf_data(&b), box_buf_len(&b), 4, BOX_AGENT_FROM_BOXD, &p, &err),
        0);
    assert_true((p.body.start.flags & BOX_START_TEXT_IN_MEMFD) != 0);
    BOX_AUTO(box_buf_done) box_buf text = {0};
    assert_int_equal(lseek(memfd, 0, SEEK_SET), 0);
    assert_int_equal(box_buf_read_fd(&text, memfd, &err), 0);
    box_bytes bytes = {.data = box_buf_data(&text), .len = box_buf_len(&text)};
    assert_int_equal(box_agent_text_check(&p.body.start, bytes, &err), 0);
    assert_int_equal(write(memfd, "x", 1), -1);
}

static void what_cannot_be_a_command_is_a_violation(void **state)
{
    (void)state;
    const char *empty[] = {""};
    const char *ls[] = {"ls"};
    const char *no_key[] = {"=1"};
    const box_agent_command bad[] = {
        {.argc = 0, .argv = ls, .workdir = "/"},
        {.argc = 1, .argv = empty, .workdir = "/"},
        {.argc = 1, .argv = ls, .envc = 1, .env = no_key, .workdir = "/"},
        {.argc = 1, .argv = ls, .envc = 1, .env = ls, .workdir = "/"},
        {.argc = 1, .argv = ls, .workdir = "w"},
        {.argc = 1, .argv = ls, .workdir = ""},
    };
    for (size_t i = 0; i < BOX_COUNT(bad); i++) {
        BOX_AUTO(box_buf_done) box_buf b = {.max_bytes = BOX_AGENT_PACKET_BYTES};
        int memfd;
        box_error err = {0};
        assert_int_equal(box_agent_start_build(&bad[i], &b, &memfd, &err), -1);
        assert_int_equal(err.reason, BOX_VALIDATION);
        assert_int_equal(box_buf_len(&b), 0);
    }
}

static void one_argument_may_have_131071_bytes_and_no_more(void **state)
{
    (void)state;
    for (size_t len = BOX_MAX_ARG_BYTES - 1; len <= BOX_MAX_ARG_BYTES; len++) {
        BOX_AUTO(box_buf_done) box_buf arg = {0};
        uint8_t *room;
        box_error err;
        assert_int_equal(box_buf_reserve(&arg, len + 1, &room, &err), 0);
        memset(room, 'a', len);
        room[len] = '\0';
        const char *argv[] = {"echo", (const char *)room};
        box_agent_command c = {.id = 3, .argc = 2, .argv = argv, .workdir = "/"};
        BOX_AUTO(box_buf_done) box_buf b = {.max_bytes = BOX_AGENT_PACKET_BYTES};
        BOX_AUTO(box_closep) int memfd = -1;
        int rc = box_agent_start_build(&c, &b, &memfd, &err);
        assert_int_equal(rc, len < BOX_MAX_ARG_BYTES ? 0 : -1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_start_is_read_with_its_text),
        cmocka_unit_test(a_start_on_a_terminal_brings_no_streams),
        cmocka_unit_test(a_started_brings_both_sides_of_a_terminal_or_nothing),
        cmocka_unit_test(a_packet_cut_at_any_byte_is_refused),
        cmocka_unit_test(a_packet_with_more_bytes_than_its_text_is_refused),
        cmocka_unit_test(lying_counts_in_start_are_refused),
        cmocka_unit_test(a_text_that_is_no_command_is_refused),
        cmocka_unit_test(descriptors_are_taken_only_where_they_belong),
        cmocka_unit_test(only_the_right_side_may_send_a_type),
        cmocka_unit_test(a_file_worker_needs_its_socket_and_an_id),
        cmocka_unit_test(a_file_workers_end_is_made_safe),
        cmocka_unit_test(a_port_is_asked_for_and_its_socket_comes),
        cmocka_unit_test(signals_that_make_no_sense_are_refused),
        cmocka_unit_test(an_exit_that_contradicts_itself_is_refused),
        cmocka_unit_test(the_error_in_started_is_made_safe),
        cmocka_unit_test(processes_that_make_no_sense_are_refused),
        cmocka_unit_test(a_probe_has_what_it_needs_and_nothing_else),
        cmocka_unit_test(a_process_report_that_contradicts_itself_is_refused),
        cmocka_unit_test(another_version_is_refused),
        cmocka_unit_test(a_built_start_is_what_the_parser_reads),
        cmocka_unit_test(a_long_text_goes_into_a_sealed_memfd),
        cmocka_unit_test(what_cannot_be_a_command_is_a_violation),
        cmocka_unit_test(one_argument_may_have_131071_bytes_and_no_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
