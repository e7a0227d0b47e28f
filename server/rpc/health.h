/* grpc.health.v1.Health: states by service name, and those who watch them. The empty name is the
 * server as a whole. Who may call it is the admission hook's business. */
#pragma once

#include "loop/loop.h"
#include "wire/service.h"

typedef struct box_health box_health;

/* Numbers of HealthCheckResponse.ServingStatus. */
typedef enum box_health_status {
    BOX_HEALTH_UNKNOWN = 0,
    BOX_HEALTH_SERVING = 1,
    BOX_HEALTH_NOT_SERVING = 2,
} box_health_status;

/* Knows "" as NOT_SERVING. */
box_health *box_health_new(box_loops *loops);
/* After the loops have stopped and all calls have ended. */
void box_health_free(box_health *h);
box_service box_health_service(box_health *h);

/* Any thread. Watchers hear of a change, the latest only when they read slowly. At most
 * BOX_MAX_HEALTH_SERVICES names. Does nothing after box_health_drain. */
void box_health_set(box_health *h, const char *service, box_health_status status);
/* Any thread. Everything is NOT_SERVING for good; watchers are told, then their calls end with
 * SHUTTING_DOWN. Call it before box_net_drain. */
void box_health_drain(box_health *h);
