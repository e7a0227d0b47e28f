/* boxd <-> box-files: file calls of one sandbox, done inside it as the commands' user.
 *
 * box-files is a static program (glibc and PCRE2) that the agent starts when boxd asks for one: a
 * process per call that runs, kept for the next call while it is healthy. Its one socket is a
 * STREAM pair that boxd made; the other end went to the agent with FILES and is descriptor
 * BOX_FILES_SOCKET_FD here. It lives in the hostile sandbox with the rights of its user, so boxd
 * takes nothing it says for true, only within limits: every frame is checked by wire.h.
 *
 * Frames in both directions: a box_files_frame, then `size` bytes. Host byte order (one machine),
 * exact sizes. The worker's first frame is HELLO. Then, as often as boxd likes, one call at a time:
 *
 *     boxd    ASK                        [DATA* END: the content, of PUT only]
 *     worker  (INFO | LINE | DATA)*      ANSWER
 *
 * Boxd need not wait for HELLO. PUT may be answered with an error before END; what still comes of
 * its content is read and dropped, so the worker is good for another call once END was sent.
 * Back-pressure is not reading: who does not read makes the other wait in its write.
 *
 * Cancelling a call is closing the socket: the worker looks for that between small steps, takes
 * back what is half done (a file is put in place by one rename or link, at its end) and ends. One
 * that does not end is killed by the agent (BOX_AGENT_FILES_STOP).
 *
 * Paths are absolute, without NUL, at most BOX_FILES_MAX_PATH bytes, and mean what they mean to a
 * command of the sandbox: links are followed inside its root by openat2, magic links never. Walks
 * do not follow links. A name is bytes. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/limits.h"

enum {
    BOX_FILES_VERSION = 1,
    BOX_FILES_SOCKET_FD = 3,
    BOX_FILES_MAX_PATH = 4095,    /* PATH_MAX without its NUL */
    BOX_FILES_MAX_PATTERN = 4096, /* of Grep; Glob's are shorter */
    BOX_FILES_MAX_LIST = 64,      /* include, exclude, skip, edits */
    BOX_FILES_SHA256 = 32,
};

typedef enum box_files_type {
    BOX_FILES_ASK = 1,    /* boxd: a call */
    BOX_FILES_DATA = 2,   /* both: content */
    BOX_FILES_END = 3,    /* boxd: the content is whole and good */
    BOX_FILES_HELLO = 4,  /* worker: uint32_t version */
    BOX_FILES_INFO = 5,   /* worker: a file */
    BOX_FILES_LINE = 6,   /* worker: a line that Grep found, or one beside it */
    BOX_FILES_ANSWER = 7, /* worker: the call's end */
} box_files_type;

typedef struct box_files_frame {
    uint32_t type;
    uint32_t size; /* of what follows */
} box_files_frame;

typedef enum box_files_op {
    BOX_FILES_STAT = 1, /* INFO, ANSWER; so for all but those: */
    BOX_FILES_READ,     /* INFO, DATA*, ANSWER */
    BOX_FILES_PUT,      /* INFO, ANSWER */
    BOX_FILES_EDIT,     /* INFO, DATA* (the diff), ANSWER */
    BOX_FILES_GLOB,     /* INFO*, ANSWER */
    BOX_FILES_GREP,     /* LINE*, ANSWER */
    BOX_FILES_LIST,     /* INFO*, ANSWER */
    BOX_FILES_MKDIR,    /* INFO, ANSWER */
    BOX_FILES_REMOVE,   /* ANSWER */
    BOX_FILES_MOVE,     /* INFO, ANSWER */
    BOX_FILES_GET,      /* INFO, DATA*, ANSWER */
    BOX_FILES_OP_END,
} box_files_op;

enum {
    BOX_FILES_FOLLOW = 1 << 0,        /* STAT: what a last link points to */
    BOX_FILES_TEXT = 1 << 1,          /* READ: lines of UTF-8 */
    BOX_FILES_BY_OFFSET = 1 << 2,     /* READ with TEXT: from offset, not from start_line */
    BOX_FILES_PARENTS = 1 << 3,       /* PUT, MKDIR, MOVE: make missing directories */
    BOX_FILES_NO_HIDDEN = 1 << 4,     /* GLOB, GREP, LIST */
    BOX_FILES_IGNORE_CASE = 1 << 5,   /* GREP */
    BOX_FILES_LITERAL = 1 << 6,       /* GREP */
    BOX_FILES_BINARY = 1 << 7,        /* GREP: also files that look like no text */
    BOX_FILES_RECURSIVE = 1 << 8,     /* REMOVE */
    BOX_FILES_ALLOW_MISSING = 1 << 9, /* REMOVE */
    BOX_FILES_REPLACE = 1 << 10,      /* MOVE: what is there; PUT: it may exist */
    BOX_FILES_APPEND = 1 << 11,       /* PUT: behind what is there */
    BOX_FILES_ALL_FLAGS = (1 << 12) - 1,
};

/* The kinds of box.v1.FileKind, by the same numbers. */
typedef enum box_files_kind {
    BOX_FILES_ANY = 0,
    BOX_FILES_REGULAR,
    BOX_FILES_DIRECTORY,
    BOX_FILES_SYMLINK,
    BOX_FILES_FIFO,
    BOX_FILES_SOCKET,
    BOX_FILES_DEVICE,
    BOX_FILES_KIND_END,
} box_files_kind;

