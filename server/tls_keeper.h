/* boxd's TLS while it runs: its files are read again when told, the keys of session tickets change,
 * and the log says in time that the certificate ends. Belongs to one loop. */
#pragma once

#include "listen.h"
#include "loop/loop.h"

typedef struct box_tls_keeper box_tls_keeper;

typedef struct box_tls_keeper_config {
    const box_server_config *conf;
    const box_state_dir *state;
    box_tls_context *tls;                           /* NULL: no listener has TLS, nothing to do */
    int64_t expires_ns;                             /* of the certificate now in use */
    void (*expires)(void *arg, int64_t expires_ns); /* another one is in use */
    void *arg;
} box_tls_keeper_config;

BOX_LOOP box_tls_keeper *box_tls_keeper_new(const box_tls_keeper_config *config);
/* Reads certificate, key and client CA again, on a worker. What is wrong with them is logged, and
 * the old ones stay in use. */
BOX_LOOP void box_tls_keeper_reload(box_tls_keeper *k);
/* A reload that runs still ends by itself. */
BOX_LOOP void box_tls_keeper_free(box_tls_keeper *k);
