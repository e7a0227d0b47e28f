#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <google/protobuf/any.pb-c.h>
#include <google/protobuf/empty.pb-c.h>
#include <math.h>

#include "base/alloc.h"
#include "base/limits.h"
#include "box/golden/shapes.pb-c.h"
#include "json/json.h"

#define TYPE(name) (&box__golden__##name##__descriptor)

static ProtobufCMessage *parse(const ProtobufCMessageDescriptor *type, const char *json)
{
    ProtobufCMessage *m = NULL;
    box_error err = {0};
    if (box_json_to_message(type, json, strlen(json), 0, &m, &err) < 0)
        fail_msg("%s: %s", json, err.msg);
    return m;
}

/* json is read, and written again as `expected`. */
static void gives(const ProtobufCMessageDescriptor *type, const char *json, const char *expected)
{
    BOX_AUTO(box_buf_done) box_buf out = {0};
    box_error err = {0};
    const char *text;
    ProtobufCMessage *m = parse(type, json);
    if (box_json_from_message(m, 0, &out, &err) < 0)
        fail_msg("%s: %s", json, err.msg);
    assert_int_equal(box_buf_text(&out, &text, &err), 0);
    assert_string_equal(text, expected);
    protobuf_c_message_free_unpacked(m, NULL);
}

static void stays(const ProtobufCMessageDescriptor *type, const char *json)
{
    gives(type, json, json);
}

/* Refused, with `what` in the text. */
static void refused(const ProtobufCMessageDescriptor *type, const char *json, const char *what)
{
    ProtobufCMessage *m = NULL;
    box_error err = {0};
    if (box_json_to_message(type, json, strlen(json), 0, &m, &err) == 0)
        fail_msg("%s was accepted", json);
    assert_null(m);
    assert_int_equal(err.reason, BOX_VALIDATION);
    if (strstr(err.msg, what) == NULL)
        fail_msg("%s: %s, not %s", json, err.msg, what);
}

/* --- names and presence ----------------------------------------------------------------------- */

static void names_are_camel_case_and_both_are_read(void **state)
{
    (void)state;
    gives(TYPE(scalars), "{\"an_int32\":1,\"aString\":\"x\"}", "{\"anInt32\":1,\"aString\":\"x\"}");
    gives(TYPE(optionals), "{\"camelCase\":1,\"HTTPPort\":2,\"default\":3,\"new\":\"n\"}",
          "{\"default\":3,\"camelCase\":1,\"HTTPPort\":2,\"new\":\"n\"}");
    refused(TYPE(scalars), "{\"an_int32\":1,\"anInt32\":1}", "an_int32: is there twice");
    refused(TYPE(scalars), "{\"anInt32\":1,\"anInt32\":1}", "duplicate");
    refused(TYPE(scalars), "{\"AnInt32\":1}", "AnInt32");
}

static void an_unknown_member_is_refused_unless_ignored(void **state)
{
    (void)state;
    static const char json[] = "{\"point\":{\"z\":{\"deep\":[1]},\"x\":4}}";
    ProtobufCMessage *m = NULL;
    box_error err = {0};
    refused(TYPE(choice), json, "point.z");
    assert_int_equal(
        box_json_to_message(TYPE(choice), json, strlen(json), BOX_JSON_IGNORE_UNKNOWN, &m, &err),
        0);
    assert_int_equal(((const Box__Golden__Choice *)m)->point->x, 4);
    protobuf_c_message_free_unpacked(m, NULL);
}

static void zero_is_left_out_and_null_is_absent(void **state)
{
    (void)state;
    gives(TYPE(scalars), "{\"anInt32\":0,\"aString\":\"\",\"aBool\":false,\"someBytes\":\"\"}",
          "{}");
    gives(TYPE(outer), "{\"inner\":null,\"more\":null,\"scalars\":{}}", "{\"scalars\":{}}");
    gives(TYPE(maps), "{\"labels\":null}", "{}");
    refused(TYPE(lists), "{\"points\":[null]}", "points[0]");
    refused(TYPE(maps), "{\"labels\":{\"a\":null}}", "labels.a");
}

