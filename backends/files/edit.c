/* EDIT: exact pieces of a file are replaced; all or none. */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "files/diff.h"
#include "files/put.h"
#include "files/sha256.h"

/* --- line ends -------------------------------------------------------------------------------- */

/* Does every line of it end with CR LF (and there is one)? */
static bool is_crlf(box_bytes b)
{
    bool any = false;
    for (const uint8_t *at = b.data, *end = b.data + b.len; at < end;) {
        const uint8_t *nl = memchr(at, '\n', (size_t)(end - at));
        if (nl == NULL)
            break;
        if (nl == b.data || nl[-1] != '\r')
            return false;
        any = true;
        at = nl + 1;
    }
    return any;
}

static bool has_bare_newline(box_bytes b)
{
    for (size_t i = 0; i < b.len; i++) {
        if (b.data[i] == '\n' && (i == 0 || b.data[i - 1] != '\r'))
            return true;
    }
    return false;
}

/* With a CR before each LF that has none. */
static int to_crlf(box_bytes b, box_buf *out, box_error *err)
{
    for (size_t i = 0; i < b.len; i++) {
        bool bare = b.data[i] == '\n' && (i == 0 || b.data[i - 1] != '\r');
        if (bare && box_buf_add(out, "\r", 1, err) < 0)
            return -1;
        if (box_buf_add(out, &b.data[i], 1, err) < 0)
            return -1;
    }
    return 0;
}

/* --- one edit --------------------------------------------------------------------------------- */

static size_t count(box_bytes in, box_bytes what, size_t most)
{
    size_t n = 0;
    if (in.len == 0)
        return 0;
    for (const uint8_t *at = in.data, *end = in.data + in.len; n < most;) {
        at = memmem(at, (size_t)(end - at), what.data, what.len);
        if (at == NULL)
            break;
        n++;
        at += what.len;
    }
    return n;
}

static int replace(const box_files_worker *w, box_bytes in, box_bytes old, box_bytes new,
                   box_buf *out, box_error *err)
{
    const uint8_t *at = in.data;
    const uint8_t *end = in.data + in.len;
    for (;;) {
        const uint8_t *hit = memmem(at, (size_t)(end - at), old.data, old.len);
        const uint8_t *stop = hit != NULL ? hit : end;
        if (box_buf_len(out) + (size_t)(stop - at) + new.len > BOX_FILES_EDIT_BYTES)
            return box_fail(err, BOX_FILE_CONFLICT, "%s would have more than %d bytes", w->path,
                            BOX_FILES_EDIT_BYTES);
        if (box_buf_add(out, at, (size_t)(stop - at), err) < 0)
            return -1;
        if (hit == NULL)
            return 0;
        if (box_buf_add(out, new.data, new.len, err) < 0)
            return -1;
        at = hit + old.len;
    }
}

static int find_once(const box_files_worker *w, box_bytes in, box_bytes old, bool all, size_t i,
                     size_t *hits, box_error *err)
{
    *hits = count(in, old, INT32_MAX);
    if (*hits == 0)
        return box_fail(err, BOX_FILE_CONFLICT, "edit %zu: its old_data is not in %s", i + 1,
                        w->path);
    if (*hits > 1 && !all)
        return box_fail(
            err, BOX_FILE_CONFLICT,
            "edit %zu: its old_data is %zu times in %s: give more of what is around it, "
            "or set replace_all",
            i + 1, *hits, w->path);
    return 0;
}

/* From `in` to `out`. Where the file has CR LF and the edit says only LF, the file's ends hold. */
static int do_edit(const box_files_worker *w, size_t i, box_bytes in, box_buf *out,
                   box_files_answer *a, box_error *err)
{
    const box_files_edit *e = &w->ask->edits[i];
    BOX_AUTO(box_buf_done) box_buf old_crlf = {.max_bytes = 2 * BOX_FILES_ASK_BYTES};
    BOX_AUTO(box_buf_done) box_buf new_crlf = {.max_bytes = 2 * BOX_FILES_ASK_BYTES};
    box_bytes old = e->old_data;
    box_bytes new = e->new_data;
    bool adapts = (has_bare_newline(old) || has_bare_newline(new)) && is_crlf(in);
    if (adapts && (to_crlf(old, &old_crlf, err) < 0 || to_crlf(new, &new_crlf, err) < 0))
        return -1;
    if (adapts) {
        old = (box_bytes){.data = box_buf_data(&old_crlf), .len = box_buf_len(&old_crlf)};
        new = (box_bytes){.data = box_buf_data(&new_crlf), .len = box_buf_len(&new_crlf)};
    }
    size_t hits;
    if (find_once(w, in, old, e->all, i, &hits, err) < 0 || replace(w, in, old, new, out, err) < 0)
        return -1;
    a->total += (int64_t)hits;
    return 0;
}

/* --- EDIT ------------------------------------------------------------------------------------- */

