#include "service/file.h"

#include <openssl/evp.h>

#include "base/alloc.h"
#include "base/utf8.h"
#include "box/v1/file.fields.h"
#include "service/file_job.h"
#include "service/file_methods.h"

/* --- StatFile --------------------------------------------------------------------------------- */

static void answer_stat(box_file_job *job, const box_files_answer *a)
{
    (void)a;
    Box__V1__StatFileResponse response;
    box__v1__stat_file_response__init(&response);
    response.info = box_file_job_info(job);
    box_v1_file_service_stat_file_answer(job->call, &response);
}

static int stat_file(box_call *call, const Box__V1__StatFileRequest *r, box_error *err)
{
    BOX_AUTO(box_freep) box_files_ask *ask = box_alloc(sizeof *ask);
    ask->head.op = BOX_FILES_STAT;
    ask->head.flags = r->follow_symlink ? BOX_FILES_FOLLOW : 0;
    if (box_file_convert_path(r->path, &r->path_bytes, false, "path", &ask->path, err) < 0)
        return -1;
    BOX_AUTO(box_file_job_freep) box_file_job *job = box_file_job_new(call, answer_stat);
    return box_file_job_run(&job, r->session_id, &(box_file_request){.ask = ask}, err);
}

/* --- ReadFile --------------------------------------------------------------------------------- */

static void fill_read(Box__V1__ReadFileResponse *m, const box_files_answer *a)
{
    m->truncated = (a->flags & BOX_FILES_TRUNCATED) != 0;
    m->truncated_by = (Box__V1__TruncatedBy)a->cut; /* the same numbers */
    m->start_line = a->start_line;
    m->end_line = a->end_line;
    m->next_line = a->next_line;
    m->next_byte_offset = a->next_offset;
    m->byte_offset = a->offset;
    if (a->total_lines >= 0)
        box__v1__read_file_response__set_total_lines(m, a->total_lines);
    m->replaced_invalid = (a->flags & BOX_FILES_REPLACED) != 0;
    m->binary = (a->flags & BOX_FILES_IS_BINARY) != 0;
    m->past_end = (a->flags & BOX_FILES_PAST_END) != 0;
    m->total_entries = a->total;
}

/* A worker is believed to send text only where it is text. */
static int take_text(box_file_job *job, Box__V1__ReadFileResponse *m, box_error *err)
{
    const char *text;
    size_t len = box_buf_len(&job->data);
    if (box_buf_text(&job->data, &text, err) < 0)
        return -1;
    if (!box_utf8_valid(text, len) || strlen(text) != len)
        return box_fail(err, BOX_INTERNAL, "the sandbox's file worker sent text that is none");
    m->text = (char *)(uintptr_t)text; /* only packed */
    return 0;
}

static void answer_read(box_file_job *job, const box_files_answer *a)
{
    Box__V1__ReadFileResponse response;
    box_error err = {0};
    box__v1__read_file_response__init(&response);
    response.info = box_file_job_info(job);
    fill_read(&response, a);
    response.is_directory =
        response.info != NULL && response.info->kind == BOX__V1__FILE_KIND__FILE_KIND_DIRECTORY;
    if (job->reads_text || response.is_directory) {
        if (take_text(job, &response, &err) < 0) {
            box_call_finish(job->call, &err);
            return;
        }
    } else {
        response.data = (ProtobufCBinaryData){
            .data = (uint8_t *)(uintptr_t)box_buf_data(&job->data), .len = box_buf_len(&job->data)};
    }
    box_v1_file_service_read_file_answer(job->call, &response);
}

static int convert_read(const Box__V1__ReadFileRequest *r, box_files_ask *ask, box_error *err)
{
    box_files_ask_head *h = &ask->head;
    bool text = r->mode != BOX__V1__READ_MODE__READ_MODE_BYTES;
    h->op = BOX_FILES_READ;
    h->flags = text ? BOX_FILES_TEXT : 0;
    int bad = box_file_convert_path(r->path, &r->path_bytes, false, "path", &ask->path, err);
    if (r->mode < 0 || r->mode > BOX__V1__READ_MODE__READ_MODE_BYTES)
        bad |= box_violation(err, "mode", "is no known value");
    bad |= box_file_convert_count(r->start_line, 1, INT64_MAX, "start_line", &h->start_line, err);
    bad |= box_file_convert_count(r->max_lines, BOX_FILES_DEFAULT_LINES, BOX_FILES_MAX_LINES,
                                  "max_lines", &h->max_items, err);
    bad |= box_file_convert_count(r->max_bytes, BOX_FILES_DEFAULT_READ_BYTES,
                                  BOX_FILES_MAX_READ_BYTES, "max_bytes", &h->max_bytes, err);
    bad |= box_file_convert_count(r->byte_offset, 0, INT64_MAX / 2, "byte_offset", &h->offset, err);
    if (text && r->byte_offset > 0) {
        h->flags |= BOX_FILES_BY_OFFSET;
        if (r->start_line > 0)
            bad |= box_violation(err, "byte_offset", "must not stand beside start_line");
    }
    return bad;
}

