#include "file_args.h"

#include "base/limits.h"

static error_t parse(int key, char *arg, struct argp_state *state)
{
    cli_file_args *a = state->input;
    switch (key) {
    case CLI_FILE_LINE:
        a->line = cli_number(state, "line", arg, 1, INT64_MAX);
        return 0;
    case CLI_FILE_LINES:
        a->lines = cli_number(state, "lines", arg, 1, BOX_FILES_MAX_LINES);
        return 0;
    case CLI_FILE_MAX:
        a->max = cli_number(state, "max", arg, 1, BOX_FILES_MAX_MATCHES);
        return 0;
    case CLI_FILE_DEPTH:
        a->depth = cli_number(state, "depth", arg, 0, 32);
        return 0;
    case 'A':
        a->after = cli_number(state, "after", arg, 0, BOX_FILES_MAX_CONTEXT);
        return 0;
    case 'B':
        a->before = cli_number(state, "before", arg, 0, BOX_FILES_MAX_CONTEXT);
        return 0;
    case CLI_FILE_MODE: {
        char *end;
        a->mode = (int64_t)strtol(arg, &end, 8);
        if (*arg == '\0' || *end != '\0' || a->mode < 0 || a->mode > 0777)
            argp_error(state, "--mode %s: expected octal digits, at most 777", arg);
        return 0;
    }
    case CLI_FILE_BYTES:
        return (a->bytes = true), 0;
    case CLI_FILE_APPEND:
        return (a->append = true), 0;
    case CLI_FILE_NEW:
        return (a->new = true), 0;
    case CLI_FILE_ALL:
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

void cli_file_take(cli_file_args *a, const struct argp_option *options, const char *doc, int min,
                   int max, const char *summary, int argc, char **argv)
{
    const struct argp parser = {
        .options = options, .parser = parse, .args_doc = doc, .doc = summary};
    *a = (cli_file_args){.words = {.doc = doc, .min = min, .max = max}, .mode = -1};
    cli_parse(&parser, argc, argv, a);
}

char *cli_file_word(const cli_file_args *a, int i)
{
    return i < a->words.count ? a->words.word[i] : (char *)(uintptr_t)protobuf_c_empty_string;
}

void cli_file_note_cut(const cli *c, bool truncated, const char *text)
{
    if (truncated && !c->json)
        fprintf(stderr, "boxcli: %s\n", text);
}
