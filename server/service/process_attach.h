/* AttachManagedProcess. */
#pragma once

#include "box/v1/process.box.h"

int box_process_attach(box_call *call, box_error *err) BOX_MUST_USE;
int box_process_attach_message(box_call *call, const Box__V1__AttachManagedProcessRequest *message,
                               box_error *err) BOX_MUST_USE;
int box_process_attach_half_close(box_call *call, box_error *err) BOX_MUST_USE;
