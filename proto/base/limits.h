/* Every limit of Box that is not configuration, with its unit and why it has that value. Reaching
 * one is an error the caller can read. Grouped by who enforces it. */
#pragma once

/* --- wire ------------------------------------------------------------------------------------- */

/* Largest gRPC message received by default; box_h2 config can lower or raise it. 16 MiB holds an 8
 * MiB file with room to spare (box-behaviour.md, 1.2). */
#define BOX_MAX_MESSAGE_BYTES (16 * 1024 * 1024)
/* Messages below this size are not compressed unless the call says so: a gzip header alone has 18
 * bytes, and a packet is sent either way. */
#define BOX_MIN_COMPRESS_BYTES 1024
/* A compressed message may grow to this, what stock peers accept, whatever its ratio; above it to
 * so many times its size. Text and logs reach 10 to 50, zeros 1030 (zlib's maximum). */
#define BOX_FREE_INFLATE_BYTES (4 * 1024 * 1024)
#define BOX_MAX_INFLATE_RATIO  256
/* Header list, counted as HTTP/2 does (name + value + 32): grpc-conformance.md, 36. */
#define BOX_MAX_HEADER_LIST_BYTES (16 * 1024)
/* What a server's side of a connection remembers of the fields it sent (RFC 7541, 4.2), of 4096: a
 * handful repeat in every answer, and each idle connection keeps it. */
#define BOX_HPACK_TABLE_BYTES 1024
/* Header list we send at most, below nghttp2's 64 KiB for a block. */
#define BOX_MAX_SENT_HEADER_BYTES (60 * 1024)
/* What fits into that list at 32 bytes a field. */
#define BOX_MAX_METADATA_ENTRIES (BOX_MAX_HEADER_LIST_BYTES / 32)
/* Body of a request that is no gRPC, read and dropped before its stream is reset: curl 7.88 takes
 * an early reset for an error and never shows the answer. */
#define BOX_PLAIN_BODY_BYTES (64 * 1024)
/* Text of a page that is no gRPC: the metrics of a hundred methods with every code are half of it.
 */
#define BOX_MAX_PAGE_BYTES (256 * 1024)
/* Streams of one connection that end in a reset, by the client or because of what it sent: at once,
 * then per second. A gateway with impatient callers cancels thousands (CVE-2023-44487, -2025-8671
 * are about more than that). A header list counts for so many each time it passes a multiple of
 * BOX_MAX_HEADER_LIST_BYTES: decoding it is what costs. */
#define BOX_STREAM_RESET_BURST  3000
#define BOX_STREAM_RESET_RATE   300
#define BOX_LARGE_HEADER_WEIGHT 50
/* Header list that ends the connection: far above the limit, so that a client that only has too
 * much metadata learns it (a field of 64 KiB: grpc-conformance.md, 36). Through HPACK's table it
 * may be a thousand times larger than what came (CVE-2016-1544). */
#define BOX_HEADER_BOMB_BYTES (96 * 1024)
/* Frames that carry nothing (SETTINGS, PRIORITY, CONTINUATION, empty DATA, WINDOW_UPDATE for
 * nothing that was sent): at once, then per
 * second (CVE-2019-9513, -9515, -9518). */
#define BOX_IDLE_FRAME_BURST 10000
#define BOX_IDLE_FRAME_RATE  1000
/* Of both at once: from so many on the client is read in pieces of BOX_SMALL_READ_BYTES. */
#define BOX_COSTLY 100
/* PINGs that came too early before the connection ends, and how long a client without a call waits
 * between two (grpc/proposal A8). */
#define BOX_PING_STRIKES      2
#define BOX_PING_IDLE_SECONDS 7200
/* Frames that wait because the peer does not read, of at most a few per stream. */
#define BOX_MAX_QUEUED_FRAMES 10000
/* A finished answer is taken within so many seconds, and one more for each of these bytes; then its
 * stream is reset. A peer may keep its window shut for ever. */
#define BOX_ANSWER_SECONDS          60
#define BOX_ANSWER_BYTES_PER_SECOND (16 * 1024)
/* Calls at once on one connection, SETTINGS_MAX_CONCURRENT_STREAMS. */
#define BOX_MAX_STREAMS_PER_CONNECTION 1000
/* The client library. What of a call's messages is kept until the server answers, so that it can be
 * sent again: what stock clients keep of one call. */
#define BOX_CLIENT_REPLAY_BYTES (256 * 1024)
/* Addresses of one name that are tried. */
#define BOX_CLIENT_ADDRESSES 32
/* Calls of one channel that wait for a connection, a free stream or a retry; more are refused. */
#define BOX_CLIENT_WAITING_CALLS 16384
/* Between connections that ended before any call was answered. */
#define BOX_CLIENT_PACE_MS 100
/* Flow control: what a peer may send before we read it (grpc-conformance.md, 100). */
#define BOX_STREAM_WINDOW_BYTES     (1024 * 1024)
#define BOX_CONNECTION_WINDOW_BYTES (4 * 1024 * 1024)
/* Unsent bytes on one stream above which a writer is told to wait, and below which it may go on. */
#define BOX_STREAM_HIGH_WATER_BYTES (64 * 1024)
#define BOX_STREAM_LOW_WATER_BYTES  (32 * 1024)
/* Ciphertext of one connection that waits for its socket; callers stop feeding at a fraction of it.
 */