static void an_optional_field_is_written_when_it_was_set(void **state)
{
    (void)state;
    stays(TYPE(optionals), "{\"anInt32\":0}");
    stays(TYPE(optionals), "{\"aDouble\":0,\"anInt64\":\"0\",\"aBool\":false,\"aString\":\"\","
                           "\"someBytes\":\"\",\"aColour\":\"COLOUR_UNSPECIFIED\",\"aPoint\":{}}");
    stays(TYPE(outer), "{\"inner\":{\"state\":\"STATE_UNSPECIFIED\",\"int\":3}}");
    gives(TYPE(optionals), "{\"anInt32\":null}", "{}");
}

static void a_oneof_has_one_member(void **state)
{
    (void)state;
    stays(TYPE(choice), "{\"name\":\"\"}");
    stays(TYPE(choice), "{\"number\":0}");
    stays(TYPE(choice), "{\"raw\":\"\"}");
    stays(TYPE(choice), "{\"point\":{}}");
    stays(TYPE(choice), "{\"at\":\"1970-01-01T00:00:00Z\"}");
    gives(TYPE(choice), "{\"number\":null,\"name\":\"n\"}", "{\"name\":\"n\"}");
    refused(TYPE(choice), "{\"number\":1,\"name\":\"n\"}", "oneof");
}

static void defaults_are_written_when_asked_for(void **state)
{
    (void)state;
    BOX_AUTO(box_buf_done) box_buf out = {0};
    box_error err = {0};
    const char *text;
    ProtobufCMessage *outer = parse(TYPE(outer), "{\"maps\":{},\"inner\":{}}");
    assert_int_equal(box_json_from_message(outer, BOX_JSON_EMIT_DEFAULTS, &out, &err), 0);
    assert_int_equal(box_buf_text(&out, &text, &err), 0);
    assert_string_equal(text, "{\"inner\":{\"int\":0},\"more\":[],\"maps\":{\"labels\":{},"
                              "\"pointsById\":{},\"blobs\":{},\"colours\":{},\"durations\":{}}}");
    protobuf_c_message_free_unpacked(outer, NULL);
}

static void pretty_means_lines_and_two_spaces(void **state)
{
    (void)state;
    BOX_AUTO(box_buf_done) box_buf out = {0};
    box_error err = {0};
    const char *text;
    ProtobufCMessage *m = parse(TYPE(outer), "{\"maps\":{\"labels\":{\"a\":\"b\"}},\"lists\":{},"
                                             "\"more\":[{\"int\":1},{}]}");
    assert_int_equal(box_json_from_message(m, BOX_JSON_PRETTY, &out, &err), 0);
    assert_int_equal(box_buf_text(&out, &text, &err), 0);
    assert_string_equal(text, "{\n"
                              "  \"more\": [\n"
                              "    {\n"
                              "      \"int\": 1\n"
                              "    },\n"
                              "    {}\n"
                              "  ],\n"
                              "  \"lists\": {},\n"
                              "  \"maps\": {\n"
                              "    \"labels\": {\n"
                              "      \"a\": \"b\"\n"
                              "    }\n"
                              "  }\n"
                              "}");
    protobuf_c_message_free_unpacked(m, NULL);
}

/* --- scalars ---------------------------------------------------------------------------------- */

static void integers_of_32_bits_are_numbers_and_of_64_texts(void **state)
{
    (void)state;
    stays(TYPE(scalars), "{\"anInt32\":-2147483648,\"anInt64\":\"-9223372036854775808\","
                         "\"aUint32\":4294967295,\"aUint64\":\"18446744073709551615\"}");
    stays(TYPE(scalars), "{\"aSint32\":-1,\"aSint64\":\"-1\",\"aFixed32\":1,\"aFixed64\":\"1\","
                         "\"aSfixed32\":-1,\"aSfixed64\":\"-1\"}");
    gives(TYPE(scalars), "{\"anInt64\":5,\"anInt32\":\"-7\",\"aUint32\":1.0,\"aUint64\":2e3}",
          "{\"anInt32\":-7,\"anInt64\":\"5\",\"aUint32\":1,\"aUint64\":\"2000\"}");
}

