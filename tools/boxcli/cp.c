/* boxcli cp: files and trees between this machine and a session. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "args.h"
#include "base/alloc.h"
#include "base/fd.h"
#include "base/id.h"
#include "base/limits.h"
#include "box/upload.h"

enum { MAX_DEPTH = 256, NAME_BYTES = 4096 };

typedef struct copy {
    cli *c;
    char *session;
    bool recursive;
    bool failed; /* something was left out; the rest goes on */
} copy;

/* A name goes to a terminal, and a sandbox may have chosen it. */
static void say(const char *before, const char *name, const char *behind)
{
    BOX_AUTO(box_freep) char *shown = box_strdup(name);
    fprintf(stderr, "boxcli: %s%s%s\n", before, cli_clean(shown), behind);
}

static int complain(copy *cp, const char *what, const char *path)
{
    const char *why = strerror(errno);
    char before[64];
    char behind[128];
    (void)snprintf(before, sizeof before, "%s ", what);
    (void)snprintf(behind, sizeof behind, ": %s", why);
    say(before, path, behind);
    cp->failed = true;
    return -1;
}

static int fail(copy *cp, const box_error *err)
{
    BOX_IGNORE(cli_fail(cp->c, err)); /* the exit code is cp's */
    cp->failed = true;
    return -1;
}

/* Streams take as long as they need. */
static box_client_options stream_options(const cli *c)
{
    box_client_options o = cli_options(c);
    o.timeout_ns = 0;
    return o;
}

/* --- to the session --------------------------------------------------------------------------- */

static int upload(copy *cp, int fd, const char *name, char *target, int permissions)
{
    box_error err;
    Box__V1__UploadFileStart start;
    BOX_AUTO(cli_message_freep) Box__V1__UploadFileResponse *r = NULL;
    box__v1__upload_file_start__init(&start);
    start.session_id = cp->session;
    start.path = target;
    if (permissions >= 0)
        box__v1__upload_file_start__set_permissions(&start, permissions);
    box_client_options o = stream_options(cp->c);
    if (box_upload(cp->c->channel, &o, &start, fd, name, &r, &err) < 0)
        return fail(cp, &err);
    return cp->c->json ? cli_print_json(cp->c, &r->base) : 0;
}

static int make_remote(copy *cp, char *path)
{
    box_error err;
    Box__V1__MakeDirectoryRequest request;
    box__v1__make_directory_request__init(&request);
    BOX_AUTO(cli_message_freep) Box__V1__MakeDirectoryResponse *r = NULL;
    request.session_id = cp->session;
    request.path = path;
    request.parents = true;
    box_client_options o = cli_options(cp->c);
    if (box_v1_file_service_make_directory(cp->c->channel, &o, &request, &r, &err) < 0)
        return fail(cp, &err);
    return 0;
}

static int put_tree(copy *cp, int dir, char *target, int depth);

/* One name below a local directory. Links are not followed, and not made. */
static int put_entry(copy *cp, int dir, const char *name, char *target, int depth)
{
    struct stat st;
    BOX_AUTO(box_closep) int fd =
        openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0 && errno == ELOOP) {
        say("", name, " is a link: left out");
        return 0;
    }
    if (fd < 0 || fstat(fd, &st) < 0)
        return complain(cp, "cannot read", name);
    if (S_ISDIR(st.st_mode))
        return put_tree(cp, fd, target, depth + 1);
    if (!S_ISREG(st.st_mode)) {
        say("", name, " is no regular file: left out");
        return 0;
    }
    return upload(cp, fd, name, target, (int)(st.st_mode & 0777));
}

static int join(const char *dir, const char *name, char out[NAME_BYTES])
{
    int n = snprintf(out, NAME_BYTES, "%s/%s", dir, name);
    errno = ENAMETOOLONG;
    return n > 0 && n < NAME_BYTES ? 0 : -1;
}

static void closedirp(DIR **d)
{
    if (*d != NULL)
        (void)closedir(*d);
}

