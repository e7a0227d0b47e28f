/* What sessions cost that live and do nothing, and a server that has none. */
#pragma once

#include "load.h"

typedef struct live_report {
    bool has_server;       /* it says what it takes: scope admin.read */
    double resident_bytes; /* of boxd, before there is a session */
    size_t sessions;       /* that were alive at once */
    box_error stopped_by;  /* why there are not more; reason NONE: that many were wanted */
    bool has_processes;    /* its sandboxes are seen on this machine; the next two are known */
    double pss_bytes_each; /* warden, agents and all in the sandboxes (PSS), and boxd's growth */
    double kernel_bytes_each;
    double seconds;        /* making them, one after another */
    double delete_seconds; /* the same for deleting them, to the answers */
} live_report;

/* Memory of a boxd nobody has used yet. */
int bench_live_begin(const load_target *t, live_report *out, box_error *err) BOX_MUST_USE;
/* Makes as many sessions as it can, at most `wanted`, and deletes them. */
int bench_live_sessions(const load_target *t, size_t wanted, live_report *out, box_error *err)
    BOX_MUST_USE;

/* Resident bytes of boxd, as it says itself; *known false: it does not say them to this caller. */
int bench_resident(box_channel *channel, bool *known, double *out, box_error *err) BOX_MUST_USE;
