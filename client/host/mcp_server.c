#include "box/mcp_server.h"

#include <openssl/evp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/id.h"
#include "box/project.h"
#include "box/v1/file.client.h"
#include "box/v1/process.client.h"
#include "mcp.h"

/* Digits of a hash in names: enough that two projects of one caller do not meet. */
enum { TIMEOUT_SECONDS = 300, TARGET_DIGITS = 32, NAME_DIGITS = 8, SPEC_DIGITS = 12, TRIES = 3 };

/* --- for all steps ---------------------------------------------------------------------------- */

void box_mcp_note(const box_mcp *m, const char *fmt, ...)
{
    char *text = NULL;
    va_list args;
    if (m->server->note == NULL)
        return;
    va_start(args, fmt);
    int n = vasprintf(&text, fmt, args);
    va_end(args);
    if (n < 0)
        return;
    m->server->note(m->server->note_arg, text);
    free(text);
}

void box_mcp_free_message(void *message)
{
    if (message != NULL)
        protobuf_c_message_free_unpacked(message, NULL);
}

Google__Protobuf__Duration *box_mcp_left(const box_mcp *m, Google__Protobuf__Duration *out)
{
    uint64_t left = box_time_left(m->options.deadline_ns, box_now());
    google__protobuf__duration__init(out);
    out->seconds = (int64_t)(left / BOX_SECOND);
    out->nanos = (int32_t)(left % BOX_SECOND);
    if (left == 0)
        out->nanos = 1; /* zero is no time that a call takes; the call's own deadline ends it */
    return out;
}

/* Hexadecimal SHA-256 of a list of texts, NULs between them. */
static void hash_texts(const char *const *texts, size_t n, char out[BOX_STAGE_HASH_TEXT])
{
    uint8_t hash[32] = {0};
    size_t len = 0;
    for (size_t i = 0; i < n; i++)
        len += strlen(texts[i]) + 1;
    BOX_AUTO(box_freep) char *all = box_alloc(len + 1);
    char *at = all;
    for (size_t i = 0; i < n; i++)
        at = stpcpy(at, texts[i]) + 1;
    if (!EVP_Digest(all, len, hash, NULL, EVP_sha256(), NULL))
        abort(); /* OpenSSL without SHA-256: no memory */
    box_hex(hash, sizeof hash, out);
}

/* --- names ------------------------------------------------------------------------------------ */

static int name_session(box_mcp *m, box_error *err)
{
    const Box__V1__SessionSpec *spec = m->server->spec;
    const char *given = m->server->session_id;
    char hash[BOX_STAGE_HASH_TEXT] = "";
    uint8_t digest[32];
    if (given != NULL && strlen(given) >= sizeof m->out.session_id)
        return box_fail(err, BOX_VALIDATION, "the session's id is too long");
    if (given == NULL && spec != NULL) {
        size_t len = box__v1__session_spec__get_packed_size(spec);
        BOX_AUTO(box_freep) uint8_t *packed = box_alloc(len + 1);
        (void)box__v1__session_spec__pack(spec, packed);
        if (!EVP_Digest(packed, len, digest, NULL, EVP_sha256(), NULL))
            abort();
        box_hex(digest, sizeof digest, hash);
    }
    (void)snprintf(m->out.session_id, sizeof m->out.session_id, "%s%s%.*s",
                   given != NULL ? given : "mcp-shared", hash[0] != '\0' ? "-" : "", SPEC_DIGITS,
                   hash);
    return 0;
}

static const char *last_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL && slash[1] != '\0' ? slash + 1 : path;
}

/* Also a folder's name; what begins with a dot is ours. */
static bool is_process_id(const char *id)
{
    return id[0] != '\0' && id[0] != '.' && strlen(id) < BOX_MCP_PROCESS_BYTES &&
           strchr(id, '/') == NULL;
}

