/* What tls.c and tls_context.c share. */
#pragma once

#include <openssl/err.h>
#include <openssl/ssl.h>

#include "wire/tls.h"

struct box_tls_context {
    SSL_CTX *ctx;
    BIO_METHOD *method; /* moves bytes between OpenSSL and box_tls without another copy */
    bool server;
};

/* OpenSSL's first queued error as text; the queue is empty afterwards. */
const char *box_tls_openssl_text(void);
/* A BIO whose data is its box_tls. NULL when memory is out. */
BIO_METHOD *box_tls_bio_method_new(void);
