#include "args.h"

error_t cli_words_take(cli_words *words, int key, char *arg, struct argp_state *state)
{
    if (key == ARGP_KEY_ARG) {
        if (words->count >= words->max)
            argp_error(state, "unexpected argument %s", arg);
        words->word[words->count++] = arg;
        return 0;
    }
    if (key == ARGP_KEY_END) {
        if (words->count < words->min)
            argp_error(state, "expected %s", words->doc);
        return 0;
    }
    return ARGP_ERR_UNKNOWN;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    return cli_words_take(state->input, key, arg, state);
}

void cli_parse_words(cli_words *words, int argc, char **argv)
{
    const struct argp parser = {.parser = parse, .args_doc = words->doc, .doc = words->summary};
    cli_parse(&parser, argc, argv, words);
}
