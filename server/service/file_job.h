/* A unary call of FileService: what the worker says is collected, then made into the answer. */
#pragma once

#include "service/file_convert.h"
#include "wire/call.h"

/* A line of Grep with what is around it. */
typedef struct box_file_line {
    Box__V1__GrepLine message;
    uint32_t place;
    int64_t offset;
    char *path; /* MATCH */
    size_t path_len;
} box_file_line;

typedef struct box_file_job box_file_job;

/* Puts the answer into the call; the job is freed afterwards. */
typedef void box_file_answer(box_file_job *job, const box_files_answer *a);

struct box_file_job {
    box_call *call;
    box_file_call *file; /* NULL when it is over */
    box_file_answer *answer;
    box_file_view **infos;
    size_t n_infos, room_infos;
    box_file_line *lines;
    size_t n_lines, room_lines;
    box_buf data;
    uint8_t sha256[BOX_FILES_SHA256]; /* WriteFile */
    int64_t size;                     /* WriteFile: of its data; ListDirectory: of a page */
    size_t prefix_len;                /* ListDirectory: of the directory's absolute path */
    uint64_t binding;                 /* ListDirectory: of its page tokens */
    bool reads_text;                  /* ReadFile */
    bool appends;                     /* WriteFile */
};

/* An empty one for the call; taken by box_file_job_run. */
box_file_job *box_file_job_new(box_call *call, box_file_answer *answer);
void box_file_job_freep(box_file_job **job);
/* Starts it; -1 with *err: nothing was made. *job is taken. tenant and session of the request are
 * filled in. */
int box_file_job_run(box_file_job **job, const char *session_id, box_file_request *request,
                     box_error *err) BOX_MUST_USE;

/* The first info, or NULL: a worker may leave it out. */
Box__V1__FileInfo *box_file_job_info(const box_file_job *job);