#define BOX_TLS_PENDING_BYTES (16 * 1024 * 1024)
/* TLS records of the first bytes of a connection fit into a segment of TCP with its headers (1460
 * less options and TLS's 22), the rest are as large as they may be. */
#define BOX_TLS_SMALL_BYTES        (16 * 1024)
#define BOX_TLS_SMALL_RECORD_BYTES 1400
/* How long a session ticket lasts; its key changes twice in that time. */
#define BOX_TICKET_SECONDS 7200
/* The log says once a day that the certificate ends, from so many days before. */
#define BOX_CERTIFICATE_WARN_DAYS 14
/* Queued on one stream by a writer that ignores the high-water mark; then the call ends. Above the
 * largest message there is by a factor, so that a message can always be queued behind another. */
#define BOX_STREAM_UNSENT_BYTES (64 * 1024 * 1024)
/* What all peers together may make a server hold: messages that came in part or were not read yet,
 * stdin, kept output, variables (base/budget.h). What a connection or a session may have of it
 * besides: enough for ordinary calls. */
#define BOX_MEMORY_BUDGET_BYTES   (1024 * 1024 * 1024)
#define BOX_CONNECTION_FREE_BYTES (256 * 1024)
#define BOX_SESSION_FREE_BYTES    (64 * 1024)
/* Memory one call may use for its decoded request: 8 times its size and this much more. Small
 * fields grow most (a text of 3 bytes takes 5 on the wire and up to 88 while it is decoded), and
 * BOX_MAX_ARGS of them must fit; c-grpc-codegen.md, section 3. */
#define BOX_CALL_BUDGET_FACTOR 8
#define BOX_CALL_BUDGET_BYTES  (4 * 1024 * 1024)
/* Depth of nested messages; the API's deepest is 7 (tests/api checks at most 8). */
#define BOX_MAX_MESSAGE_DEPTH 32

/* Largest proto3 JSON read: text of the largest message, whose bytes grow by a third in base64. */
#define BOX_MAX_JSON_BYTES (32 * 1024 * 1024)

/* --- server ----------------------------------------------------------------------------------- */

/* Accepted connections at once by default, all listeners together (each costs about 40 KiB idle);
 * of one peer address, and of one tenant. */
#define BOX_MAX_CONNECTIONS            4096
#define BOX_MAX_CONNECTIONS_PER_PEER   1024
#define BOX_MAX_CONNECTIONS_PER_TENANT 2048
/* TLS handshake and HTTP/2 preface must be done by then. */
#define BOX_HANDSHAKE_TIMEOUT_SECONDS 10
/* Steps of handshakes that may wait for a turn of their loop; while as many do, further ones are
 * made by workers, so many at once for a loop: each is a fraction of a millisecond of a worker's
 * time, which others wait for in their turn. */
#define BOX_HANDSHAKES_ON_LOOP 2
#define BOX_HANDSHAKE_STEPS    2
/* Connections of one address that may end badly in a minute (configuration): failed or abandoned
 * handshakes, what breaks HTTP/2 or costs too much. Each costs a loop about what three calls do. */
#define BOX_BAD_CONNECTIONS_PER_MINUTE 60
/* For so long new ones from there are then closed unread: the first time, and at most after
 * doubling. An attacker has its allowance once in the latter; who shares its address waits no
 * longer. */
#define BOX_HOLD_SECONDS     1
#define BOX_MAX_HOLD_SECONDS 60
/* Addresses that is remembered of, 48 bytes each. */
#define BOX_PENALTY_PEERS 4096
/* A TCP peer none of whose calls had a good token is asked to leave when it has no call open for
 * this long; when BOX_MAX_CONNECTIONS is reached, the oldest of these goes at once. */
#define BOX_STRANGER_SECONDS 30
/* Descriptors that commands leave to files and wardens, besides those of connections; all together
 * at most half of all. */
#define BOX_RESERVED_DESCRIPTORS 256
/* A request, or a message that began, goes on within the first; a unary one is whole within the
 * second: 16 MiB at half a Mbit/s. */
#define BOX_REQUEST_PAUSE_SECONDS 30
#define BOX_REQUEST_SECONDS       300
/* A header block ends within this. */
#define BOX_HEADER_SECONDS 10
/* How often a connection with open streams is looked at for those three. */
#define BOX_SWEEP_SECONDS 5
/* A connection without a byte from its peer is asked for one after the first, and closed after the
 * second without any (grpc-conformance.md, 109; configuration). */
