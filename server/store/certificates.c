#include "store/certificates.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <unistd.h>

#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>

#include "base/fd.h"

enum { VALID_DAYS = 825, RENEW_DAYS = 30, DAY_SECONDS = 86400 };

/* A certificate with its key. */
typedef struct pair {
    EVP_PKEY *key;
    X509 *cert;
} pair;

static void pair_done(pair *p)
{
    EVP_PKEY_free(p->key);
    X509_free(p->cert);
}

static void bio_freep(BIO **bio)
{
    (void)BIO_free(*bio); /* a memory or closed file BIO */
}

static int fail(const char *what, box_error *err)
{
    const char *why = ERR_reason_error_string(ERR_peek_last_error());
    (void)box_fail(err, BOX_INTERNAL, "%s: %s", what, why != NULL ? why : "OpenSSL failed");
    ERR_clear_error();
    return -1;
}

/* --- reading what is there -------------------------------------------------------------------- */

/* flags: O_NOFOLLOW for our own files, 0 for those an administrator names. */
static BIO *open_bio(int dirfd, const char *name, int flags)
{
    int fd = openat(dirfd, name, O_RDONLY | O_CLOEXEC | flags);
    FILE *file = fd >= 0 ? fdopen(fd, "r") : NULL;
    if (file == NULL)
        box_closep(&fd);
    return file != NULL ? BIO_new_fp(file, BIO_CLOSE) : NULL;
}

static X509 *read_cert(int dirfd, const char *name)
{
    BOX_AUTO(bio_freep) BIO *bio = open_bio(dirfd, name, O_NOFOLLOW);
    return bio != NULL ? PEM_read_bio_X509(bio, NULL, NULL, NULL) : NULL;
}

static EVP_PKEY *read_key(int dirfd, const char *name)
{
    BOX_AUTO(bio_freep) BIO *bio = open_bio(dirfd, name, O_NOFOLLOW);
    return bio != NULL ? PEM_read_bio_PrivateKey(bio, NULL, NULL, NULL) : NULL;
}

static bool lasts(const X509 *cert)
{
    time_t later = time(NULL) + (time_t)RENEW_DAYS * DAY_SECONDS;
    return X509_cmp_time(X509_get0_notAfter(cert), &later) > 0;
}

static bool are_good(int dirfd)
{
    X509 *ca = read_cert(dirfd, BOX_DEV_CA_FILE);
    pair server = {.cert = read_cert(dirfd, BOX_DEV_CERT_FILE),
                   .key = read_key(dirfd, BOX_DEV_KEY_FILE)};
    bool good = ca != NULL && server.cert != NULL && server.key != NULL && lasts(ca) &&
                lasts(server.cert) && X509_check_private_key(server.cert, server.key) == 1 &&
                X509_verify(server.cert, X509_get0_pubkey(ca)) == 1;
    X509_free(ca);
    pair_done(&server);
    ERR_clear_error(); /* "not there" is an answer here */
    return good;
}

int box_certificate_expires(const char *path, int64_t *out_ns, box_error *err)
{
    struct tm end;
    BOX_AUTO(bio_freep) BIO *bio = open_bio(AT_FDCWD, path, 0);
    if (bio == NULL)
        return box_fail_errno(err, "cannot read %s", path);
    X509 *cert = PEM_read_bio_X509(bio, NULL, NULL, NULL);
    bool known = cert != NULL && ASN1_TIME_to_tm(X509_get0_notAfter(cert), &end) == 1;
    X509_free(cert);
    ERR_clear_error(); /* told below */
    if (!known)
        return box_fail(err, BOX_VALIDATION, "there is no certificate in the file");
    *out_ns = (int64_t)timegm(&end) * 1000000000;
    return 0;
}

/* --- making them ------------------------------------------------------------------------------ */

static int set_serial(X509 *cert)
{
    unsigned char bytes[16];
    if (RAND_bytes(bytes, sizeof bytes) != 1)
        return 0;
    bytes[0] &= 0x7f; /* positive (RFC 5280, 4.1.2.2) */
    BIGNUM *number = BN_bin2bn(bytes, sizeof bytes, NULL);
    int ok = number != NULL && BN_to_ASN1_INTEGER(number, X509_get_serialNumber(cert)) != NULL;
    BN_free(number);
    return ok;
}

static int set_name(X509 *cert, const char *common_name)
{
    X509_NAME *name = X509_get_subject_name(cert);
    return X509_NAME_add_entry_by_txt(name, "O", MBSTRING_UTF8,
                                      (const unsigned char *)"Box development", -1, -1, 0) &&
           X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_UTF8, (const unsigned char *)common_name,
                                      -1, -1, 0);
}

static int add_extension(X509 *cert, X509 *issuer, int nid, const char *value)
{
    X509V3_CTX context;
    X509V3_set_ctx_nodb(&context);
    X509V3_set_ctx(&context, issuer, cert, NULL, NULL, 0);
    X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, &context, nid, value);
    int ok = extension != NULL && X509_add_ext(cert, extension, -1);
    X509_EXTENSION_free(extension);
    return ok;
}

