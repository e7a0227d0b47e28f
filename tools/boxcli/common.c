#include "cli.h"

#include <errno.h>
#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/config.h"
#include "base/fd.h"
#include "base/utf8.h"
#include "json/json.h"

/* Answers may hold what the caller asked for with --output-limit: more than a stock client's 4 MiB.
 */
enum { MAX_ANSWER_BYTES = 256 * 1024 * 1024, DEFAULT_TIMEOUT_SECONDS = 60 };

void cli_parse(const struct argp *parser, int argc, char **argv, void *input)
{
    /* In order, so that what follows the first positional argument or `--` stays the command's. */
    (void)argp_parse(parser, argc, argv, ARGP_IN_ORDER, NULL, input);
}

static int read_token(const char *path, box_buf *to, const char **token, box_error *err)
{
    BOX_AUTO(box_closep) int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return box_fail(err, BOX_UNAUTHENTICATED, "cannot read the token file %s: %s", path,
                        strerror(errno));
    if (box_buf_read_fd(to, fd, err) < 0 || box_buf_text(to, token, err) < 0)
        return box_wrap(err, "token file %s", path);
    char *end = (char *)(uintptr_t)*token;
    end[strcspn(end, " \t\r\n")] = '\0';
    if (**token == '\0')
        return box_fail(err, BOX_UNAUTHENTICATED, "the token file %s holds no token", path);
    return 0;
}

static const char *from_environment(const char *name)
{
    const char *value = getenv(name);
    return value != NULL && *value != '\0' ? value : NULL;
}

bool cli_is_spawned(const cli *c)
{
    const char *endpoint = c->endpoint != NULL ? c->endpoint : from_environment("BOX_ENDPOINT");
    return endpoint != NULL && strncmp(endpoint, "spawn:", 6) == 0;
}

static int connect_channel(cli *c, box_error *err)
{
    BOX_AUTO(box_buf_done) box_buf text = {.max_bytes = 128 * 1024};
    const char *token = NULL;
    const char *token_file = c->token_file;
    if (c->tenant != NULL && box_metadata_add_text(&c->metadata, "box-tenant", c->tenant, err) < 0)
        return -1;
    /* With a server named here, the environment's token and TLS files still apply: the person at
     * the terminal set both. The library alone would not mix them. */
    if (c->endpoint != NULL && !cli_is_spawned(c) && token_file == NULL)
        token_file = from_environment("BOX_TOKEN_FILE");
    if (token_file != NULL && read_token(token_file, &text, &token, err) < 0)
        return -1;
    box_channel_options options = {
        .ca_file = c->ca != NULL ? c->ca : from_environment("BOX_CA"),
        .cert_file = c->cert != NULL ? c->cert : from_environment("BOX_CERT"),
        .key_file = c->key != NULL ? c->key : from_environment("BOX_KEY"),
        .token = token,
        .plaintext = c->plaintext,
        .max_message_bytes = MAX_ANSWER_BYTES,
    };
    return box_channel_new(c->endpoint, &options, &c->channel, err);
}

int cli_open(cli *c, box_error *err)
{
    return c->channel != NULL ? 0 : connect_channel(c, err);
}

int cli_connect(cli *c)
{
    box_error err;
    if (cli_open(c, &err) == 0)
        return 0;
    (void)cli_fail(c, &err);
    return -1;
}

box_client_options cli_options(const cli *c)
{
    return (box_client_options){
        .timeout_ns = c->timeout_ns != 0 ? c->timeout_ns : DEFAULT_TIMEOUT_SECONDS * BOX_SECOND,
        .metadata = &c->metadata,
    };
}

int cli_print_json(const cli *c, const ProtobufCMessage *message)
{
    box_error err;
    BOX_AUTO(box_buf_done) box_buf text = {.max_bytes = MAX_ANSWER_BYTES * (size_t)2};
    if (box_json_from_message(message, BOX_JSON_PRETTY, &text, &err) < 0)
        return cli_fail(c, &err);
    (void)fwrite(box_buf_data(&text), 1, box_buf_len(&text), stdout); /* main looks at fflush */
    (void)putchar('\n');
    return CLI_OK;
}

void cli_message_free(void *message)
{
    if (message != NULL)
        protobuf_c_message_free_unpacked(message, NULL);
}

void cli_message_freep(void *pointer)
{
    cli_message_free(box_take_pointer(pointer));
}

int32_t cli_cores(struct argp_state *state, const char *text)
{
    char *end;
    double cores = strtod(text, &end);
    if (*end != '\0' || end == text || !(cores >= 0.01 && cores <= 1000))
        argp_error(state, "--cpu %s: expected a number of cores from 0.01 to 1000", text);
    return (int32_t)(cores * 1000 + 0.5);
}

int64_t cli_bytes(struct argp_state *state, const char *option, const char *text)
{
    box_error err;
    int64_t bytes = 0;
    if (box_parse_bytes(text, &bytes, &err) < 0)
        argp_error(state, "%s %s: %s", option, text, err.msg);
    return bytes;
}

uint64_t cli_duration(struct argp_state *state, const char *option, const char *text)
{
    box_error err;
    uint64_t ns = 0;
    if (box_parse_duration(text, &ns, &err) < 0)
        argp_error(state, "%s %s: %s", option, text, err.msg);
    return ns;
}

int64_t cli_number(struct argp_state *state, const char *option, const char *text, int64_t min,
                   int64_t max)
{
    char *end;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (*end != '\0' || end == text || errno != 0 || value < min || value > max)
        argp_error(state, "%s %s: expected a number from %lld to %lld", option, text,
                   (long long)min, (long long)max);
    return value;
}

const char *cli_when(const Google__Protobuf__Timestamp *t, char out[32])
{
    struct tm parts;
    time_t seconds = t != NULL ? (time_t)t->seconds : 0;
    if (t == NULL || gmtime_r(&seconds, &parts) == NULL ||
        strftime(out, 32, "%Y-%m-%dT%H:%M:%SZ", &parts) == 0)
        return "-";
    return out;
}

void cli_heading(const cli *c, const char *text)
{
    if (!c->json && isatty(STDOUT_FILENO))
        puts(text);
}

const char *cli_clean(char *text)
{
    box_utf8_hide_controls(text, "");
    return text;
}

int cli_pages(cli *c, cli_page *page, void *arg)
{
    int code;
    BOX_AUTO(box_freep) char *token = box_strdup("");
    do {
        BOX_AUTO(box_freep) char *next = NULL;
        code = page(c, arg, token, &next);
        free(token);
        token = box_take(next);
    } while (code == CLI_OK && token != NULL && token[0] != '\0');
    return code;
}
