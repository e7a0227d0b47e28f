/* Glob, Grep and ListDirectory. */
#include "base/alloc.h"
#include "base/id.h"
#include "base/utf8.h"
#include "service/file_job.h"
#include "service/file_methods.h"
#include "service/page.h"
#include "service/session_convert.h"

/* --- what Glob and Grep share ----------------------------------------------------------------- */

static int convert_list(const char *const *from, size_t count, const char *field, box_bytes *to,
                        uint32_t *n, box_error *err)
{
    if (count > BOX_FILES_MAX_LIST)
        return box_violation(err, field, "has more than %d entries", (int)BOX_FILES_MAX_LIST);
    for (size_t i = 0; i < count; i++) {
        size_t len = strlen(from[i]);
        if (len == 0 || len > BOX_FILES_MAX_PATTERN)
            return box_violation(err, field, "entry %zu: needs 1 to %d bytes", i,
                                 (int)BOX_FILES_MAX_PATTERN);
        to[i] = (box_bytes){.data = (const uint8_t *)from[i], .len = len};
    }
    *n = (uint32_t)count;
    return 0;
}

/* Directories that hold what others made; box-behaviour.md, section 14. */
static int convert_skip(const Box__V1__SkipList *skip, box_files_ask *ask, box_error *err)
{
    static const char *const standard[] = {".git", "node_modules", "__pycache__", ".venv",
                                           "venv", ".tox",         "dist",        "build"};
    if (skip != NULL)
        return convert_list((const char *const *)skip->names, skip->n_names, "skip", ask->skip,
                            &ask->head.n_skip, err);
    return convert_list(standard, BOX_COUNT(standard), "skip", ask->skip, &ask->head.n_skip, err);
}

static int convert_pattern(const char *pattern, size_t most, box_bytes *out, box_error *err)
{
    size_t len = strlen(pattern);
    if (len == 0 || len > most)
        return box_violation(err, "pattern", "needs 1 to %zu bytes", most);
    *out = (box_bytes){.data = (const uint8_t *)pattern, .len = len};
    return 0;
}

static Box__V1__FileInfo **infos_of(const box_file_job *job)
{
    Box__V1__FileInfo **list = box_alloc_array(job->n_infos + 1, sizeof *list);
    for (size_t i = 0; i < job->n_infos; i++)
        list[i] = &job->infos[i]->message;
    return list;
}

/* --- Glob ------------------------------------------------------------------------------------- */

static void answer_glob(box_file_job *job, const box_files_answer *a)
{
    Box__V1__GlobResponse response;
    box__v1__glob_response__init(&response);
    BOX_AUTO(box_freep) Box__V1__FileInfo **infos = infos_of(job);
    response.matches = infos;
    response.n_matches = job->n_infos;
    response.total = a->total;
    response.truncated = (a->flags & BOX_FILES_TRUNCATED) != 0;
    response.truncated_by = (Box__V1__TruncatedBy)a->cut; /* the same numbers */
    box_v1_file_service_glob_answer(job->call, &response);
}

static int convert_glob(const Box__V1__GlobRequest *r, box_files_ask *ask, box_error *err)
{
    box_files_ask_head *h = &ask->head;
    h->op = BOX_FILES_GLOB;
    h->flags = r->exclude_hidden ? BOX_FILES_NO_HIDDEN : 0;
    h->time_ns = BOX_FILES_GREP_SECONDS * BOX_SECOND;
    int bad = convert_pattern(r->pattern, 1024, &ask->pattern, err);
    bad |= box_file_convert_path(r->path, &r->path_bytes, true, "path", &ask->path, err);
    bad |= box_file_convert_count(r->max_matches, 100, BOX_FILES_MAX_MATCHES, "max_matches",
                                  &h->max_items, err);
    bad |= convert_skip(r->skip, ask, err);
    if (r->kind < 0 || r->kind >= (int)BOX_FILES_KIND_END)
        bad |= box_violation(err, "kind", "is no known value");
    h->kind = (uint32_t)r->kind;
    return bad;
}

int box_file_glob(box_call *call, const Box__V1__GlobRequest *r, box_error *err)
{
    BOX_AUTO(box_freep) box_files_ask *ask = box_alloc(sizeof *ask);
    if (convert_glob(r, ask, err) < 0)
        return -1;
    BOX_AUTO(box_file_job_freep) box_file_job *job = box_file_job_new(call, answer_glob);
    return box_file_job_run(&job, r->session_id,
                            &(box_file_request){.ask = ask, .empty_path = true}, err);
}

/* --- Grep ------------------------------------------------------------------------------------- */

/* The matches with the lines around them. */
typedef struct found {
    Box__V1__GrepMatch *matches;
    Box__V1__GrepMatch **pointers;
    Box__V1__GrepLine **lines; /* pointers to all lines; each match has a part of it before and one
                                  after it */
    size_t count;
} found;

static void found_done(found *f)
{
    free(f->matches);
    free(f->pointers);
    free(f->lines);
}

