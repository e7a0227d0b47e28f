/* UploadFile in one step. */
#pragma once

#include "box/v1/file.client.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Sends what the descriptor gives, from where it is to its end, as the file that `start` names.
 * name: what an error of reading calls it. -1: nothing of it stays. *out is the caller's. */
int box_upload(box_channel *channel, const box_client_options *options,
               const Box__V1__UploadFileStart *start, int fd, const char *name,
               Box__V1__UploadFileResponse **out, box_error *err) BOX_MUST_USE;

#ifdef __cplusplus
}
#endif
