#include "test_client.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void tc_say(json_t *object)
{
    (void)json_dumpf(object, stdout, JSON_COMPACT | JSON_ENSURE_ASCII);
    (void)putchar('\n');
    (void)fflush(stdout);
    json_decref(object);
}

static json_t *details_of(const box_error *status)
{
    json_t *details = json_object();
    const char *key;
    const char *value;
    for (size_t at = 0; box_error_next(status, &at, &key, &value);)
        (void)json_object_set_new(details, key, json_string(value));
    return details;
}

void tc_put_status(json_t *object, const box_error *status)
{
    box_code code = box_error_code(status);
    (void)json_object_set_new(object, "code", json_integer((json_int_t)code));
    (void)json_object_set_new(object, "status", json_string(box_code_name(code)));
    (void)json_object_set_new(object, "reason", json_string(box_reason_name(status->reason)));
    (void)json_object_set_new(object, "message", json_string(status->msg));
    (void)json_object_set_new(object, "retry_ms", json_integer(status->retry_ms));
    (void)json_object_set_new(object, "details", details_of(status));
}

static json_t *value_of(const box_metadata_entry *e)
{
    char hex[2 * 256 + 1] = "";
    if (!box_metadata_is_binary(e->key, strlen(e->key)))
        return json_stringn((const char *)e->value, e->value_len);
    for (size_t i = 0; i < e->value_len && i < 256; i++)
        (void)snprintf(hex + 2 * i, 3, "%02x", e->value[i]);
    return json_string(hex);
}

json_t *tc_metadata(const box_metadata *md)
{
    if (md == NULL)
        return json_null();
    json_t *list = json_array();
    for (size_t i = 0; i < md->count; i++)
        (void)json_array_append_new(
            list, json_pack("[so]", md->entries[i].key, value_of(&md->entries[i])));
    return list;
}

/* --- the command line ------------------------------------------------------------------------- */

static const char usage[] =
    "usage: box-test-client --target T [OPTION...] CASE|script\n"
    "       box-test-client --list\n"
    "  --target T         as box_channel_new takes it\n"
    "  --ca F, --cert F, --key F, --server-name N, --token T, --plaintext\n"
    "  --max-message N    bytes received\n"
    "  --max-send N       bytes of a message sent\n"
    "  --user-agent TEXT\n"
    "  --connect-timeout MS, --reconnect-first MS, --reconnect-max MS\n"
    "  --keepalive MS, --keepalive-timeout MS, --keepalive-without-calls\n"
    "  --round-robin\n"
    "  --retry ATTEMPTS   of calls marked idempotent; with --retry-codes BITS, --retry-pause MS,\n"
    "                     --retry-tokens N\n"
    "  --states           print each change of the channel's state\n";

static void say_state(void *arg, box_channel_state state)
{
    (void)arg;
    tc_say(json_pack("{ssss}", "event", "state", "state", box_channel_state_name(state)));
}

typedef struct arguments {
    const char *target;
    box_channel_options options;
    bool list;
} arguments;

static uint32_t number(const char *text)
{
    return (uint32_t)strtoul(text, NULL, 10);
}

/* Of options whose value is a number: where it goes. */
static uint32_t *number_option(box_channel_options *o, const char *name)
{
    const struct {
        const char *name;
        uint32_t *value;
    } rows[] = {
        {"connect-timeout", &o->connect_timeout_ms},
        {"reconnect-first", &o->reconnect_first_ms},
        {"reconnect-max", &o->reconnect_max_ms},
        {"keepalive", &o->keepalive_ms},
        {"keepalive-timeout", &o->keepalive_timeout_ms},
        {"retry", &o->retry.max_attempts},
        {"retry-codes", &o->retry.codes},
        {"retry-pause", &o->retry.first_pause_ms},
        {"retry-tokens", &o->retry.throttle_tokens},
    };
    for (size_t i = 0; i < BOX_COUNT(rows); i++) {
        if (strcmp(rows[i].name, name) == 0)
            return rows[i].value;
    }
    return NULL;
}