static int put_tree(copy *cp, int dir, char *target, int depth)
{
    int own = fcntl(dir, F_DUPFD_CLOEXEC, 0);
    BOX_AUTO(closedirp) DIR *d = own < 0 ? NULL : fdopendir(own);
    if (d == NULL || depth > MAX_DEPTH)
        return complain(cp, "cannot read", target);
    if (make_remote(cp, target) < 0)
        return -1;
    int rc = 0;
    for (const struct dirent *e; (e = readdir(d)) != NULL;) {
        char path[NAME_BYTES];
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        if (join(target, e->d_name, path) < 0)
            rc = complain(cp, "cannot name", e->d_name);
        else if (put_entry(cp, dirfd(d), e->d_name, path, depth) < 0)
            rc = -1;
    }
    return rc;
}

/* --- from the session ------------------------------------------------------------------------- */

/* A file or directory below the local one, never through a link. */
static int open_local(int dir, const char *name, int flags)
{
    struct open_how how = {.flags = (uint64_t)(uint32_t)(flags | O_CLOEXEC),
                           .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS};
    return (int)syscall(SYS_openat2, dir, name, &how, sizeof how);
}

static int receive(copy *cp, box_client_call *call, int fd, int *permissions, box_error *err)
{
    bool done = false;
    (void)cp;
    for (;;) {
        BOX_AUTO(cli_message_freep) Box__V1__DownloadFileResponse *m = NULL;
        int rc = box_v1_file_service_download_file_receive(call, &m, err);
        if (rc < 0)
            return -1;
        if (rc == 0)
            return done ? 0 : box_fail(err, BOX_PROTOCOL, "the file ended early");
        if (m->response_case == BOX__V1__DOWNLOAD_FILE_RESPONSE__RESPONSE_STARTED &&
            m->started->info != NULL)
            *permissions = m->started->info->permissions & 0777;
        done = m->response_case == BOX__V1__DOWNLOAD_FILE_RESPONSE__RESPONSE_DONE;
        if (m->response_case == BOX__V1__DOWNLOAD_FILE_RESPONSE__RESPONSE_DATA &&
            box_fd_write_all(fd, m->data.data, m->data.len, err) < 0)
            return -1;
    }
}

static int download(copy *cp, char *source, int fd, int *permissions)
{
    box_error err;
    box_client_call *call = NULL;
    Box__V1__DownloadFileRequest request;
    box__v1__download_file_request__init(&request);
    request.session_id = cp->session;
    request.path = source;
    box_client_options o = stream_options(cp->c);
    if (box_v1_file_service_download_file(cp->c->channel, &o, &request, &call, &err) < 0)
        return fail(cp, &err);
    int rc = receive(cp, call, fd, permissions, &err);
    box_client_free(call);
    return rc < 0 ? fail(cp, &err) : 0;
}

/* Beside its place first: a copy that breaks off leaves what was there. The name is new, so that
 * nobody who can write here has made the file before. */
static int get_file(copy *cp, char *source, int dir, const char *name)
{
    char uid[BOX_UID_TEXT];
    char temporary[BOX_UID_TEXT + 16];
    int permissions = 0644;
    box_uid random = box_uid_new();
    box_uid_text(&random, uid);
    (void)snprintf(temporary, sizeof temporary, ".boxcli-%s", uid);
    BOX_AUTO(box_closep) int fd =
        openat(dir, temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return complain(cp, "cannot write", name);
    int rc = download(cp, source, fd, &permissions);
    if (rc == 0 && (fchmod(fd, (mode_t)permissions) < 0 || renameat(dir, temporary, dir, name) < 0))
        rc = complain(cp, "cannot write", name);
    if (rc < 0)
        (void)unlinkat(dir, temporary, 0);
    return rc;
}

/* The last name of a path that the sandbox chose: it must be a name, or it could lead anywhere. */
static const char *last_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash != NULL ? slash + 1 : path;
    bool good = name[0] != '\0' && strcmp(name, ".") != 0 && strcmp(name, "..") != 0;
    return good ? name : NULL;
}

static int get_tree(copy *cp, char *source, int dir, const char *name, int depth);

