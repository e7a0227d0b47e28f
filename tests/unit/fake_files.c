#include "fake_files.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <openssl/sha.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/fd.h"
#include "box/v1/file.fields.h"

typedef struct upload {
    char path[512];
    int64_t size;
    uint8_t sha256[32];
    bool executable;
    box_buf data;
} upload;

static void place(const fake_files *f, const char *path, char out[512])
{
    (void)snprintf(out, 512, "%s%s", f->root, path);
}

static void make_parents(const char *path)
{
    char copy[512];
    (void)snprintf(copy, sizeof copy, "%s", path);
    for (char *at = strchr(copy + 1, '/'); at != NULL; at = strchr(at + 1, '/')) {
        *at = '\0';
        (void)mkdir(copy, 0700);
        *at = '/';
    }
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *at)
{
    (void)st;
    (void)kind;
    (void)at;
    return remove(path);
}

void fake_files_remove_tree(const char *path)
{
    (void)nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static int stat_file(box_call *call, const Box__V1__StatFileRequest *request, box_error *err)
{
    char path[512];
    struct stat st;
    Box__V1__StatFileResponse answer;
    Box__V1__FileInfo info;
    place(box_call_context(call), request->path, path);
    if (stat(path, &st) < 0)
        return box_fail_errno(err, "%s", request->path);
    box__v1__stat_file_response__init(&answer);
    box__v1__file_info__init(&info);
    info.kind = S_ISDIR(st.st_mode) ? BOX__V1__FILE_KIND__FILE_KIND_DIRECTORY
                                    : BOX__V1__FILE_KIND__FILE_KIND_REGULAR;
    answer.info = &info;
    box_v1_file_service_stat_file_answer(call, &answer);
    return 0;
}

static int make_directory(box_call *call, const Box__V1__MakeDirectoryRequest *request,
                          box_error *err)
{
    char path[512];
    Box__V1__MakeDirectoryResponse answer;
    place(box_call_context(call), request->path, path);
    make_parents(path);
    if (mkdir(path, 0700) < 0 && errno != EEXIST)
        return box_fail_errno(err, "%s", request->path);
    box__v1__make_directory_response__init(&answer);
    box_v1_file_service_make_directory_answer(call, &answer);
    return 0;
}

static int remove_file(box_call *call, const Box__V1__RemoveFileRequest *request, box_error *err)
{
    char path[512];
    Box__V1__RemoveFileResponse answer;
    (void)err;
    place(box_call_context(call), request->path, path);
    fake_files_remove_tree(path);
    box__v1__remove_file_response__init(&answer);
    box_v1_file_service_remove_file_answer(call, &answer);
    return 0;
}

static int move_file(box_call *call, const Box__V1__MoveFileRequest *request, box_error *err)
{
    const fake_files *f = box_call_context(call);
    char from[512], to[512];
    Box__V1__MoveFileResponse answer;
    place(f, request->source_path, from);
    place(f, request->target_path, to);
    if (f->taken_meanwhile || access(to, F_OK) == 0)
        return box_fail(err, BOX_FILE_EXISTS, "%s", request->target_path);
    if (rename(from, to) < 0)
        return box_fail_errno(err, "%s", request->source_path);
    box__v1__move_file_response__init(&answer);
    box_v1_file_service_move_file_answer(call, &answer);
    return 0;
}

static void upload_end(box_call *call, void *arg, const box_error *why)
{
    upload *u = arg;
    (void)call;
    (void)why;
    box_buf_done(&u->data);
    free(u);
}

static int upload_file(box_call *call, box_error *err)
{
    fake_files *f = box_call_context(call);
    upload *u = box_alloc(sizeof *u);
    (void)err;
    box_call_set_state(call, u);
    box_call_on_end(call, upload_end, u);
    f->uploads++;
    return 0;
}

static int upload_message(box_call *call, const Box__V1__UploadFileRequest *m, box_error *err)
{
    const fake_files *f = box_call_context(call);
    upload *u = box_call_state(call);
    if (m->request_case == BOX__V1__UPLOAD_FILE_REQUEST__REQUEST_DATA)
        return box_buf_add(&u->data, m->data.data, m->data.len, err);
    if (f->uploads == f->fail_upload_at)
        return box_fail(err, BOX_QUOTA, "the workspace is full");
    place(f, m->start->path, u->path);
    u->size = m->start->size_bytes;
    u->executable = (m->start->permissions & 0100) != 0;
    if (m->start->sha256.len != sizeof u->sha256)
        return box_fail(err, BOX_VALIDATION, "no SHA-256");
    memcpy(u->sha256, m->start->sha256.data, sizeof u->sha256);
    return 0;
}

static int upload_half_close(box_call *call, box_error *err)
{
    const upload *u = box_call_state(call);
    uint8_t hash[32];
    Box__V1__UploadFileResponse answer;
    (void)SHA256(box_buf_data(&u->data), box_buf_len(&u->data), hash);
    if (u->size != (int64_t)box_buf_len(&u->data) || memcmp(hash, u->sha256, sizeof hash) != 0)
        return box_fail(err, BOX_DIGEST_MISMATCH, "other bytes");
    make_parents(u->path);
    BOX_AUTO(box_closep)
    int fd = open(u->path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, u->executable ? 0755 : 0644);
    if (fd < 0 || box_fd_write_all(fd, box_buf_data(&u->data), box_buf_len(&u->data), err) < 0)
        return box_fail_errno(err, "write");
    box__v1__upload_file_response__init(&answer);
    box_v1_file_service_upload_file_answer(call, &answer);
    return 0;
}

const box_v1_file_service_handlers fake_files_handlers = {
    .stat_file = stat_file,
    .make_directory = make_directory,
    .remove_file = remove_file,
    .move_file = move_file,
    .upload_file = upload_file,
    .upload_file_message = upload_message,
    .upload_file_half_close = upload_half_close,
};
