/* An index of .proto files and what they declare, over descriptor sets that protoc wrote and the
 * program embeds. Read-only once made: any thread. */
#pragma once

#include "base/buf.h"
#include "wire/service.h"

typedef struct box_descriptors box_descriptors;

/* A file, as protoc wrote it. */
typedef struct box_descriptor_file {
    const char *name;
    box_bytes bytes; /* FileDescriptorProto */
} box_descriptor_file;

/* The sets' data is borrowed. A file that several sets hold is taken from the first. INTERNAL when
 * one is no FileDescriptorSet. */
int box_descriptors_new(const box_descriptor_set *sets, size_t n_sets, box_descriptors **out,
                        box_error *err) BOX_MUST_USE;
void box_descriptors_free(box_descriptors *d);

/* The file itself first, then all it imports, directly or not, each once; *n 0 when there is no
 * such file or symbol. Free *out with free(). Symbols: service, method, message, field, oneof,
 * enum, enum value, extension, by full name without leading dot. */
void box_descriptors_by_file(const box_descriptors *d, const char *name,
                             const box_descriptor_file ***out, size_t *n);
void box_descriptors_by_symbol(const box_descriptors *d, const char *symbol,
                               const box_descriptor_file ***out, size_t *n);
bool box_descriptors_has_message(const box_descriptors *d, const char *symbol);