static int read_file(box_call *call, const Box__V1__ReadFileRequest *r, box_error *err)
{
    BOX_AUTO(box_freep) box_files_ask *ask = box_alloc(sizeof *ask);
    if (convert_read(r, ask, err) < 0)
        return -1;
    BOX_AUTO(box_file_job_freep) box_file_job *job = box_file_job_new(call, answer_read);
    job->reads_text = (ask->head.flags & BOX_FILES_TEXT) != 0;
    return box_file_job_run(&job, r->session_id, &(box_file_request){.ask = ask}, err);
}

/* --- WriteFile -------------------------------------------------------------------------------- */

static void answer_write(box_file_job *job, const box_files_answer *a)
{
    Box__V1__WriteFileResponse response;
    box__v1__write_file_response__init(&response);
    response.info = box_file_job_info(job);
    response.created = (a->flags & BOX_FILES_CREATED) != 0;
    response.written_bytes = job->size;
    if (!job->appends)
        response.sha256 = (ProtobufCBinaryData){.data = job->sha256, .len = sizeof job->sha256};
    box_v1_file_service_write_file_answer(job->call, &response);
}

static int convert_write(const Box__V1__WriteFileRequest *r, box_files_ask *ask, box_error *err)
{
    box_files_ask_head *h = &ask->head;
    bool parents = !box__v1__write_file_request__has_make_parents(r) || r->make_parents;
    h->op = BOX_FILES_PUT;
    h->flags = parents ? BOX_FILES_PARENTS : 0;
    int bad = box_file_convert_path(r->path, &r->path_bytes, false, "path", &ask->path, err);
    bad |= box_file_convert_mode(r->mode, true, &h->flags, err);
    bad |= box_file_convert_permissions(box__v1__write_file_request__has_permissions(r),
                                        r->permissions, &h->permissions, err);
    bad |= box_file_convert_digest(&r->expected_sha256, "expected_sha256", h, err);
    return bad;
}

static int write_file(box_call *call, const Box__V1__WriteFileRequest *r, box_error *err)
{
    BOX_AUTO(box_freep) box_files_ask *ask = box_alloc(sizeof *ask);
    if (convert_write(r, ask, err) < 0)
        return -1;
    BOX_AUTO(box_file_job_freep) box_file_job *job = box_file_job_new(call, answer_write);
    job->size = (int64_t)r->data.len;
    job->appends = (ask->head.flags & BOX_FILES_APPEND) != 0;
    if (!EVP_Digest(r->data.data, r->data.len, job->sha256, NULL, EVP_sha256(), NULL))
        return box_fail(err, BOX_MEMORY_BUDGET, "no memory for a digest");
    return box_file_job_run(&job, r->session_id,
                            &(box_file_request){.ask = ask, .content = box_file_bytes(&r->data)},
                            err);
}

/* --- MakeDirectory ---------------------------------------------------------------------------- */

static void answer_mkdir(box_file_job *job, const box_files_answer *a)
{
    Box__V1__MakeDirectoryResponse response;
    box__v1__make_directory_response__init(&response);
    response.info = box_file_job_info(job);
    response.created = (a->flags & BOX_FILES_CREATED) != 0;
    box_v1_file_service_make_directory_answer(job->call, &response);
}

static int make_directory(box_call *call, const Box__V1__MakeDirectoryRequest *r, box_error *err)
{
    BOX_AUTO(box_freep) box_files_ask *ask = box_alloc(sizeof *ask);
    ask->head.op = BOX_FILES_MKDIR;
    ask->head.flags = r->parents ? BOX_FILES_PARENTS : 0;
    int bad = box_file_convert_path(r->path, &r->path_bytes, false, "path", &ask->path, err);
    bad |= box_file_convert_permissions(box__v1__make_directory_request__has_permissions(r),
                                        r->permissions, &ask->head.permissions, err);
    if (bad != 0)
        return -1;
    BOX_AUTO(box_file_job_freep) box_file_job *job = box_file_job_new(call, answer_mkdir);
    return box_file_job_run(&job, r->session_id, &(box_file_request){.ask = ask}, err);
}

/* --- EditFile --------------------------------------------------------------------------------- */

static void answer_edit(box_file_job *job, const box_files_answer *a)
{
    Box__V1__EditFileResponse response;
    uint8_t sha256[BOX_FILES_SHA256];
    box__v1__edit_file_response__init(&response);
    response.info = box_file_job_info(job);
    response.replacements = a->total < INT32_MAX ? (int32_t)a->total : INT32_MAX;
    response.diff = (ProtobufCBinaryData){.data = (uint8_t *)(uintptr_t)box_buf_data(&job->data),
                                          .len = box_buf_len(&job->data)};
    response.diff_truncated = (a->flags & BOX_FILES_TRUNCATED) != 0;
    memcpy(sha256, a->sha256, sizeof sha256);
    response.sha256 = (ProtobufCBinaryData){.data = sha256, .len = sizeof sha256};
    box_v1_file_service_edit_file_answer(job->call, &response);
}

