/* Persistent sessions: what is written down of them, and taking them over at boxd's start. */
#include <unistd.h>

#include "base/alloc.h"
#include "base/limits.h"
#include "base/log.h"
#include "session/ledger.h"
#include "session/stored.h"
#include "session/table.h"

/* --- writing ---------------------------------------------------------------------------------- */

/* With the lock held. An extension that is over is none. */
static void fill_times_locked(box_session *s, box_ledger_entry *e, box_time now)
{
    int64_t left = (int64_t)box_time_left(s->extended_until, now);
    e->change.used_ns = s->active > 0 ? s->all->wall_ns() : s->last_used_wall_ns;
    e->change.extended_ns = left > 0 ? s->all->wall_ns() + left : 0;
    e->change.execs = s->total_execs;
    s->touched = false;
    s->written_at = now;
}

static int fill_locked(box_session *s, box_ledger_entry *e, box_time now, box_error *err)
{
    if (e->change.kind == BOX_SESSION_FORGET)
        return 0;
    fill_times_locked(s, e, now);
    if (e->change.kind == BOX_SESSION_TOUCH)
        return 0;
    e->tenant = box_strdup(s->tenant_name);
    e->record.share = &s->memory;
    return box_stored_pack(s, &e->record, err);
}

/* A change on its way to the disk. */
typedef struct writing {
    box_session *session;
    void (*done)(void *arg, const box_error *err); /* NULL: nobody waits */
    void *arg;
} writing;

/* What could not be written is written with the next look at it. */
static void change_done(void *arg, const box_error *err)
{
    writing *c = arg;
    BOX_AUTO(box_session_unrefp) box_session *s = c->session;
    if (err != NULL) {
        box_lock_take(&s->all->lock);
        s->touched = true;
        box_lock_release(&s->all->lock);
    }
    if (c->done != NULL)
        c->done(c->arg, err);
    free(c);
}

static box_ledger_entry *entry_new(box_session *s, box_session_change_kind kind,
                                   void (*done)(void *arg, const box_error *err), void *arg)
{
    writing *c = box_alloc(sizeof *c);
    *c = (writing){.session = box_session_ref(s), .done = done, .arg = arg};
    return box_ledger_entry_new(kind, &s->uid, change_done, c);
}

static bool is_written(const box_session *s, box_session_change_kind kind)
{
    bool lives = s->state == BOX_SESSION_STARTING || s->state == BOX_SESSION_RUNNING;
    return s->spec.persistent && (lives || kind == BOX_SESSION_FORGET);
}

void box_session_write(box_session *s, box_session_change_kind kind,
                       void (*done)(void *arg, const box_error *err), void *arg)
{
    box_sessions *all = s->all;
    box_error err = {0};
    box_time now = box_loop_now(box_loop_current());
    box_ledger_entry *e = entry_new(s, kind, done, arg);
    box_lock_take(&all->lock); /* so that nothing is put behind the FORGET of one that ends */
    bool wanted = is_written(s, kind);
    int rc = wanted ? fill_locked(s, e, now, &err) : 0;
    if (wanted && rc == 0)
        box_ledger_add(all->ledger, e);
    box_lock_release(&all->lock);
    if (!wanted || rc < 0)
        box_ledger_answer(e, rc < 0 ? &err : NULL);
}

void box_session_touch_locked(box_session *s, box_time now, uint64_t pause_ns)
{
    if (!s->touched || !is_written(s, BOX_SESSION_TOUCH) ||
        now < box_time_add(s->written_at, pause_ns))
        return;
    box_ledger_entry *e = entry_new(s, BOX_SESSION_TOUCH, NULL, NULL);
    fill_times_locked(s, e, now);
    box_ledger_add(s->all->ledger, e);
}

/* --- the start -------------------------------------------------------------------------------- */

typedef struct loader {
    box_sessions *all;
    unsigned next_loop;
    box_map *known;  /* uid -> all: whose sockets stay */
    box_buf damaged; /* box_uid: whose records go */
} loader;

static box_warden *warden_of(const box_sessions *all, const char *backend)
{
    for (size_t i = 0; i < all->n_wardens; i++) {
        if (strcmp(box_warden_name(all->wardens[i]), backend) == 0)
            return all->wardens[i];
    }
    return NULL;
}