static void set_path(Box__V1__GrepMatch *m, const box_file_line *l)
{
    if (box_utf8_valid(l->path, l->path_len))
        m->path = l->path;
    else
        m->path_bytes = (ProtobufCBinaryData){.data = (uint8_t *)l->path, .len = l->path_len};
}

/* Lines come in order: those before a match, the match, those after it. */
static void gather(const box_file_job *job, found *f)
{
    f->matches = box_alloc_array(job->n_lines + 1, sizeof *f->matches);
    f->pointers = box_alloc_array(job->n_lines + 1, sizeof *f->pointers);
    f->lines = box_alloc_array(job->n_lines + 1, sizeof *f->lines);
    size_t before = 0; /* lines that wait for their match */
    for (size_t i = 0; i < job->n_lines; i++) {
        box_file_line *l = &job->lines[i];
        f->lines[i] = &l->message;
        if (l->place == BOX_FILES_BEFORE) {
            before++;
        } else if (l->place == BOX_FILES_MATCH) {
            Box__V1__GrepMatch *m = &f->matches[f->count];
            box__v1__grep_match__init(m);
            f->pointers[f->count++] = m;
            set_path(m, l);
            m->line = &l->message;
            m->byte_offset = l->offset;
            m->before = f->lines + i - before;
            m->n_before = before;
            m->after = f->lines + i + 1;
            before = 0;
        } else if (f->count > 0 && before == 0) {
            f->matches[f->count - 1].n_after++;
        }
    }
}

static void answer_grep(box_file_job *job, const box_files_answer *a)
{
    BOX_AUTO(found_done) found f = {0};
    Box__V1__GrepResponse response;
    box__v1__grep_response__init(&response);
    gather(job, &f);
    response.matches = f.pointers;
    response.n_matches = f.count;
    response.total = a->total;
    response.searched_files = a->searched;
    response.skipped_files = a->skipped;
    response.truncated = (a->flags & BOX_FILES_TRUNCATED) != 0;
    response.truncated_by = (Box__V1__TruncatedBy)a->cut;
    box_v1_file_service_grep_answer(job->call, &response);
}

static int convert_context(int32_t asked, const char *field, uint32_t *out, box_error *err)
{
    if (asked < 0 || asked > BOX_FILES_MAX_CONTEXT)
        return box_violation(err, field, "must be 0 to %d", BOX_FILES_MAX_CONTEXT);
    *out = (uint32_t)asked;
    return 0;
}

static int convert_time(const Google__Protobuf__Duration *d, uint64_t *out, box_error *err)
{
    int64_t ns = 0;
    *out = BOX_FILES_GREP_SECONDS * BOX_SECOND;
    if (d == NULL)
        return 0;
    if (!box_times_positive(d, BOX_FILES_LOOK_SECONDS, &ns))
        return box_violation(err, "time_limit", "must be more than 0 and at most %d s",
                             BOX_FILES_LOOK_SECONDS);
    *out = (uint64_t)ns;
    return 0;
}

static uint32_t grep_flags(const Box__V1__GrepRequest *r)
{
    return (r->ignore_case ? BOX_FILES_IGNORE_CASE : 0) | (r->literal ? BOX_FILES_LITERAL : 0) |
           (r->search_binary ? BOX_FILES_BINARY : 0) |
           (r->exclude_hidden ? BOX_FILES_NO_HIDDEN : 0);
}

static int convert_grep(const Box__V1__GrepRequest *r, box_files_ask *ask, box_error *err)
{
    box_files_ask_head *h = &ask->head;
    h->op = BOX_FILES_GREP;
    h->flags = grep_flags(r);
    int bad = convert_pattern(r->pattern, BOX_FILES_MAX_PATTERN, &ask->pattern, err);
    bad |= box_file_convert_path(r->path, &r->path_bytes, true, "path", &ask->path, err);
    bad |= convert_list((const char *const *)r->include, r->n_include, "include", ask->include,
                        &h->n_include, err);
    bad |= convert_list((const char *const *)r->exclude, r->n_exclude, "exclude", ask->exclude,
                        &h->n_exclude, err);
    bad |= convert_skip(r->skip, ask, err);
    bad |= convert_context(r->before_lines, "before_lines", &h->before, err);
    bad |= convert_context(r->after_lines, "after_lines", &h->after, err);
    bad |= box_file_convert_count(r->max_matches, 200, BOX_FILES_MAX_MATCHES, "max_matches",
                                  &h->max_items, err);
    bad |= box_file_convert_count(r->max_line_bytes, BOX_FILES_DEFAULT_LINE_BYTES,
                                  BOX_FILES_MAX_LINE_BYTES, "max_line_bytes", &h->max_bytes, err);
    bad |= convert_time(r->time_limit, &h->time_ns, err);
    return bad;
}

