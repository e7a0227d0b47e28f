/* The terminal that boxcli itself runs on, while it is lent to a process that has one of its own.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <termios.h>

typedef struct cli_tty {
    bool raw;
    struct termios before;
} cli_tty;

/* Are stdin and stdout both a terminal? */
bool cli_tty_is(void);
/* Every byte passes as it is typed; false: it cannot be set so. */
bool cli_tty_enter(cli_tty *t);
/* As it was before; harmless when it was never entered. */
void cli_tty_leave(cli_tty *t);
/* 0, 0 when it has none. */
void cli_tty_size(int *rows, int *columns);
/* SIGWINCH as a descriptor; -1: its changes are not seen. */
int cli_tty_open_changes(void);

/* Ctrl-P Ctrl-Q, as docker's, among what is typed. *held: a Ctrl-P that came last, which is passed
 * on with what follows it. Writes what is to be passed on to out (room for len + 1 bytes). True:
 * they came; what follows them is dropped. */
bool cli_detach_keys(bool *held, const uint8_t *typed, size_t len, uint8_t *out, size_t *out_len);
