/* This program's stdin, stdout, stderr, signals and terminal while one streaming call has them:
 * what `boxcli exec` and `boxcli attach` have in common. The owner says what becomes of what comes
 * from here; its events of the call hand what comes from the server to the functions below. */
#pragma once

#include "box/v1/types.fields.h"
#include "cli.h"
#include "tty.h"

/* What came from this side; `owner` is that of the console. */
typedef struct cli_console_ops {
    bool (*wants_stdin)(const void *owner);
    void (*take_stdin)(void *owner, uint8_t *data, size_t len); /* never more than CLI_STDIN_STEP */
    void (*take_end)(void *owner);                              /* of stdin; asked once */
    void (*take_signal)(void *owner, int signo);
    void (*take_size)(void *owner); /* the terminal's may be another one */
    void (*late)(void *owner);      /* wake_at has come, and is 0 again; NULL: it is never set */
} cli_console_ops;

/* How much of stdin is read at once, in bytes. */
enum { CLI_STDIN_STEP = 32 * 1024 };

typedef struct cli_console {
    const cli_console_ops *ops; /* borrowed, as the owner is */
    void *owner;
    box_client_call *call; /* owned; set by the owner once it is started */
    bool stdin_open;
    bool done;        /* the call is over; why says status */
    bool given_up;    /* nothing more is written, and no end waited for */
    int interrupted;  /* first signal the owner was told of, 0 = none */
    int output_errno; /* why stdout or stderr could not be written; 0: they could */
    box_error status;
    box_time wake_at;          /* 0 = never */
    Box__V1__Verdict *verdict; /* owned; NULL until it comes */
    int signals;               /* signalfd, owned; -1: they end this program */
    int changes;               /* of the terminal's size: owned, -1 while they are not asked for */
    int terminal;              /* stdout opened once more (cli_tty_open_output), owned, or -1 */
    cli_tty tty;               /* raw while it is lent */
} cli_console;

/* Takes the signals that would end this program; with terminal also what a raw one must see coming,
 * and stdout so that writing never waits. */
void cli_console_open(cli_console *c, bool terminal);
/* Keys go to the call as they are typed, and the size and its changes. False: keys come by lines
 * only. */
bool cli_console_lend(cli_console *c);
/* The terminal is as before; false: it was lent not at all, or by lines only. */
bool cli_console_take_back(cli_console *c);
/* Takes the terminal back and closes all; the call too. */
void cli_console_close(cli_console *c);

/* Until the call is done. */
void cli_console_run(cli_console *c, box_channel *channel);

/* From the events of the call: output, the verdict (copied), its end. Output that cannot be written
 * cancels the call. */
void cli_console_stdout(cli_console *c, const ProtobufCBinaryData *data);
void cli_console_stderr(cli_console *c, const ProtobufCBinaryData *data);
void cli_console_verdict(cli_console *c, const Box__V1__Verdict *v);
void cli_console_done(cli_console *c, const box_error *status);

/* SIGINT, SIGTERM, SIGHUP and SIGQUIT as a descriptor; with raw those of cli_tty_signals too. -1:
 * they end this program. */
int cli_open_signals(bool raw);
