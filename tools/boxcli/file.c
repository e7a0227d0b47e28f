/* boxcli file read|write|edit|glob|grep|stat|ls|mkdir|rm|mv. */
#include <errno.h>
#include <unistd.h>

#include "args.h"
#include "base/buf.h"
#include "base/limits.h"
#include "box/v1/file.client.h"

/* What the verbs have in common; each takes the options its table names. */
typedef struct file_args {
    cli_words words;
    int64_t line, lines, before, after, max, depth, mode;
    bool bytes, append, new, all, ignore_case, literal, parents, recursive, force;
} file_args;

enum {
    OPT_LINE = 0x600,
    OPT_LINES,
    OPT_BYTES,
    OPT_APPEND,
    OPT_NEW,
    OPT_ALL,
    OPT_MAX,
    OPT_DEPTH,
    OPT_MODE
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
    file_args *a = state->input;
    switch (key) {
    case OPT_LINE:
        a->line = cli_number(state, "line", arg, 1, INT64_MAX);
        return 0;
    case OPT_LINES:
        a->lines = cli_number(state, "lines", arg, 1, BOX_FILES_MAX_LINES);
        return 0;
    case OPT_MAX:
        a->max = cli_number(state, "max", arg, 1, BOX_FILES_MAX_MATCHES);
        return 0;
    case OPT_DEPTH:
        a->depth = cli_number(state, "depth", arg, 0, 32);
        return 0;
    case 'A':
        a->after = cli_number(state, "after", arg, 0, BOX_FILES_MAX_CONTEXT);
        return 0;
    case 'B':
        a->before = cli_number(state, "before", arg, 0, BOX_FILES_MAX_CONTEXT);
        return 0;
    case OPT_MODE: {
        char *end;
        a->mode = (int64_t)strtol(arg, &end, 8);
        if (*arg == '\0' || *end != '\0' || a->mode < 0 || a->mode > 0777)
            argp_error(state, "--mode %s: expected octal digits, at most 777", arg);
        return 0;
    }
    case OPT_BYTES:
        return (a->bytes = true), 0;
    case OPT_APPEND:
        return (a->append = true), 0;
    case OPT_NEW:
        return (a->new = true), 0;
    case OPT_ALL:
        return (a->all = true), 0;
    case 'i':
        return (a->ignore_case = true), 0;
    case 'F':
        return (a->literal = true), 0;
    case 'p':
        return (a->parents = true), 0;
    case 'r':
        return (a->recursive = true), 0;
    case 'f':
        return (a->force = true), 0;
    default:
        return cli_words_take(&a->words, key, arg, state);
    }
}

static const struct argp_option read_options[] = {
    {.name = "line", .key = OPT_LINE, .arg = "N", .doc = "begin with this line, from 1"},
    {.name = "lines", .key = OPT_LINES, .arg = "N", .doc = "at most so many"},
    {.name = "bytes", .key = OPT_BYTES, .doc = "exact bytes, not text"},
    {0},
};
static const struct argp_option write_options[] = {
    {.name = "append", .key = OPT_APPEND, .doc = "behind what is there"},
    {.name = "new", .key = OPT_NEW, .doc = "fail when the file exists"},
    {.name = "mode", .key = OPT_MODE, .arg = "OCTAL", .doc = "permissions"},
    {0},
};
static const struct argp_option edit_options[] = {
    {.name = "all", .key = OPT_ALL, .doc = "every occurrence, not exactly one"},
    {0},
};
static const struct argp_option glob_options[] = {
    {.name = "max", .key = OPT_MAX, .arg = "N", .doc = "at most so many matches"},
    {0},
};
static const struct argp_option grep_options[] = {
    {.name = "ignore-case", .key = 'i', .doc = "upper and lower case are the same"},
    {.name = "fixed-strings", .key = 'F', .doc = "the pattern is plain text"},
    {.name = "after", .key = 'A', .arg = "N", .doc = "lines after each match"},
    {.name = "before", .key = 'B', .arg = "N", .doc = "lines before each match"},
    {.name = "max", .key = OPT_MAX, .arg = "N", .doc = "at most so many matches"},
    {0},
};
static const struct argp_option list_options[] = {
    {.name = "depth", .key = OPT_DEPTH, .arg = "N", .doc = "levels below, at most 32"},
    {0},
};
static const struct argp_option mkdir_options[] = {
    {.name = "parents", .key = 'p', .doc = "missing parents too; one that exists is fine"},
    {.name = "mode", .key = OPT_MODE, .arg = "OCTAL", .doc = "permissions"},
    {0},
};
static const struct argp_option rm_options[] = {
    {.name = "recursive", .key = 'r', .doc = "a directory with all that is in it"},
    {.name = "force", .key = 'f', .doc = "a file that does not exist is fine"},
    {0},
};
static const struct argp_option mv_options[] = {
    {.name = "force", .key = 'f', .doc = "replace a file that exists"},
    {.name = "parents", .key = 'p', .doc = "make missing directories"},
    {0},
};