#define BOX_KEEPALIVE_SECONDS         7200
#define BOX_KEEPALIVE_TIMEOUT_SECONDS 20
/* PINGs of a client with open calls may come this often (configuration). grpc/proposal A8 says five
 * minutes; this is the shortest that gRPC's own clients can be set to, and ours asks every 20 s, so
 * that a quiet command is not cut off. */
#define BOX_PING_MIN_SECONDS 10
/* A loop whose last waits for the next call, so many of them, were no longer than the first of
 * these looks for it, for as long as the second, before it sleeps (loop/expect.h): in a virtual
 * machine waking up takes 20 to 30 of the 60 microseconds of a small call. */
#define BOX_SHORT_WAIT_US 100
#define BOX_POLL_US       60
#define BOX_POLL_AFTER    16
/* A yield that takes so long let somebody else run. */
#define BOX_YIELD_US 10
/* Worker pool: threads and queued jobs; a full queue is RESOURCE_EXHAUSTED. */
#define BOX_WORKER_THREADS 4
#define BOX_WORKER_QUEUE   1024
/* How long SIGTERM waits for running calls before they are cancelled: with what follows, the end
 * comes within 5 s whatever clients do (BOX_SESSIONS_DRAIN_SECONDS later where a warden hangs). */
#define BOX_DRAIN_SECONDS 3
/* Between the two GOAWAYs of a graceful end: a round trip over a long way, so that calls a peer
 * sent before it heard still run (grpc-conformance.md, 105). */
#define BOX_GOAWAY_WAIT_MS 250
/* From cancelling the calls of a drain to closing their connections. */
#define BOX_CANCEL_WAIT_MS 500
/* Listening addresses and sockets; connections waiting in the kernel for each (Linux cuts it at
 * net.core.somaxconn); connections accepted before a loop does other work. */
#define BOX_MAX_LISTENERS  16
#define BOX_LISTEN_BACKLOG 4096
#define BOX_ACCEPT_BATCH   32
/* How long accepting rests when descriptors or BOX_MAX_CONNECTIONS are used up. */
#define BOX_ACCEPT_RETRY_MS 100
/* One read from a connection, one piece taken from HTTP/2 to be sent, and how much one connection
 * may send before others get their turn. */
#define BOX_READ_BYTES (64 * 1024)
/* One read from a peer that costs much, or that nobody knows yet, for its first BOX_STRANGER_BYTES.
 * A TLS record has up to 16 KiB, and as many small frames take a loop half a millisecond, for which
 * everybody else would wait: of such peers HTTP/2 gets BOX_PIECE_BYTES at a time until BOX_PIECE_US
 * have passed, the rest in the loop's next turns. */
#define BOX_SMALL_READ_BYTES (4 * 1024)
#define BOX_PIECE_BYTES      256
#define BOX_PIECE_US         50
#define BOX_STRANGER_BYTES   (16 * 1024)
#define BOX_SEND_BYTES       (64 * 1024)
#define BOX_FLUSH_BYTES      (256 * 1024)
/* What is still read from a peer that takes nothing: more than flow control lets a good one send.
 */
#define BOX_BLOCKED_READ_BYTES (BOX_CONNECTION_WINDOW_BYTES + 1024 * 1024)
/* A peer that takes no byte for this long, with bytes waiting, is gone; also the kernel's limit for
 * unacknowledged ones (TCP_USER_TIMEOUT). */
#define BOX_WRITE_STALL_SECONDS 60
/* After our last byte: how long the peer's last ones are read, so that closing does not reset. */
#define BOX_LINGER_SECONDS 1
/* How often open calls are asked about again: a stream ends that long after its token expired. */
#define BOX_RECHECK_SECONDS 60
/* Names in grpc.health.v1.Health: what its List may answer (grpc-conformance.md, 146). */
#define BOX_MAX_HEALTH_SERVICES 100

/* ListErrors: of one tenant (box-behaviour.md, section 17), and of all: some 300 bytes each, at
 * most 2 KiB. */
#define BOX_RECENT_ERRORS_PER_TENANT 50
#define BOX_RECENT_ERRORS            10000
/* Metadata box-request-id, as far as it is kept. */
#define BOX_MAX_REQUEST_ID_BYTES 128
/* Peer addresses whose failed authentications are counted, 32 bytes each. */
#define BOX_AUTH_PEERS 4096
/* Revoked and expired tokens of one tenant that can still be listed. */
#define BOX_MAX_ENDED_TOKENS 1000

/* Configuration files: a full one is about 8 KiB; lists hold that many entries unless their key
 * says otherwise. */
#define BOX_CONFIG_MAX_BYTES (256 * 1024)
#define BOX_CONFIG_MAX_ITEMS 256
#define BOX_CONFIG_MAX_PATH  1024

/* --- API -------------------------------------------------------------------------------------- */

