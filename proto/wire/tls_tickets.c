/* Session tickets (RFC 8446, 4.6.1): sealed with keys of our own, so that all loops know them, they
 * outlive a reload, and they change. Nothing is kept of a session. */
#include <openssl/core_names.h>
#include <openssl/rand.h>

#include "wire/tls_internal.h"

static int set_mac_key(EVP_MAC_CTX *mac, tls_ticket_key *key)
{
    static char digest[] = "SHA256";
    OSSL_PARAM params[] = {
        OSSL_PARAM_construct_octet_string(OSSL_MAC_PARAM_KEY, key->mac, sizeof key->mac),
        OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, digest, 0),
        OSSL_PARAM_construct_end(),
    };
    return EVP_MAC_CTX_set_params(mac, params);
}

static int seal(tls_ticket_key *key, unsigned char *name, unsigned char *iv, EVP_CIPHER_CTX *cipher,
                EVP_MAC_CTX *mac)
{
    memcpy(name, key->name, sizeof key->name);
    if (RAND_bytes(iv, EVP_CIPHER_get_iv_length(EVP_aes_256_cbc())) != 1 ||
        EVP_EncryptInit_ex2(cipher, EVP_aes_256_cbc(), key->cipher, iv, NULL) != 1 ||
        set_mac_key(mac, key) != 1)
        return -1;
    return 1;
}

static int unseal(tls_ticket_key *key, const unsigned char *iv, EVP_CIPHER_CTX *cipher,
                  EVP_MAC_CTX *mac)
{
    if (set_mac_key(mac, key) != 1 ||
        EVP_DecryptInit_ex2(cipher, EVP_aes_256_cbc(), key->cipher, iv, NULL) != 1)
        return -1;
    return 1;
}

/* SSL_CTX_set_tlsext_ticket_key_evp_cb(3): 0 = no such key, 2 = good, but make a new ticket. */
static int on_ticket(SSL *ssl, unsigned char *name, unsigned char *iv, EVP_CIPHER_CTX *cipher,
                     EVP_MAC_CTX *mac, int sealing)
{
    box_tls_context *c = SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl));
    tls_ticket_key keys[TLS_TICKET_KEYS];
    pthread_mutex_lock(&c->lock);
    memcpy(keys, c->tickets, sizeof keys);
    pthread_mutex_unlock(&c->lock);
    int rc = 0;
    if (sealing)
        rc = seal(&keys[0], name, iv, cipher, mac);
    for (int i = 0; !sealing && rc == 0 && i < TLS_TICKET_KEYS; i++) {
        if (memcmp(name, keys[i].name, sizeof keys[i].name) == 0)
            rc = unseal(&keys[i], iv, cipher, mac) == 1 ? 1 + (i > 0) : -1;
    }
    OPENSSL_cleanse(keys, sizeof keys);
    return rc;
}

static int fill(tls_ticket_key *key)
{
    return RAND_bytes(key->name, sizeof key->name) == 1 &&
           RAND_priv_bytes(key->cipher, sizeof key->cipher) == 1 &&
           RAND_priv_bytes(key->mac, sizeof key->mac) == 1;
}

int box_tls_tickets_rotate(box_tls_context *c, bool forget, box_error *err)
{
    tls_ticket_key fresh[TLS_TICKET_KEYS];
    for (int i = 0; i < TLS_TICKET_KEYS; i++) {
        if (!fill(&fresh[i]))
            return box_fail(err, BOX_INTERNAL, "no random numbers for session tickets");
    }
    pthread_mutex_lock(&c->lock);
    if (!forget)
        memcpy(&fresh[1], &c->tickets[0], (TLS_TICKET_KEYS - 1) * sizeof fresh[0]);
    memcpy(c->tickets, fresh, sizeof fresh);
    pthread_mutex_unlock(&c->lock);
    OPENSSL_cleanse(fresh, sizeof fresh);
    return 0;
}

int box_tls_tickets_use(SSL_CTX *ctx, box_tls_context *c)
{
    SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF); /* it would grow with every client */
    SSL_CTX_set_timeout(ctx, BOX_TICKET_SECONDS);
    return SSL_CTX_set_app_data(ctx, c) == 1 && SSL_CTX_set_num_tickets(ctx, 1) == 1 &&
           SSL_CTX_set_max_early_data(ctx, 0) == 1 && /* 0-RTT can be replayed */
           SSL_CTX_set_tlsext_ticket_key_evp_cb(ctx, on_ticket) == 1;
}