static int get_entry(copy *cp, const char *dir_path, Box__V1__FileInfo *info, int dir, int depth)
{
    char path[NAME_BYTES];
    const char *name = last_name(info->path);
    if (name == NULL || join(dir_path, name, path) < 0) {
        say("a name in ", dir_path, " cannot be one here: left out");
        cp->failed = true;
        return 0;
    }
    if (info->kind == BOX__V1__FILE_KIND__FILE_KIND_DIRECTORY)
        return get_tree(cp, path, dir, name, depth + 1);
    if (info->kind == BOX__V1__FILE_KIND__FILE_KIND_REGULAR)
        return get_file(cp, path, dir, name);
    say("", path, " is no regular file: left out");
    return 0;
}

static int get_page(copy *cp, char *source, int dir, int depth, char **token)
{
    box_error err;
    Box__V1__ListDirectoryRequest request;
    box__v1__list_directory_request__init(&request);
    BOX_AUTO(cli_message_freep) Box__V1__ListDirectoryResponse *r = NULL;
    request.session_id = cp->session;
    request.path = source;
    request.page_size = BOX_MAX_PAGE;
    if (*token != NULL)
        request.page_token = *token;
    box_client_options o = cli_options(cp->c);
    int rc = box_v1_file_service_list_directory(cp->c->channel, &o, &request, &r, &err);
    free(*token);
    *token = NULL;
    if (rc < 0)
        return fail(cp, &err);
    for (size_t i = 0; i < r->n_entries; i++) {
        if (get_entry(cp, source, r->entries[i], dir, depth) < 0)
            rc = -1;
    }
    if (r->next_page_token[0] != '\0')
        *token = strdup(r->next_page_token);
    return rc;
}

static int get_tree(copy *cp, char *source, int dir, const char *name, int depth)
{
    if (depth > MAX_DEPTH) {
        errno = ELOOP;
        return complain(cp, "cannot copy", source);
    }
    if (mkdirat(dir, name, 0755) < 0 && errno != EEXIST)
        return complain(cp, "cannot make", name);
    BOX_AUTO(box_closep) int own = open_local(dir, name, O_RDONLY | O_DIRECTORY);
    if (own < 0)
        return complain(cp, "cannot enter", name);
    char *token = NULL;
    int rc = 0;
    do {
        rc |= get_page(cp, source, own, depth, &token);
    } while (token != NULL);
    return rc;
}

/* --- cp --------------------------------------------------------------------------------------- */

/* "SESSION:PATH": a colon before the first slash. Cuts the word in two; NULL for a local path. */
static char *remote_part(char *text, char **session)
{
    char *colon = strchr(text, ':');
    const char *slash = strchr(text, '/');
    if (colon == NULL || colon == text || (slash != NULL && slash < colon))
        return NULL;
    *colon = '\0';
    *session = text;
    return colon[1] != '\0' ? colon + 1 : (char *)(uintptr_t) ".";
}

static bool is_directory_remote(copy *cp, char *path, bool *there)
{
    box_error err;
    Box__V1__StatFileRequest request;
    box__v1__stat_file_request__init(&request);
    BOX_AUTO(cli_message_freep) Box__V1__StatFileResponse *r = NULL;
    request.session_id = cp->session;
    request.path = path;
    request.follow_symlink = true;
    box_client_options o = cli_options(cp->c);
    *there = box_v1_file_service_stat_file(cp->c->channel, &o, &request, &r, &err) == 0;
    if (!*there && err.reason != BOX_FILE_NOT_FOUND)
        (void)fail(cp, &err); /* always -1 */
    return *there && r->info != NULL && r->info->kind == BOX__V1__FILE_KIND__FILE_KIND_DIRECTORY;
}

/* A local path's last name, of "a/b/" and "." too. */
static const char *local_name(const char *path)
{
    size_t len = strlen(path);
    while (len > 1 && path[len - 1] == '/')
        len--;
    size_t at = len;
    while (at > 0 && path[at - 1] != '/')
        at--;
    return path + at;
}

