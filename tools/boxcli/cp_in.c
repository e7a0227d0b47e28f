#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "box/upload.h"
#include "cp.h"

static int upload(cli_copy *cp, int fd, const char *name, char *target, int permissions)
{
    box_error err;
    Box__V1__UploadFileStart start;
    BOX_AUTO(cli_message_freep) Box__V1__UploadFileResponse *r = NULL;
    box__v1__upload_file_start__init(&start);
    start.session_id = cp->session;
    start.path = target;
    if (permissions >= 0)
        box__v1__upload_file_start__set_permissions(&start, permissions);
    box_client_options o = cli_copy_stream_options(cp->c);
    if (box_upload(cp->c->channel, &o, &start, fd, name, &r, &err) < 0)
        return cli_copy_fail(cp, &err);
    return cp->c->json ? cli_print_json(cp->c, &r->base) : 0;
}

static int make_remote(cli_copy *cp, char *path)
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
        return cli_copy_fail(cp, &err);
    return 0;
}

static int put_tree(cli_copy *cp, int dir, char *target, int depth);

/* One name below a local directory. Links are not followed, and not made. */
static int put_entry(cli_copy *cp, int dir, const char *name, char *target, int depth)
{
    struct stat st;
    BOX_AUTO(box_closep) int fd =
        openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0 && errno == ELOOP) {
        cli_copy_say("", name, " is a link: left out");
        return 0;
    }
    if (fd < 0 || fstat(fd, &st) < 0)
        return cli_copy_complain(cp, "cannot read", name);
    if (S_ISDIR(st.st_mode))
        return put_tree(cp, fd, target, depth + 1);
    if (!S_ISREG(st.st_mode)) {
        cli_copy_say("", name, " is no regular file: left out");
        return 0;
    }
    return upload(cp, fd, name, target, (int)(st.st_mode & 0777));
}

static void closedirp(DIR **d)
{
    if (*d != NULL)
        (void)closedir(*d);
}

static int put_tree(cli_copy *cp, int dir, char *target, int depth)
{
    int own = fcntl(dir, F_DUPFD_CLOEXEC, 0);
    BOX_AUTO(closedirp) DIR *d = own < 0 ? NULL : fdopendir(own);
    if (d == NULL)
        return cli_copy_complain(cp, "cannot read", target);
    if (depth > CLI_COPY_DEPTH) {
        errno = ELOOP;
        return cli_copy_complain(cp, "cannot copy", target);
    }
    if (make_remote(cp, target) < 0)
        return -1;
    int rc = 0;
    for (const struct dirent *e; (e = readdir(d)) != NULL;) {
        char path[CLI_COPY_NAME_BYTES];
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        if (cli_copy_join(target, e->d_name, path) < 0)
            rc = cli_copy_complain(cp, "cannot name", e->d_name);
        else if (put_entry(cp, dirfd(d), e->d_name, path, depth) < 0)
            rc = -1;
    }
    return rc;
}

int cli_copy_in(cli_copy *cp, const char *source, char *target)
{
    char inside[CLI_COPY_NAME_BYTES];
    struct stat st;
    bool there;
    if (strcmp(source, "-") == 0)
        return upload(cp, STDIN_FILENO, "stdin", target, -1);
    BOX_AUTO(box_closep) int fd = open(source, O_RDONLY | O_NOCTTY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0)
        return cli_copy_complain(cp, "cannot read", source);
    if (S_ISDIR(st.st_mode) && !cp->recursive) {
        errno = EISDIR;
        return cli_copy_complain(cp, "without -r", source);
    }
    bool into = cli_copy_is_directory(cp, target, &there);
    if (cp->failed)
        return -1;
    if (into) {
        if (cli_copy_join(target, cli_copy_local_name(source), inside) < 0)
            return cli_copy_complain(cp, "cannot name", source);
        char *slash = strchr(inside + strlen(target) + 1, '/');
        if (slash != NULL)
            *slash = '\0'; /* of "dir/" */
        target = inside;
    }
    return S_ISDIR(st.st_mode) ? put_tree(cp, fd, target, 0)
                               : upload(cp, fd, source, target, (int)(st.st_mode & 0777));
}
