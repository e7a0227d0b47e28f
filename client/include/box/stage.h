/* For callers that take a project of their own machine into a session: the files of a folder, as
 * they are now (box_stage_scan), and a copy of them inside (box_stage_put). box/project.h says
 * which folder, and what its paths are called inside.
 *
 * Not taken: folders of version control (.git, .hg, .svn, .bzr, CVS), of caches (__pycache__,
 * .mypy_cache, .pytest_cache, .ruff_cache, .cache, .tmp, .tox, .nox), and virtual environments (a
 * folder called .venv, venv, env or .env that holds pyvenv.cfg): they are made anew inside. A link
 * to a file of the project is taken as that file. Any other link, and what is neither file nor
 * folder, is left out and counted; no link leads out of the folder. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "box/channel.h"

#ifdef __cplusplus
extern "C" {
#endif

struct box_client_options; /* box/call.h */

/* The most one scan takes; beyond it fails with QUOTA. */
#define BOX_STAGE_MAX_ENTRIES 20000
#define BOX_STAGE_MAX_BYTES   (512LL * 1024 * 1024)
#define BOX_STAGE_MAX_DEPTH   64
/* "ab12..": hexadecimal SHA-256. */
#define BOX_STAGE_HASH_TEXT 65

typedef struct box_stage box_stage;

/* Reads every file once. root: an existing folder; where a link leads there it is the link's.
 * FILE_NOT_FOUND, PERMISSION (something in it cannot be read), QUOTA. */
int box_stage_scan(const char *root, box_stage **out, box_error *err) BOX_MUST_USE;
void box_stage_free(box_stage *stage);
void box_stage_freep(box_stage **stage);

/* The real path of the folder. */
const char *box_stage_root(const box_stage *stage);
/* Of names, contents and who may execute: two folders that are the same have the same. */
const char *box_stage_hash(const box_stage *stage);
/* A file of that path ("requirements.txt") is taken. */
bool box_stage_has(const box_stage *stage, const char *path);
size_t box_stage_files(const box_stage *stage);
int64_t box_stage_bytes(const box_stage *stage);
/* How much is left out; *example is one of it (borrowed). */
size_t box_stage_left_out(const box_stage *stage, const char **example);

/* Makes `target` (absolute, its parents are made too) in a session that exists: whole or not at
 * all. One that is there already stays as it is and counts as this copy: name it by the hash. Two
 * at once do no harm. *made (may be NULL): this call made it. options: of each of many calls, NULL
 * for none. Errors: those of FileService; DIGEST_MISMATCH: a file changed since it was scanned. */
int box_stage_put(const box_stage *stage, box_channel *channel,
                  const struct box_client_options *options, const char *session_id,
                  const char *target, bool *made, box_error *err) BOX_MUST_USE;

#ifdef __cplusplus
}
#endif
