/* A channel that calls services in this process, through the same signatures: for tests. */
#pragma once

#include "box/call.h"
#include "wire/service.h"

/* Handlers run inside the calls of the client, one at a time. A handler that answers later is
 * driven by `pump` (NULL: none), called again and again while a call waits and once in each
 * box_channel_dispatch; without one, a call that waits for such a handler ends with INTERNAL.
 * services is borrowed. */
int box_channel_inproc(const box_service *services, size_t n_services, void (*pump)(void *arg),
                       void *arg, box_channel **out, box_error *err) BOX_MUST_USE;