int box_file_grep(box_call *call, const Box__V1__GrepRequest *r, box_error *err)
{
    BOX_AUTO(box_freep) box_files_ask *ask = box_alloc(sizeof *ask);
    if (convert_grep(r, ask, err) < 0)
        return -1;
    BOX_AUTO(box_file_job_freep) box_file_job *job = box_file_job_new(call, answer_grep);
    return box_file_job_run(&job, r->session_id,
                            &(box_file_request){.ask = ask, .empty_path = true}, err);
}

/* --- ListDirectory ---------------------------------------------------------------------------- */

/* A page's token: what it is bound to, and the path (below the directory) it ends with; as
 * hexadecimal. */
enum { TOKEN_BYTES = sizeof(uint64_t) + BOX_FILES_MAX_PATH };

/* The last entry's path below the directory that was asked for. */
static box_bytes below(const box_file_job *job, const Box__V1__FileInfo *last)
{
    box_bytes path = last->path_bytes.len > 0 ? box_file_bytes(&last->path_bytes)
                                              : (box_bytes){.data = (const uint8_t *)last->path,
                                                            .len = strlen(last->path)};
    size_t skip = job->prefix_len;
    while (skip < path.len && path.data[skip] == '/')
        skip++;
    return skip < path.len ? (box_bytes){.data = path.data + skip, .len = path.len - skip}
                           : (box_bytes){0};
}

static char *token_of(const box_file_job *job)
{
    uint8_t bytes[TOKEN_BYTES];
    box_bytes path = below(job, &job->infos[job->n_infos - 1]->message);
    memcpy(bytes, &job->binding, sizeof job->binding);
    memcpy(bytes + sizeof job->binding, path.data, path.len);
    char *token = box_alloc(2 * sizeof bytes + 1);
    box_hex(bytes, sizeof job->binding + path.len, token);
    return token;
}

static void answer_list(box_file_job *job, const box_files_answer *a)
{
    Box__V1__ListDirectoryResponse response;
    box__v1__list_directory_response__init(&response);
    BOX_AUTO(box_freep) Box__V1__FileInfo **infos = infos_of(job);
    BOX_AUTO(box_freep) char *token = NULL;
    response.entries = infos;
    response.n_entries = job->n_infos;
    if ((a->flags & BOX_FILES_TRUNCATED) != 0 && job->n_infos > 0)
        response.next_page_token = token = token_of(job);
    box_v1_file_service_list_directory_answer(job->call, &response);
}

/* Everything of the request but the page. */
static uint64_t binding_of(const Box__V1__ListDirectoryRequest *r, const char *tenant)
{
    Box__V1__ListDirectoryRequest filter = *r;
    uint8_t digest[32];
    filter.page_size = 0;
    filter.page_token = (char *)(uintptr_t)protobuf_c_empty_string;
    box_convert_digest(&filter.base, digest);
    return box_page_binding("directory", tenant, digest, sizeof digest);
}

/* "/" and the path behind which the page begins, into out; none for the first. */
static int parse_token(const char *token, uint64_t binding, char *out, box_bytes *target,
                       box_error *err)
{
    uint8_t bytes[TOKEN_BYTES];
    size_t len = strlen(token);
    size_t head = sizeof binding;
    if (len == 0)
        return 0;
    if (len % 2 != 0 || len / 2 <= head || len / 2 > sizeof bytes - 1 ||
        !box_unhex(token, bytes, len / 2) || memcmp(bytes, &binding, head) != 0 ||
        memchr(bytes + head, '\0', len / 2 - head) != NULL)
        return box_violation(err, "page_token",
                             "is not next_page_token of an answer to this request");
    out[0] = '/';
    memcpy(out + 1, bytes + head, len / 2 - head);
    *target = (box_bytes){.data = (const uint8_t *)out, .len = 1 + len / 2 - head};
    return 0;
}

int box_file_list_directory(box_call *call, const Box__V1__ListDirectoryRequest *r, box_error *err)
{
    enum { MAX_LEVELS = 32 };
    BOX_AUTO(box_freep) box_files_ask *ask = box_alloc(sizeof *ask);
    BOX_AUTO(box_file_job_freep) box_file_job *job = box_file_job_new(call, answer_list);
    char after[BOX_FILES_MAX_PATH + 1];
    const char *tenant;
    size_t size = 0;
    if (box_convert_tenant(call, &tenant, err) < 0)
        return -1;
    job->binding = binding_of(r, tenant);
    ask->head.op = BOX_FILES_LIST;
    ask->head.flags = r->exclude_hidden ? BOX_FILES_NO_HIDDEN : 0;
    int bad = box_file_convert_path(r->path, &r->path_bytes, false, "path", &ask->path, err);
    bad |= box_page_size(r->page_size, &size, err);
    bad |= parse_token(r->page_token, job->binding, after, &ask->target, err);
    if (r->depth < 0 || r->depth > MAX_LEVELS)
        bad |= box_violation(err, "depth", "must be 0 to %d", (int)MAX_LEVELS);
    if (bad != 0)
        return -1;
    ask->head.max_items = (int64_t)size;
    ask->head.depth = (uint32_t)r->depth;
    return box_file_job_run(&job, r->session_id, &(box_file_request){.ask = ask}, err);
}