/* No options are NULL: argp loses what it allocates for an empty list. */
static void take(file_args *a, const struct argp_option *options, const char *doc, int min, int max,
                 const char *summary, int argc, char **argv)
{
    const struct argp parser = {
        .options = options, .parser = parse, .args_doc = doc, .doc = summary};
    *a = (file_args){.words = {.doc = doc, .min = min, .max = max}, .mode = -1};
    cli_parse(&parser, argc, argv, a);
}

static char *word(const file_args *a, int i)
{
    return i < a->words.count ? a->words.word[i] : (char *)(uintptr_t)protobuf_c_empty_string;
}

/* stdout, as it is. */
static int put_bytes(cli *c, const void *data, size_t len)
{
    if (fwrite(data, 1, len, stdout) == len)
        return CLI_OK;
    c->output_errno = errno;
    return CLI_FAILED;
}

static void note_cut(const cli *c, bool truncated, const char *text)
{
    if (truncated && !c->json)
        fprintf(stderr, "boxcli: %s\n", text);
}

/* --- read, write, edit ------------------------------------------------------------------------ */

static int show_read(cli *c, Box__V1__ReadFileResponse *r)
{
    int rc;
    if (r->data.len > 0)
        rc = put_bytes(c, r->data.data, r->data.len);
    else
        rc = put_bytes(c, r->text, strlen(r->text));
    if (rc == CLI_OK && r->data.len == 0 && r->text[0] != '\0')
        rc = put_bytes(c, "\n", 1);
    if (r->past_end)
        fprintf(stderr, "boxcli: that is behind the end: the file has %lld lines\n",
                (long long)r->total_lines);
    note_cut(c, r->truncated, "there is more: --line, --lines, or boxcli cp for the whole file");
    return rc;
}

static int read_file(cli *c, int argc, char **argv)
{
    box_error err;
    file_args a;
    take(&a, read_options, "SESSION PATH", 2, 2, "Shows a file, or the names in a directory.", argc,
         argv);
    Box__V1__ReadFileRequest request;
    box__v1__read_file_request__init(&request);
    BOX_AUTO(cli_message_freep) Box__V1__ReadFileResponse *r = NULL;
    request.session_id = word(&a, 0);
    request.path = word(&a, 1);
    request.start_line = a.line;
    request.max_lines = a.lines > 0 ? (int32_t)a.lines : BOX_FILES_MAX_LINES;
    request.max_bytes = BOX_FILES_MAX_READ_BYTES - 64 * 1024;
    if (a.bytes)
        request.mode = BOX__V1__READ_MODE__READ_MODE_BYTES;
    if (cli_connect(c) < 0)
        return CLI_FAILED;
    box_client_options o = cli_options(c);
    if (box_v1_file_service_read_file(c->channel, &o, &request, &r, &err) < 0)
        return cli_fail(c, &err);
    return c->json ? cli_print_json(c, &r->base) : show_read(c, r);
}