static void what_is_no_integer_of_the_type_is_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "{\"anInt32\":2147483648}", "{\"anInt32\":-2147483649}", "{\"anInt32\":1.5}",
        "{\"anInt32\":true}",       "{\"anInt32\":\"\"}",        "{\"anInt32\":\" 1\"}",
        "{\"anInt32\":\"1 \"}",     "{\"anInt32\":\"+1\"}",      "{\"anInt32\":\"0x10\"}",
        "{\"anInt32\":\"01\"}",     "{\"anInt32\":\"--1\"}",     "{\"anInt32\":[1]}",
        "{\"anInt32\":1e300}",      "{\"anInt32\":\"1.5\"}",
    };
    for (size_t i = 0; i < BOX_COUNT(bad); i++)
        refused(TYPE(scalars), bad[i], "an_int32");
    refused(TYPE(scalars), "{\"aUint32\":-1}", "a_uint32");
    refused(TYPE(scalars), "{\"aUint32\":4294967296}", "a_uint32");
    refused(TYPE(scalars), "{\"aUint64\":\"18446744073709551616\"}", "a_uint64");
    refused(TYPE(scalars), "{\"aUint64\":\"-1\"}", "a_uint64");
    refused(TYPE(scalars), "{\"anInt64\":\"9223372036854775808\"}", "an_int64");
}

static void floats_are_shortest_and_the_three_that_are_none_are_names(void **state)
{
    (void)state;
    stays(TYPE(scalars), "{\"aDouble\":0.1,\"aFloat\":0.1}");
    stays(TYPE(scalars), "{\"aDouble\":0.30000000000000004,\"aFloat\":16777216}");
    stays(TYPE(scalars), "{\"aDouble\":\"NaN\",\"aFloat\":\"Infinity\"}");
    stays(TYPE(scalars), "{\"aDouble\":\"-Infinity\",\"aFloat\":\"NaN\"}");
    gives(TYPE(scalars), "{\"aDouble\":\"1.5\",\"aFloat\":2}", "{\"aDouble\":1.5,\"aFloat\":2}");
    stays(TYPE(scalars), "{\"aFloat\":3.4028235e+38}"); /* FLT_MAX, written a little larger */
    gives(TYPE(scalars), "{\"aFloat\":-3.40282356e38}", "{\"aFloat\":-3.4028235e+38}");
    refused(TYPE(scalars), "{\"aFloat\":3.4028236e38}", "a_float");
    refused(TYPE(scalars), "{\"aFloat\":1e39}", "a_float");
    refused(TYPE(scalars), "{\"aDouble\":\"1e999\"}", "a_double");
    refused(TYPE(scalars), "{\"aDouble\":\"inf\"}", "a_double");
    refused(TYPE(scalars), "{\"aDouble\":\" 1\"}", "a_double");
    refused(TYPE(scalars), "{\"aDouble\":\"\"}", "a_double");
    refused(TYPE(scalars), "{\"aDouble\":false}", "a_double");
}

static void a_negative_zero_is_kept(void **state)
{
    (void)state;
    stays(TYPE(scalars), "{\"aDouble\":-0.0,\"aFloat\":-0.0}");
}

