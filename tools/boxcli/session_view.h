/* Sessions as text for people. */
#pragma once

#include "box/v1/session.box.h"
#include "cli.h"

/* One line a session; the same columns below the heading of a list. */
void cli_session_heading(const cli *c);
void cli_session_line(const Box__V1__Session *s);
/* All that matters of one. */
void cli_session_print(const Box__V1__Session *s);
/* What happened and when, with the session's line. */
void cli_session_event(const Box__V1__WatchSessionsResponse *event);

/* "RUNNING"; "UNKNOWN" for what a later server may say. */
const char *cli_session_state(Box__V1__SessionState state);
