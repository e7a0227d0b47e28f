/* What the files of ControlService share; nobody else includes it. */
#pragma once

#include <stdatomic.h>

#include "box/v1/control.box.h"
#include "loop/lock.h"
#include "service/control.h"

struct box_control {
    box_control_config config;
    int64_t started_ns;
    atomic_int_fast64_t certificate_expires_ns;
    /* Guards settings, and keeps two Initialize apart: held while hooks.apply and the policy take
     * theirs, so nothing that holds one of those may take this one. */
    box_lock lock;
    box_control_settings settings; /* in force */
};

box_control_settings box_control_settings_get(box_control *c);

/* control_wait.c: calls answer once no warden's first HELLO is awaited any more, at once when none
 * is; not for a call that is over by then. What it returns is the call's end as a handler's is.
 * `name` (a request's; copied) is passed on. */
typedef int (*box_control_answer)(box_call *call, const char *name, box_error *err);
int box_control_when_known(box_call *call, const char *name, box_control_answer answer,
                           box_error *err);
/* control_backends.c: */
size_t box_control_reports(box_control *c, box_backend_report out[BOX_CONTROL_MAX_BACKENDS]);
/* The selected backend; false when there is none. */
bool box_control_selected(box_control *c, box_backend_report *out);
int box_control_health(box_call *call, const Box__V1__HealthRequest *r, box_error *err);
int box_control_get_backend_info(box_call *call, const Box__V1__GetBackendInfoRequest *r,
                                 box_error *err);
int box_control_list_backends(box_call *call, const Box__V1__ListBackendsRequest *r,
                              box_error *err);
/* control_status.c */
int box_control_get_status(box_call *call, const Box__V1__GetStatusRequest *r, box_error *err);
/* control_errors.c */
int box_control_list_errors(box_call *call, const Box__V1__ListErrorsRequest *r, box_error *err);
/* control_guidance.c */
int box_control_get_guidance(box_call *call, const Box__V1__GetGuidanceRequest *r, box_error *err);
/* control_initialize.c */
int box_control_initialize(box_call *call, const Box__V1__InitializeRequest *r, box_error *err);