/* "PROJECT-12345678": readable, and another command is another process. */
static int name_process(box_mcp *m, box_error *err)
{
    const box_mcp_server *server = m->server;
    char hash[BOX_STAGE_HASH_TEXT];
    if (server->process_id != NULL && !is_process_id(server->process_id))
        return box_fail(err, BOX_VALIDATION, "no process id: %.64s", server->process_id);
    if (server->process_id != NULL) {
        (void)snprintf(m->out.process_id, sizeof m->out.process_id, "%s", server->process_id);
        return 0;
    }
    hash_texts(server->argv, server->argc, hash);
    const char *name = last_name(m->stage != NULL ? box_stage_root(m->stage) : server->argv[0]);
    (void)snprintf(m->out.process_id, sizeof m->out.process_id, "%.48s-%.*s", name, NAME_DIGITS,
                   hash);
    for (char *at = m->out.process_id; *at != '\0'; at++) {
        static const char good[] =
            "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-.";
        const char *known = strchr(good, *at);
        if (known == NULL || (*known == '.' && at == m->out.process_id))
            *at = '_';
    }
    return 0;
}

/* --- the project ------------------------------------------------------------------------------ */

static bool is_home_or_above(const char *root)
{
    char home[PATH_MAX];
    const char *variable = getenv("HOME");
    size_t len = strlen(root);
    return variable != NULL && realpath(variable, home) != NULL && strncmp(home, root, len) == 0 &&
           (home[len] == '/' || home[len] == '\0');
}

/* A folder that was not named by a person is not one that holds everything they have, what many
 * share (/tmp, /srv, /home), or what is hidden because it is nobody's business (~/.ssh). */
static const char *why_not(const char *root)
{
    if (is_home_or_above(root))
        return "only the home directory in common";
    if (strchr(root + 1, '/') == NULL)
        return "only a directory of the system in common";
    return strstr(root, "/.") != NULL ? "a hidden directory in common" : NULL;
}

static int infer(const box_mcp_server *server, char **root, box_error *err)
{
    BOX_AUTO(box_freep) char *found = box_project_root(server->argv, server->argc);
    const char *why = found != NULL ? why_not(found) : NULL;
    if (why != NULL)
        return box_fail(err, BOX_VALIDATION, "the command's paths have %s: name the project", why);
    *root = box_take(found);
    return 0;
}

static int scan(box_mcp *m, box_error *err)
{
    BOX_AUTO(box_freep) char *root = NULL;
    const char *example;
    if (m->server->project != NULL)
        root = m->server->project[0] != '\0' ? box_strdup(m->server->project) : NULL;
    else if (infer(m->server, &root, err) < 0)
        return -1;
    if (root == NULL)
        return 0;
    if (box_stage_scan(root, &m->stage, err) < 0)
        return -1;
    size_t left_out = box_stage_left_out(m->stage, &example);
    if (left_out > 0)
        box_mcp_note(m, "%zu names are left out that are no files of the project: %s...", left_out,
                     example);
    return 0;
}

static int put(box_mcp *m, box_error *err)
{
    if (m->stage == NULL)
        return 0;
    (void)snprintf(m->target, sizeof m->target, "%.1024s/.mcp/%s/%.*s", m->workspace,
                   m->out.process_id, TARGET_DIGITS, box_stage_hash(m->stage));
    bool made = false;
    if (box_stage_put(m->stage, m->channel, &m->options, m->out.session_id, m->target, &made, err) <
        0)
        return -1;
    if (made)
        box_mcp_note(m, "%zu files are copied to %s", box_stage_files(m->stage), m->target);
    m->staged = made;
    return 0;
}

static void remove_path(const box_mcp *m, char *path, box_error *err)
{
    Box__V1__RemoveFileRequest request;
    Box__V1__RemoveFileResponse *r = NULL;
    box__v1__remove_file_request__init(&request);
    request.session_id = (char *)(uintptr_t)m->out.session_id;
    request.path = path;
    request.recursive = true;
    request.allow_missing = true;
    if (box_v1_file_service_remove_file(m->channel, &m->options, &request, &r, err) == 0)
        *err = (box_error){0};
    box_mcp_free_message(r);
}

/* Older copies of the project, which nothing runs in any more. Those being made have a dot in their
 * name. What cannot be removed stays: it costs room, no more. */
static void remove_older(const box_mcp *m)
{
    box_error ignored;
    Box__V1__ListDirectoryRequest request;
    Box__V1__ListDirectoryResponse *r = NULL;
    char folder[PATH_MAX];
    (void)snprintf(folder, sizeof folder, "%.*s", (int)(last_name(m->target) - m->target - 1),
                   m->target);
    box__v1__list_directory_request__init(&request);
    request.session_id = (char *)(uintptr_t)m->out.session_id;
    request.path = folder;
    if (box_v1_file_service_list_directory(m->channel, &m->options, &request, &r, &ignored) < 0)
        return;
    for (size_t i = 0; i < r->n_entries; i++) {
        char *path = r->entries[i]->path;
        if (path[0] != '\0' && strcmp(path, m->target) != 0 && strchr(last_name(path), '.') == NULL)
            remove_path(m, path, &ignored);
    }
    box_mcp_free_message(r);
}

