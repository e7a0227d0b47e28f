/* The latest errors of each tenant's calls, for ListErrors: in memory, the newest
 * BOX_RECENT_ERRORS_PER_TENANT of a tenant, and BOX_RECENT_ERRORS of all (the oldest goes first).
 * Any thread. */
#pragma once

#include "base/error.h"

typedef struct box_recent box_recent;

/* Never changes. Texts are NUL-ended, "" where there is none. */
typedef struct box_recent_error {
    int64_t wall_ns; /* since 1970 */
    const char *method;
    const char *session_id;
    const char *request_id;
    const char *msg;
    box_reason reason;
    size_t n_metadata;
    const char *metadata; /* of the ErrorInfo: n_metadata times key, NUL, value, NUL */
} box_recent_error;

box_recent *box_recent_new(void);
void box_recent_free(box_recent *r);

/* What CANCELLED says is left out: the caller itself went away. method lives as long as the server;
 * the other texts are copied, NULL is "". */
void box_recent_add(box_recent *r, const char *tenant, const char *method, const char *session_id,
                    const char *request_id, int64_t wall_ns, const box_error *why);
/* The tenant is gone, and another may have its name. */
void box_recent_forget(box_recent *r, const char *tenant);

size_t box_recent_count(box_recent *r, const char *tenant);
/* The newest `max`, oldest of them first; session_id NULL or "": of all sessions. out: room for
 * BOX_RECENT_ERRORS_PER_TENANT. To be given back by box_recent_release. */
size_t box_recent_list(box_recent *r, const char *tenant, const char *session_id, size_t max,
                       const box_recent_error **out);
void box_recent_release(box_recent *r, const box_recent_error *const *list, size_t n);