static int write_file(cli *c, int argc, char **argv)
{
    box_error err;
    file_args a;
    take(&a, write_options, "SESSION PATH", 2, 2,
         "Writes stdin to a file, in one step. At most 15 MiB: boxcli cp takes any size.", argc,
         argv);
    BOX_AUTO(box_buf_done) box_buf data = {.max_bytes = 15 * 1024 * 1024};
    Box__V1__WriteFileRequest request;
    box__v1__write_file_request__init(&request);
    BOX_AUTO(cli_message_freep) Box__V1__WriteFileResponse *r = NULL;
    if (box_buf_read_fd(&data, STDIN_FILENO, &err) < 0)
        return cli_fail(c, &err);
    request.session_id = word(&a, 0);
    request.path = word(&a, 1);
    request.data = (ProtobufCBinaryData){.data = (uint8_t *)(uintptr_t)box_buf_data(&data),
                                         .len = box_buf_len(&data)};
    request.mode = a.append ? BOX__V1__WRITE_MODE__WRITE_MODE_APPEND
                   : a.new  ? BOX__V1__WRITE_MODE__WRITE_MODE_CREATE_NEW
                            : BOX__V1__WRITE_MODE__WRITE_MODE_OVERWRITE;
    if (a.mode >= 0)
        box__v1__write_file_request__set_permissions(&request, (int32_t)a.mode);
    if (cli_connect(c) < 0)
        return CLI_FAILED;
    box_client_options o = cli_options(c);
    if (box_v1_file_service_write_file(c->channel, &o, &request, &r, &err) < 0)
        return cli_fail(c, &err);
    return c->json ? cli_print_json(c, &r->base) : CLI_OK;
}

static ProtobufCBinaryData as_bytes(char *text)
{
    return (ProtobufCBinaryData){.data = (uint8_t *)text, .len = strlen(text)};
}

static int edit_file(cli *c, int argc, char **argv)
{
    box_error err;
    file_args a;
    take(&a, edit_options, "SESSION PATH OLD NEW", 4, 4,
         "Replaces a piece of a file and shows what changed.", argc, argv);
    Box__V1__EditFileRequest request;
    Box__V1__FileEdit edit;
    box__v1__edit_file_request__init(&request);
    box__v1__file_edit__init(&edit);
    BOX_AUTO(cli_message_freep) Box__V1__EditFileResponse *r = NULL;
    edit.old_data = as_bytes(word(&a, 2));
    edit.new_data = as_bytes(word(&a, 3));
    edit.replace_all = a.all;
    request.session_id = word(&a, 0);
    request.path = word(&a, 1);
    request.edits = &(Box__V1__FileEdit *){&edit};
    request.n_edits = 1;
    if (cli_connect(c) < 0)
        return CLI_FAILED;
    box_client_options o = cli_options(c);
    if (box_v1_file_service_edit_file(c->channel, &o, &request, &r, &err) < 0)
        return cli_fail(c, &err);
    return c->json ? cli_print_json(c, &r->base) : put_bytes(c, r->diff.data, r->diff.len);
}

/* --- what a file is --------------------------------------------------------------------------- */

static const char *path_of(Box__V1__FileInfo *info)
{
    return info->path[0] != '\0' ? cli_clean(info->path) : "(a name that is not UTF-8: --json)";
}

static char letter_of(const Box__V1__FileInfo *info)
{
    static const char letters[] = "?-dlpsc";
    unsigned kind = (unsigned)info->kind;
    return kind < sizeof letters - 1 ? letters[kind] : '?';
}

static void print_info(Box__V1__FileInfo *info)
{
    char when[32];
    printf("%c%04o %5d %5d %12lld %s %s", letter_of(info), (unsigned)info->permissions,
           info->owner_uid, info->owner_gid, (long long)info->size_bytes,
           cli_when(info->modified_at, when), path_of(info));
    if (info->link_target[0] != '\0')
        printf(" -> %s", cli_clean(info->link_target));
    putchar('\n');
}

static int stat_file(cli *c, int argc, char **argv)
{
    box_error err;
    file_args a;
    take(&a, NULL, "SESSION PATH", 2, 2, "Shows what a file is.", argc, argv);
    Box__V1__StatFileRequest request;
    box__v1__stat_file_request__init(&request);
    BOX_AUTO(cli_message_freep) Box__V1__StatFileResponse *r = NULL;
    request.session_id = word(&a, 0);
    request.path = word(&a, 1);
    if (cli_connect(c) < 0)
        return CLI_FAILED;
    box_client_options o = cli_options(c);
    if (box_v1_file_service_stat_file(c->channel, &o, &request, &r, &err) < 0)
        return cli_fail(c, &err);
    if (c->json)
        return cli_print_json(c, &r->base);
    if (r->info != NULL)
        print_info(r->info);
    return CLI_OK;
}

