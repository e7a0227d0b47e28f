/* What a sandbox of the pool is made as, and whether one does for what is asked. Internal to
 * server/session. */
#pragma once

#include "session/table.h"

/* What a session gets that says nothing; no lock held. False: no backend could make it now. */
bool box_pool_standard(box_sessions *all, box_warden **warden, box_warden_create *out);
/* All that cannot change while it runs is the same. */
bool box_pool_same_make(const box_warden_create *a, const box_warden_create *b);
bool box_pool_same_limits(const box_warden_create *a, const box_warden_create *b);
/* *out: what of the limits of one that was made as `made` must be set to be what is asked for; 0 =
 * as it is. A limit that its backend does not keep is ignored, as CREATE does. False: it cannot be
 * set. */
bool box_pool_relimit(const box_warden_create *made, uint32_t guarantees,
                      const box_warden_create *asked, box_warden_limits *out);
