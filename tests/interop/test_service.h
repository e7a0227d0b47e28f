/* boxtest.v1.TestService: gRPC's standard interoperability cases (testing.proto). */
#pragma once

#include "rpc/health.h"
#include "wire/service.h"

/* The service's context; outlives the server. */
typedef struct test_service {
    box_health *health; /* for SetHealth */
    /* Sleep: how its calls ended, in EchoService's counters. */
    void (*ended)(void *arg, box_reason reason);
    void *ended_arg;
} test_service;

box_service test_service_of(test_service *t);
