/* Whole sandboxes made ahead, for sessions that ask for what most ask for. Internal to
 * server/session.
 *
 * One of the pool is made as a session of the default profile would be that has a private volume.
 * Its agent has said hello and nothing has ever run in it. It belongs to no tenant, is in no list
 * and counts against the server's limit of sandboxes alone. It is given to one session, with its
 * uid, and is that session's own from then on: nothing comes back. Like all that is not persistent
 * it ends with boxd, and what boxd leaves is swept by the warden at the next start. */
#pragma once

#include "session/table.h"

/* wanted: how many are kept ready; 0 = none. */
box_pool *box_pool_new(box_sessions *all, uint32_t wanted);
/* After the loops have stopped. */
void box_pool_free(box_pool *p);

/* --- loop 0 ----------------------------------------------------------------------------------- */

/* Removes those that nobody could use now (they died, the defaults changed, the server drains) and
 * begins to make what lacks, a few at a time, with a pause after one that failed. */
void box_pool_look(void *pool);

/* --- any thread, lock not held ---------------------------------------------------------------- */

/* PID 1 of one has ended. False: none has that uid. */
bool box_pool_lose(box_pool *p, const box_uid *uid);

/* --- lock held -------------------------------------------------------------------------------- */

/* Gives s, which nobody knows yet, a sandbox that fits what it asks for. What can be set live
 * (memory, pids, cpu) may differ: s->relimit says what is to be set. s->channel_fd is its agent's
 * then; uid and all that the warden's answer to CREATE brings are in s. False: there is none. */
/* One of the pool is called so. */
bool box_pool_has_locked(const box_pool *p, const box_uid *uid);
bool box_pool_take_locked(box_pool *p, box_session *s);
/* How many there are or are being made. */
uint32_t box_pool_count_locked(const box_pool *p);
/* One session more has to find room beneath the server's limit: one of the pool goes for it. */
void box_pool_yield_locked(box_pool *p);
/* Those of this warden are gone: it sweeps what nobody keeps. */
void box_pool_forget_warden_locked(box_pool *p, const box_warden *w);
/* Nothing of it is left, nor about to be removed. */
bool box_pool_is_empty_locked(const box_pool *p);
void box_pool_stats_locked(const box_pool *p, box_sessions_stats *out);