/* The fixed part of a call; what an op does not use is 0. */
typedef struct box_files_ask_head {
    uint32_t op;
    uint32_t flags;
    int32_t permissions; /* -1: not asked for; at most 0777 */
    uint32_t kind;       /* GLOB: only this */
    uint32_t depth;      /* LIST: levels below */
    uint32_t before;     /* GREP: lines of context */
    uint32_t after;
    uint32_t n_include;
    uint32_t n_exclude;
    uint32_t n_skip;
    uint32_t n_edits;
    uint32_t has_digest; /* PUT, EDIT: `digest` is what the present content must have */
    int64_t offset;      /* READ, GET: first byte */
    int64_t start_line;  /* READ: from 1 */
    int64_t max_items;   /* lines, names, matches, entries */
    int64_t max_bytes;   /* READ: of content; GET: 0 = all; GREP: of a line */
    uint64_t time_ns;    /* how long it may look for something; 0 = no bound */
    uint8_t digest[BOX_FILES_SHA256];
} box_files_ask_head;

typedef struct box_files_edit {
    box_bytes old_data;
    box_bytes new_data;
    bool all;
} box_files_edit;

/* A call. Built by boxd with borrowed bytes; parsed, it borrows from the frame. */
typedef struct box_files_ask {
    box_files_ask_head head;
    box_bytes path;
    box_bytes target;  /* MOVE: the new path; LIST: the path to go on behind, or empty */
    box_bytes pattern; /* GLOB, GREP */
    box_bytes include[BOX_FILES_MAX_LIST]; /* GREP; patterns of GLOB's kind */
    box_bytes exclude[BOX_FILES_MAX_LIST];
    box_bytes skip[BOX_FILES_MAX_LIST]; /* GLOB, GREP: names of directories not to enter */
    box_files_edit edits[BOX_FILES_MAX_LIST];
} box_files_ask;

/* What a file is. */
typedef struct box_files_info_head {
    uint32_t kind;
    uint32_t permissions; /* at most 07777 */
    uint32_t uid;
    uint32_t gid;
    int64_t size_bytes;
    int64_t allocated_bytes;
    int64_t links;
    int64_t modified_ns; /* since 1970 */
    int64_t changed_ns;
} box_files_info_head;

typedef struct box_files_info {
    box_files_info_head head;
    box_bytes path;   /* absolute */
    box_bytes target; /* of a link, as it is written */
} box_files_info;

typedef enum box_files_place {
    BOX_FILES_BEFORE = 1,
    BOX_FILES_MATCH,
    BOX_FILES_AFTER
} box_files_place;

typedef struct box_files_line_head {
    uint32_t place; /* box_files_place: BEFORE belongs to the MATCH that comes, AFTER to the last */
    uint32_t cut;   /* 1: the line is longer */
    int64_t number; /* from 1 */
    int64_t offset; /* MATCH: of its first matching byte in the file; else 0 */
} box_files_line_head;

typedef struct box_files_line {
    box_files_line_head head;
    box_bytes path; /* MATCH only */
    box_bytes text; /* UTF-8, without its end */
} box_files_line;

enum {
    BOX_FILES_CREATED = 1,     /* PUT, MKDIR: it was not there */
    BOX_FILES_TRUNCATED = 2,   /* something is missing */
    BOX_FILES_REPLACED = 4,    /* READ: some bytes were no UTF-8 */
    BOX_FILES_IS_BINARY = 8,   /* READ: it looks like no text */
    BOX_FILES_PAST_END = 16,   /* READ */
    BOX_FILES_HAS_SHA256 = 32, /* PUT of APPEND has none */
    BOX_FILES_ANSWER_FLAGS = 63,
};

/* The numbers of box.v1.TruncatedBy. */
typedef enum box_files_cut {
    BOX_FILES_CUT_NONE = 0,
    BOX_FILES_CUT_LINES,
    BOX_FILES_CUT_BYTES,
    BOX_FILES_CUT_ENTRIES,
    BOX_FILES_CUT_MATCHES,
    BOX_FILES_CUT_SCAN,
    BOX_FILES_CUT_TIME,
    BOX_FILES_CUT_LINE_LENGTH,
    BOX_FILES_CUT_END,
} box_files_cut;

/* How a call ended. With error.reason other than NONE the rest says nothing. */
typedef struct box_files_answer {
    uint32_t flags;
    uint32_t cut;        /* box_files_cut */
    int64_t total;       /* GLOB, GREP: matches; READ: entries of a directory; LIST: entries sent;
                          * REMOVE: names; EDIT: replacements */
    int64_t searched;    /* GREP: files */
    int64_t skipped;     /* GREP: files */
    int64_t bytes;       /* GET, PUT: of content */
    int64_t offset;      /* READ: of the first byte in the answer */
    int64_t next_offset; /* READ: 0 = the end */
    int64_t start_line;  /* READ with TEXT */
    int64_t end_line;
    int64_t next_line;   /* 0: the end, or inside a line */
    int64_t total_lines; /* -1: not known */
    uint8_t sha256[BOX_FILES_SHA256];
    box_error error;
} box_files_answer;
