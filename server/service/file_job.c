#include "service/file_job.h"

#include "base/alloc.h"
#include "service/session_convert.h"

box_file_job *box_file_job_new(box_call *call, box_file_answer *answer)
{
    box_file_job *job = box_alloc(sizeof *job);
    job->call = box_call_ref(call);
    job->answer = answer;
    box_buf_init(&job->data, BOX_FILE_DATA_BYTES);
    return job;
}

static void job_free(box_file_job *job)
{
    if (job == NULL)
        return;
    box_file_cancel(job->file);
    for (size_t i = 0; i < job->n_infos; i++)
        box_file_view_free(job->infos[i]);
    for (size_t i = 0; i < job->n_lines; i++) {
        free(job->lines[i].message.text);
        free(job->lines[i].path);
    }
    free(job->infos);
    free(job->lines);
    box_buf_done(&job->data);
    box_call_unref(job->call);
    free(job);
}

void box_file_job_freep(box_file_job **job)
{
    job_free(*job);
    *job = NULL;
}

/* Room for one more; the counts are bounded by what the session manager takes from a worker. */
static void *grow(void *list, size_t count, size_t *room, size_t size)
{
    if (count < *room)
        return list;
    size_t more = *room != 0 ? 2 * *room : 4;
    char *larger = box_alloc_array(more, size);
    if (count > 0)
        memcpy(larger, list, count * size);
    free(list);
    *room = more;
    return larger;
}

static void on_info(void *arg, const box_files_info *info)
{
    box_file_job *job = arg;
    job->infos = grow(job->infos, job->n_infos, &job->room_infos, sizeof(box_file_view *));
    job->infos[job->n_infos++] = box_file_view_new(info);
}

static char *copy(box_bytes b)
{
    char *text = box_alloc(b.len + 1);
    if (b.len > 0)
        memcpy(text, b.data, b.len);
    return text;
}

static void on_line(void *arg, const box_files_line *line)
{
    box_file_job *job = arg;
    job->lines = grow(job->lines, job->n_lines, &job->room_lines, sizeof(box_file_line));
    box_file_line *l = &job->lines[job->n_lines++];
    *l = (box_file_line){.place = line->head.place, .offset = line->head.offset};
    box__v1__grep_line__init(&l->message);
    l->message.line_number = line->head.number;
    l->message.text = copy(line->text);
    l->message.truncated = line->head.cut != 0;
    l->path = copy(line->path);
    l->path_len = line->path.len;
}

static void on_data(void *arg, const uint8_t *data, size_t len)
{
    box_file_job *job = arg;
    box_error err;
    if (box_buf_add(&job->data, data, len, &err) < 0)
        box_call_finish(job->call, &err); /* the job ends with its call */
}

static void on_done(void *arg, const box_files_answer *answer, const box_error *err)
{
    box_file_job *job = arg;
    box_file_free(job->file);
    job->file = NULL;
    /* The call's end frees the job. */
    box_call *call = box_call_ref(job->call);
    if (err != NULL)
        box_call_finish(call, err);
    else
        job->answer(job, answer);
    box_call_unref(call);
}

static void on_end(box_call *call, void *arg, const box_error *why)
{
    (void)call;
    (void)why;
    job_free(arg);
}

int box_file_job_run(box_file_job **job, const char *session_id, box_file_request *request,
                     box_error *err)
{
    static const box_file_events events = {
        .info = on_info, .line = on_line, .data = on_data, .done = on_done};
    box_file_job *j = *job;
    if (box_convert_tenant(j->call, &request->tenant, err) < 0)
        return -1;
    request->session_id = session_id;
    if (box_file_start(box_call_context(j->call), request, &events, j, &j->file, err) < 0)
        return -1;
    j->prefix_len = box_file_path_len(j->file);
    box_call_on_end(j->call, on_end, box_take(*job));
    return 0;
}

Box__V1__FileInfo *box_file_job_info(const box_file_job *job)
{
    return job->n_infos > 0 ? &job->infos[0]->message : NULL;
}
