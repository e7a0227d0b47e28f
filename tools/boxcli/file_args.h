/* What the verbs of boxcli file have in common: their options, their words. */
#pragma once

#include "args.h"

/* Each verb takes the options its table names. */
typedef struct cli_file_args {
    cli_words words;
    int64_t line, lines, before, after, max, depth, mode;
    bool bytes, append, new, all, ignore_case, literal, parents, recursive, force;
} cli_file_args;

/* Keys of options that have no letter. */
enum {
    CLI_FILE_LINE = 0x600,
    CLI_FILE_LINES,
    CLI_FILE_BYTES,
    CLI_FILE_APPEND,
    CLI_FILE_NEW,
    CLI_FILE_ALL,
    CLI_FILE_MAX,
    CLI_FILE_DEPTH,
    CLI_FILE_MODE
};

/* Fills *a from the command line; --help and mistakes end the program. options may be NULL, where a
 * table would be empty: argp loses what it allocates for one. */
void cli_file_take(cli_file_args *a, const struct argp_option *options, const char *doc, int min,
                   int max, const char *summary, int argc, char **argv);
/* "" behind the last. */
char *cli_file_word(const cli_file_args *a, int i);
/* Says on stderr that an answer is not whole, where people read it. */
void cli_file_note_cut(const cli *c, bool truncated, const char *text);