/* --- start and stop --------------------------------------------------------------------------- */

static int check(const box_mcp_server *server, box_error *err)
{
    if (server->argc == 0 || server->argv[0][0] == '\0')
        return box_fail(err, BOX_VALIDATION, "there is no command");
    for (size_t i = 0; i < server->n_env; i++) {
        const char *equals = strchr(server->env[i], '=');
        if (equals == NULL || equals == server->env[i])
            return box_fail(err, BOX_VALIDATION, "a variable is not NAME=VALUE");
    }
    return 0;
}

static int run(box_mcp *m, box_error *err)
{
    box_freep(&m->venv);
    box_freep(&m->path);
    if (box_mcp_session(m, err) < 0)
        return box_wrap(err, "session");
    if (put(m, err) < 0)
        return box_wrap(err, "project");
    if (box_mcp_environment(m, err) < 0)
        return box_wrap(err, "environment");
    if (box_mcp_process(m, err) < 0)
        return box_wrap(err, "process");
    if (m->staged && m->out.started)
        remove_older(m);
    return 0;
}

/* The session went away under the steps: they begin anew, in another one. */
static bool is_lost(const box_error *err)
{
    return err->reason == BOX_SESSION_NOT_FOUND || err->reason == BOX_SESSION_NOT_RUNNING ||
           err->reason == BOX_SESSION_BROKEN;
}

static void done(box_mcp *m)
{
    box_stage_free(m->stage);
    free(m->venv);
    free(m->path);
}

int box_mcp_server_start(box_channel *channel, const box_client_options *options,
                         const box_mcp_server *server, box_mcp_started *out, box_error *err)
{
    box_mcp m = {.server = server, .channel = channel};
    uint64_t timeout = server->timeout_ns != 0 ? server->timeout_ns : TIMEOUT_SECONDS * BOX_SECOND;
    if (options != NULL)
        m.options = *options;
    m.options.timeout_ns = 0;
    uint64_t own = box_time_add(box_now(), timeout);
    if (m.options.deadline_ns == 0 || m.options.deadline_ns > own)
        m.options.deadline_ns = own;
    int rc = check(server, err);
    if (rc == 0 && scan(&m, err) < 0)
        rc = box_wrap(err, "project");
    if (rc == 0 && (name_session(&m, err) < 0 || name_process(&m, err) < 0))
        rc = -1;
    if (rc == 0)
        rc = run(&m, err);
    for (int i = 1; rc < 0 && is_lost(err) && i < TRIES; i++) {
        box_mcp_note(&m, "%s; once more", err->msg);
        rc = run(&m, err);
    }
    if (rc == 0)
        *out = m.out;
    done(&m);
    return rc;
}

int box_mcp_server_stop(box_channel *channel, const box_client_options *options,
                        const char *session_id, const char *process_id, box_error *err)
{
    static const box_mcp_server none;
    box_mcp m = {.server = &none, .channel = channel};
    char path[BOX_MCP_PROCESS_BYTES + 8];
    Box__V1__StopManagedProcessRequest request;
    Box__V1__StopManagedProcessResponse *r = NULL;
    if (options != NULL)
        m.options = *options;
    if (strlen(session_id) >= sizeof m.out.session_id || !is_process_id(process_id))
        return box_fail(err, BOX_VALIDATION, "no such name of a session or process");
    (void)snprintf(m.out.session_id, sizeof m.out.session_id, "%s", session_id);
    (void)snprintf(path, sizeof path, ".mcp/%s", process_id);
    box__v1__stop_managed_process_request__init(&request);
    request.session_id = m.out.session_id;
    request.process_id = (char *)(uintptr_t)process_id;
    request.allow_missing = true;
    if (box_v1_process_service_stop_managed_process(channel, &m.options, &request, &r, err) < 0)
        return box_wrap(err, "process");
    box_mcp_free_message(r);
    remove_path(&m, path, err);
    return err->reason == BOX_NONE ? 0 : box_wrap(err, "project");
}
