/* Handlers of FileService that have files of their own: file_search.c, file_stream.c. */
#pragma once

#include "box/v1/file.box.h"

int box_file_glob(box_call *call, const Box__V1__GlobRequest *r, box_error *err);
int box_file_grep(box_call *call, const Box__V1__GrepRequest *r, box_error *err);
int box_file_list_directory(box_call *call, const Box__V1__ListDirectoryRequest *r, box_error *err);

int box_file_upload(box_call *call, box_error *err);
int box_file_upload_message(box_call *call, const Box__V1__UploadFileRequest *m, box_error *err);
int box_file_upload_half_close(box_call *call, box_error *err);
int box_file_download(box_call *call, const Box__V1__DownloadFileRequest *r, box_error *err);
