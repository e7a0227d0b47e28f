/* SessionService.PortForward. */
#pragma once

#include "box/v1/session.box.h"

int box_port_forward(box_call *call, box_error *err) BOX_MUST_USE;
int box_port_forward_message(box_call *call, const Box__V1__PortForwardRequest *m, box_error *err)
    BOX_MUST_USE;
int box_port_forward_half_close(box_call *call, box_error *err) BOX_MUST_USE;