static void bytes_are_base64_and_both_alphabets_are_read(void **state)
{
    (void)state;
    stays(TYPE(scalars), "{\"someBytes\":\"+/8=\"}");
    stays(TYPE(scalars), "{\"someBytes\":\"AA==\"}");
    stays(TYPE(scalars), "{\"someBytes\":\"AAEC\"}");
    gives(TYPE(scalars), "{\"someBytes\":\"-_8\"}", "{\"someBytes\":\"+/8=\"}");
    refused(TYPE(scalars), "{\"someBytes\":\"A\"}", "some_bytes");
    refused(TYPE(scalars), "{\"someBytes\":\"A*==\"}", "some_bytes");
    refused(TYPE(scalars), "{\"someBytes\":1}", "some_bytes");
}

static void enums_are_names_and_unknown_ones_numbers(void **state)
{
    (void)state;
    stays(TYPE(scalars), "{\"aColour\":\"COLOUR_DEEP_BLUE\"}");
    stays(TYPE(scalars), "{\"aColour\":5}");
    gives(TYPE(scalars), "{\"aColour\":7}", "{\"aColour\":\"COLOUR_DEEP_BLUE\"}");
    refused(TYPE(scalars), "{\"aColour\":\"DEEP_BLUE\"}", "a_colour");
    refused(TYPE(scalars), "{\"aColour\":1.5}", "a_colour");
    refused(TYPE(scalars), "{\"aColour\":true}", "a_colour");
}

static void text_is_escaped_where_json_wants_it(void **state)
{
    (void)state;
    stays(TYPE(scalars),
          "{\"aString\":\"a\\\"b\\\\c\\n\\r\\t\\u0001\\u001f\\u007f\\u009b/gr\xc3\xbc\xc3\x9f\"}");
    gives(TYPE(scalars), "{\"aString\":\"\\ud83d\\ude00\\/\"}",
          "{\"aString\":\"\xf0\x9f\x98\x80/\"}");
    refused(TYPE(scalars), "{\"aString\":\"\\ud83d\"}", "line 1");
    refused(TYPE(scalars), "{\"aString\":\"\\u0000\"}", "line 1");
    refused(TYPE(scalars), "{\"aString\":\"\xff\"}", "line 1");
    refused(TYPE(scalars), "{\"aString\":1}", "a_string");
    refused(TYPE(scalars), "{\"aBool\":\"true\"}", "a_bool");
}

static void text_that_is_not_utf8_is_not_written(void **state)
{
    (void)state;
    BOX_AUTO(box_buf_done) box_buf out = {0};
    box_error err = {0};
    Box__Golden__Outer outer;
    box__golden__outer__init(&outer);
    Box__Golden__Scalars scalars;
    box__golden__scalars__init(&scalars);
    char bad[] = "\xff";
    outer.scalars = &scalars;
    scalars.a_string = bad;
    assert_int_equal(box_json_from_message(&outer.base, 0, &out, &err), -1);
    assert_non_null(strstr(err.msg, "scalars.a_string"));
}

/* --- lists and maps --------------------------------------------------------------------------- */

static void lists_of_every_type_are_kept_in_order(void **state)
{
    (void)state;
    stays(TYPE(lists),
          "{\"doubles\":[1,2.5],\"floats\":[0.5],\"int32s\":[1,-1,0],\"int64s\":[\"1\",\"-1\"],"
          "\"uint32s\":[1],\"uint64s\":[\"1\"],\"sint32s\":[-1],\"sint64s\":[\"-1\"],"
          "\"fixed32s\":[1],\"fixed64s\":[\"1\"],\"sfixed32s\":[-1],\"sfixed64s\":[\"-1\"],"
          "\"bools\":[true,false],\"strings\":[\"b\",\"\",\"a\"],\"byteStrings\":[\"\",\"AA==\"],"
          "\"colours\":[\"COLOUR_RED\",9],\"points\":[{},{\"x\":1}]}");
    gives(TYPE(lists), "{\"strings\":[]}", "{}");
    refused(TYPE(lists), "{\"strings\":\"a\"}", "strings");
    refused(TYPE(lists), "{\"int32s\":[1,\"x\",3]}", "int32s[1]");
    refused(TYPE(lists), "{\"points\":[{},{\"x\":1,\"z\":0}]}", "points[1].z");
    refused(TYPE(lists), "{\"strings\":[\"a\",[]]}", "strings[1]");
}