#define BOX_MAX_ID_BYTES          256
#define BOX_MAX_LABELS            64
#define BOX_MAX_LABEL_KEY_BYTES   63
#define BOX_MAX_LABEL_VALUE_BYTES 256
#define BOX_DEFAULT_PAGE          100
#define BOX_MAX_PAGE              1000
/* A page of ListSessions ends early when names and labels have this much: with the rest of it, and
 * one session of 2 MiB more, it fits what a stock client accepts. */
#define BOX_LIST_PAGE_BYTES (1024 * 1024)

/* --- exec ------------------------------------------------------------------------------------- */

/* Linux: one argument at most 128 KiB including its NUL (MAX_ARG_STRLEN, execve(2)), and argv + env
 * together at most 2 MiB here, a quarter of the default 8 MiB stack limit. */
#define BOX_MAX_ARG_BYTES      (128 * 1024)
#define BOX_MAX_ARGV_ENV_BYTES (2 * 1024 * 1024)
#define BOX_MAX_ARGS           65536
#define BOX_MAX_ENV            65536
/* Command.timeout where it is absent, in every built-in profile. */
#define BOX_DEFAULT_TIMEOUT_SECONDS 30
/* What Exec keeps of each stream by default, and head : tail of it. */
#define BOX_DEFAULT_OUTPUT_LIMIT_BYTES (1024 * 1024)
#define BOX_OUTPUT_HEAD_PERCENT        60
/* Waiting for a session's slot. */
#define BOX_EXEC_QUEUE_DEPTH   32
#define BOX_EXEC_QUEUE_SECONDS 30
/* Largest max_parallel_execs of a session. */
#define BOX_MAX_PARALLEL_EXECS 64
/* Largest output_limit_bytes of a stream: two of them fit a message of BOX_MAX_MESSAGE_BYTES. */
#define BOX_MAX_OUTPUT_LIMIT_BYTES (7 * 1024 * 1024)
/* Part of BOX_MAX_ARGV_ENV_BYTES that Box's own variables and "/bin/sh -c" may take. */
#define BOX_BASE_ENV_BYTES 1024
/* Bytes of stdin that wait for a command; above it the caller is told to stop. */
#define BOX_STDIN_HIGH_WATER_BYTES (256 * 1024)
/* Ceiling of what waits: one whole request message more. */
#define BOX_STDIN_MAX_BYTES (BOX_MAX_MESSAGE_BYTES + BOX_STDIN_HIGH_WATER_BYTES)
/* Pipes of background processes that a session keeps open, unread, so that they do not die of
 * SIGPIPE; the oldest go first. */
#define BOX_MAX_HELD_PIPES 64
/* How much later than the agent boxd's own timer ends a command, and how much longer it then waits
 * before it calls the agent broken. */
#define BOX_EXEC_BACKUP_SECONDS 2
#define BOX_EXEC_BROKEN_SECONDS 10

/* --- tools ------------------------------------------------------------------------------------ */

/* Arguments of a tool as JSON: bytes, depth, and values, for each of which memory of about 100
 * bytes is taken. */
#define BOX_MAX_TOOL_JSON_BYTES  (8 * 1024 * 1024)
#define BOX_MAX_TOOL_JSON_DEPTH  32
#define BOX_MAX_TOOL_JSON_VALUES 65536
/* Longer ones are read by a worker, so that no loop waits for them: about 1 ms. */
#define BOX_TOOL_JSON_LOOP_BYTES (256 * 1024)
/* Tools there can be; tools and settings that a session can name. */
#define BOX_MAX_TOOLS 64
/* boxcli mcp: one message of the client, arguments of that size and what is around them; requests
 * under way; and how long those that are may go on once the client closed its end. */
#define BOX_MCP_LINE_BYTES    (BOX_MAX_TOOL_JSON_BYTES + 1024 * 1024)
#define BOX_MCP_MAX_REQUESTS  64
#define BOX_MCP_GRACE_SECONDS 1
/* CallToolRequest.call_id, and a description that a session gives a tool. */
#define BOX_MAX_CALL_ID_BYTES          128
#define BOX_MAX_TOOL_DESCRIPTION_BYTES 4096

/* --- sessions --------------------------------------------------------------------------------- */

/* Least memory limit of a sandbox: with less not even the smallest program of a Linux distribution
 * starts. */
#define BOX_MIN_MEMORY_BYTES (32 * 1024 * 1024)
/* The least of a managed process's own: a small program starts; the kernel's smallest CPU quota is
 * 1 ms of a 100 ms period. */
#define BOX_MIN_PROCESS_MEMORY_BYTES (4 * 1024 * 1024)
#define BOX_MIN_CPU_MILLIS           10
#define BOX_SESSION_IDLE_SECONDS     300
#define BOX_SESSION_LIFETIME_SECONDS (48 * 3600)
#define BOX_SESSION_RECORD_SECONDS   3600 /* how long a STOPPED record stays */
/* Live sessions by default: of all tenants, of one. */
#define BOX_MAX_SESSIONS            10000
#define BOX_MAX_SESSIONS_PER_TENANT 256
/* ResolveSessionId: what a template and its variables may have; a template of an agent has five
 * names and some text between them. */
