/* A session as bytes, for the store. */
#pragma once

#include "base/buf.h"

typedef struct box_session box_session;

/* Appends what box_stored_unpack needs. With the table's lock held. Fails with MEMORY_BUDGET above
 * the ceiling of *out. */
int box_stored_pack(box_session *s, box_buf *out, box_error *err) BOX_MUST_USE;

/* Fills a session that has only its uid and tenant: id, spec (complete, with backend and profile),
 * guarantees, adjustments, rebuilds, times. VERSION_MISMATCH for bytes of a newer boxd, PROTOCOL
 * for damaged ones; *s is then to be dropped. */
int box_stored_unpack(box_bytes record, box_session *s, box_error *err) BOX_MUST_USE;