/* A peer may leave out a map's value; here of {2: } and {5: }. */
static void a_map_value_that_is_absent_is_an_empty_one_in_its_own_form(void **state)
{
    (void)state;
    static const uint8_t bytes[] = {0x12, 0, 0x2a, 0};
    ProtobufCMessage *m = protobuf_c_message_unpack(TYPE(maps), NULL, sizeof bytes, bytes);
    BOX_AUTO(box_buf_done) box_buf out = {0};
    box_error err;
    const char *text;
    assert_int_equal(box_json_from_message(m, 0, &out, &err), 0);
    assert_int_equal(box_buf_text(&out, &text, &err), 0);
    assert_string_equal(text, "{\"pointsById\":{\"0\":{}},\"durations\":{\"0\":\"0s\"}}");
    protobuf_c_message_free_unpacked(m, NULL);
}

static void maps_are_objects_with_keys_as_text(void **state)
{
    (void)state;
    stays(TYPE(maps), "{\"labels\":{\"b\":\"1\",\"\":\"2\",\"a\":\"\"}}");
    stays(TYPE(maps), "{\"pointsById\":{\"-1\":{\"x\":1},\"0\":{}}}");
    stays(TYPE(maps), "{\"blobs\":{\"18446744073709551615\":\"AA==\",\"0\":\"\"}}");
    stays(TYPE(maps), "{\"colours\":{\"true\":\"COLOUR_RED\",\"false\":\"COLOUR_UNSPECIFIED\"}}");
    stays(TYPE(maps), "{\"durations\":{\"-9223372036854775808\":\"1.500s\"}}");
    refused(TYPE(maps), "{\"labels\":[]}", "labels");
    refused(TYPE(maps), "{\"labels\":{\"a\":1}}", "labels.a");
    refused(TYPE(maps), "{\"pointsById\":{\"x\":{}}}", "points_by_id.x");
    refused(TYPE(maps), "{\"pointsById\":{\"2147483648\":{}}}", "points_by_id");
    refused(TYPE(maps), "{\"colours\":{\"yes\":1}}", "colours.yes");
}

static void of_map_entries_with_one_key_the_last_is_written(void **state)
{
    (void)state;
    BOX_AUTO(box_buf_done) box_buf out = {0};
    box_error err = {0};
    const char *text;
    Box__Golden__Maps maps;
    box__golden__maps__init(&maps);
    Box__Golden__Maps__PointsByIdEntry entries[3];
    Box__Golden__Maps__PointsByIdEntry *list[3];
    Box__Golden__Point point;
    box__golden__point__init(&point);
    static const int32_t keys[] = {7, 8, 7};
    for (size_t i = 0; i < BOX_COUNT(list); i++) {
        box__golden__maps__points_by_id_entry__init(&entries[i]);
        entries[i].key = keys[i];
        list[i] = &entries[i];
    }
    point.x = 2;
    entries[2].value = &point;
    maps.points_by_id = list;
    maps.n_points_by_id = BOX_COUNT(list);
    assert_int_equal(box_json_from_message(&maps.base, 0, &out, &err), 0);
    assert_int_equal(box_buf_text(&out, &text, &err), 0);
    assert_string_equal(text, "{\"pointsById\":{\"8\":{},\"7\":{\"x\":2}}}");
}

/* --- well-known types ------------------------------------------------------------------------- */

