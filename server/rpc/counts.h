/* How calls ended, by method and gRPC code, since the start. Any thread. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "wire/service.h"

typedef struct box_call_counts box_call_counts;

/* The services are borrowed. */
box_call_counts *box_call_counts_new(const box_service *services, size_t n);
void box_call_counts_free(box_call_counts *c);

/* method NULL: one that there is not. err NULL: OK. c may be NULL. */
void box_call_counts_add(box_call_counts *c, const box_method *method, const box_error *err);
/* Each that is not 0, in the order of the services; path "" for methods that there are not. */
void box_call_counts_each(box_call_counts *c,
                          void (*visit)(void *arg, const char *path, box_code code, uint64_t count),
                          void *arg);