/* Everything but extensions and signature. */
static int start_pair(pair *p, const char *common_name)
{
    p->key = EVP_EC_gen("P-256");
    p->cert = X509_new();
    if (p->key == NULL || p->cert == NULL)
        return 0;
    /* An hour back, for clients whose clock is behind. */
    return X509_set_version(p->cert, X509_VERSION_3) && set_serial(p->cert) &&
           X509_gmtime_adj(X509_getm_notBefore(p->cert), -3600) != NULL &&
           X509_gmtime_adj(X509_getm_notAfter(p->cert), (long)VALID_DAYS * DAY_SECONDS) != NULL &&
           X509_set_pubkey(p->cert, p->key) && set_name(p->cert, common_name);
}

static int make_ca(pair *ca)
{
    return start_pair(ca, "Box development CA") &&
           X509_set_issuer_name(ca->cert, X509_get_subject_name(ca->cert)) &&
           add_extension(ca->cert, ca->cert, NID_basic_constraints, "critical,CA:TRUE,pathlen:0") &&
           add_extension(ca->cert, ca->cert, NID_key_usage, "critical,keyCertSign,cRLSign") &&
           add_extension(ca->cert, ca->cert, NID_subject_key_identifier, "hash") &&
           X509_sign(ca->cert, ca->key, EVP_sha256()) > 0;
}

/* A host name goes into the certificate only when it is one: OpenSSL's notation has commas. */
static void alternative_names(char *out, size_t size)
{
    char host[HOST_NAME_MAX + 1] = "";
    (void)gethostname(host, sizeof host - 1); /* stays empty */
    size_t len = strlen(host);
    bool plain = len > 0 && strspn(host, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                         "0123456789.-") == len;
    (void)snprintf(out, size, "DNS:localhost,IP:127.0.0.1,IP:::1%s%s", plain ? ",DNS:" : "",
                   plain ? host : "");
}

static int make_server(pair *server, const pair *ca)
{
    char names[HOST_NAME_MAX + 64];
    alternative_names(names, sizeof names);
    return start_pair(server, "localhost") &&
           X509_set_issuer_name(server->cert, X509_get_subject_name(ca->cert)) &&
           add_extension(server->cert, ca->cert, NID_basic_constraints, "critical,CA:FALSE") &&
           add_extension(server->cert, ca->cert, NID_key_usage, "critical,digitalSignature") &&
           add_extension(server->cert, ca->cert, NID_ext_key_usage, "serverAuth") &&
           add_extension(server->cert, ca->cert, NID_subject_alt_name, names) &&
           add_extension(server->cert, ca->cert, NID_subject_key_identifier, "hash") &&
           add_extension(server->cert, ca->cert, NID_authority_key_identifier, "keyid:always") &&
           X509_sign(server->cert, ca->key, EVP_sha256()) > 0;
}

static int write_bio(int dirfd, const char *name, BIO *bio, mode_t mode, box_error *err)
{
    char *data = NULL;
    long len = BIO_get_mem_data(bio, &data);
    return box_fd_replace_file(dirfd, name, data, len > 0 ? (size_t)len : 0, mode, err);
}

static int write_cert(int dirfd, const char *name, X509 *cert, box_error *err)
{
    BOX_AUTO(bio_freep) BIO *bio = BIO_new(BIO_s_mem());
    if (bio == NULL || !PEM_write_bio_X509(bio, cert))
        return fail("write a certificate", err);
    return write_bio(dirfd, name, bio, 0644, err);
}

static int write_key(int dirfd, const char *name, EVP_PKEY *key, box_error *err)
{
    BOX_AUTO(bio_freep) BIO *bio = BIO_new(BIO_s_secmem());
    if (bio == NULL || !PEM_write_bio_PKCS8PrivateKey(bio, key, NULL, NULL, 0, NULL, NULL))
        return fail("write a key", err);
    return write_bio(dirfd, name, bio, 0600, err);
}

/* A kill between the three files leaves a set that are_good refuses at the next start. */
static int make_all(int dirfd, pair *ca, pair *server, box_error *err)
{
    if (!make_ca(ca) || !make_server(server, ca))
        return fail("make development certificates", err);
    if (write_cert(dirfd, BOX_DEV_CA_FILE, ca->cert, err) < 0 ||
        write_key(dirfd, BOX_DEV_KEY_FILE, server->key, err) < 0)
        return -1;
    return write_cert(dirfd, BOX_DEV_CERT_FILE, server->cert, err);
}

int box_dev_certificates(int dirfd, bool *made, box_error *err)
{
    pair ca = {0};
    pair server = {0};
    if (are_good(dirfd)) {
        *made = false;
        return 0;
    }
    int rc = make_all(dirfd, &ca, &server, err);
    pair_done(&ca);
    pair_done(&server);
    if (rc == 0)
        *made = true;
    return rc;
}
