/* The life of a session as one table of (state, event). */
#pragma once

#include <stdbool.h>

#include "session/session.h"

typedef enum box_session_event {
    BOX_EVENT_START, /* its home loop asked the warden */
    BOX_EVENT_READY, /* its agent said hello */
    BOX_EVENT_FAIL,  /* it could not be made */
    BOX_EVENT_STOP,  /* asked to end, or expired */
    BOX_EVENT_GONE,  /* nothing of its sandbox is left */
    BOX_EVENT_LOST,  /* its sandbox vanished or its agent broke */
} box_session_event;

/* False (and *state left alone): the event means nothing in that state. */
bool box_session_next(box_session_state *state, box_session_event event);
/* CREATED to STOPPING: counts against the limits. */
bool box_session_is_live(box_session_state state);