static void timestamps_are_rfc_3339_in_utc(void **state)
{
    (void)state;
    stays(TYPE(times), "{\"created\":\"1970-01-01T00:00:00Z\"}");
    stays(TYPE(times), "{\"created\":\"2024-02-29T23:59:59.000000001Z\"}");
    stays(TYPE(times), "{\"created\":\"0001-01-01T00:00:00Z\"}");
    stays(TYPE(times), "{\"created\":\"9999-12-31T23:59:59.999999999Z\"}");
    stays(TYPE(times), "{\"created\":\"1969-12-31T23:59:59.500Z\"}");
    stays(TYPE(times), "{\"created\":\"1900-03-01T00:00:00.000100Z\"}");
    stays(TYPE(times), "{\"history\":[\"1970-01-01T00:00:00Z\",\"2000-01-01T00:00:00Z\"]}");
    gives(TYPE(times), "{\"created\":\"2024-05-01T12:00:00.10+02:30\"}",
          "{\"created\":\"2024-05-01T09:30:00.100Z\"}");
    gives(TYPE(times), "{\"created\":\"2024-05-01t23:00:00-01:00\"}",
          "{\"created\":\"2024-05-02T00:00:00Z\"}");
}

static void what_is_no_time_is_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",
        "2024-05-01",
        "2024-05-01T10:00:00",
        "2024-05-01 10:00:00Z",
        "2023-02-29T00:00:00Z",
        "2024-13-01T00:00:00Z",
        "2024-00-01T00:00:00Z",
        "2024-01-32T00:00:00Z",
        "2024-01-00T00:00:00Z",
        "2024-01-01T24:00:00Z",
        "2024-01-01T00:60:00Z",
        "2024-01-01T00:00:60Z",
        "2024-01-01T00:00:00.Z",
        "2024-01-01T00:00:00.0000000001Z",
        "0000-01-01T00:00:00Z",
        "0001-01-01T00:00:00+00:01",
        "9999-12-31T23:59:59-00:01",
        "2024-01-01T00:00:00ZZ",
        "2024-01-01T00:00:00+1:00",
        "24-01-01T00:00:00Z",
    };
    char json[80];
    for (size_t i = 0; i < BOX_COUNT(bad); i++) {
        (void)snprintf(json, sizeof(json), "{\"created\":\"%s\"}", bad[i]);
        refused(TYPE(times), json, "created");
    }
    refused(TYPE(times), "{\"created\":5}", "created");
    refused(TYPE(times), "{\"created\":{}}", "created");
}

static void durations_are_seconds_with_an_s(void **state)
{
    (void)state;
    stays(TYPE(times), "{\"timeout\":\"0s\"}");
    stays(TYPE(times), "{\"timeout\":\"-0.500s\"}");
    stays(TYPE(times), "{\"timeout\":\"315576000000.000000001s\"}");
    stays(TYPE(times), "{\"timeout\":\"-3s\"}");
    gives(TYPE(times), "{\"timeout\":\"1.5s\"}", "{\"timeout\":\"1.500s\"}");
    static const char *const bad[] = {
        "",   "s",   "1",   "1.s",  ".5s",           "1.0000000001s",
        "1m", "1s ", "+1s", "--1s", "315576000001s", "99999999999999999999s"};
    char json[80];
    for (size_t i = 0; i < BOX_COUNT(bad); i++) {
        (void)snprintf(json, sizeof(json), "{\"timeout\":\"%s\"}", bad[i]);
        refused(TYPE(times), json, "timeout");
    }
    refused(TYPE(times), "{\"timeout\":1}", "timeout");
}

static void not_written(const ProtobufCMessage *m, const char *what)
{
    BOX_AUTO(box_buf_done) box_buf out = {0};
    box_error err = {0};
    assert_int_equal(box_json_from_message(m, 0, &out, &err), -1);
    assert_int_equal(err.reason, BOX_VALIDATION);
    assert_non_null(strstr(err.msg, what));
}

static void times_out_of_range_are_not_written(void **state)
{
    (void)state;
    Box__Golden__Times times;
    box__golden__times__init(&times);
    Google__Protobuf__Timestamp at;
    google__protobuf__timestamp__init(&at);
    Google__Protobuf__Duration span;
    google__protobuf__duration__init(&span);
    times.created = &at;
    at.seconds = INT64_C(253402300800);
    not_written(&times.base, "created");
    at.seconds = 0;
    at.nanos = -1;
    not_written(&times.base, "created");
    times.created = NULL;
    times.timeout = &span;
    span.seconds = INT64_MIN;
    not_written(&times.base, "timeout");
    span.seconds = 1;
    span.nanos = -1;
    not_written(&times.base, "timeout");
}

