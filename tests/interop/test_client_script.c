#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "test_client.h"
#include "wire/service.h"

enum { MAX_CALLS = 1024, MAX_WORDS = 32, LINE_BYTES = 64 * 1024 };

typedef struct script_call {
    int id; /* 0: free place */
    box_client_call *call;
    box_method method;
    char path[256];
} script_call;

typedef struct script {
    box_channel *channel;
    script_call calls[MAX_CALLS];
    char line[LINE_BYTES];
    size_t len;
    bool ended;
} script;

/* --- events ----------------------------------------------------------------------------------- */

static json_t *event(const script_call *c, const char *name)
{
    return json_pack("{siss}", "call", c->id, "event", name);
}

static void on_headers(void *arg, box_client_call *call, const box_metadata *metadata)
{
    (void)call;
    json_t *e = event(arg, "headers");
    (void)json_object_set_new(e, "metadata", tc_metadata(metadata));
    tc_say(e);
}

static void on_message(void *arg, box_client_call *call, const ProtobufCMessage *message)
{
    const Boxtest__V1__SimpleResponse *response =
        (const Boxtest__V1__SimpleResponse *)(const void *)message;
    size_t size = response->payload != NULL ? response->payload->body.len : 0;
    json_t *e = event(arg, "message");
    (void)json_object_set_new(e, "size", json_integer((json_int_t)size));
    (void)json_object_set_new(e, "compressed", json_boolean(box_client_was_compressed(call)));
    tc_say(e);
}

static void on_writable(void *arg, box_client_call *call)
{
    (void)call;
    tc_say(event(arg, "writable"));
}

static void on_done(void *arg, box_client_call *call, const box_error *status,
                    const box_metadata *trailers)
{
    (void)call;
    json_t *e = event(arg, "end");
    tc_put_status(e, status);
    (void)json_object_set_new(e, "trailers", tc_metadata(trailers));
    tc_say(e);
}

static const box_client_events events = {
    .headers = on_headers, .message = on_message, .writable = on_writable, .done = on_done};

/* --- commands --------------------------------------------------------------------------------- */

static script_call *find(script *s, int id)
{
    for (size_t i = 0; i < MAX_CALLS; i++) {
        if (s->calls[i].id == id)
            return &s->calls[i];
    }
    return NULL;
}

/* The value of the n-th word "name=value" with that name, or NULL. */
static const char *value_of(char **words, const char *name, size_t nth)
{
    size_t len = strlen(name);
    for (; *words != NULL; words++) {
        if (strncmp(*words, name, len) == 0 && (*words)[len] == '=' && nth-- == 0)
            return *words + len + 1;
    }
    return NULL;
}

static uint64_t number_of(char **words, const char *name)
{
    const char *text = value_of(words, name, 0);
    return text != NULL ? strtoull(text, NULL, 10) : 0;
}

static box_method_kind kind_of(char **words)
{
    static const char *const names[] = {"unary", "server", "client", "bidi"};
    const char *text = value_of(words, "kind", 0);
    for (size_t i = 0; text != NULL && i < BOX_COUNT(names); i++) {
        if (strcmp(names[i], text) == 0)
            return (box_method_kind)i;
    }
    return BOX_UNARY;
}

static box_encoding encoding_of(char **words)
{
    const char *text = value_of(words, "encoding", 0);
    if (text == NULL)
        return BOX_IDENTITY;
    return strcmp(text, "gzip") == 0 ? BOX_GZIP : BOX_DEFLATE;
}

static int add_hex(box_metadata *md, const char *key, const char *hex, box_error *err)
{
    uint8_t value[128];
    size_t len = 0;
    for (unsigned byte; len < sizeof value && sscanf(hex + 2 * len, "%2x", &byte) == 1; len++)
        value[len] = (uint8_t)byte;
    return box_metadata_add(md, key, value, len, err);
}

static int metadata_of(char **words, box_metadata *md, box_error *err)
{
    const char *text;
    for (size_t i = 0; (text = value_of(words, "md", i)) != NULL; i++) {
        char key[64];
        const char *colon = strchr(text, ':');
        assert(colon != NULL && (size_t)(colon - text) < sizeof key);
        (void)snprintf(key, sizeof key, "%.*s", (int)(colon - text), text);
        bool is_binary = box_metadata_is_binary(key, strlen(key));
        int rc = is_binary ? add_hex(md, key, colon + 1, err)
                           : box_metadata_add_text(md, key, colon + 1, err);
        if (rc < 0)
            return -1;
    }
    return 0;
}

typedef struct request {
    Boxtest__V1__SimpleRequest message;
    Boxtest__V1__Payload payload;
} request;

static void request_init(request *r, char **words)
{
    boxtest__v1__simple_request__init(&r->message);
    boxtest__v1__payload__init(&r->payload);
    size_t len = number_of(words, "body");
    if (len == 0)
        return;
    r->payload.body = (ProtobufCBinaryData){.len = len, .data = calloc(1, len)};
    assert(r->payload.body.data != NULL);
    r->message.payload = &r->payload;
}

