/* boxcli cp: files and trees between this machine and a session. */
#include "cp.h"

#include <errno.h>

#include "args.h"
#include "base/alloc.h"
#include "box/v1/file.client.h"

/* --- what both directions share --------------------------------------------------------------- */

void cli_copy_say(const char *before, const char *name, const char *behind)
{
    BOX_AUTO(box_freep) char *shown = box_strdup(name);
    fprintf(stderr, "boxcli: %s%s%s\n", before, cli_clean(shown), behind);
}

int cli_copy_complain(cli_copy *cp, const char *what, const char *path)
{
    const char *why = strerror(errno);
    char before[64];
    char behind[128];
    (void)snprintf(before, sizeof before, "%s ", what);
    (void)snprintf(behind, sizeof behind, ": %s", why);
    cli_copy_say(before, path, behind);
    cp->failed = true;
    return -1;
}

int cli_copy_fail(cli_copy *cp, const box_error *err)
{
    BOX_IGNORE(cli_fail(cp->c, err)); /* the exit code is cp's */
    cp->failed = true;
    return -1;
}

box_client_options cli_copy_stream_options(const cli *c)
{
    box_client_options o = cli_options(c);
    o.timeout_ns = 0;
    return o;
}

int cli_copy_join(const char *dir, const char *name, char out[CLI_COPY_NAME_BYTES])
{
    int n = snprintf(out, CLI_COPY_NAME_BYTES, "%s/%s", dir, name);
    errno = ENAMETOOLONG;
    return n > 0 && n < CLI_COPY_NAME_BYTES ? 0 : -1;
}

bool cli_copy_is_directory(cli_copy *cp, char *path, bool *there)
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
        (void)cli_copy_fail(cp, &err); /* always -1 */
    return *there && r->info != NULL && r->info->kind == BOX__V1__FILE_KIND__FILE_KIND_DIRECTORY;
}

const char *cli_copy_local_name(const char *path)
{
    size_t len = strlen(path);
    while (len > 1 && path[len - 1] == '/')
        len--;
    size_t at = len;
    while (at > 0 && path[at - 1] != '/')
        at--;
    return path + at;
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
    cli_copy cp = {.c = c, .recursive = a.recursive};
    char *source = remote_part(a.words.word[0], &cp.session);
    char *target = source == NULL ? remote_part(a.words.word[1], &cp.session) : NULL;
    if (source == NULL && target == NULL) {
        fprintf(stderr, "boxcli: cp: one of both must be SESSION:PATH\n");
        return CLI_MISUSED;
    }
    if (cli_connect(c) < 0)
        return CLI_FAILED;
    int rc = source != NULL ? cli_copy_out(&cp, source, a.words.word[1])
                            : cli_copy_in(&cp, a.words.word[0], target);
    return rc < 0 || cp.failed ? CLI_FAILED : CLI_OK;
}

const cli_command cli_cp_commands[] = {
    {"cp", NULL, "copy files and trees to and from a session", run},
    {0},
};
