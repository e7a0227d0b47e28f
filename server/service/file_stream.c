/* UploadFile and DownloadFile: files of any size, under back-pressure, with their SHA-256. */
#include <openssl/evp.h>

#include "base/alloc.h"
#include "box/v1/file.fields.h"
#include "service/file_convert.h"
#include "service/file_methods.h"
#include "service/session_convert.h"

/* One of either; lives until its call's end. */
typedef struct stream {
    box_call *call; /* a reference */
    box_file_call *file;
    EVP_MD_CTX *md;
    int64_t bytes;
    box_file_view *info;
    /* upload */
    bool begun;
    bool paused;
    bool has_size;
    int64_t size;
    bool has_sha256;
    uint8_t sha256[BOX_FILES_SHA256]; /* announced, then the one there is */
} stream;

static void stream_free(stream *s)
{
    box_file_cancel(s->file);
    box_file_view_free(s->info);
    EVP_MD_CTX_free(s->md);
    box_call_unref(s->call);
    free(s);
}

static void call_ended(box_call *call, void *arg, const box_error *why)
{
    (void)call;
    (void)why;
    stream_free(arg);
}

static stream *stream_new(box_call *call)
{
    stream *s = box_alloc(sizeof *s);
    s->call = box_call_ref(call);
    s->md = EVP_MD_CTX_new();
    if (s->md == NULL || !EVP_DigestInit_ex(s->md, EVP_sha256(), NULL))
        abort(); /* only without memory */
    return s;
}

static void add_bytes(stream *s, const void *data, size_t len)
{
    if (!EVP_DigestUpdate(s->md, data, len))
        abort(); /* cannot fail */
    s->bytes += (int64_t)len;
}

static void get_digest(stream *s, uint8_t out[BOX_FILES_SHA256])
{
    if (!EVP_DigestFinal_ex(s->md, out, NULL))
        abort(); /* cannot fail, once */
}

static void on_info(void *arg, const box_files_info *info)
{
    stream *s = arg;
    box_file_view_free(s->info);
    s->info = box_file_view_new(info);
}

/* --- UploadFile ------------------------------------------------------------------------------- */

static void upload_room(void *arg)
{
    stream *s = arg;
    if (!s->paused)
        return;
    s->paused = false;
    box_call_resume(s->call);
}

static void upload_done(void *arg, const box_files_answer *a, const box_error *err)
{
    stream *s = arg;
    box_call *call = box_call_ref(s->call); /* the call's end frees s */
    box_file_free(s->file);
    s->file = NULL;
    if (err != NULL) {
        box_call_finish(call, err);
    } else {
        Box__V1__UploadFileResponse response;
        box__v1__upload_file_response__init(&response);
        response.info = s->info != NULL ? &s->info->message : NULL;
        response.received_bytes = s->bytes;
        response.sha256 = (ProtobufCBinaryData){.data = s->sha256, .len = sizeof s->sha256};
        response.created = (a->flags & BOX_FILES_CREATED) != 0;
        box_v1_file_service_upload_file_answer(call, &response);
    }
    box_call_unref(call);
}

int box_file_upload(box_call *call, box_error *err)
{
    (void)err;
    stream *s = stream_new(call);
    box_call_set_state(call, s);
    box_call_on_end(call, call_ended, s);
    return 0;
}

