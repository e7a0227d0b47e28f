/* Between box.v1's file messages and the frames of file workers. */
#pragma once

#include "box/v1/file.box.h"
#include "session/files.h"

/* A FileInfo with all it points to, owned. */
typedef struct box_file_view {
    Box__V1__FileInfo message;
    Google__Protobuf__Timestamp modified, changed;
    char *path; /* also path_bytes' */
    char *target;
} box_file_view;

box_file_view *box_file_view_new(const box_files_info *info);
void box_file_view_free(box_file_view *v);

/* `path` or `path_bytes`, borrowed: exactly one, or (optional) none. Violations name field. */
int box_file_convert_path(const char *path, const ProtobufCBinaryData *bytes, bool optional,
                          const char *field, box_bytes *out, box_error *err) BOX_MUST_USE;
/* -1 when it is absent. */
int box_file_convert_permissions(bool has, int32_t asked, int32_t *out, box_error *err)
    BOX_MUST_USE;
/* Flags of PUT; append where it may be. */
int box_file_convert_mode(Box__V1__WriteMode mode, bool may_append, uint32_t *flags, box_error *err)
    BOX_MUST_USE;
/* A digest of 32 bytes, or none. */
int box_file_convert_digest(const ProtobufCBinaryData *sha256, const char *field,
                            box_files_ask_head *h, box_error *err) BOX_MUST_USE;
/* 0 is `standard`, more than `most` is that, less than 0 a violation. */
int box_file_convert_count(int64_t asked, int64_t standard, int64_t most, const char *field,
                           int64_t *out, box_error *err) BOX_MUST_USE;

static inline box_bytes box_file_bytes(const ProtobufCBinaryData *b)
{
    return (box_bytes){.data = b->data, .len = b->len};
}
