/* Commands that take a few words and no more options of their own. */
#pragma once

#include "cli.h"

enum { CLI_MAX_WORDS = 8 };

/* Positional arguments, checked to be at least min and at most max. */
typedef struct cli_words {
    const char *doc; /* for --help: "SESSION TIME" */
    const char *summary;
    int min, max;
    int count;
    char *word[CLI_MAX_WORDS];
} cli_words;

/* Fills words->word from the command line; --help and mistakes end the program. */
void cli_parse_words(cli_words *words, int argc, char **argv);

/* For parsers with options too: takes one positional argument, or reports too many; checks at the
 * end. */
error_t cli_words_take(cli_words *words, int key, char *arg, struct argp_state *state);