#define BOX_MAX_ID_TEMPLATE_BYTES     1024
#define BOX_MAX_ID_TEMPLATE_VARIABLES 64
/* STOPPED and ERROR records of one tenant; the oldest goes when there is one more. */
#define BOX_MAX_SESSION_RECORDS 1024
/* Sessions and tenants that are looked at for one that makes room in a full server, under the
 * table's lock: some microseconds. The largest tenants come first. */
#define BOX_EVICT_LOOKS 256
/* Sandboxes kept ready for those to come (box.warm_pool): each costs what an idle session costs.
 * How many are made at once, so that callers' own creates find helpers; how long after the last
 * was taken the next is begun while half of them are there; and the pause after a failure, doubled
 * from the first to the second. */
#define BOX_MAX_WARM_POOL          64
#define BOX_POOL_MAKING            2
#define BOX_POOL_PAUSE_MS          20
#define BOX_POOL_RETRY_MS          200
#define BOX_POOL_MAX_RETRY_SECONDS 60
/* Files with CPU times that all sessions together keep open, two each, so that those that run one
 * command after another need not open them again. */
#define BOX_MAX_CPU_FILES 128
/* How often expired sessions are looked for. */
#define BOX_SESSION_SWEEP_MS 1000
/* Between SIGKILL to what runs and the removal of the sandbox, so that verdicts get out. */
#define BOX_SESSION_STOP_GRACE_MS 1000
/* WatchSessions at once, of all and of one tenant, and deletions kept for a slow watcher. */
#define BOX_MAX_SESSION_WATCHES            1024
#define BOX_MAX_SESSION_WATCHES_PER_TENANT 128
#define BOX_MAX_WATCH_DELETIONS            1024
/* Idempotency keys remembered: at once, and for how long after the call ended. */
#define BOX_MAX_IDEMPOTENCY_KEYS            16384
#define BOX_MAX_IDEMPOTENCY_KEYS_PER_TENANT 1024
#define BOX_IDEMPOTENCY_SECONDS             600
/* What boxd writes down of one persistent session: its environment and some. */
#define BOX_SESSION_RECORD_BYTES (4 * 1024 * 1024)
/* Changes of persistent sessions that wait for the database, and how many go into one transaction.
 */
#define BOX_LEDGER_MAX_WAITING 4096
#define BOX_LEDGER_BATCH       256
/* Pause before it is tried again to forget a session that is gone: the disk may be full. */
#define BOX_LEDGER_RETRY_SECONDS 5
/* When a persistent session was last used is written down this often at most. */
#define BOX_SESSION_TOUCH_SECONDS 10
/* How long drain waits for sandboxes to go; the next start removes the rest. */
#define BOX_SESSIONS_DRAIN_SECONDS 10

/* --- ports ------------------------------------------------------------------------------------ */

/* PortForward: connections of one session at once, those of one tenant. */
#define BOX_MAX_FORWARDS            128
#define BOX_MAX_FORWARDS_PER_TENANT 1024
/* SO_SNDBUF and SO_RCVBUF of each, which the kernel doubles: with all of them full they take half
 * of BOX_AGENT_MEMORY_BYTES, where they are charged. */
#define BOX_FORWARD_SOCKET_BYTES (32 * 1024)
/* Largest segment: a buffer must hold more than two of them, or every acknowledgement is delayed by
 * 40 ms, and 2 MB/s is all there is. Loopback's own 64 KiB would not fit. */
#define BOX_FORWARD_SEGMENT_BYTES (16 * 1024)
/* The agent gives up on a port whose program takes no connection (its queue is full) after this. */
#define BOX_FORWARD_CONNECT_SECONDS 10
/* PortForward's wait at most, and the pause between two tries meanwhile. */
#define BOX_MAX_FORWARD_WAIT_SECONDS 3600
#define BOX_FORWARD_RETRY_MS         50
/* Bytes that wait for the program inside; above it the caller is told to stop. Ceiling of what
 * waits: one whole request message more. */
#define BOX_FORWARD_HIGH_WATER_BYTES (256 * 1024)
#define BOX_FORWARD_MAX_BYTES        (BOX_MAX_MESSAGE_BYTES + BOX_FORWARD_HIGH_WATER_BYTES)
/* One message of PortForward: from the caller, to the caller. */
#define BOX_FORWARD_REQUEST_BYTES (1024 * 1024)
#define BOX_FORWARD_CHUNK_BYTES   (64 * 1024)

/* --- files ------------------------------------------------------------------------------------ */