static int convert_upload(stream *s, const Box__V1__UploadFileStart *m, box_files_ask *ask,
                          box_error *err)
{
    box_files_ask_head *h = &ask->head;
    bool parents = !box__v1__upload_file_start__has_make_parents(m) || m->make_parents;
    h->op = BOX_FILES_PUT;
    h->flags = parents ? BOX_FILES_PARENTS : 0;
    int bad = box_file_convert_path(m->path, &m->path_bytes, false, "start.path", &ask->path, err);
    bad |= box_file_convert_mode(m->mode, false, &h->flags, err);
    bad |= box_file_convert_permissions(box__v1__upload_file_start__has_permissions(m),
                                        m->permissions, &h->permissions, err);
    s->has_size = box__v1__upload_file_start__has_size_bytes(m);
    s->size = m->size_bytes;
    if (s->has_size && s->size < 0)
        bad |= box_violation(err, "start.size_bytes", "must not be negative");
    if (m->sha256.len != 0 && m->sha256.len != sizeof s->sha256)
        bad |= box_violation(err, "start.sha256", "must have %d bytes", (int)BOX_FILES_SHA256);
    if (bad != 0)
        return -1;
    s->has_sha256 = m->sha256.len != 0;
    if (s->has_sha256)
        memcpy(s->sha256, m->sha256.data, sizeof s->sha256);
    if (m->archive != BOX__V1__ARCHIVE_FORMAT__ARCHIVE_FORMAT_UNSPECIFIED)
        return box_convert_not_built("start.archive", err);
    return 0;
}

static int start_upload(stream *s, const Box__V1__UploadFileStart *m, box_error *err)
{
    static const box_file_events events = {
        .info = on_info, .room = upload_room, .done = upload_done};
    BOX_AUTO(box_freep) box_files_ask *ask = box_alloc(sizeof *ask);
    box_file_request request = {.session_id = m->session_id, .ask = ask, .content_open = true};
    if (box_convert_tenant(s->call, &request.tenant, err) < 0 || convert_upload(s, m, ask, err) < 0)
        return -1;
    return box_file_start(box_call_context(s->call), &request, &events, s, &s->file, err);
}

static int take_data(stream *s, const ProtobufCBinaryData *data, box_error *err)
{
    enum { MAX_BYTES = 1024 * 1024 };
    bool room = true;
    if (data->len > MAX_BYTES)
        return box_violation(err, "data", "has more than %d bytes", (int)MAX_BYTES);
    if (s->has_size && (uint64_t)data->len > (uint64_t)(s->size - s->bytes))
        return box_fail(err, BOX_DIGEST_MISMATCH, "more comes than the %lld bytes that were said",
                        (long long)s->size);
    add_bytes(s, data->data, data->len);
    if (box_file_feed(s->file, data->data, data->len, &room, err) < 0)
        return -1;
    if (!room && !s->paused) {
        s->paused = true;
        box_call_pause(s->call);
    }
    return 0;
}

int box_file_upload_message(box_call *call, const Box__V1__UploadFileRequest *m, box_error *err)
{
    stream *s = box_call_state(call);
    bool starts = m->request_case == BOX__V1__UPLOAD_FILE_REQUEST__REQUEST_START;
    if (starts == s->begun)
        return box_violation(err, "request",
                             starts ? "start comes once" : "the first message must be start");
    s->begun = true;
    if (starts)
        return start_upload(s, m->start, err);
    if (m->request_case != BOX__V1__UPLOAD_FILE_REQUEST__REQUEST_DATA)
        return box_violation(err, "request", "must be set");
    return s->file != NULL ? take_data(s, &m->data, err) : 0; /* else it has been answered */
}

/* All is here: only now, and only when it is what was announced, the file takes its place. */
int box_file_upload_half_close(box_call *call, box_error *err)
{
    stream *s = box_call_state(call);
    uint8_t is[BOX_FILES_SHA256];
    if (!s->begun)
        return box_violation(err, "request", "the first message must be start");
    if (s->file == NULL)
        return 0;
    get_digest(s, is);
    if (s->has_size && s->bytes != s->size)
        return box_fail(err, BOX_DIGEST_MISMATCH, "%lld bytes came, %lld were said",
                        (long long)s->bytes, (long long)s->size);
    if (s->has_sha256 && memcmp(is, s->sha256, sizeof is) != 0)
        return box_fail(err, BOX_DIGEST_MISMATCH, "what came has another SHA-256 than was said");
    memcpy(s->sha256, is, sizeof is);
    return box_file_end(s->file, err);
}

/* --- DownloadFile ----------------------------------------------------------------------------- */

