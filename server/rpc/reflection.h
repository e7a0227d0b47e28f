/* grpc.reflection.v1.ServerReflection, and the same under v1alpha, whose messages are equal on the
 * wire. Answers from embedded descriptor sets; each answer holds the file asked for and all it
 * imports. Who may call it is the admission hook's business. Any thread once services are set. */
#pragma once

#include "wire/service.h"

typedef struct box_reflection box_reflection;

/* sets are borrowed, among them box_rpc_descriptor_set for health and reflection themselves. */
int box_reflection_new(const box_descriptor_set *sets, size_t n_sets, box_reflection **out,
                       box_error *err) BOX_MUST_USE;
void box_reflection_free(box_reflection *r);

/* The two services to offer. */
enum { BOX_REFLECTION_SERVICES = 2 };
void box_reflection_services(box_reflection *r, box_service out[BOX_REFLECTION_SERVICES]);
/* What list_services names: all services of the server. Borrowed; once, before calls. */
void box_reflection_set_listed(box_reflection *r, const box_service *services, size_t n);
