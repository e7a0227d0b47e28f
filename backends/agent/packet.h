/* Packets of the agent channel (agent/protocol.h): building and checking them, for both ends. Bytes
 * in, structs out; no state. */
#pragma once

#include <sys/types.h>

#include "agent/protocol.h"
#include "base/buf.h"
#include "base/limits.h"

/* Every packet but START fits. */
enum { BOX_AGENT_SMALL_BYTES = 4096 };

/* Which end sent it: each may send only some types. */
typedef enum box_agent_sender { BOX_AGENT_FROM_BOXD, BOX_AGENT_FROM_AGENT } box_agent_sender;

/* Bytes of START's text at most: argv and env as the API allows, and a path (PATH_MAX). */
enum { BOX_AGENT_TEXT_BYTES = BOX_MAX_ARGV_ENV_BYTES + 4096 };

/* One packet, checked. */
typedef struct box_agent_packet {
    box_agent_header header;
    union { /* the struct of header.type; none for EXIT_ACK, SHUTDOWN, PING, PONG, FORGET,
             * CLOSE_STDIN, FILES_STOP */
        box_agent_hello hello;
        box_agent_start start;
        box_agent_started started; /* its error is sanitized */
        box_agent_signal signal;
        box_agent_exit exit;
        box_agent_manage manage;   /* INTRODUCED too */
        box_agent_managed managed; /* its error is sanitized */
        box_agent_stop stop;
        box_agent_ends ends; /* WATCH, GREW */
        box_agent_resize resize;
        box_agent_files files;
        box_agent_files_ended files_ended; /* its error is sanitized */
        box_agent_connect connect;
        box_agent_connected connected; /* its error is sanitized */
    } body;
    box_bytes text; /* START without BOX_START_TEXT_IN_MEMFD: borrowed from data, checked */
} box_agent_packet;

/* box_fd_receive for a SEQPACKET socket whose other end may have closed with something unread: the
 * kernel then reports ECONNRESET once, before the messages that are still there (an EXIT, a
 * SHUTDOWN). Reads on past it. Room for BOX_AGENT_PACKET_BYTES holds every packet. */
ssize_t box_agent_receive(int socket, void *data, size_t size, int *fds, size_t *n_fds,
                          box_error *err) BOX_MUST_USE;

/* Checks everything but what needs state (is the id known, is it HELLO's turn) and the version in
 * HELLO, which is box_agent_hello_check's. PROTOCOL when anything does not fit; descriptors that
 * came along stay the caller's, n_fds is only compared. */
int box_agent_packet_parse(const void *data, size_t len, size_t n_fds, box_agent_sender from,
                           box_agent_packet *out, box_error *err) BOX_MUST_USE;

/* VERSION_MISMATCH unless it is ours. */
int box_agent_hello_check(const box_agent_hello *hello, box_error *err) BOX_MUST_USE;

/* Sends one packet without descriptors, without blocking: sys_errno EAGAIN when the peer does not
 * read. body is the struct of the type (NULL when it has none). */
int box_agent_send(int socket, box_agent_type type, uint64_t id, const void *body, box_error *err)
    BOX_MUST_USE;

/* The same with descriptors, which stay the caller's. */
int box_agent_send_with(int socket, box_agent_type type, uint64_t id, const void *body,
                        const int *fds, size_t n_fds, box_error *err) BOX_MUST_USE;
/* How many descriptors STARTED, MANAGE and INTRODUCED bring. */
size_t box_agent_started_fds(const box_agent_started *s);
size_t box_agent_manage_fds(const box_agent_manage *m);
size_t box_agent_introduced_fds(const box_agent_manage *m);

/* A START to be built. Texts are borrowed for the call. */
typedef struct box_agent_command {
    uint64_t id;
    uint64_t timeout_ns; /* what remains; 0 = none */
    uint32_t flags;      /* BOX_START_KILL_LEFTOVERS, and one of NO_STDIN, TERMINAL */
    uint16_t rows;       /* of the terminal */
    uint16_t columns;
    size_t argc; /* >= 1 */
    const char *const *argv;
    size_t envc;
    const char *const *env; /* "K=V" */
    const char *workdir;    /* absolute */
} box_agent_command;

/* Appends the whole packet to *packet (empty before; ceiling >= BOX_AGENT_PACKET_BYTES) and sets
 * *memfd to the sealed text when it is larger than BOX_CHANNEL_INLINE_BYTES, else -1. Send it with
 * box_fd_send and the descriptors [stdin, ]stdout, stderr[, *memfd] (a terminal: [*memfd]).
 * VALIDATION (a violation of
 * argv, env or workdir) when it could not be a command. *memfd is the caller's. */
int box_agent_start_build(const box_agent_command *command, box_buf *packet, int *memfd,
                          box_error *err) BOX_MUST_USE;

/* Appends the text of a command to *text (empty before; ceiling >= BOX_AGENT_TEXT_BYTES + what else
 * goes into it) and says how it is made up. VALIDATION as of box_agent_start_build. */
int box_agent_text_build(const box_agent_command *command, box_buf *text, box_agent_text *out,
                         box_error *err) BOX_MUST_USE;

/* Is text exactly what start says: argc + envc + 1 strings that each end with NUL, argv[0] not
 * empty, "K=V" with a key, an absolute directory? PROTOCOL when not. */
int box_agent_text_check(const box_agent_start *start, box_bytes text, box_error *err) BOX_MUST_USE;

/* Points argv (argc + 1 places, NULL last), env (envc + 1) and *workdir into a checked text. */
void box_agent_text_split(const box_agent_start *start, box_bytes text, char **argv, char **env,
                          const char **workdir);