static int copy_in(copy *cp, const char *source, char *target)
{
    char inside[NAME_BYTES];
    struct stat st;
    bool there;
    if (strcmp(source, "-") == 0)
        return upload(cp, STDIN_FILENO, "stdin", target, -1);
    BOX_AUTO(box_closep) int fd = open(source, O_RDONLY | O_NOCTTY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0)
        return complain(cp, "cannot read", source);
    if (S_ISDIR(st.st_mode) && !cp->recursive) {
        errno = EISDIR;
        return complain(cp, "without -r", source);
    }
    bool into = is_directory_remote(cp, target, &there);
    if (cp->failed)
        return -1;
    if (into) {
        if (join(target, local_name(source), inside) < 0)
            return complain(cp, "cannot name", source);
        char *slash = strchr(inside + strlen(target) + 1, '/');
        if (slash != NULL)
            *slash = '\0'; /* of "dir/" */
        target = inside;
    }
    return S_ISDIR(st.st_mode) ? put_tree(cp, fd, target, 0)
                               : upload(cp, fd, source, target, (int)(st.st_mode & 0777));
}

/* Splits a local target into its directory (opened) and a name. */
static int open_parent(copy *cp, const char *target, char name[256])
{
    char dir[NAME_BYTES];
    const char *last = local_name(target);
    size_t len = strcspn(last, "/");
    if (len == 0 || len > 255 || last - target >= NAME_BYTES) {
        errno = EINVAL;
        return complain(cp, "cannot write", target);
    }
    memcpy(name, last, len);
    name[len] = '\0';
    (void)snprintf(dir, sizeof dir, "%.*s", (int)(last - target), target);
    int fd = open(dir[0] != '\0' ? dir : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 ? complain(cp, "cannot enter", dir[0] != '\0' ? dir : ".") : fd;
}

static int copy_out(copy *cp, char *source, const char *target)
{
    char name[256];
    int ignored = 0;
    struct stat st;
    bool there;
    if (strcmp(target, "-") == 0)
        return download(cp, source, STDOUT_FILENO, &ignored);
    bool tree = is_directory_remote(cp, source, &there);
    if (cp->failed)
        return -1;
    if (tree && !cp->recursive) {
        errno = EISDIR;
        return complain(cp, "without -r", source);
    }
    BOX_AUTO(box_closep) int dir = -1;
    if (stat(target, &st) == 0 && S_ISDIR(st.st_mode)) {
        const char *last = last_name(source);
        dir = open(target, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (dir < 0 || last == NULL || strlen(last) > 255)
            return complain(cp, "cannot enter", target);
        (void)snprintf(name, sizeof name, "%s", last);
    } else {
        dir = open_parent(cp, target, name);
    }
    if (dir < 0)
        return -1;
    return tree ? get_tree(cp, source, dir, name, 0) : get_file(cp, source, dir, name);
}

typedef struct cp_args {
    cli_words words;
    bool recursive;
} cp_args;

static error_t parse(int key, char *arg, struct argp_state *state)
{
    cp_args *a = state->input;
    if (key == 'r') {
        a->recursive = true;
        return 0;
    }
    return cli_words_take(&a->words, key, arg, state);
}

static int run(cli *c, int argc, char **argv)
{
    static const struct argp_option options[] = {
        {.name = "recursive", .key = 'r', .doc = "directories with all that is in them"}, {0}};
    static const char doc[] = "SOURCE TARGET";
    const struct argp parser = {
        .options = options,
        .parser = parse,
        .args_doc = doc,
        .doc =
            "Copies between this machine and a session; one of the two is SESSION:PATH, and - is "
            "stdin or stdout. Links are left out."};
    cp_args a = {.words = {.doc = doc, .min = 2, .max = 2}};
    cli_parse(&parser, argc, argv, &a);
    copy cp = {.c = c, .recursive = a.recursive};
    char *source = remote_part(a.words.word[0], &cp.session);
    char *target = source == NULL ? remote_part(a.words.word[1], &cp.session) : NULL;
    if (source == NULL && target == NULL) {
        fprintf(stderr, "boxcli: cp: one of both must be SESSION:PATH\n");
        return CLI_MISUSED;
    }
    if (cli_connect(c) < 0)
        return CLI_FAILED;
    int rc = source != NULL ? copy_out(&cp, source, a.words.word[1])
                            : copy_in(&cp, a.words.word[0], target);
    return rc < 0 || cp.failed ? CLI_FAILED : CLI_OK;
}

const cli_command cli_cp_commands[] = {
    {"cp", NULL, "copy files and trees to and from a session", run},
    {0},
};