static void request_done(request *r)
{
    free(r->payload.body.data);
}

static int start(script *s, script_call *c, char **words, box_error *err)
{
    BOX_AUTO(box_metadata_done) box_metadata md = {0};
    if (metadata_of(words, &md, err) < 0)
        return -1;
    const box_client_options o = {
        .timeout_ns = number_of(words, "timeout_ns"),
        .metadata = &md,
        .token = value_of(words, "token", 0),
        .wait_for_ready = number_of(words, "wait") != 0,
        .idempotent = number_of(words, "idempotent") != 0,
        .max_message_bytes = number_of(words, "max"),
        .encoding = encoding_of(words),
    };
    BOX_AUTO(request_done) request r;
    request_init(&r, words);
    bool has_request = c->method.kind == BOX_UNARY || c->method.kind == BOX_SERVER_STREAM;
    return box_client_start_events(s->channel, &c->method, &o, has_request ? &r.message.base : NULL,
                                   &events, NULL, c, &c->call, err);
}

static void open_call(script *s, int id, char **words)
{
    script_call *c = find(s, 0);
    const char *path = value_of(words, "path", 0);
    assert(c != NULL);
    (void)snprintf(c->path, sizeof c->path, "%s",
                   path != NULL ? path : "/boxtest.v1.TestService/UnaryCall");
    c->method = (box_method){.path = c->path,
                             .name = "Method",
                             .kind = kind_of(words),
                             .request = &boxtest__v1__simple_request__descriptor,
                             .response = &boxtest__v1__simple_response__descriptor};
    c->id = id;
    box_error err;
    if (start(s, c, words, &err) == 0)
        return;
    json_t *e = event(c, "refused");
    tc_put_status(e, &err);
    tc_say(e);
    c->id = 0;
}

static void act(script_call *c, const char *command, char **words)
{
    box_error err;
    int rc = 0;
    if (strcmp(command, "send") == 0) {
        BOX_AUTO(request_done) request r;
        request_init(&r, words);
        box_client_set_compress(c->call, number_of(words, "plain") != 0 ? BOX_COMPRESS_NEVER
                                                                        : BOX_COMPRESS_AUTO);
        rc = box_client_send(c->call, &r.message.base, &err);
    } else if (strcmp(command, "close") == 0) {
        rc = box_client_half_close(c->call, &err);
    } else if (strcmp(command, "cancel") == 0) {
        box_client_cancel(c->call);
    } else if (strcmp(command, "pause") == 0) {
        box_client_pause(c->call, true);
    } else if (strcmp(command, "resume") == 0) {
        box_client_pause(c->call, false);
    } else {
        assert(strcmp(command, "free") == 0);
        box_client_free(c->call);
        *c = (script_call){0};
        return;
    }
    json_t *e = event(c, "did");
    (void)json_object_set_new(e, "command", json_string(command));
    (void)json_object_set_new(e, "writable", json_boolean(box_client_is_writable(c->call)));
    if (rc < 0)
        tc_put_status(e, &err);
    tc_say(e);
}

static void run_line(script *s, char *line)
{
    char *words[MAX_WORDS + 1] = {NULL};
    size_t n = 0;
    char *save = NULL;
    for (char *w = strtok_r(line, " ", &save); w != NULL && n < MAX_WORDS;
         w = strtok_r(NULL, " ", &save))
        words[n++] = w;
    if (n < 2)
        return;
    int id = (int)strtol(words[1], NULL, 10);
    assert(id > 0);
    if (strcmp(words[0], "open") == 0) {
        open_call(s, id, words + 2);
        return;
    }
    script_call *c = find(s, id);
    if (c != NULL) /* else it was refused */
        act(c, words[0], words + 2);
}

/* --- the loop --------------------------------------------------------------------------------- */

static void read_commands(script *s)
{
    ssize_t n = read(STDIN_FILENO, s->line + s->len, LINE_BYTES - s->len - 1);
    if (n <= 0) {
        s->ended = true;
        return;
    }
    s->len += (size_t)n;
    s->line[s->len] = '\0';
    char *at = s->line;
    for (char *end; (end = strchr(at, '\n')) != NULL; at = end + 1) {
        *end = '\0';
        run_line(s, at);
    }
    s->len -= (size_t)(at - s->line);
    memmove(s->line, at, s->len);
}

void tc_run_script(box_channel *channel)
{
    script *s = calloc(1, sizeof *s);
    assert(s != NULL);
    s->channel = channel;
    while (!s->ended) {
        struct pollfd fds[2] = {{.fd = STDIN_FILENO, .events = POLLIN}};
        int timeout;
        box_channel_poll(channel, &fds[1].fd, &fds[1].events, &timeout);
        if (poll(fds, 2, timeout) < 0 && errno != EINTR)
            break;
        box_channel_dispatch(channel);
        if (fds[0].revents != 0)
            read_commands(s);
    }
    for (size_t i = 0; i < MAX_CALLS; i++)
        box_client_free(s->calls[i].call);
    free(s);
}
