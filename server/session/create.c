/* CreateSession, with and without an idempotency key. */
#include "base/alloc.h"
#include "base/limits.h"
#include "session/table.h"

/* A create with an idempotency key, until it is answered. */
typedef struct keyed {
    box_sessions *all;
    char *tenant;
    char *key;
    box_session_done done;
    void *arg;
} keyed;

static void keyed_done(void *arg, const box_session_info *info, const box_error *err)
{
    keyed *k = arg;
    box_time now = box_loop_now(box_loop_current());
    box_lock_take(&k->all->lock);
    if (info != NULL)
        box_idem_note(k->all->idem, k->tenant, "create", k->key, info->id);
    box_idem_end(k->all->idem, k->tenant, "create", k->key, err == NULL, now);
    box_lock_release(&k->all->lock);
    k->done(k->arg, info, err);
    free(k->tenant);
    free(k->key);
    free(k);
}

void box_session_answer_error(box_session_done done, void *arg, const box_error *err)
{
    box_waiter_answer(box_waiter_new(done, arg), NULL, err);
}

static void create(box_sessions *all, const box_create_request *r, const char *id,
                   box_session_done done, void *arg)
{
    box_acquire a = {.tenant = r->tenant, .id = id, .spec = r->spec};
    box_session *s = NULL;
    bool created;
    box_error err = {0};
    if (box_sessions_acquire(all, &a, &s, &created, &err) < 0) {
        box_session_answer_error(done, arg, &err);
        return;
    }
    box_waiter *w = box_waiter_new(done, arg);
    w->created = created;
    box_session_want_run(s, w);
    box_session_unref(s);
}

/* The first call's session as it is now; a session that went since is no answer. */
static void answer_again(box_sessions *all, const box_create_request *r, const char *id,
                         box_session_done done, void *arg)
{
    box_session *s = NULL;
    box_error err = {0};
    if (box_sessions_find(all, r->tenant, id, &s, &err) < 0) {
        (void)box_fail(&err, BOX_IDEMPOTENCY_DONE,
                       "the call with this idempotency key made session %s, which is gone", id);
        box_session_answer_error(done, arg, &err);
        return;
    }
    box_waiter *w = box_waiter_new(done, arg);
    w->created = true; /* the first one's answer */
    box_session_want_run(s, w);
    box_session_unref(s);
}

static void create_keyed(box_sessions *all, const box_create_request *r, box_session_done done,
                         void *arg)
{
    box_idem_outcome outcome;
    const char *noted;
    char id[BOX_MAX_ID_BYTES + 1] = "";
    box_error err = {0};
    box_uid uid = box_uid_new();
    char made[BOX_UID_TEXT];
    box_uid_text(&uid, made);
    const char *wanted = r->id[0] != '\0' ? r->id : made;
    box_time now = box_loop_now(box_loop_current());
    box_lock_take(&all->lock);
    int rc = box_idem_begin(all->idem, r->tenant, "create", r->idempotency_key, r->digest, now,
                            &outcome, &noted, &err);
    if (rc == 0 && outcome == BOX_IDEM_NEW)
        box_idem_note(all->idem, r->tenant, "create", r->idempotency_key, wanted);
    else if (rc == 0)
        (void)snprintf(id, sizeof id, "%s", noted);
    box_lock_release(&all->lock);
    if (rc < 0) {
        box_session_answer_error(done, arg, &err);
        return;
    }
    if (outcome != BOX_IDEM_NEW) {
        answer_again(all, r, id, done, arg);
        return;
    }
    keyed *k = box_alloc(sizeof *k);
    *k = (keyed){.all = all,
                 .tenant = box_strdup(r->tenant),
                 .key = box_strdup(r->idempotency_key),
                 .done = done,
                 .arg = arg};
    create(all, r, wanted, keyed_done, k);
}

void box_session_create(box_sessions *all, const box_create_request *r, box_session_done done,
                        void *arg)
{
    box_error err = {0};
    if (box_session_check(r->id, r->spec, &err) < 0) {
        box_session_answer_error(done, arg, &err);
        return;
    }
    if (r->idempotency_key != NULL && r->idempotency_key[0] != '\0') {
        create_keyed(all, r, done, arg);
        return;
    }
    /* The server's ids are as random as uids. */
    box_uid uid = box_uid_new();
    char made[BOX_UID_TEXT];
    box_uid_text(&uid, made);
    create(all, r, r->id[0] != '\0' ? r->id : made, done, arg);
}
