/* What tls.c, tls_context.c and tls_tickets.c share. */
#pragma once

#include <pthread.h>

#include <openssl/err.h>
#include <openssl/ssl.h>

#include "base/limits.h"
#include "wire/tls.h"

enum { TLS_TICKET_KEYS = 2 };

typedef struct tls_ticket_key {
    unsigned char name[16];
    unsigned char cipher[32];
    unsigned char mac[32];
} tls_ticket_key;

struct box_tls_context {
    pthread_mutex_t lock; /* guards ctx (the pointer) and tickets */
    SSL_CTX *ctx;
    tls_ticket_key tickets[TLS_TICKET_KEYS]; /* server: the first seals, each opens */
    BIO_METHOD *method; /* moves bytes between OpenSSL and box_tls without another copy */
    bool server;
};

/* OpenSSL's first queued error as text; the queue is empty afterwards. */
const char *box_tls_openssl_text(void);
/* A new first key; the last one is forgotten, or all are. */
int box_tls_tickets_rotate(box_tls_context *c, bool forget, box_error *err) BOX_MUST_USE;
/* 1, or 0 with OpenSSL's error. */
int box_tls_tickets_use(SSL_CTX *ctx, box_tls_context *c);
/* A BIO whose data is its box_tls. NULL when memory is out. */
BIO_METHOD *box_tls_bio_method_new(void);