/* File calls of one session at once: a process each. More wait, so many, for so long. */
#define BOX_FILES_MAX_WORKERS   4
#define BOX_FILES_QUEUE_DEPTH   64
#define BOX_FILES_QUEUE_SECONDS 30
/* How long a worker waits for the next call: the last one of its session, and others. */
#define BOX_FILES_IDLE_SECONDS  60
#define BOX_FILES_EXTRA_SECONDS 2
/* A piece of a file on its way. */
#define BOX_FILES_CHUNK_BYTES (64 * 1024)
/* How long a call may look for something by itself, and how much longer boxd waits for its answer;
 * then its worker hangs and is killed. */
#define BOX_FILES_LOOK_SECONDS   60
#define BOX_FILES_ANSWER_SECONDS 15
/* Uploads and downloads: how long the worker, and the caller, may let the other wait. */
#define BOX_FILES_HANG_SECONDS  60
#define BOX_FILES_STALL_SECONDS 300
/* A worker whose call was cancelled takes back what is half done; then it is killed. */
#define BOX_FILES_GRACE_SECONDS 2
/* How long a call waits for the agent to say why its worker ended: the agent kills one that does
 * not end within BOX_FILES_GRACE_SECONDS. */
#define BOX_FILES_WHY_SECONDS 10
/* ReadFile: content of one answer, at most and by default; lines or names. */
#define BOX_FILES_MAX_READ_BYTES     (4 * 1024 * 1024)
#define BOX_FILES_DEFAULT_READ_BYTES (50 * 1024)
#define BOX_FILES_MAX_LINES          10000
#define BOX_FILES_DEFAULT_LINES      2000
/* Behind the window lines are counted while no more than this is left. */
#define BOX_FILES_COUNT_BYTES (16 * 1024 * 1024)
/* EditFile: the file before and after. */
#define BOX_FILES_EDIT_BYTES (16 * 1024 * 1024)
#define BOX_FILES_DIFF_BYTES (64 * 1024)
/* What matches of Glob and Grep, or entries, may take in one answer: it fits what a stock client
 * accepts. */
#define BOX_FILES_ANSWER_BYTES (3 * 1024 * 1024)
/* What a file or line of an answer counts for besides its bytes. */
#define BOX_FILES_ITEM_COST   64
#define BOX_FILES_MAX_MATCHES 10000
/* A pattern of names: Glob's, and include and exclude of Grep. */
#define BOX_FILES_GLOB_BYTES 1024
/* Grep: files that are larger are skipped; lines are cut; context. */
#define BOX_FILES_GREP_FILE_BYTES    (64 * 1024 * 1024)
#define BOX_FILES_MAX_LINE_BYTES     65536
#define BOX_FILES_DEFAULT_LINE_BYTES 500
#define BOX_FILES_MAX_CONTEXT        20
#define BOX_FILES_GREP_SECONDS       10
/* Levels below the start of a walk: each has a descriptor open. */
#define BOX_FILES_MAX_DEPTH 256
/* Names a walk holds at once, of all levels; a directory with more is read several times. */
#define BOX_FILES_NAMES_BYTES (8 * 1024 * 1024)

/* --- agent and warden channels ---------------------------------------------------------------- */

/* Largest message sent inline; more goes in a sealed memfd (sandbox-facts.md, section 6: one
 * SEQPACKET message ends at about 212,960 bytes). */
#define BOX_CHANNEL_INLINE_BYTES (64 * 1024)
/* Answers of a warden: a create may load an image; a destroy may unmount. */
#define BOX_WARDEN_CREATE_SECONDS  60
#define BOX_WARDEN_DESTROY_SECONDS 30
#define BOX_WARDEN_ASK_SECONDS     10
/* How long GetSession waits for numbers, sending included: then it answers without them. */
#define BOX_WARDEN_USAGE_MS 1000
/* Requests that wait for one warden. */
#define BOX_WARDEN_MAX_REQUESTS 4096
/* Of one tenant: how many it is asked at once, fewer than BOX_WARDEN_MAX_HELPERS, so that others
 * need not wait for all of them; how many more wait in boxd. */
#define BOX_WARDEN_OPEN_PER_TENANT    6
#define BOX_WARDEN_WAITING_PER_TENANT 1024
/* After boxd started: how long answers about backends wait for the first HELLO of each warden
 * (a private boxd is asked at once; its warden needs milliseconds), and how often they look. */
#define BOX_WARDEN_FIRST_HELLO_MS 2000
#define BOX_WARDEN_FIRST_LOOK_MS  2
/* Pause before connecting again: doubled from the first to the second. */
#define BOX_WARDEN_RETRY_MS     100
#define BOX_WARDEN_MAX_RETRY_MS 5000
/* From connect to the agent's HELLO. */
#define BOX_AGENT_HELLO_SECONDS 10
/* From START to STARTED: starting takes under a millisecond, but a sandbox may have a hundredth of
 * a core, or a program on a slow disk. An agent that needs longer counts as lost. */
