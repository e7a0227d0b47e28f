#include "listen.h"

#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/log.h"
#include "store/certificates.h"

static bool wants_tls(const box_server_config *conf)
{
    const box_listen_config *listen = conf->listen.items;
    for (size_t i = 0; i < conf->listen.count; i++) {
        if (listen[i].tls)
            return true;
    }
    return false;
}

static int make_certificates(const box_state_dir *state, const box_store *store, box_error *err)
{
    bool made = false;
    if (box_dev_certificates(box_store_dirfd(store), &made, err) < 0)
        return -1;
    if (made)
        box_log(BOX_INFO, "boxd.development_certificates", BOX_STR("ca", BOX_DEV_CA_FILE),
                BOX_STR("state_dir", state->path));
    return 0;
}

/* Where certificate and key are. */
typedef struct files {
    char *cert;
    char *key;
} files;

static void files_done(files *f)
{
    free(f->cert);
    free(f->key);
}

static files files_of(const box_server_config *conf, const box_state_dir *state)
{
    bool own = conf->tls_cert != NULL;
    return (files){
        .cert = own ? box_strdup(conf->tls_cert) : box_state_dir_file(state, BOX_DEV_CERT_FILE),
        .key = own ? box_strdup(conf->tls_key) : box_state_dir_file(state, BOX_DEV_KEY_FILE)};
}

/* A key that root gives to boxd through its group is as it should be. */
static void warn_of_readers(const char *key)
{
    struct stat st;
    if (stat(key, &st) < 0)
        return; /* opening it says why */
    mode_t readers = st.st_uid == geteuid() ? S_IRWXG | S_IRWXO : S_IRWXO;
    if ((st.st_mode & readers) != 0)
        box_log(BOX_WARN, "tls.key_readable_by_others", BOX_STR("file", key),
                BOX_STR("advice", "chmod 600"));
}

static box_tls_server_config config_of(const box_server_config *conf, const files *f)
{
    static const box_tls_client_auth client_auth[] = {BOX_TLS_CLIENT_NONE, BOX_TLS_CLIENT_REQUEST,
                                                      BOX_TLS_CLIENT_REQUIRE};
    return (box_tls_server_config){.cert_file = f->cert,
                                   .key_file = f->key,
                                   .client_ca_file = conf->tls_client_ca,
                                   .min_version = (box_tls_version)conf->tls_min_version,
                                   .client_auth = client_auth[conf->tls_client_auth]};
}

static int open_tls(const box_server_config *conf, const files *f, box_tls_context **out,
                    int64_t *expires_ns, box_error *err)
{
    const box_tls_server_config config = config_of(conf, f);
    if (box_certificate_expires(f->cert, expires_ns, err) < 0)
        return box_wrap(err, "tls.cert");
    return box_tls_context_server(&config, out, err);
}

int box_listen_check_tls(const box_server_config *conf, box_error *err)
{
    box_tls_context *context = NULL;
    int64_t expires_ns;
    if (!wants_tls(conf))
        return 0;
    if (conf->tls_client_ca != NULL && access(conf->tls_client_ca, R_OK) < 0)
        return box_fail_errno(err, "tls.client_ca");
    if (conf->tls_cert == NULL)
        return 0; /* development certificates */
    const files own = {.cert = conf->tls_cert, .key = conf->tls_key};
    int rc = open_tls(conf, &own, &context, &expires_ns, err);
    box_tls_context_free(context);
    return rc;
}

int box_listen_tls(const box_server_config *conf, const box_state_dir *state,
                   const box_store *store, box_tls_context **out, int64_t *expires_ns,
                   box_error *err)
{
    *expires_ns = 0;
    if (!wants_tls(conf))
        return 0;
    if (conf->tls_cert == NULL && make_certificates(state, store, err) < 0)
        return -1;
    BOX_AUTO(files_done) files f = files_of(conf, state);
    warn_of_readers(f.key);
    return open_tls(conf, &f, out, expires_ns, err);
}

int box_listen_reload_tls(const box_server_config *conf, const box_state_dir *state,
                          box_tls_context *tls, int64_t *expires_ns, box_error *err)
{
    BOX_AUTO(files_done) files f = files_of(conf, state);
    const box_tls_server_config config = config_of(conf, &f);
    int64_t expires = 0;
    warn_of_readers(f.key);
    if (box_certificate_expires(f.cert, &expires, err) < 0)
        return box_wrap(err, "tls.cert");
    if (box_tls_context_reload(tls, &config, err) < 0)
        return -1;
    *expires_ns = expires;
    return 0;
}

int box_listen_open(const box_server_config *conf, box_net *net, box_tls_context *tls,
                    box_error *err)
{
    const box_listen_config *listen = conf->listen.items;
    for (size_t i = 0; i < conf->listen.count; i++) {
        uint16_t port;
        if (box_net_listen_tcp(net, listen[i].address, listen[i].tls ? tls : NULL, &port, err) < 0)
            return -1;
        box_log(BOX_INFO, "boxd.listen", BOX_STR("address", listen[i].address),
                BOX_INT("port", port), BOX_STR("tls", listen[i].tls ? "yes" : "no"));
    }
    return conf->unix_socket != NULL ? box_net_listen_unix(net, conf->unix_socket, err) : 0;
}