static int list_page(cli *c, void *arg, char *token, char **next)
{
    Box__V1__ListDirectoryRequest *request = arg;
    box_error err;
    BOX_AUTO(cli_message_freep) Box__V1__ListDirectoryResponse *r = NULL;
    box_client_options o = cli_options(c);
    request->page_token = token;
    if (box_v1_file_service_list_directory(c->channel, &o, request, &r, &err) < 0)
        return cli_fail(c, &err);
    *next = box_strdup(r->next_page_token);
    if (c->json)
        return cli_print_json(c, &r->base);
    for (size_t i = 0; i < r->n_entries; i++)
        print_info(r->entries[i]);
    return CLI_OK;
}

static int list(cli *c, int argc, char **argv)
{
    file_args a;
    take(&a, list_options, "SESSION [PATH]", 1, 2, "Lists a directory; the workspace by default.",
         argc, argv);
    Box__V1__ListDirectoryRequest request;
    box__v1__list_directory_request__init(&request);
    request.session_id = word(&a, 0);
    request.path = a.words.count > 1 ? word(&a, 1) : (char[]){"."};
    request.depth = (int32_t)a.depth;
    request.page_size = BOX_MAX_PAGE;
    return cli_connect(c) < 0 ? CLI_FAILED : cli_pages(c, list_page, &request);
}

/* --- glob, grep ------------------------------------------------------------------------------- */

static int glob(cli *c, int argc, char **argv)
{
    box_error err;
    file_args a;
    take(&a, glob_options, "SESSION PATTERN [PATH]", 2, 3,
         "Paths that match a pattern (*, ?, [...], {a,b}, **), newest first.", argc, argv);
    Box__V1__GlobRequest request;
    box__v1__glob_request__init(&request);
    BOX_AUTO(cli_message_freep) Box__V1__GlobResponse *r = NULL;
    request.session_id = word(&a, 0);
    request.pattern = word(&a, 1);
    request.path = word(&a, 2);
    request.max_matches = (int32_t)a.max;
    if (cli_connect(c) < 0)
        return CLI_FAILED;
    box_client_options o = cli_options(c);
    if (box_v1_file_service_glob(c->channel, &o, &request, &r, &err) < 0)
        return cli_fail(c, &err);
    if (c->json)
        return cli_print_json(c, &r->base);
    for (size_t i = 0; i < r->n_matches; i++)
        puts(path_of(r->matches[i]));
    note_cut(c, r->truncated, "some matches are missing: narrow the pattern, or raise --max");
    return CLI_OK;
}

static void print_lines(const char *path, Box__V1__GrepLine *const *lines, size_t n)
{
    for (size_t i = 0; i < n; i++)
        printf("%s-%lld-%s\n", path, (long long)lines[i]->line_number, cli_clean(lines[i]->text));
}

static void print_match(Box__V1__GrepMatch *m)
{
    const char *path =
        m->path[0] != '\0' ? cli_clean(m->path) : "(a name that is not UTF-8: --json)";
    print_lines(path, m->before, m->n_before);
    if (m->line != NULL)
        printf("%s:%lld:%s\n", path, (long long)m->line->line_number, cli_clean(m->line->text));
    print_lines(path, m->after, m->n_after);
}

static int grep(cli *c, int argc, char **argv)
{
    box_error err;
    file_args a;
    take(&a, grep_options, "SESSION PATTERN [PATH]", 2, 3,
         "Lines that match a regular expression (PCRE2), by path and line.", argc, argv);
    Box__V1__GrepRequest request;
    box__v1__grep_request__init(&request);
    BOX_AUTO(cli_message_freep) Box__V1__GrepResponse *r = NULL;
    request.session_id = word(&a, 0);
    request.pattern = word(&a, 1);
    request.path = word(&a, 2);
    request.ignore_case = a.ignore_case;
    request.literal = a.literal;
    request.before_lines = (int32_t)a.before;
    request.after_lines = (int32_t)a.after;
    request.max_matches = (int32_t)a.max;
    if (cli_connect(c) < 0)
        return CLI_FAILED;
    box_client_options o = cli_options(c);
    if (box_v1_file_service_grep(c->channel, &o, &request, &r, &err) < 0)
        return cli_fail(c, &err);
    if (c->json)
        return cli_print_json(c, &r->base);
    for (size_t i = 0; i < r->n_matches; i++)
        print_match(r->matches[i]);
    note_cut(c, r->truncated, "something is missing: narrow the search, or raise --max");
    return CLI_OK;
}

