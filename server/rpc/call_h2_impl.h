/* What the files of calls over HTTP/2 share; nobody else includes it. */
#pragma once

#include "rpc/call_h2.h"

struct box_rpc_connection {
    box_rpc *rpc;
    box_loop *loop;
    const box_peer *peer; /* NULL once ended */
    box_h2 *h2;           /* NULL once ended */
    void (*has_output)(void *arg);
    void *has_output_arg;
    box_list calls;   /* open ones */
    unsigned n_calls; /* in memory: handlers of streams that were reset count until they let go */
    unsigned max_calls;
    bool known;          /* admission named somebody once */
    bool delivering;     /* a handler is called with what came */
    bool quick;          /* the last answer was given in such a call */
    char *tenant;        /* whose it counts as; NULL: nobody's */
    box_time idle_since; /* while calls is empty */
};

/* The method of a new stream, and who calls (NULL: nobody asks). UNIMPLEMENTED, RATE_LIMIT, QUOTA,
 * or what the admission hook says. */
int box_rpc_admit_request(box_rpc_connection *n, const box_h2_request *request,
                          const box_service **service, const box_method **method,
                          const void **identity, box_error *err) BOX_MUST_USE;
/* box_h2_events.page; owner: the connection. */
int box_rpc_answer_page(void *owner, const box_h2_request *request, box_buf *out);