static void download_info(void *arg, const box_files_info *info)
{
    stream *s = arg;
    Box__V1__DownloadFileResponse response;
    Box__V1__DownloadFileStarted started;
    if (s->info != NULL)
        return; /* a worker says it once */
    on_info(s, info);
    box__v1__download_file_response__init(&response);
    box__v1__download_file_started__init(&started);
    started.info = &s->info->message;
    response.response_case = BOX__V1__DOWNLOAD_FILE_RESPONSE__RESPONSE_STARTED;
    response.started = &started;
    box_v1_file_service_download_file_reply(s->call, &response);
}

static void download_data(void *arg, const uint8_t *data, size_t len)
{
    stream *s = arg;
    Box__V1__DownloadFileResponse response;
    box__v1__download_file_response__init(&response);
    add_bytes(s, data, len);
    response.response_case = BOX__V1__DOWNLOAD_FILE_RESPONSE__RESPONSE_DATA;
    response.data = (ProtobufCBinaryData){.data = (uint8_t *)(uintptr_t)data, .len = len};
    box_v1_file_service_download_file_reply(s->call, &response);
}

static bool download_writable(void *arg)
{
    const stream *s = arg;
    return box_call_is_writable(s->call);
}

static void download_done(void *arg, const box_files_answer *a, const box_error *err)
{
    stream *s = arg;
    (void)a;
    box_call *call = box_call_ref(s->call); /* the call's end frees s */
    box_file_free(s->file);
    s->file = NULL;
    if (err == NULL) {
        uint8_t is[BOX_FILES_SHA256];
        Box__V1__DownloadFileResponse response;
        Box__V1__DownloadFileDone done;
        box__v1__download_file_response__init(&response);
        box__v1__download_file_done__init(&done);
        get_digest(s, is);
        done.sent_bytes = s->bytes;
        done.sha256 = (ProtobufCBinaryData){.data = is, .len = sizeof is};
        response.response_case = BOX__V1__DOWNLOAD_FILE_RESPONSE__RESPONSE_DONE;
        response.done = &done;
        box_v1_file_service_download_file_reply(call, &response);
    }
    box_call_finish(call, err);
    box_call_unref(call);
}

static void call_writable(box_call *call, void *arg)
{
    (void)call;
    stream *s = arg;
    if (s->file != NULL)
        box_file_resume(s->file);
}

static int convert_download(const Box__V1__DownloadFileRequest *r, box_files_ask *ask,
                            box_error *err)
{
    box_files_ask_head *h = &ask->head;
    h->op = BOX_FILES_GET;
    int bad = box_file_convert_path(r->path, &r->path_bytes, false, "path", &ask->path, err);
    bad |= box_file_convert_count(r->byte_offset, 0, INT64_MAX / 2, "byte_offset", &h->offset, err);
    bad |= box_file_convert_count(r->max_bytes, 0, INT64_MAX / 2, "max_bytes", &h->max_bytes, err);
    if (bad != 0)
        return -1;
    if (r->archive != BOX__V1__ARCHIVE_FORMAT__ARCHIVE_FORMAT_UNSPECIFIED)
        return box_convert_not_built("archive", err);
    return 0;
}

int box_file_download(box_call *call, const Box__V1__DownloadFileRequest *r, box_error *err)
{
    static const box_file_events events = {.info = download_info,
                                           .data = download_data,
                                           .writable = download_writable,
                                           .done = download_done};
    BOX_AUTO(box_freep) box_files_ask *ask = box_alloc(sizeof *ask);
    box_file_request request = {.session_id = r->session_id, .ask = ask};
    if (box_convert_tenant(call, &request.tenant, err) < 0 || convert_download(r, ask, err) < 0)
        return -1;
    stream *s = stream_new(call);
    if (box_file_start(box_call_context(call), &request, &events, s, &s->file, err) < 0) {
        stream_free(s);
        return -1;
    }
    box_call_on_writable(call, call_writable, s);
    box_call_on_end(call, call_ended, s);
    return 0;
}
