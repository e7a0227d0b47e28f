#include "file_find.h"

#include "base/alloc.h"
#include "base/limits.h"
#include "box/v1/file.client.h"
#include "file_args.h"

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

int cli_file_stat(cli *c, int argc, char **argv)
{
    box_error err;
    cli_file_args a;
    cli_file_take(&a, NULL, "SESSION PATH", 2, 2, "Shows what a file is.", argc, argv);
    Box__V1__StatFileRequest request;
    box__v1__stat_file_request__init(&request);
    BOX_AUTO(cli_message_freep) Box__V1__StatFileResponse *r = NULL;
    request.session_id = cli_file_word(&a, 0);
    request.path = cli_file_word(&a, 1);
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

static const struct argp_option list_options[] = {
    {.name = "depth", .key = CLI_FILE_DEPTH, .arg = "N", .doc = "levels below, at most 32"},
    {0},
};

int cli_file_list(cli *c, int argc, char **argv)
{
    cli_file_args a;
    cli_file_take(&a, list_options, "SESSION [PATH]", 1, 2,
                  "Lists a directory; the workspace by default.", argc, argv);
    Box__V1__ListDirectoryRequest request;
    box__v1__list_directory_request__init(&request);
    request.session_id = cli_file_word(&a, 0);
    request.path = a.words.count > 1 ? cli_file_word(&a, 1) : (char[]){"."};
    request.depth = (int32_t)a.depth;
    request.page_size = BOX_MAX_PAGE;
    return cli_connect(c) < 0 ? CLI_FAILED : cli_pages(c, list_page, &request);
}

/* --- glob, grep ------------------------------------------------------------------------------- */

static const struct argp_option glob_options[] = {
    {.name = "max", .key = CLI_FILE_MAX, .arg = "N", .doc = "at most so many matches"},
    {0},
};

int cli_file_glob(cli *c, int argc, char **argv)
{
    box_error err;
    cli_file_args a;
    cli_file_take(&a, glob_options, "SESSION PATTERN [PATH]", 2, 3,
                  "Paths that match a pattern (*, ?, [...], {a,b}, **), newest first.", argc, argv);
    Box__V1__GlobRequest request;
    box__v1__glob_request__init(&request);
    BOX_AUTO(cli_message_freep) Box__V1__GlobResponse *r = NULL;
    request.session_id = cli_file_word(&a, 0);
    request.pattern = cli_file_word(&a, 1);
    request.path = cli_file_word(&a, 2);
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
    cli_file_note_cut(c, r->truncated,
                      "some matches are missing: narrow the pattern, or raise --max");
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

static const struct argp_option grep_options[] = {
    {.name = "ignore-case", .key = 'i', .doc = "upper and lower case are the same"},
    {.name = "fixed-strings", .key = 'F', .doc = "the pattern is plain text"},
    {.name = "after", .key = 'A', .arg = "N", .doc = "lines after each match"},
    {.name = "before", .key = 'B', .arg = "N", .doc = "lines before each match"},
    {.name = "max", .key = CLI_FILE_MAX, .arg = "N", .doc = "at most so many matches"},
    {0},
};

int cli_file_grep(cli *c, int argc, char **argv)
{
    box_error err;
    cli_file_args a;
    cli_file_take(&a, grep_options, "SESSION PATTERN [PATH]", 2, 3,
                  "Lines that match a regular expression (PCRE2), by path and line.", argc, argv);
    Box__V1__GrepRequest request;
    box__v1__grep_request__init(&request);
    BOX_AUTO(cli_message_freep) Box__V1__GrepResponse *r = NULL;
    request.session_id = cli_file_word(&a, 0);
    request.pattern = cli_file_word(&a, 1);
    request.path = cli_file_word(&a, 2);
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
    cli_file_note_cut(c, r->truncated, "something is missing: narrow the search, or raise --max");
    return CLI_OK;
}
