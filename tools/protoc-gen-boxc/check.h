/* What a .proto must keep to, so that tables protoc-c does not write are not needed: box_json tells
 * maps and JSON names by the names of things. */
#pragma once

#include <google/protobuf/descriptor.pb-c.h>

#include "base/error.h"

/* VALIDATION naming the field: a json_name option that is not the default name; a repeated message
 * that looks like a map (type FooEntry {key, value} of a field foo) and is none. */
int check_file(const Google__Protobuf__FileDescriptorProto *file, box_error *err) BOX_MUST_USE;
