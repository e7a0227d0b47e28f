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

static const char usage[] = "usage: box-test-client --target T [OPTION...] CASE|script\n"
                            "       box-test-client --list\n"
                            "  --target T         as box_channel_new takes it\n"
                            "  --ca F, --cert F, --key F, --server-name N, --token T, --plaintext\n"
                            "  --max-message N    bytes received\n"
                            "  --connect-timeout MS\n";

typedef struct arguments {
    const char *target;
    box_channel_options options;
    bool list;
} arguments;

static void parse(int argc, char **argv, arguments *a)
{
    static const struct option known[] = {
        {"target", required_argument, NULL, 't'},
        {"ca", required_argument, NULL, 'a'},
        {"cert", required_argument, NULL, 'c'},
        {"key", required_argument, NULL, 'k'},
        {"server-name", required_argument, NULL, 'n'},
        {"token", required_argument, NULL, 'o'},
        {"plaintext", no_argument, NULL, 'p'},
        {"max-message", required_argument, NULL, 'm'},
        {"connect-timeout", required_argument, NULL, 'w'},
        {"list", no_argument, NULL, 'l'},
        {NULL, 0, NULL, 0},
    };
    box_channel_options *o = &a->options;
    for (int c; (c = getopt_long(argc, argv, "", known, NULL)) != -1;) {
        switch (c) {
        case 't':
            a->target = optarg;
            break;
        case 'a':
            o->ca_file = optarg;
            break;
        case 'c':
            o->cert_file = optarg;
            break;
        case 'k':
            o->key_file = optarg;
            break;
        case 'n':
            o->server_name = optarg;
            break;
        case 'o':
            o->token = optarg;
            break;
        case 'p':
            o->plaintext = true;
            break;
        case 'm':
            o->max_message_bytes = strtoul(optarg, NULL, 10);
            break;
        case 'w':
            o->connect_timeout_ms = (uint32_t)strtoul(optarg, NULL, 10);
            break;
        case 'l':
            a->list = true;
            break;
        default:
            (void)fputs(usage, stderr);
            exit(2);
        }
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
