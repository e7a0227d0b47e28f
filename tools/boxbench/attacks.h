/* What a hostile peer sends, over and over, on one connection after another. */
#pragma once

#include <stdatomic.h>

#include "base/buf.h"
#include "wire/tls.h"

typedef struct attack attack;

/* One connection of an attacker. */
typedef struct attacker {
    const attack *what;
    box_tls_context *tls; /* borrowed */
    unsigned port;
    unsigned address; /* 127.0.0.1 and so many */
    atomic_bool stop;
    uint32_t next_stream; /* of the connection at hand */
    bool prepared;        /* its first bytes were made */
    /* what it did */
    uint64_t connections; /* made */
    uint64_t ended;       /* by the server */
    uint64_t sent_bytes;
} attacker;

struct attack {
    const char *name;
    const char *meaning;
    /* More bytes of HTTP/2, the preface first; NULL: no HTTP/2 at all. */
    void (*make)(attacker *a, box_buf *out);
    bool reads;      /* what the server says */
    bool holds;      /* says it once and keeps the connection */
    bool deaf;       /* and never reads anything */
    bool no_tls;     /* TCP only, held */
    bool only_hello; /* half a handshake, then the next connection */
};

extern const attack bench_attacks[];
extern const size_t bench_n_attacks;

/* Thread function, arg an attacker: attacks until stop, on spare processor time only. */
void *bench_attack(void *arg);