#define BOX_AGENT_STARTED_SECONDS 30
/* Packets that wait because an agent does not read; one more and it counts as broken. */
#define BOX_AGENT_MAX_QUEUE 2048
/* One packet of the agent channel. */
#define BOX_AGENT_PACKET_BYTES (128 * 1024)
/* How often boxd asks the warden again for a sandbox it adopted and got no answer about. */
#define BOX_ADOPT_RETRY_SECONDS 2

/* --- agent ------------------------------------------------------------------------------------ */

/* Commands of one sandbox at once, leftovers that live on included. */
#define BOX_AGENT_MAX_COMMANDS 1024
/* START without its STARTED. */
#define BOX_AGENT_MAX_STARTING 16
/* Of managed processes: the others are left for those that are asked for. */
#define BOX_AGENT_MAX_OWN_STARTING 8
/* A boxd that connects and says nothing gives the place up. */
#define BOX_BOXD_HELLO_SECONDS 10
/* From START to exec; then the command and the zygote are killed: a start takes 0.1 ms, an attack
 * on it some. Less than BOX_AGENT_STARTED_SECONDS, so that boxd hears of it. */
#define BOX_AGENT_START_SECONDS 10
/* The process that waits for the next command ends when none came for this long and none lives,
 * and is made again for the next, which costs that one 0.1 ms: an idle sandbox is a process and
 * some 40 KiB smaller. */
#define BOX_AGENT_STANDBY_MS 5000
/* EXIT waits this long for the leftovers' end. */
#define BOX_AGENT_KILL_SECONDS 5
/* First look whether a start has become the program, which nobody says; doubled to the next. Short
 * commands have ended by then. After one that had, the first look is later than the next tick of
 * kernels with 250 Hz: a nearer timer is programmed and taken back, an exit of a virtual machine
 * each, and 30 of the 290 microseconds of a small Exec. */
#define BOX_AGENT_LOOK_US       300
#define BOX_AGENT_LATER_LOOK_US 5000
/* Between looks at what is being started or killed; at most so often kept directories are looked
 * at, while something in them is being killed or not. */
#define BOX_AGENT_TICK_MS       20
#define BOX_AGENT_SWEEP_MS      100
#define BOX_AGENT_IDLE_SWEEP_MS 5000
/* An agent that no boxd is connected to for this long ends itself: a boxd that crashed is back by
 * then, or is not coming. A persistent session's waits as long as a session may live. */
#define BOX_AGENT_ORPHAN_SECONDS     60
#define BOX_AGENT_PERSISTENT_SECONDS BOX_SESSION_LIFETIME_SECONDS

/* Managed processes of one sandbox: at once with those that have ended, and of the latter. Each may
 * keep two journals of BOX_DEFAULT_JOURNAL_BYTES of the session's memory. */
#define BOX_MAX_PROCESSES       64
#define BOX_MAX_ENDED_PROCESSES 16
/* Starts that wait for the end of one process to take its place, one after the other. */
#define BOX_MAX_REPLACEMENTS 16
/* How long the record of one that ended stays, and its journals. */
#define BOX_PROCESS_RECORD_SECONDS 3600
#define BOX_MAX_PROCESS_ID_BYTES   64
/* One stream's journal. */
#define BOX_MIN_JOURNAL_BYTES     (64 * 1024)
#define BOX_DEFAULT_JOURNAL_BYTES (1024 * 1024)
#define BOX_MAX_JOURNAL_BYTES     (16 * 1024 * 1024)
/* Callers attached to one process: each keeps offsets, and what its stream has room for. */
#define BOX_MAX_ATTACHED 256
/* What boxd has the agent keep to show a process again: its spec, encoded. */
#define BOX_PROCESS_RECORD_BYTES (BOX_MAX_ARGV_ENV_BYTES + 64 * 1024)
/* Restarts: first and longest pause by default, and the run after which they are counted anew. */
#define BOX_RESTART_FIRST_MS         1000
#define BOX_RESTART_LONGEST_SECONDS  60
#define BOX_RESTART_GOOD_RUN_SECONDS 600
/* Between SIGTERM and SIGKILL: by default and at most. */
#define BOX_STOP_GRACE_SECONDS     5
#define BOX_MAX_STOP_GRACE_SECONDS 300
/* Readiness: the text looked for; between two tries; how long one command may take. */
#define BOX_READY_LINE_BYTES    1024
#define BOX_READY_INTERVAL_MS   1000
#define BOX_READY_PROBE_SECONDS 10
/* Read from one stream of a process before the agent looks at everything else. */
#define BOX_AGENT_READS_A_ROUND 8

/* --- warden ----------------------------------------------------------------------------------- */

/* boxd instances connected at once. */
#define BOX_WARDEN_MAX_CONNECTIONS 16
/* Requests of one kind or another that wait for a helper; more is BACKEND_UNAVAILABLE with a retry
 * after half a second. */
