/* box.test.v1.EchoService. */
#pragma once

#include "loop/loop.h"
#include "net/server.h"

typedef struct echo_service echo_service;

echo_service *echo_service_new(void);
void echo_service_free(echo_service *e);
/* Counts a call that ended with that reason. service is an echo_service. */
void echo_service_count_end(void *service, box_reason reason);
/* For the counters; set before calls come. */
void echo_service_set_net(echo_service *e, const box_net *net);
box_service echo_service_of(echo_service *e);
