#include "stage.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "base/id.h"
#include "base/utf8.h"
#include "box/upload.h"
#include "box/v1/file.fields.h"

typedef struct copy {
    const box_stage *stage;
    box_channel *channel;
    const box_client_options *options;
    char *session;
    char *target;
    char temporary[PATH_MAX]; /* beside it */
} copy;

/* --- calls ------------------------------------------------------------------------------------ */

static void free_message(void *message)
{
    if (message != NULL)
        protobuf_c_message_free_unpacked(message, NULL);
}

/* *there: it exists, and is a directory. */
static int look(const copy *c, bool *there, box_error *err)
{
    Box__V1__StatFileRequest request;
    Box__V1__StatFileResponse *r = NULL;
    box__v1__stat_file_request__init(&request);
    request.session_id = c->session;
    request.path = c->target;
    *there = false;
    if (box_v1_file_service_stat_file(c->channel, c->options, &request, &r, err) < 0)
        return err->reason == BOX_FILE_NOT_FOUND ? 0 : -1;
    *there = r->info != NULL && r->info->kind == BOX__V1__FILE_KIND__FILE_KIND_DIRECTORY;
    free_message(r);
    return *there ? 0 : box_fail(err, BOX_FILE_CONFLICT, "%s is no directory", c->target);
}

static int make_directory(const copy *c, const char *path, box_error *err)
{
    Box__V1__MakeDirectoryRequest request;
    Box__V1__MakeDirectoryResponse *r = NULL;
    box__v1__make_directory_request__init(&request);
    request.session_id = c->session;
    if (box_utf8_valid(path, strlen(path)))
        request.path = (char *)(uintptr_t)path;
    else
        request.path_bytes = (ProtobufCBinaryData){strlen(path), (uint8_t *)(uintptr_t)path};
    request.parents = true;
    int rc = box_v1_file_service_make_directory(c->channel, c->options, &request, &r, err);
    free_message(r);
    return rc;
}

/* What is half done goes; an error of that would hide why. */
static void remove_temporary(copy *c)
{
    box_error ignored;
    Box__V1__RemoveFileRequest request;
    Box__V1__RemoveFileResponse *r = NULL;
    box__v1__remove_file_request__init(&request);
    request.session_id = c->session;
    request.path = c->temporary;
    request.recursive = true;
    request.allow_missing = true;
    BOX_IGNORE(box_v1_file_service_remove_file(c->channel, c->options, &request, &r, &ignored));
    free_message(r);
}

/* *made false: another one was faster. */
static int move_in_place(copy *c, bool *made, box_error *err)
{
    Box__V1__MoveFileRequest request;
    Box__V1__MoveFileResponse *r = NULL;
    box__v1__move_file_request__init(&request);
    request.session_id = c->session;
    request.source_path = c->temporary;
    request.target_path = c->target;
    int rc = box_v1_file_service_move_file(c->channel, c->options, &request, &r, err);
    free_message(r);
    *made = rc == 0;
    if (rc == 0)
        return 0;
    remove_temporary(c);
    return err->reason == BOX_FILE_EXISTS ? 0 : -1;
}

/* --- files ------------------------------------------------------------------------------------ */

static int put_file(const copy *c, const box_stage_entry *e, char *path, box_error *err)
{
    int opened;
    Box__V1__UploadFileStart start;
    Box__V1__UploadFileResponse *r = NULL;
    if (box_stage_open(c->stage, e->path, &opened, err) < 0)
        return -1;
    BOX_AUTO(box_closep) int fd = opened;
    box__v1__upload_file_start__init(&start);
    start.session_id = c->session;
    if (box_utf8_valid(path, strlen(path)))
        start.path = path;
    else
        start.path_bytes = (ProtobufCBinaryData){strlen(path), (uint8_t *)path};
    box__v1__upload_file_start__set_permissions(&start, e->is_executable ? 0755 : 0644);
    box__v1__upload_file_start__set_size_bytes(&start, e->size_bytes);
    start.sha256 = (ProtobufCBinaryData){sizeof e->sha256, (uint8_t *)(uintptr_t)e->sha256};
    int rc = box_upload(c->channel, c->options, &start, fd, e->path, &r, err);
    free_message(r);
    return rc;
}

static int put_entry(const copy *c, const box_stage_entry *e, box_error *err)
{
    char path[PATH_MAX];
    int n = snprintf(path, sizeof path, "%s/%s", c->temporary, e->path);
    if (n < 0 || n >= (int)sizeof path)
        return box_fail(err, BOX_VALIDATION, "the path inside is too long");
    if (!e->is_directory)
        return put_file(c, e, path, err);
    return e->is_empty ? make_directory(c, path, err) : 0; /* a file makes those above it */
}

static int put_all(const copy *c, box_error *err)
{
    if (make_directory(c, c->temporary, err) < 0)
        return -1;
    for (size_t i = 0; i < c->stage->n_entries; i++) {
        if (put_entry(c, &c->stage->entries[i], err) < 0)
            return box_wrap(err, "%s", c->stage->entries[i].path);
    }
    return 0;
}

int box_stage_put(const box_stage *stage, box_channel *channel, const box_client_options *options,
                  const char *session_id, const char *target, bool *made, box_error *err)
{
    char random[17];
    uint64_t bits;
    bool there;
    bool ignored;
    copy c = {.stage = stage,
              .channel = channel,
              .options = options,
              .session = (char *)(uintptr_t)session_id,
              .target = (char *)(uintptr_t)target};
    if (made == NULL)
        made = &ignored;
    *made = false;
    box_random(&bits, sizeof bits);
    box_hex(&bits, sizeof bits, random);
    int n = snprintf(c.temporary, sizeof c.temporary, "%s.%s", target, random);
    if (target[0] != '/' || n < 0 || n >= (int)sizeof c.temporary)
        return box_fail(err, BOX_VALIDATION, "%s is no absolute path", target);
    if (look(&c, &there, err) < 0 || there)
        return there ? 0 : -1;
    if (put_all(&c, err) < 0) {
        remove_temporary(&c);
        return -1;
    }
    return move_in_place(&c, made, err);
}
