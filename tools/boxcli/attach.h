/* One AttachManagedProcess between this terminal and a process. */
#pragma once

#include "box/v1/process.client.h"
#include "cli.h"

typedef struct cli_attach {
    Box__V1__AttachStart *start; /* borrowed */
    bool quiet;                  /* nothing of ours on stderr while it goes on (a pipe of bytes) */
    bool detach_on_eof;          /* the end of stdin ends the call, not the process's stdin */
    bool only_read;              /* stdin is left alone */
    bool only_show;              /* how it ended is not our exit code */
} cli_attach;

/* Until the process or the call ends. An exit code: the process's own, 128 + N when signal N ended
 * it or this program, 0 when all was shown or stdin ended with detach_on_eof, 125 else. */
int cli_attach_run(cli *c, const cli_attach *a);
