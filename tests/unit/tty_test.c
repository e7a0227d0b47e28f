#include "base/tty.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/fd.h"

typedef struct pair {
    int master;
    int other;
} pair;

static pair open_pair(void)
{
    pair p = {.master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK)};
    assert_true(p.master >= 0 && unlockpt(p.master) == 0);
    p.other = open(ptsname(p.master), O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK);
    assert_true(p.other >= 0);
    return p;
}

static void close_pair(pair *p)
{
    box_closep(&p->master);
    box_closep(&p->other);
}

static void assert_size(int fd, int rows, int columns)
{
    struct winsize size;
    assert_int_equal(ioctl(fd, TIOCGWINSZ, &size), 0);
    assert_int_equal(size.ws_row, rows);
    assert_int_equal(size.ws_col, columns);
}

static void either_side_takes_any_size(void **state)
{
    (void)state;
    pair p = open_pair();
    box_tty_resize(p.master, 50, 132);
    assert_size(p.other, 50, 132);
    box_tty_resize(p.other, UINT16_MAX, UINT16_MAX);
    assert_size(p.master, UINT16_MAX, UINT16_MAX);
    box_tty_resize(p.other, 0, 0);
    assert_size(p.master, 24, 80);
    close_pair(&p);
}

static void the_end_of_input_is_one_for_who_reads_lines(void **state)
{
    (void)state;
    char data[8];
    pair p = open_pair();
    assert_int_equal(write(p.master, "hi\n", 3), 3);
    assert_true(box_tty_end_input(p.master));
    assert_int_equal(read(p.other, data, sizeof data), 3);
    assert_int_equal(read(p.other, data, sizeof data), 0);
    close_pair(&p);
}

static void nothing_is_typed_where_there_is_no_such_character(void **state)
{
    (void)state;
    struct termios raw;
    char data[8];
    pair p = open_pair();
    assert_int_equal(tcgetattr(p.other, &raw), 0);
    cfmakeraw(&raw);
    assert_int_equal(tcsetattr(p.other, TCSANOW, &raw), 0);
    assert_true(box_tty_end_input(p.master));
    errno = 0;
    assert_int_equal(read(p.other, data, sizeof data), -1);
    assert_int_equal(errno, EAGAIN);
    close_pair(&p);
}

static void a_full_terminal_takes_it_later(void **state)
{
    (void)state;
    char lines[1024];
    memset(lines, '\n', sizeof lines);
    pair p = open_pair();
    while (write(p.master, lines, sizeof lines) > 0)
        continue;
    assert_int_equal(errno, EAGAIN);
    assert_false(box_tty_end_input(p.master));
    close_pair(&p);
}

static void what_is_no_terminal_needs_no_end(void **state)
{
    (void)state;
    int fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    assert_true(box_tty_end_input(fd));
    box_tty_resize(fd, 1, 1);
    box_closep(&fd);
}

static void only_both_sides_are_taken_and_ours_never_waits(void **state)
{
    (void)state;
    char c;
    int pipes[2];
    pair p = open_pair();
    assert_int_equal(fcntl(p.master, F_SETFL, 0), 0);
    assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
    assert_false(box_tty_check(pipes[0], p.other));
    assert_false(box_tty_check(p.master, pipes[1]));
    assert_false(box_tty_check(p.other, p.other));
    assert_false(box_tty_check(-1, p.other));
    assert_true(box_tty_check(p.master, p.other));
    errno = 0;
    assert_int_equal(read(p.master, &c, 1), -1);
    assert_int_equal(errno, EAGAIN);
    box_closep(&pipes[0]);
    box_closep(&pipes[1]);
    close_pair(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(either_side_takes_any_size),
        cmocka_unit_test(the_end_of_input_is_one_for_who_reads_lines),
        cmocka_unit_test(nothing_is_typed_where_there_is_no_such_character),
        cmocka_unit_test(a_full_terminal_takes_it_later),
        cmocka_unit_test(what_is_no_terminal_needs_no_end),
        cmocka_unit_test(only_both_sides_are_taken_and_ours_never_waits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