#define BOX_WARDEN_MAX_QUEUE 1024
/* Helpers at once: creates are mostly system calls, so a few a core keep them busy. */
#define BOX_WARDEN_MAX_HELPERS 8
/* Of them, those that remove sandboxes: nobody waits for most, and creates are not to wait for any.
 */
#define BOX_WARDEN_MAX_DESTROYERS 4
/* Helpers that wait for a create (and what boxd keeps in mind of them); each is two
 * processes, a network namespace and, on hybrid hosts, 13 control groups. */
#define BOX_WARDEN_MAX_STANDBYS 64
/* While half of them are there, the next is begun only when nothing was made or removed for this
 * long: it takes a processor for 3 ms from those who wait for an answer. */
#define BOX_WARDEN_QUIET_MS 3
/* A helper that runs longer hangs (a frozen cgroup, a dead disk): it is killed and the request
 * answered with an error. */
#define BOX_WARDEN_HELPER_SECONDS 30
/* Removal that failed is tried again after this long, for ever: giving up would lose track of it.
 */
#define BOX_WARDEN_RETRY_SECONDS 5
/* How long a starting warden waits for the lock of its state directory. */
#define BOX_WARDEN_LOCK_SECONDS 5
/* Answers that a boxd has not read; then its connection ends. */
#define BOX_WARDEN_MAX_UNSENT 4096
/* How long processes of a sandbox that were killed may take to die before a helper sees to it; a
 * helper of its own costs more than most need. */
#define BOX_WARDEN_DYING_MS 20
/* How long a private warden (--boxd-fd) works on removing its sandboxes once boxd is gone, and one
 * that gets SIGTERM on those that are to go. */
#define BOX_WARDEN_REMOVE_SECONDS 60
/* From the first process's clone to the agent's start; the usual is 1 ms. */
#define BOX_SANDBOX_SETUP_SECONDS 15
/* A killed sandbox is gone within this (498 processes took 52 ms: sandbox-facts.md, section 2). */
#define BOX_SANDBOX_KILL_SECONDS 10

/* Workspaces on disk: sizes kept ready and how many of each; the smallest and largest size. With
 * blocks of 4 KiB ext4 ends at 16 TiB, a sixteenth of which is inode tables. */
#define BOX_DISK_MAX_CLASSES 8
#define BOX_DISK_MAX_READY   64
#define BOX_DISK_MIN_BYTES   (INT64_C(1) << 20)
#define BOX_DISK_MAX_BYTES   (INT64_C(14) << 40)
/* A free loop device may be taken by others between finding and attaching it: tries. */
#define BOX_DISK_LOOP_TRIES 64
/* A ready one that was taken is replaced after this, behind the answer to its taker. */
#define BOX_DISK_FILL_MS 50
/* Advice to who finds no room. */
#define BOX_DISK_FULL_RETRY_MS 5000
/* How old what is known of the use of workspaces may be, when the disk is nearly full. */
#define BOX_DISK_LOOK_MS 1000
/* mke2fs for one size; the usual is 3 ms, 16 TiB take 1 s. */
#define BOX_DISK_MKFS_SECONDS 20

/* --- namespace backend ------------------------------------------------------------------------ */

/* The agent's own control group, or on v1 its room in that of the whole sandbox: its memory
 * includes the sandbox's network and mount namespaces (about 317 KiB: engines-here.md, section 8).
 */
#define BOX_AGENT_MEMORY_BYTES (32 * 1024 * 1024)
#define BOX_AGENT_PIDS         32
/* Processes in the commands' control group that are not the tenant's: zygote, the child of it that
 * waits for the next command, and the file worker that stays; what more of those there are for
 * moments count to the tenant's. */
#define BOX_SANDBOX_OWN_PIDS 3
/* ExecStreams with a terminal in one session, apart from its slots. */
#define BOX_SESSION_TERMINALS 8
/* What may still be read of a terminal whose command has ended: the kernel keeps up to 64 KiB of
 * output on its way (tty_buffer.c) and 4 KiB for the reader; what a process that still has it open
 * writes on top is not waited for. */
#define BOX_TERMINAL_HELD_BYTES (128 * 1024)
/* TERM of a command: bytes. */
#define BOX_TERM_BYTES 64
/* Terminals of one sandbox: those of commands and what tmux or script open. All sandboxes of a host
 * share kernel.pty.max - kernel.pty.reserve, by default 3072 (devpts, "max="). */
#define BOX_SANDBOX_TERMINALS 16
/* Files copied once from the host's /etc: number, size of one, size of all, depth. */
#define BOX_ETC_MAX_FILES      8192
#define BOX_ETC_MAX_FILE_BYTES (2 * 1024 * 1024)
#define BOX_ETC_MAX_BYTES      (32 * 1024 * 1024)
#define BOX_ETC_MAX_DEPTH      8
/* A writable / (read_only_rootfs false) is a tmpfs of this size. */
#define BOX_ROOT_BYTES (16 * 1024 * 1024)