static void a_mask_is_one_text_in_camel_case(void **state)
{
    (void)state;
    ProtobufCMessage *m = parse(TYPE(times), "{\"updateMask\":\"spec.cpuMillis,labels\"}");
    const Google__Protobuf__FieldMask *mask = ((const Box__Golden__Times *)m)->update_mask;
    assert_int_equal(mask->n_paths, 2);
    assert_string_equal(mask->paths[0], "spec.cpu_millis");
    assert_string_equal(mask->paths[1], "labels");
    protobuf_c_message_free_unpacked(m, NULL);
    stays(TYPE(times), "{\"updateMask\":\"spec.cpuMillis,labels\"}");
    stays(TYPE(times), "{\"updateMask\":\"\"}");
    refused(TYPE(times), "{\"updateMask\":\"spec.cpu_millis\"}", "update_mask");
    refused(TYPE(times), "{\"updateMask\":[]}", "update_mask");
}

static void a_mask_path_that_would_not_come_back_is_not_written(void **state)
{
    (void)state;
    static const char *const bad[] = {"cpuMillis", "cpu_", "cpu__millis", "cpu_1"};
    Box__Golden__Times times;
    box__golden__times__init(&times);
    Google__Protobuf__FieldMask mask;
    google__protobuf__field_mask__init(&mask);
    char path[20];
    char *paths[] = {path};
    times.update_mask = &mask;
    mask.paths = paths;
    mask.n_paths = 1;
    for (size_t i = 0; i < BOX_COUNT(bad); i++) {
        (void)snprintf(path, sizeof(path), "%s", bad[i]);
        not_written(&times.base, "update_mask");
    }
}

static void a_well_known_type_can_be_the_whole_and_any_is_refused(void **state)
{
    (void)state;
    stays(&google__protobuf__duration__descriptor, "\"1s\"");
    stays(&google__protobuf__empty__descriptor, "{}");
    refused(&google__protobuf__any__descriptor, "{}", "Any");
    Google__Protobuf__Any any;
    google__protobuf__any__init(&any);
    not_written(&any.base, "Any");
}

/* --- broken JSON and limits ------------------------------------------------------------------- */

static void json_cut_anywhere_is_refused(void **state)
{
    (void)state;
    static const char json[] =
        "{\"maps\":{\"labels\":{\"a\":\"b\"}},\"more\":[{\"int\":1},{}],\"choice\":{\"raw\":\"AA=="
        "\"},"
        "\"times\":{\"created\":\"1970-01-01T00:00:00Z\",\"updateMask\":\"a,b\"}}";
    stays(&box__golden__point__descriptor, "{}");
    for (size_t len = 0; len < sizeof(json) - 1; len++) {
        ProtobufCMessage *m = NULL;
        box_error err = {0};
        char *exact = malloc(len + 1); /* asan sees what is read beyond */
        assert_non_null(exact);
        memcpy(exact, json, len);
        assert_int_equal(box_json_to_message(TYPE(outer), exact, len, 0, &m, &err), -1);
        assert_int_equal(err.reason, BOX_VALIDATION);
        free(exact);
    }
}

static void what_is_not_one_object_is_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {"",           "[]",         "1",          "\"\"",
                                      "null",       "{} {}",      "{,}",        "{a:1}",
                                      "{\"x\":1,}", "{\"x\":01}", "{\"x\":NaN}"};
    for (size_t i = 0; i < BOX_COUNT(bad); i++)
        refused(TYPE(point), bad[i], "");
}

