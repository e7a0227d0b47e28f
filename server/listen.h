/* boxd's way to the outside: certificates and listeners, as the configuration says. */
#pragma once

#include "net/server.h"
#include "server/config.h"
#include "state.h"
#include "store/store.h"

/* Whether box_listen_tls would fail because of the configured files, before there is a state
 * directory. Reads the disk. VALIDATION or as reading fails. */
int box_listen_check_tls(const box_server_config *conf, box_error *err) BOX_MUST_USE;

/* The TLS of all TCP listeners: the configured certificate, or development certificates that are
 * made in the state directory. *out stays NULL and *expires_ns (since 1970) 0 when no listener
 * wants TLS. Reads the disk. */
int box_listen_tls(const box_server_config *conf, const box_state_dir *state,
                   const box_store *store, box_tls_context **out, int64_t *expires_ns,
                   box_error *err) BOX_MUST_USE;

/* Reads the same files again: sessions from now on use them. On failure the old ones stay. Reads
 * the disk; any thread. */
int box_listen_reload_tls(const box_server_config *conf, const box_state_dir *state,
                          box_tls_context *tls, int64_t *expires_ns, box_error *err) BOX_MUST_USE;

/* Opens server.listen and server.unix_socket and logs each address. Before the loops run. */
int box_listen_open(const box_server_config *conf, box_net *net, box_tls_context *tls,
                    box_error *err) BOX_MUST_USE;