/* --- mkdir, rm, mv ---------------------------------------------------------------------------- */

/* The end of a call that changes something: only --json shows the answer, a message. */
static int changed(const cli *c, int rc, const box_error *err, const void *answer)
{
    if (rc < 0)
        return cli_fail(c, err);
    return c->json ? cli_print_json(c, answer) : CLI_OK;
}

static int make_directory(cli *c, int argc, char **argv)
{
    box_error err;
    file_args a;
    take(&a, mkdir_options, "SESSION PATH", 2, 2, "Makes a directory.", argc, argv);
    Box__V1__MakeDirectoryRequest request;
    box__v1__make_directory_request__init(&request);
    BOX_AUTO(cli_message_freep) Box__V1__MakeDirectoryResponse *r = NULL;
    request.session_id = word(&a, 0);
    request.path = word(&a, 1);
    request.parents = a.parents;
    if (a.mode >= 0)
        box__v1__make_directory_request__set_permissions(&request, (int32_t)a.mode);
    if (cli_connect(c) < 0)
        return CLI_FAILED;
    box_client_options o = cli_options(c);
    int rc = box_v1_file_service_make_directory(c->channel, &o, &request, &r, &err);
    return changed(c, rc, &err, r);
}

static int remove_file(cli *c, int argc, char **argv)
{
    box_error err;
    file_args a;
    take(&a, rm_options, "SESSION PATH", 2, 2, "Removes a file, a link or a directory.", argc,
         argv);
    Box__V1__RemoveFileRequest request;
    box__v1__remove_file_request__init(&request);
    BOX_AUTO(cli_message_freep) Box__V1__RemoveFileResponse *r = NULL;
    request.session_id = word(&a, 0);
    request.path = word(&a, 1);
    request.recursive = a.recursive;
    request.allow_missing = a.force;
    if (cli_connect(c) < 0)
        return CLI_FAILED;
    box_client_options o = cli_options(c);
    int rc = box_v1_file_service_remove_file(c->channel, &o, &request, &r, &err);
    return changed(c, rc, &err, r);
}

static int move_file(cli *c, int argc, char **argv)
{
    box_error err;
    file_args a;
    take(&a, mv_options, "SESSION SOURCE TARGET", 3, 3, "Renames a file or a directory.", argc,
         argv);
    Box__V1__MoveFileRequest request;
    box__v1__move_file_request__init(&request);
    BOX_AUTO(cli_message_freep) Box__V1__MoveFileResponse *r = NULL;
    request.session_id = word(&a, 0);
    request.source_path = word(&a, 1);
    request.target_path = word(&a, 2);
    request.overwrite = a.force;
    request.make_parents = a.parents;
    if (cli_connect(c) < 0)
        return CLI_FAILED;
    box_client_options o = cli_options(c);
    int rc = box_v1_file_service_move_file(c->channel, &o, &request, &r, &err);
    return changed(c, rc, &err, r);
}

const cli_command cli_file_commands[] = {
    {"file", "read", "show a file of a session, or the names in a directory", read_file},
    {"file", "write", "write stdin to a file", write_file},
    {"file", "edit", "replace a piece of a file, show the difference", edit_file},
    {"file", "glob", "paths that match a pattern, newest first", glob},
    {"file", "grep", "lines that match a regular expression", grep},
    {"file", "stat", "what a file is", stat_file},
    {"file", "ls", "list a directory", list},
    {"file", "mkdir", "make a directory", make_directory},
    {"file", "rm", "remove a file, a link or a directory", remove_file},
    {"file", "mv", "rename a file or a directory", move_file},
    {0},
};
