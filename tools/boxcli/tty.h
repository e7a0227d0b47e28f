/* The terminal that boxcli itself runs on, while it is lent to a program that has one of its own.
 * It is as before when boxcli ends, whatever ends it: cli_tty_leave on every way out, signals that
 * would end it come through a descriptor (cli_tty_signals), and for the rest, faults of its own,
 * there are handlers. Against SIGKILL nobody can do anything. */
#pragma once

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <termios.h>

enum { CLI_TTY_FAULTS = 7 };

typedef struct cli_tty {
    bool raw;
    struct termios before;
    struct sigaction faults[CLI_TTY_FAULTS]; /* handlers there were before */
} cli_tty;

/* Is stdin a terminal? Of stdout it does not matter. */
bool cli_tty_is(void);
/* Every byte passes as it is typed; false: it cannot be set so. */
bool cli_tty_enter(cli_tty *t);
/* As it was before; harmless when it was never entered. */
void cli_tty_leave(cli_tty *t);
/* 0, 0 when it has none. */
void cli_tty_size(int *rows, int *columns);
/* SIGWINCH as a descriptor; -1: its changes are not seen. */
int cli_tty_open_changes(void);
/* Takes all that came, several are one; false: none did. */
bool cli_tty_take_changes(int changes);

/* Another way to the terminal on stdout, which never waits: one that nobody reads takes a part of
 * what is written, and signals have to be seen meanwhile. Stdout itself is shared with others, and
 * stays as it is. -1: it is no terminal, or one that this user may not open. */
int cli_tty_open_output(void);

/* Adds what a program on a raw terminal has to see coming: all that would end or stop it, and that
 * it goes on. */
void cli_tty_signals(sigset_t *set);
/* Stops this program, its terminal as before, or makes it raw again where it goes on. True: it was
 * one of these signals, and the size may be another one. */
bool cli_tty_take(cli_tty *t, int signo);

/* Ctrl-P Ctrl-Q, as docker's, among what is typed. *held: a Ctrl-P that came last, which is passed
 * on with what follows it. Writes what is to be passed on to out (room for len + 1 bytes). True:
 * they came; what follows them is dropped. */
bool cli_detach_keys(bool *held, const uint8_t *typed, size_t len, uint8_t *out, size_t *out_len);