static int convert_edits(const Box__V1__EditFileRequest *r, box_files_ask *ask, box_error *err)
{
    int bad = 0;
    if (r->n_edits < 1 || r->n_edits > BOX_FILES_MAX_LIST)
        return box_violation(err, "edits", "needs 1 to %d entries", (int)BOX_FILES_MAX_LIST);
    ask->head.n_edits = (uint32_t)r->n_edits;
    for (size_t i = 0; i < r->n_edits; i++) {
        const Box__V1__FileEdit *e = r->edits[i];
        char field[40];
        (void)snprintf(field, sizeof field, "edits[%zu].old_data", i);
        if (e->old_data.len == 0)
            bad |= box_violation(err, field, "must not be empty");
        ask->edits[i] = (box_files_edit){.old_data = box_file_bytes(&e->old_data),
                                         .new_data = box_file_bytes(&e->new_data),
                                         .all = e->replace_all};
    }
    return bad;
}

static int edit_file(box_call *call, const Box__V1__EditFileRequest *r, box_error *err)
{
    BOX_AUTO(box_freep) box_files_ask *ask = box_alloc(sizeof *ask);
    ask->head.op = BOX_FILES_EDIT;
    int bad = box_file_convert_path(r->path, &r->path_bytes, false, "path", &ask->path, err);
    bad |= convert_edits(r, ask, err);
    bad |= box_file_convert_digest(&r->expected_sha256, "expected_sha256", &ask->head, err);
    if (bad != 0)
        return -1;
    BOX_AUTO(box_file_job_freep) box_file_job *job = box_file_job_new(call, answer_edit);
    return box_file_job_run(&job, r->session_id, &(box_file_request){.ask = ask}, err);
}

/* --- RemoveFile, MoveFile --------------------------------------------------------------------- */

static void answer_remove(box_file_job *job, const box_files_answer *a)
{
    Box__V1__RemoveFileResponse response;
    box__v1__remove_file_response__init(&response);
    response.removed = a->total;
    box_v1_file_service_remove_file_answer(job->call, &response);
}

static int remove_file(box_call *call, const Box__V1__RemoveFileRequest *r, box_error *err)
{
    BOX_AUTO(box_freep) box_files_ask *ask = box_alloc(sizeof *ask);
    ask->head.op = BOX_FILES_REMOVE;
    ask->head.flags =
        (r->recursive ? BOX_FILES_RECURSIVE : 0) | (r->allow_missing ? BOX_FILES_ALLOW_MISSING : 0);
    if (box_file_convert_path(r->path, &r->path_bytes, false, "path", &ask->path, err) < 0)
        return -1;
    BOX_AUTO(box_file_job_freep) box_file_job *job = box_file_job_new(call, answer_remove);
    return box_file_job_run(&job, r->session_id, &(box_file_request){.ask = ask}, err);
}

static void answer_move(box_file_job *job, const box_files_answer *a)
{
    (void)a;
    Box__V1__MoveFileResponse response;
    box__v1__move_file_response__init(&response);
    response.info = box_file_job_info(job);
    box_v1_file_service_move_file_answer(job->call, &response);
}

static int move_file(box_call *call, const Box__V1__MoveFileRequest *r, box_error *err)
{
    BOX_AUTO(box_freep) box_files_ask *ask = box_alloc(sizeof *ask);
    ask->head.op = BOX_FILES_MOVE;
    ask->head.flags =
        (r->overwrite ? BOX_FILES_REPLACE : 0) | (r->make_parents ? BOX_FILES_PARENTS : 0);
    int bad = box_file_convert_path(r->source_path, &r->source_path_bytes, false, "source_path",
                                    &ask->path, err);
    bad |= box_file_convert_path(r->target_path, &r->target_path_bytes, false, "target_path",
                                 &ask->target, err);
    if (bad != 0)
        return -1;
    BOX_AUTO(box_file_job_freep) box_file_job *job = box_file_job_new(call, answer_move);
    return box_file_job_run(&job, r->session_id, &(box_file_request){.ask = ask}, err);
}

static const box_v1_file_service_handlers handlers = {
    .read_file = read_file,
    .write_file = write_file,
    .edit_file = edit_file,
    .glob = box_file_glob,
    .grep = box_file_grep,
    .stat_file = stat_file,
    .list_directory = box_file_list_directory,
    .make_directory = make_directory,
    .remove_file = remove_file,
    .move_file = move_file,
    .upload_file = box_file_upload,
    .upload_file_message = box_file_upload_message,
    .upload_file_half_close = box_file_upload_half_close,
    .download_file = box_file_download,
};

box_service box_file_service(box_sessions *sessions)
{
    return (box_service){.type = &box_v1_file_service, .handlers = &handlers, .context = sessions};
}
