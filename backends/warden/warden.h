/* The warden's main loop: tables and pidfds. One thread, nothing in it waits: each create, destroy,
 * adopt, limits and usage runs in a short-lived helper process. */
#pragma once

#include "backend.h"
#include "warden/config.h"

typedef struct box_warden box_warden;

/* Takes the state directory's lock, opens the backend (a failure is kept for HELLO), reads the
 * state files back and queues what they ask for. `config` and `ops` are borrowed. */
int box_warden_new(const box_warden_config *config, const box_backend_ops *ops, box_warden **out,
                   box_error *err) BOX_MUST_USE;
void box_warden_free(box_warden *w);

/* Listens on config->socket. */
int box_warden_listen(box_warden *w, box_error *err) BOX_MUST_USE;

/* Serves one boxd on a connected SEQPACKET socket (taken over): when it closes, all sandboxes are
 * removed and the loop ends. What the state directory still names is removed at once. */
int box_warden_attach(box_warden *w, int socket, box_error *err) BOX_MUST_USE;

/* Until SIGTERM or SIGINT, which leave the sandboxes to the next start (with box_warden_attach they
 * are removed). 0, or -1 when the loop itself broke or sandboxes could not be removed. */
int box_warden_run(box_warden *w, box_error *err) BOX_MUST_USE;
