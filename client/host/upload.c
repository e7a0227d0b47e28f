#include "box/upload.h"

#include <errno.h>
#include <unistd.h>

#include "base/alloc.h"

enum { STEP = 256 * 1024 };

/* 1: the call is over, and its status says why. */
static int send_content(box_client_call *call, int fd, const char *name, box_error *err)
{
    BOX_AUTO(box_freep) uint8_t *data = box_alloc(STEP);
    for (;;) {
        ssize_t n = read(fd, data, STEP);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return box_fail_errno(err, "read %s", name);
        if (n == 0)
            return 0;
        Box__V1__UploadFileRequest m;
        box__v1__upload_file_request__init(&m);
        m.request_case = BOX__V1__UPLOAD_FILE_REQUEST__REQUEST_DATA;
        m.data = (ProtobufCBinaryData){.data = data, .len = (size_t)n};
        if (box_v1_file_service_upload_file_send(call, &m, err) < 0)
            return 1;
    }
}

int box_upload(box_channel *channel, const box_client_options *options,
               const Box__V1__UploadFileStart *start, int fd, const char *name,
               Box__V1__UploadFileResponse **out, box_error *err)
{
    box_client_call *call = NULL;
    Box__V1__UploadFileRequest m;
    box__v1__upload_file_request__init(&m);
    m.request_case = BOX__V1__UPLOAD_FILE_REQUEST__REQUEST_START;
    m.start = (Box__V1__UploadFileStart *)(uintptr_t)start;
    if (box_v1_file_service_upload_file(channel, options, &call, err) < 0)
        return -1;
    int rc = box_v1_file_service_upload_file_send(call, &m, err) < 0
                 ? 1
                 : send_content(call, fd, name, err);
    if (rc >= 0)
        rc = box_v1_file_service_upload_file_finish(call, out, err);
    box_client_free(call); /* one that was not finished is cancelled: nothing of it stays */
    return rc;
}
