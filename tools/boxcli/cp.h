/* One copy between this machine and a session: what both directions share. */
#pragma once

#include "cli.h"

enum { CLI_COPY_DEPTH = 256, CLI_COPY_NAME_BYTES = 4096 };

typedef struct cli_copy {
    cli *c;
    char *session;
    bool recursive;
    bool failed; /* something was left out; the rest goes on */
} cli_copy;

/* A file, a tree or stdin ("-") to a path of the session, and back. -1 after saying why; what is
 * below goes on as far as it can (cp->failed). */
int cli_copy_in(cli_copy *cp, const char *source, char *target);
int cli_copy_out(cli_copy *cp, char *source, const char *target);

/* "boxcli: BEFORE NAME BEHIND" on stderr. A name goes to a terminal, and a sandbox may have chosen
 * it: it is cleaned. */
void cli_copy_say(const char *before, const char *name, const char *behind);
/* "WHAT PATH: why" by errno, or *err; -1, and cp->failed is set. */
int cli_copy_complain(cli_copy *cp, const char *what, const char *path);
int cli_copy_fail(cli_copy *cp, const box_error *err);

/* "DIR/NAME"; -1 with errno when it is too long. */
int cli_copy_join(const char *dir, const char *name, char out[CLI_COPY_NAME_BYTES]);
/* A local path's last name, of "a/b/" and "." too. */
const char *cli_copy_local_name(const char *path);
/* *there: is it anything at all? cp->failed: it could not be asked. */
bool cli_copy_is_directory(cli_copy *cp, char *path, bool *there);
/* Streams take as long as they need. */
box_client_options cli_copy_stream_options(const cli *c);
