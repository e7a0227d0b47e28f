/* Every limit of Box that is not configuration, with its unit and why it has that value. Reaching
 * one is an error the caller can read. Grouped by who enforces it. */
#pragma once

/* --- wire ------------------------------------------------------------------------------------ */

/* Largest gRPC message received by default; box_h2 config can lower or raise it. 16 MiB holds an 8
 * MiB file with room to spare (box-behaviour.md, 1.2). */
#define BOX_MAX_MESSAGE_BYTES (16 * 1024 * 1024)
/* What a stock gRPC client accepts in one message; larger answers only when asked for. */
#define BOX_STOCK_MESSAGE_BYTES (4 * 1024 * 1024)
/* Header list, counted as HTTP/2 does (name + value + 32): grpc-conformance.md, 36. */
#define BOX_MAX_HEADER_LIST_BYTES (16 * 1024)
/* Header list we send at most, below nghttp2's 64 KiB for a block. */
#define BOX_MAX_SENT_HEADER_BYTES (60 * 1024)
/* What fits into that list at 32 bytes a field. */
#define BOX_MAX_METADATA_ENTRIES (BOX_MAX_HEADER_LIST_BYTES / 32)
/* Calls at once on one connection, SETTINGS_MAX_CONCURRENT_STREAMS. */
#define BOX_MAX_STREAMS_PER_CONNECTION 1000
/* Flow control: what a peer may send before we read it (grpc-conformance.md, 100). */
#define BOX_STREAM_WINDOW_BYTES     (1024 * 1024)
#define BOX_CONNECTION_WINDOW_BYTES (4 * 1024 * 1024)
/* Unsent bytes on one stream above which a writer is told to wait, and below which it may go on. */
#define BOX_STREAM_HIGH_WATER_BYTES (64 * 1024)
#define BOX_STREAM_LOW_WATER_BYTES  (32 * 1024)
/* Queued on one stream by a writer that ignores the high-water mark; then the call ends. Above the
 * largest message there is by a factor, so that a message can always be queued behind another. */
#define BOX_STREAM_UNSENT_BYTES (64 * 1024 * 1024)
/* Memory one call may use for its decoded request: 8 times its size and this much more
 * (c-grpc-codegen.md, section 3). */
#define BOX_CALL_BUDGET_FACTOR 8
#define BOX_CALL_BUDGET_BYTES  (64 * 1024)
/* Depth of nested messages; the API's deepest is 5. */
#define BOX_MAX_MESSAGE_DEPTH 32

/* --- server ---------------------------------------------------------------------------------- */

/* Accepted connections at once, all listeners together: each costs about 40 KiB idle. */
#define BOX_MAX_CONNECTIONS 4096
/* TLS handshake and HTTP/2 preface must be done by then. */
#define BOX_HANDSHAKE_TIMEOUT_SECONDS 10
/* Worker pool: threads and queued jobs; a full queue is RESOURCE_EXHAUSTED. */
#define BOX_WORKER_THREADS 4
#define BOX_WORKER_QUEUE   1024
/* How long SIGTERM waits for running calls before they are cancelled. */
#define BOX_DRAIN_SECONDS 5

/* --- API ------------------------------------------------------------------------------------- */

#define BOX_MAX_ID_BYTES          256
#define BOX_MAX_LABELS            64
#define BOX_MAX_LABEL_KEY_BYTES   63
#define BOX_MAX_LABEL_VALUE_BYTES 256
#define BOX_DEFAULT_PAGE          100
#define BOX_MAX_PAGE              1000

/* --- exec ------------------------------------------------------------------------------------ */

/* Linux: one argument at most 128 KiB including its NUL (MAX_ARG_STRLEN, execve(2)), and argv + env
 * together at most 2 MiB here, a quarter of the default 8 MiB stack limit. */
#define BOX_MAX_ARG_BYTES      (128 * 1024)
#define BOX_MAX_ARGV_ENV_BYTES (2 * 1024 * 1024)
#define BOX_MAX_ARGS           65536
#define BOX_MAX_ENV            65536
/* Default and maximum of Command.timeout when no profile says otherwise. */
#define BOX_DEFAULT_TIMEOUT_SECONDS 30
/* What Exec keeps of each stream by default, and head : tail of it. */
#define BOX_DEFAULT_OUTPUT_LIMIT_BYTES (1024 * 1024)
#define BOX_OUTPUT_HEAD_PERCENT        60
/* Waiting for a session's slot. */
#define BOX_EXEC_QUEUE_DEPTH   32
#define BOX_EXEC_QUEUE_SECONDS 30

/* --- sessions -------------------------------------------------------------------------------- */

#define BOX_SESSION_IDLE_SECONDS     300
#define BOX_SESSION_LIFETIME_SECONDS (48 * 3600)
#define BOX_SESSION_RECORD_SECONDS   3600 /* how long a STOPPED record stays */

/* --- agent and warden channels -----------------------------------------------------------------
 */

/* Largest message sent inline; more goes in a sealed memfd (sandbox-facts.md, section 6: one
 * SEQPACKET message ends at about 212,960 bytes). */
#define BOX_CHANNEL_INLINE_BYTES (64 * 1024)