static const char **text_option(arguments *a, const char *name)
{
    const struct {
        const char *name;
        const char **value;
    } rows[] = {
        {"target", &a->target},
        {"ca", &a->options.ca_file},
        {"cert", &a->options.cert_file},
        {"key", &a->options.key_file},
        {"server-name", &a->options.server_name},
        {"token", &a->options.token},
        {"user-agent", &a->options.user_agent},
    };
    for (size_t i = 0; i < BOX_COUNT(rows); i++) {
        if (strcmp(rows[i].name, name) == 0)
            return rows[i].value;
    }
    return NULL;
}

static void take_option(arguments *a, const char *name, const char *value)
{
    box_channel_options *o = &a->options;
    if (number_option(o, name) != NULL)
        *number_option(o, name) = number(value);
    else if (text_option(a, name) != NULL)
        *text_option(a, name) = value;
    else if (strcmp(name, "max-message") == 0)
        o->max_message_bytes = number(value);
    else if (strcmp(name, "max-send") == 0)
        o->max_send_bytes = number(value);
    else if (strcmp(name, "plaintext") == 0)
        o->plaintext = true;
    else if (strcmp(name, "round-robin") == 0)
        o->balance = BOX_ROUND_ROBIN;
    else if (strcmp(name, "keepalive-without-calls") == 0)
        o->keepalive_without_calls = true;
    else if (strcmp(name, "states") == 0)
        o->on_state = say_state;
    else
        a->list = true;
}

static void parse(int argc, char **argv, arguments *a)
{
    static const struct option known[] = {
        {"target", required_argument, NULL, 1},
        {"ca", required_argument, NULL, 1},
        {"cert", required_argument, NULL, 1},
        {"key", required_argument, NULL, 1},
        {"server-name", required_argument, NULL, 1},
        {"token", required_argument, NULL, 1},
        {"user-agent", required_argument, NULL, 1},
        {"connect-timeout", required_argument, NULL, 1},
        {"reconnect-first", required_argument, NULL, 1},
        {"reconnect-max", required_argument, NULL, 1},
        {"keepalive", required_argument, NULL, 1},
        {"keepalive-timeout", required_argument, NULL, 1},
        {"keepalive-without-calls", no_argument, NULL, 1},
        {"retry", required_argument, NULL, 1},
        {"retry-codes", required_argument, NULL, 1},
        {"retry-pause", required_argument, NULL, 1},
        {"retry-tokens", required_argument, NULL, 1},
        {"max-message", required_argument, NULL, 1},
        {"max-send", required_argument, NULL, 1},
        {"plaintext", no_argument, NULL, 1},
        {"round-robin", no_argument, NULL, 1},
        {"states", no_argument, NULL, 1},
        {"list", no_argument, NULL, 1},
        {NULL, 0, NULL, 0},
    };
    int index;
    for (int c; (c = getopt_long(argc, argv, "", known, &index)) != -1;) {
        if (c != 1) {
            (void)fputs(usage, stderr);
            exit(2);
        }
        take_option(a, known[index].name, optarg);
    }
}

int main(int argc, char **argv)
{
    arguments a = {0};
    parse(argc, argv, &a);
    if (a.list) {
        tc_list_cases();
        return 0;
    }
    if (a.target == NULL || optind + 1 != argc) {
        (void)fputs(usage, stderr);
        return 2;
    }
    box_channel *channel;
    box_error err;
    if (box_channel_new(a.target, &a.options, &channel, &err) < 0) {
        json_t *object = json_pack("{ss}", "event", "refused");
        tc_put_status(object, &err);
        tc_say(object);
        return 1;
    }
    bool good = true;
    if (strcmp(argv[optind], "script") == 0)
        tc_run_script(channel);
    else
        good = tc_run_case(channel, argv[optind]);
    box_channel_free(channel);
    return good ? 0 : 1;
}
