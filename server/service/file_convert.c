#include "service/file_convert.h"

#include "base/alloc.h"
#include "base/utf8.h"

/* Unlike session times, any is one: files may be of 1970 or before. */
static Google__Protobuf__Timestamp *stamp(Google__Protobuf__Timestamp *t, int64_t ns)
{
    const int64_t second = (int64_t)BOX_SECOND;
    google__protobuf__timestamp__init(t);
    int64_t nanos = ns % second;
    t->nanos = (int32_t)(nanos < 0 ? nanos + second : nanos);
    t->seconds = ns / second - (nanos < 0 ? 1 : 0);
    return t;
}

/* A name goes out as text when it is that, as bytes when not. */
static char *name(box_bytes b, char **text, ProtobufCBinaryData *bytes)
{
    char *copy = box_alloc(b.len + 1);
    if (b.len > 0)
        memcpy(copy, b.data, b.len);
    if (box_utf8_valid(copy, b.len))
        *text = copy;
    else
        *bytes = (ProtobufCBinaryData){.data = (uint8_t *)copy, .len = b.len};
    return copy;
}

box_file_view *box_file_view_new(const box_files_info *info)
{
    const box_files_info_head *h = &info->head;
    box_file_view *v = box_alloc(sizeof *v);
    Box__V1__FileInfo *m = &v->message;
    box__v1__file_info__init(m);
    v->path = name(info->path, &m->path, &m->path_bytes);
    if (info->target.len > 0)
        v->target = name(info->target, &m->link_target, &m->link_target_bytes);
    m->kind = (Box__V1__FileKind)h->kind; /* the same numbers */
    m->size_bytes = h->size_bytes;
    m->permissions = (int32_t)h->permissions;
    m->owner_uid = (int32_t)h->uid;
    m->owner_gid = (int32_t)h->gid;
    m->modified_at = stamp(&v->modified, h->modified_ns);
    m->changed_at = stamp(&v->changed, h->changed_ns);
    m->hard_links = h->links;
    m->allocated_bytes = h->allocated_bytes;
    return v;
}

void box_file_view_free(box_file_view *v)
{
    if (v == NULL)
        return;
    free(v->path);
    free(v->target);
    free(v);
}

int box_file_convert_path(const char *path, const ProtobufCBinaryData *bytes, bool optional,
                          const char *field, box_bytes *out, box_error *err)
{
    if (path[0] != '\0' && bytes->len > 0)
        return box_violation(err, field, "must not stand beside %s_bytes", field);
    if (path[0] == '\0' && bytes->len == 0 && !optional)
        return box_violation(err, field, "must not be empty");
    *out = path[0] != '\0' ? (box_bytes){.data = (const uint8_t *)path, .len = strlen(path)}
                           : box_file_bytes(bytes);
    if (out->len > BOX_FILES_MAX_PATH)
        return box_violation(err, field, "has more than %d bytes", BOX_FILES_MAX_PATH);
    if (out->len > 0 && memchr(out->data, '\0', out->len) != NULL)
        return box_violation(err, field, "must not have a NUL");
    return 0;
}

int box_file_convert_permissions(bool has, int32_t asked, int32_t *out, box_error *err)
{
    *out = has ? asked : -1;
    if (has && (asked < 0 || asked > 0777))
        return box_violation(err, "permissions", "must be 0 to 511 (0777)");
    return 0;
}

int box_file_convert_mode(Box__V1__WriteMode mode, bool may_append, uint32_t *flags, box_error *err)
{
    switch (mode) {
    case BOX__V1__WRITE_MODE__WRITE_MODE_UNSPECIFIED:
    case BOX__V1__WRITE_MODE__WRITE_MODE_OVERWRITE:
        *flags |= BOX_FILES_REPLACE;
        return 0;
    case BOX__V1__WRITE_MODE__WRITE_MODE_CREATE_NEW:
        return 0;
    case BOX__V1__WRITE_MODE__WRITE_MODE_APPEND:
        *flags |= BOX_FILES_APPEND;
        return may_append ? 0 : box_violation(err, "mode", "APPEND is WriteFile's only");
    default:
        return box_violation(err, "mode", "is no known value");
    }
}

int box_file_convert_digest(const ProtobufCBinaryData *sha256, const char *field,
                            box_files_ask_head *h, box_error *err)
{
    if (sha256->len == 0)
        return 0;
    if (sha256->len != BOX_FILES_SHA256)
        return box_violation(err, field, "must have %d bytes", (int)BOX_FILES_SHA256);
    memcpy(h->digest, sha256->data, BOX_FILES_SHA256);
    h->has_digest = 1;
    return 0;
}

int box_file_convert_count(int64_t asked, int64_t standard, int64_t most, const char *field,
                           int64_t *out, box_error *err)
{
    if (asked < 0)
        return box_violation(err, field, "must not be negative");
    *out = asked == 0 ? standard : asked > most ? most : asked;
    return 0;
}
