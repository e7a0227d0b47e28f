#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/id.h"
#include "base/limits.h"
#include "box/v1/file.client.h"
#include "cp.h"

/* A file or directory below the local one, never through a link. */
static int open_local(int dir, const char *name, int flags)
{
    struct open_how how = {.flags = (uint64_t)(uint32_t)(flags | O_CLOEXEC),
                           .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS};
    return box_fd_open_how(dir, name, &how);
}

static int receive(box_client_call *call, int fd, int *permissions, box_error *err)
{
    bool done = false;
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

static int download(cli_copy *cp, char *source, int fd, int *permissions)
{
    box_error err;
    box_client_call *call = NULL;
    Box__V1__DownloadFileRequest request;
    box__v1__download_file_request__init(&request);
    request.session_id = cp->session;
    request.path = source;
    box_client_options o = cli_copy_stream_options(cp->c);
    if (box_v1_file_service_download_file(cp->c->channel, &o, &request, &call, &err) < 0)
        return cli_copy_fail(cp, &err);
    int rc = receive(call, fd, permissions, &err);
    box_client_free(call);
    return rc < 0 ? cli_copy_fail(cp, &err) : 0;
}

/* Beside its place first: a copy that breaks off leaves what was there. The name is new, so that
 * nobody who can write here has made the file before. */
static int get_file(cli_copy *cp, char *source, int dir, const char *name)
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
        return cli_copy_complain(cp, "cannot write", name);
    int rc = download(cp, source, fd, &permissions);
    if (rc == 0 && (fchmod(fd, (mode_t)permissions) < 0 || renameat(dir, temporary, dir, name) < 0))
        rc = cli_copy_complain(cp, "cannot write", name);
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

static int get_tree(cli_copy *cp, char *source, int dir, const char *name, int depth);

static int get_entry(cli_copy *cp, const char *dir_path, Box__V1__FileInfo *info, int dir,
                     int depth)
{
    char path[CLI_COPY_NAME_BYTES];
    const char *name = last_name(info->path);
    if (name == NULL || cli_copy_join(dir_path, name, path) < 0) {
        cli_copy_say("a name in ", dir_path, " cannot be one here: left out");
        cp->failed = true;
        return 0;
    }
    if (info->kind == BOX__V1__FILE_KIND__FILE_KIND_DIRECTORY)
        return get_tree(cp, path, dir, name, depth + 1);
    if (info->kind == BOX__V1__FILE_KIND__FILE_KIND_REGULAR)
        return get_file(cp, path, dir, name);
    cli_copy_say("", path, " is no regular file: left out");
    return 0;
}

static int get_page(cli_copy *cp, char *source, int dir, int depth, char **token)
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
        return cli_copy_fail(cp, &err);
    for (size_t i = 0; i < r->n_entries; i++) {
        if (get_entry(cp, source, r->entries[i], dir, depth) < 0)
            rc = -1;
    }
    if (r->next_page_token[0] != '\0')
        *token = strdup(r->next_page_token);
    return rc;
}

static int get_tree(cli_copy *cp, char *source, int dir, const char *name, int depth)
{
    if (depth > CLI_COPY_DEPTH) {
        errno = ELOOP;
        return cli_copy_complain(cp, "cannot copy", source);
    }
    if (mkdirat(dir, name, 0755) < 0 && errno != EEXIST)
        return cli_copy_complain(cp, "cannot make", name);
    BOX_AUTO(box_closep) int own = open_local(dir, name, O_RDONLY | O_DIRECTORY);
    if (own < 0)
        return cli_copy_complain(cp, "cannot enter", name);
    char *token = NULL;
    int rc = 0;
    do {
        rc |= get_page(cp, source, own, depth, &token);
    } while (token != NULL);
    return rc;
}

/* Splits a local target into its directory (opened) and a name. */
static int open_parent(cli_copy *cp, const char *target, char name[256])
{
    char dir[CLI_COPY_NAME_BYTES];
    const char *last = cli_copy_local_name(target);
    size_t len = strcspn(last, "/");
    if (len == 0 || len > 255 || last - target >= CLI_COPY_NAME_BYTES) {
        errno = EINVAL;
        return cli_copy_complain(cp, "cannot write", target);
    }
    memcpy(name, last, len);
    name[len] = '\0';
    (void)snprintf(dir, sizeof dir, "%.*s", (int)(last - target), target);
    int fd = open(dir[0] != '\0' ? dir : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 ? cli_copy_complain(cp, "cannot enter", dir[0] != '\0' ? dir : ".") : fd;
}

int cli_copy_out(cli_copy *cp, char *source, const char *target)
{
    char name[256];
    int ignored = 0;
    struct stat st;
    bool there;
    if (strcmp(target, "-") == 0)
        return download(cp, source, STDOUT_FILENO, &ignored);
    bool tree = cli_copy_is_directory(cp, source, &there);
    if (cp->failed)
        return -1;
    if (tree && !cp->recursive) {
        errno = EISDIR;
        return cli_copy_complain(cp, "without -r", source);
    }
    BOX_AUTO(box_closep) int dir = -1;
    if (stat(target, &st) == 0 && S_ISDIR(st.st_mode)) {
        const char *last = last_name(source);
        dir = open(target, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (dir < 0)
            return cli_copy_complain(cp, "cannot enter", target);
        if (last == NULL || strlen(last) > 255) {
            errno = EINVAL;
            return cli_copy_complain(cp, "cannot name", source);
        }
        (void)snprintf(name, sizeof name, "%s", last);
    } else {
        dir = open_parent(cp, target, name);
    }
    if (dir < 0)
        return -1;
    return tree ? get_tree(cp, source, dir, name, 0) : get_file(cp, source, dir, name);
}
