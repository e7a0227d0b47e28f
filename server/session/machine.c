#include "session/machine.h"

#define NO ((box_session_state)0)

static const box_session_state next[][6] = {
    /* clang-format off */
    /*                        START                 READY                FAIL               STOP                  GONE                 LOST */
    [BOX_SESSION_CREATED]  = {BOX_SESSION_STARTING, NO,                  BOX_SESSION_ERROR, BOX_SESSION_STOPPING, NO,                  NO},
    [BOX_SESSION_STARTING] = {NO,                   BOX_SESSION_RUNNING, BOX_SESSION_ERROR, BOX_SESSION_STOPPING, NO,                  BOX_SESSION_ERROR},
    [BOX_SESSION_RUNNING]  = {NO,                   NO,                  NO,                BOX_SESSION_STOPPING, NO,                  BOX_SESSION_ERROR},
    [BOX_SESSION_STOPPING] = {NO,                   NO,                  NO,                NO,                   BOX_SESSION_STOPPED, NO},
    [BOX_SESSION_STOPPED]  = {NO,                   NO,                  NO,                NO,                   NO,                  NO},
    [BOX_SESSION_ERROR]    = {NO,                   NO,                  NO,                NO,                   NO,                  NO},
    /* clang-format on */
};

bool box_session_next(box_session_state *state, box_session_event event)
{
    box_session_state to = next[*state][event];
    if (to == NO)
        return false;
    *state = to;
    return true;
}

bool box_session_is_live(box_session_state state)
{
    return state >= BOX_SESSION_CREATED && state <= BOX_SESSION_STOPPING;
}

const char *box_stop_reason_name(box_stop_reason r)
{
    static const char *const names[] = {
        [BOX_STOP_NONE] = "",
        [BOX_STOP_REQUESTED] = "requested",
        [BOX_STOP_IDLE] = "idle",
        [BOX_STOP_LIFETIME] = "lifetime",
        [BOX_STOP_EXEC_TIMEOUT] = "exec_timeout",
        [BOX_STOP_DELETED] = "deleted",
        [BOX_STOP_SHUTDOWN] = "shutdown",
        [BOX_STOP_LOST] = "lost",
        [BOX_STOP_CREATE_FAILED] = "create_failed",
        [BOX_STOP_REVOKED] = "revoked",
        [BOX_STOP_EVICTED] = "evicted",
        [BOX_STOP_BROKEN] = "broken",
    };
    return names[r];
}
