/* protoc-c's names for things of a .proto file (protobuf-c 1.4.1, protoc-c/c_helpers.cc), and ours.
 * Every result is the caller's to free. */
#pragma once

#include <stdbool.h>

/* "box.v1.ExecRequest" (a leading dot is fine) -> "Box__V1__ExecRequest". */
char *names_type(const char *full_name);
/* -> "box__v1__exec_request": prefix of a message's functions. */
char *names_lower(const char *full_name);
/* -> "BOX__V1__EXEC_REQUEST": prefix of a message's constants. */
char *names_upper(const char *full_name);

/* One identifier: "HTTPServer" -> "httpserver", "ExecStream" -> "exec_stream". */
char *names_snake(const char *name);
char *names_snake_upper(const char *name);
/* "cpu_millis" -> "CpuMillis". */
char *names_camel(const char *name);
/* A field's struct member: lower case, a keyword gets an underscore. */
char *names_field(const char *name);

/* Ours: package and service with single underscores, "box_v1_exec_service". */
char *names_service(const char *package, const char *service);
/* proto3's JSON name when no json_name option is given: "cpu_millis" -> "cpuMillis". */
char *names_json(const char *name);
/* "box/v1/exec.proto" -> "box/v1/exec". */
char *names_file_stem(const char *proto_file);
