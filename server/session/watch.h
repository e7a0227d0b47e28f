/* Watchers of sessions: what the table tells them. The functions of callers are in session.h. */
#pragma once

#include "session/table.h"

/* The table's lock is held. */
void box_watches_tell(box_session *s, box_watch_type type);
/* No watcher is told anything more but the end. Lock not held. */
void box_watches_end(box_sessions *all, const box_error *why);
/* Do the session's labels match? "" as a value matches any. */
bool box_spec_labels_match(const box_label *wanted, size_t n, const box_label *have, size_t n_have);