static char *nested_json(size_t messages)
{
    char *json = box_alloc(messages * 10 + 3);
    char *end = json;
    for (size_t i = 1; i < messages; i++)
        end = stpcpy(end, "{\"nest\":");
    end = stpcpy(end, "{}");
    for (size_t i = 1; i < messages; i++)
        end = stpcpy(end, "}");
    return json;
}

static void messages_nest_to_the_limit_and_no_deeper(void **state)
{
    (void)state;
    BOX_AUTO(box_freep) char *most = nested_json(BOX_MAX_MESSAGE_DEPTH);
    BOX_AUTO(box_freep) char *more = nested_json(BOX_MAX_MESSAGE_DEPTH + 1);
    BOX_AUTO(box_freep) char *far_more = nested_json(100000);
    stays(TYPE(nest), most);
    refused(TYPE(nest), more, "nested too deep");
    refused(TYPE(nest), far_more, "depth");
    Box__Golden__Nest nests[BOX_MAX_MESSAGE_DEPTH + 1];
    for (size_t i = 0; i < BOX_COUNT(nests); i++) {
        box__golden__nest__init(&nests[i]);
        nests[i].nest = i + 1 < BOX_COUNT(nests) ? &nests[i + 1] : NULL;
    }
    not_written(&nests[0].base, "nested too deep");
}

static void more_than_the_largest_size_is_refused_unread(void **state)
{
    (void)state;
    ProtobufCMessage *m = NULL;
    box_error err = {0};
    assert_int_equal(box_json_to_message(TYPE(point), "{}", BOX_MAX_JSON_BYTES + 1, 0, &m, &err),
                     -1);
    assert_int_equal(err.reason, BOX_MESSAGE_SIZE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_camel_case_and_both_are_read),
        cmocka_unit_test(an_unknown_member_is_refused_unless_ignored),
        cmocka_unit_test(zero_is_left_out_and_null_is_absent),
        cmocka_unit_test(an_optional_field_is_written_when_it_was_set),
        cmocka_unit_test(a_oneof_has_one_member),
        cmocka_unit_test(defaults_are_written_when_asked_for),
        cmocka_unit_test(pretty_means_lines_and_two_spaces),
        cmocka_unit_test(integers_of_32_bits_are_numbers_and_of_64_texts),
        cmocka_unit_test(what_is_no_integer_of_the_type_is_refused),
        cmocka_unit_test(floats_are_shortest_and_the_three_that_are_none_are_names),
        cmocka_unit_test(a_negative_zero_is_kept),
        cmocka_unit_test(bytes_are_base64_and_both_alphabets_are_read),
        cmocka_unit_test(enums_are_names_and_unknown_ones_numbers),
        cmocka_unit_test(text_is_escaped_where_json_wants_it),
        cmocka_unit_test(text_that_is_not_utf8_is_not_written),
        cmocka_unit_test(lists_of_every_type_are_kept_in_order),
        cmocka_unit_test(a_map_value_that_is_absent_is_an_empty_one_in_its_own_form),
        cmocka_unit_test(maps_are_objects_with_keys_as_text),
        cmocka_unit_test(of_map_entries_with_one_key_the_last_is_written),
        cmocka_unit_test(timestamps_are_rfc_3339_in_utc),
        cmocka_unit_test(what_is_no_time_is_refused),
        cmocka_unit_test(durations_are_seconds_with_an_s),
        cmocka_unit_test(times_out_of_range_are_not_written),
        cmocka_unit_test(a_mask_is_one_text_in_camel_case),
        cmocka_unit_test(a_mask_path_that_would_not_come_back_is_not_written),
        cmocka_unit_test(a_well_known_type_can_be_the_whole_and_any_is_refused),
        cmocka_unit_test(json_cut_anywhere_is_refused),
        cmocka_unit_test(what_is_not_one_object_is_refused),
        cmocka_unit_test(messages_nest_to_the_limit_and_no_deeper),
        cmocka_unit_test(more_than_the_largest_size_is_refused_unread),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