/* A moment of the wall clock on the loops' clock, not before its begin. */
static box_time moment(const box_sessions *all, box_time now, int64_t wall_ns)
{
    int64_t ahead = wall_ns - all->wall_ns();
    if (ahead >= 0)
        return box_time_add(now, (uint64_t)ahead);
    return now > (uint64_t)-ahead ? now - (uint64_t)-ahead : 0;
}

static void restore_times(box_session *s, const box_stored_session *stored, box_time now)
{
    box_sessions *all = s->all;
    int64_t wall = all->wall_ns();
    /* What was used and not written down yet is not held against it. */
    int64_t used = stored->used_ns + BOX_SESSION_TOUCH_SECONDS * (int64_t)BOX_SECOND;
    s->last_used_wall_ns = stored->used_ns;
    s->last_used = moment(all, now, used < wall ? used : wall);
    s->dies_at = moment(all, now, s->created_wall_ns + (int64_t)s->spec.max_lifetime_ns);
    s->extended_until = stored->extended_ns > 0 ? moment(all, now, stored->extended_ns) : 0;
    s->total_execs = stored->execs;
    s->written_at = now;
}

/* 0, or -1 with *err: its record is of no use. *unknown: it is, with another configuration. */
static int restore(box_session *s, const box_stored_session *stored, box_time now, bool *unknown,
                   box_error *err)
{
    if (box_stored_unpack(stored->record, s, err) < 0)
        return -1;
    s->profile = box_profile_find(s->spec.profile);
    if (s->profile == NULL)
        return box_fail(err, BOX_PROTOCOL, "there is no profile of that name any more");
    s->warden = warden_of(s->all, s->spec.backend);
    *unknown = s->warden == NULL;
    if (*unknown)
        return box_fail(err, BOX_BACKEND_UNAVAILABLE, "its backend is not configured any more");
    restore_times(s, stored, now);
    s->state = BOX_SESSION_STARTING;
    s->at_warden = s->adopted = s->recorded = s->socket_bound = s->sandbox_made = true;
    /* No command of this run has the number of one of an earlier run: the agent may know that. */
    s->first_exec_id = s->next_exec_id = (uint64_t)stored->starts << 32 | 1;
    size_t bytes = box_spec_bytes(&s->spec);
    box_error poor; /* then it is not charged; the next one who asks for memory is told */
    s->charged_bytes = box_share_take(&s->memory, bytes, &poor) == 0 ? bytes : 0;
    return 0;
}

static void load_one(void *arg, const box_stored_session *stored)
{
    loader *l = arg;
    box_sessions *all = l->all;
    box_loop *home = box_loops_get(all->loops, l->next_loop++ % box_loops_count(all->loops));
    box_time now = box_loop_now(home);
    bool unknown = false;
    box_error err = {0};
    BOX_AUTO(box_session_unrefp)
    box_session *s = box_session_new(all, home, &stored->uid, stored->tenant, NULL);
    int rc = restore(s, stored, now, &unknown, &err);
    if (rc < 0)
        box_log(BOX_WARN, "session.not_restored", BOX_STR("uid", s->uid_text), BOX_ERR(&err));
    if (rc < 0 && !unknown) {
        box_error full; /* then it is looked at again at the next start */
        BOX_IGNORE(box_buf_add(&l->damaged, &stored->uid, sizeof stored->uid, &full));
        return;
    }
    (void)box_map_put_bytes(l->known, &stored->uid, sizeof stored->uid, all); /* unique */
    if (rc < 0)
        return;
    box_lock_take(&all->lock);
    box_sessions_enter_restored_locked(s, now);
    box_lock_release(&all->lock);
    box_session_post(s, box_sandbox_adopt);
}

static int forget_damaged(box_sessions *all, const box_buf *damaged, box_error *err)
{
    const uint8_t *at = box_buf_data(damaged);
    for (size_t n = box_buf_len(damaged) / sizeof(box_uid); n > 0; n--, at += sizeof(box_uid)) {
        box_session_change change = {.kind = BOX_SESSION_FORGET};
        memcpy(&change.uid, at, sizeof change.uid);
        if (box_store_sessions_write(all->store, &change, 1, err) < 0)
            return -1;
    }
    return 0;
}

int box_sessions_restore(box_sessions *all, box_map *known, box_error *err)
{
    if (all->store == NULL)
        return 0;
    loader l = {.all = all, .known = known};
    int rc = box_store_sessions_start(all->store, load_one, &l, err);
    if (rc == 0)
        rc = forget_damaged(all, &l.damaged, err);
    box_buf_done(&l.damaged);
    return rc;
}
