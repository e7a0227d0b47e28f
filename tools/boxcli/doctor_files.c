/* boxcli doctor: who may read and write the files that Box's safety hangs on. */
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "doctor.h"

#define STATE_DIR     "/var/lib/box"
#define WARDEN_CONFIG "/etc/box/warden-namespace.yaml"
#define SERVER_KEY    "/etc/box/server.key"
#define ADMIN_TOKEN   "/admin.token"

enum { FILES_PATH = 4096, MODE_BITS = 07777 };

static unsigned mode_of(const struct stat *st)
{
    return (unsigned)st->st_mode & MODE_BITS;
}

/* stat(2), with what its failing means for a file that somebody named, or that is only usual. */
static bool look(doctor_row *row, const char *path, bool named, const char *option, struct stat *st)
{
    if (stat(path, st) == 0)
        return true;
    if (errno == EACCES) {
        doctor_skip(row, "%s: you may not look at it", path);
    } else if (!named) {
        doctor_skip(row, "%s: not there; %s names another", path, option);
    } else {
        doctor_fail(row, "%s: %s", path, strerror(errno));
        doctor_fix(row, "name one that exists with %s", option);
    }
    return false;
}

/* --- the token -------------------------------------------------------------------------------- */

static const char *token_file(const doctor *d)
{
    return doctor_setting(d->cli->token_file, "BOX_TOKEN_FILE");
}

static bool is_empty_file(const char *path)
{
    char byte;
    BOX_AUTO(box_closep) int fd = open(path, O_RDONLY | O_CLOEXEC);
    return fd >= 0 && read(fd, &byte, 1) == 0;
}

static void check_token_file(doctor *d, const doctor_check *check, doctor_row *row)
{
    (void)check;
    struct stat st;
    const char *path = token_file(d);
    if (path == NULL) {
        doctor_skip(row, "none named by --token-file or BOX_TOKEN_FILE");
        return;
    }
    if (!look(row, path, true, "--token-file or BOX_TOKEN_FILE", &st))
        return;
    if ((mode_of(&st) & 077) != 0) {
        doctor_fail(row, "%s: mode %04o, others may use the token", path, mode_of(&st));
        doctor_fix(row, "chmod 600 %s, and make a new token where others were here", path);
    } else if (is_empty_file(path)) {
        doctor_fail(row, "%s: empty", path);
        doctor_fix(row, "boxcli token create --scope ... >%s", path);
    } else {
        doctor_ok(row, "%s: mode %04o", path, mode_of(&st));
    }
}

/* --- boxd's ----------------------------------------------------------------------------------- */

/* Named, or that of the administrator's token, or the installed one. */
static bool state_dir(const doctor *d, char out[FILES_PATH])
{
    const char *token = token_file(d);
    size_t tail = strlen(ADMIN_TOKEN);
    size_t len = token != NULL ? strlen(token) : 0;
    bool from_token = len > tail && strcmp(token + len - tail, ADMIN_TOKEN) == 0;
    if (d->state_dir != NULL)
        (void)snprintf(out, FILES_PATH, "%s", d->state_dir);
    else if (from_token)
        (void)snprintf(out, FILES_PATH, "%.*s", (int)(len - tail), token);
    else
        (void)snprintf(out, FILES_PATH, "%s", STATE_DIR);
    return d->state_dir != NULL || from_token;
}

static void check_state_dir(doctor *d, const doctor_check *check, doctor_row *row)
{
    (void)check;
    struct stat st;
    char path[FILES_PATH];
    bool named = state_dir(d, path);
    if (!look(row, path, named, "--state-dir", &st))
        return;
    if (!S_ISDIR(st.st_mode)) {
        doctor_fail(row, "%s: not a directory", path);
        doctor_fix(row, "name boxd's state_dir with --state-dir");
    } else if ((mode_of(&st) & 077) != 0) {
        doctor_fail(row, "%s: mode %04o, others may look at tokens and keys", path, mode_of(&st));
        doctor_fix(row, "chmod 700 %s", path);
    } else {
        doctor_ok(row, "%s: mode %04o, of uid %u", path, mode_of(&st), (unsigned)st.st_uid);
    }
}

/* A group may read a key (root:box 0640); nobody else. */
static bool key_is_open(const struct stat *st)
{
    return (mode_of(st) & 037) != 0;
}

static void check_key(doctor_row *row, const char *path, const struct stat *st)
{
    if (!key_is_open(st)) {
        doctor_ok(row, "%s: mode %04o", path, mode_of(st));
        return;
    }
    doctor_fail(row, "%s: mode %04o, others may use or change the key", path, mode_of(st));
    doctor_fix(row, "chmod 600 %s, and make a new key where others were here", path);
}

static void check_server_key(doctor *d, const doctor_check *check, doctor_row *row)
{
    (void)check;
    struct stat st;
    char dir[FILES_PATH];
    char path[FILES_PATH + 16];
    (void)state_dir(d, dir);
    (void)snprintf(path, sizeof path, "%s/server.key", dir);
    if (stat(SERVER_KEY, &st) == 0)
        check_key(row, SERVER_KEY, &st);
    else if (stat(path, &st) == 0)
        check_key(row, path, &st);
    else
        doctor_skip(row, "neither %s nor %s can be looked at", SERVER_KEY, path);
}

static void check_client_key(doctor *d, const doctor_check *check, doctor_row *row)
{
    (void)check;
    struct stat st;
    const char *path = doctor_setting(d->cli->key, "BOX_KEY");
    if (path == NULL)
        path = doctor_setting(d->cli->cert, "BOX_CERT"); /* which then holds both */
    if (path == NULL)
        doctor_skip(row, "none named by --key or BOX_KEY");
    else if (look(row, path, true, "--key or BOX_KEY", &st))
        check_key(row, path, &st);
}

/* --- the warden's ----------------------------------------------------------------------------- */

/* Who may write a file, or put another one in its place, is root to the machine. */
static bool is_roots_alone(const struct stat *st)
{
    bool sticky = S_ISDIR(st->st_mode) && (st->st_mode & S_ISVTX) != 0;
    return st->st_uid == 0 && ((mode_of(st) & 022) == 0 || sticky);
}

static void check_warden_config(doctor *d, const doctor_check *check, doctor_row *row)
{
    (void)check;
    struct stat st;
    struct stat folder;
    const char *path = d->warden_config != NULL ? d->warden_config : WARDEN_CONFIG;
    if (!look(row, path, d->warden_config != NULL, "--warden-config", &st))
        return;
    BOX_AUTO(box_freep) char *copy = box_strdup(path);
    const char *dir = dirname(copy);
    if (!is_roots_alone(&st)) {
        doctor_fail(row, "%s: uid %u, mode %04o: who may change it is root here", path,
                    (unsigned)st.st_uid, mode_of(&st));
        doctor_fix(row, "chown root %s && chmod go-w %s", path, path);
    } else if (stat(dir, &folder) == 0 && !is_roots_alone(&folder)) {
        doctor_fail(row, "%s: uid %u, mode %04o: others may replace what is in it", dir,
                    (unsigned)folder.st_uid, mode_of(&folder));
        doctor_fix(row, "chown root %s && chmod go-w %s", dir, dir);
    } else {
        doctor_ok(row, "%s: root's, mode %04o", path, mode_of(&st));
    }
}

const doctor_check doctor_file_checks[] = {
    {.name = "token file", .run = check_token_file},
    {.name = "client key", .run = check_client_key},
    {.name = "state directory", .run = check_state_dir},
    {.name = "server key", .run = check_server_key},
    {.name = "warden configuration", .run = check_warden_config},
    {0},
};