static int load(box_files_worker *w, box_buf *out, box_error *err)
{
    struct stat st;
    BOX_AUTO(box_closep) int fd = box_place_open(w, w->path, O_RDONLY);
    if (fd < 0 || fstat(fd, &st) < 0)
        return box_place_fail(err, "open", w->path);
    if (!S_ISREG(st.st_mode))
        return box_fail(err, BOX_FILE_CONFLICT, "%s is no regular file", w->path);
    if (st.st_size > BOX_FILES_EDIT_BYTES)
        return box_fail(err, BOX_FILE_CONFLICT, "%s has more than %d bytes", w->path,
                        BOX_FILES_EDIT_BYTES);
    for (;;) {
        ssize_t n = read(fd, w->room, BOX_FILES_ROOM_BYTES);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return box_place_fail(err, "read", w->path);
        if (n == 0)
            return 0;
        if (box_buf_len(out) + (size_t)n > BOX_FILES_EDIT_BYTES)
            return box_fail(err, BOX_FILE_CONFLICT, "%s grows while it is read", w->path);
        if (box_buf_add(out, w->room, (size_t)n, err) < 0 || box_files_step(w, err) < 0)
            return -1;
    }
}

static box_bytes all_of(const box_buf *b)
{
    return (box_bytes){.data = box_buf_data(b), .len = box_buf_len(b)};
}

static int edit_all(box_files_worker *w, const box_buf *from, box_buf *to, box_files_answer *a,
                    box_error *err)
{
    if (box_buf_add(to, box_buf_data(from), box_buf_len(from), err) < 0)
        return -1;
    for (uint32_t i = 0; i < w->ask->head.n_edits; i++) {
        BOX_AUTO(box_buf_done) box_buf next = {.max_bytes = BOX_FILES_EDIT_BYTES};
        if (do_edit(w, i, all_of(to), &next, a, err) < 0 || box_files_step(w, err) < 0)
            return -1;
        box_buf_done(to);
        *to = next;
        next = (box_buf){0};
    }
    return 0;
}

static int send_diff(box_files_worker *w, const box_buf *from, const box_buf *to,
                     box_files_answer *a, box_error *err)
{
    bool cut = false;
    BOX_AUTO(box_buf_done) box_buf diff = {.max_bytes = BOX_FILES_DIFF_BYTES};
    if (box_diff(all_of(from), all_of(to), w->path, BOX_FILES_DIFF_BYTES, &diff, &cut, err) < 0)
        return -1;
    a->flags |= cut ? BOX_FILES_TRUNCATED : 0;
    return box_files_send_data(w, box_buf_data(&diff), box_buf_len(&diff), err);
}

static void hash(box_bytes b, uint8_t out[BOX_FILES_SHA256])
{
    box_sha256 sha;
    box_sha256_init(&sha);
    box_sha256_add(&sha, b.data, b.len);
    box_sha256_end(&sha, out);
}

/* What was read must still be what is there when the new file takes its place. */
static int store(box_files_worker *w, const box_buf *from, const box_buf *to, box_error *err)
{
    uint8_t was[BOX_FILES_SHA256];
    BOX_AUTO(box_put_done) box_put put = {.fd = -1, .place = {.dir = -1}};
    hash(all_of(from), was);
    if (box_put_begin(w, w->path, BOX_PUT_REPLACE, -1, was, &put, err) < 0) {
        if (err->reason == BOX_DIGEST_MISMATCH)
            return box_fail(err, BOX_FILE_CONFLICT, "%s was changed by another meanwhile", w->path);
        return -1;
    }
    if (box_put_write(w, &put, box_buf_data(to), box_buf_len(to), err) < 0 ||
        box_put_commit(w, &put, err) < 0)
        return -1;
    return box_place_send_info(w, &put.place, w->path, err);
}

int box_files_do_edit(box_files_worker *w, box_files_answer *answer, box_error *err)
{
    const box_files_ask_head *h = &w->ask->head;
    uint8_t is[BOX_FILES_SHA256];
    BOX_AUTO(box_buf_done) box_buf from = {.max_bytes = BOX_FILES_EDIT_BYTES + 1};
    BOX_AUTO(box_buf_done) box_buf to = {.max_bytes = BOX_FILES_EDIT_BYTES + 1};
    if (load(w, &from, err) < 0)
        return -1;
    hash(all_of(&from), is);
    if (h->has_digest != 0 && memcmp(is, h->digest, sizeof is) != 0)
        return box_fail(err, BOX_DIGEST_MISMATCH, "%s has other content than expected_sha256",
                        w->path);
    if (edit_all(w, &from, &to, answer, err) < 0 || store(w, &from, &to, err) < 0)
        return -1;
    hash(all_of(&to), answer->sha256);
    answer->flags |= BOX_FILES_HAS_SHA256;
    return send_diff(w, &from, &to, answer, err);
}
