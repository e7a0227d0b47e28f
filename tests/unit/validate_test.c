#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/limits.h"
#include "box/golden/shapes.pb-c.h"
#include "wire/validate.h"

enum { PLENTY = 64 * 1024 * 1024 };

#define TYPE(name) (&box__golden__##name##__descriptor)

static int check(const ProtobufCMessageDescriptor *type, const void *data, size_t len,
                 box_error *err)
{
    *err = (box_error){0};
    return box_message_validate(type, data, len, PLENTY, err);
}

/* What must hold whatever the bytes are: valid ones unpack within the estimate, and protobuf-c
 * finds nothing wrong that validation let through. Returns whether they were valid. */
static bool unpacks_as_promised(const ProtobufCMessageDescriptor *type, const uint8_t *data,
                                size_t len)
{
    /* A copy of its own size, so that asan sees a byte read beyond it. */
    uint8_t *exact = malloc(len > 0 ? len : 1);
    assert_non_null(exact);
    if (len > 0)
        memcpy(exact, data, len);
    const size_t budgets[] = {PLENTY, 8 * len + 4096, len + 256};
    bool valid = false;
    for (size_t i = 0; i < BOX_COUNT(budgets); i++) {
        box_arena arena;
        box_error err = {0};
        ProtobufCMessage *message = NULL;
        box_arena_init(&arena, budgets[i]);
        bool good = box_message_validate(type, exact, len, budgets[i], &err) == 0;
        if (good)
            assert_int_equal(box_message_unpack(type, exact, len, &arena, &message, &err), 0);
        else
            assert_int_not_equal(err.reason, BOX_NONE);
        valid |= good;
        box_arena_done(&arena);
    }
    free(exact);
    return valid;
}

/* --- a message of every shape ----------------------------------------------------------------- */

static void set_text(char **to, const char *text)
{
    *to = (char *)(uintptr_t)text;
}

static box_buf pack(const ProtobufCMessage *message)
{
    box_buf out = {0};
    uint8_t *room;
    box_error err;
    size_t len = protobuf_c_message_get_packed_size(message);
    assert_int_equal(box_buf_reserve(&out, len, &room, &err), 0);
    box_buf_commit(&out, protobuf_c_message_pack(message, room));
    return out;
}

static box_buf every_shape(void)
{
    Box__Golden__Scalars scalars;
    box__golden__scalars__init(&scalars);
    Box__Golden__Lists lists;
    box__golden__lists__init(&lists);
    Box__Golden__Maps maps;
    box__golden__maps__init(&maps);
    Box__Golden__Choice choice;
    box__golden__choice__init(&choice);
    Box__Golden__Outer outer;
    box__golden__outer__init(&outer);
    Box__Golden__Point point;
    box__golden__point__init(&point);
    Box__Golden__Point *points[] = {&point, &point, &point};
    Box__Golden__Maps__LabelsEntry label;
    box__golden__maps__labels_entry__init(&label);
    Box__Golden__Maps__LabelsEntry *labels[] = {&label, &label};
    char *strings[3];
    uint8_t bytes[] = {0, 1, 2, 255};
    int32_t numbers[] = {1, -1, 300, 0};
    double doubles[] = {1, 2.5};
    ProtobufCBinaryData blobs[] = {{0, NULL}, {sizeof(bytes), bytes}};
    protobuf_c_boolean bools[] = {1, 0, 1};
    set_text(&strings[0], "gr\xc3\xbc\xc3\x9f");
    set_text(&strings[1], "");
    set_text(&strings[2], "a longer text that is more than sixteen bytes");
    scalars.a_double = 1.5;
    scalars.a_float = 2.5f;
    scalars.an_int32 = -7;
    scalars.a_fixed32 = 9;
    scalars.a_string = strings[2];
    scalars.some_bytes = blobs[1];
    point.x = 5;
    set_text(&label.key, "k");
    set_text(&label.value, "v");
    lists.int32s = numbers;
    lists.n_int32s = BOX_COUNT(numbers);
    lists.doubles = doubles;
    lists.n_doubles = BOX_COUNT(doubles);
    lists.bools = bools;
    lists.n_bools = BOX_COUNT(bools);
    lists.strings = strings;
    lists.n_strings = BOX_COUNT(strings);
    lists.byte_strings = blobs;
    lists.n_byte_strings = BOX_COUNT(blobs);
    lists.points = points;
    lists.n_points = BOX_COUNT(points);
    maps.labels = labels;
    maps.n_labels = BOX_COUNT(labels);
    choice.kind_case = BOX__GOLDEN__CHOICE__KIND_NAME;
    choice.name = strings[0];
    outer.scalars = &scalars;
    outer.lists = &lists;
    outer.maps = &maps;
    outer.choice = &choice;
    return pack(&outer.base);
}

static void a_message_of_every_shape_is_valid_and_unpacks(void **state)
{
    (void)state;
    BOX_AUTO(box_buf_done) box_buf in = every_shape();
    box_arena arena;
    box_error err;
    ProtobufCMessage *message = NULL;
    box_arena_init(&arena, PLENTY);
    assert_int_equal(box_message_unpack(TYPE(outer), box_buf_data(&in), box_buf_len(&in), &arena,
                                        &message, &err),
                     0);
    const Box__Golden__Outer *outer = (const Box__Golden__Outer *)message;
    assert_string_equal(outer->lists->strings[2], outer->scalars->a_string);
    assert_int_equal(outer->lists->n_points, 3);
    assert_int_equal(outer->lists->int32s[1], -1);
    assert_string_equal(outer->maps->labels[1]->value, "v");
    assert_true(arena.used_bytes > sizeof(*outer));
    box_arena_done(&arena);
    assert_int_equal(arena.used_bytes, 0);
}

static void no_bytes_at_all_are_an_empty_message(void **state)
{
    (void)state;
    box_error err;
    assert_int_equal(check(TYPE(outer), NULL, 0, &err), 0);
    assert_true(unpacks_as_promised(TYPE(outer), NULL, 0));
}

static void a_message_cut_anywhere_unpacks_or_is_refused(void **state)
{
    (void)state;
    BOX_AUTO(box_buf_done) box_buf in = every_shape();
    size_t refused = 0;
    for (size_t len = 0; len < box_buf_len(&in); len++)
        refused += !unpacks_as_promised(TYPE(outer), box_buf_data(&in), len);
    assert_true(refused > box_buf_len(&in) / 2);
    assert_true(unpacks_as_promised(TYPE(outer), box_buf_data(&in), box_buf_len(&in)));
}

static void a_message_with_any_byte_changed_unpacks_or_is_refused(void **state)
{
    (void)state;
    static const uint8_t values[] = {0x00, 0x01, 0x7f, 0x80, 0xff, 0x0a, 0x0b, 0xc0};
    BOX_AUTO(box_buf_done) box_buf in = every_shape();
    size_t refused = 0;
    for (size_t i = 0; i < box_buf_len(&in); i++) {
        uint8_t old = in.data[i];
        for (size_t j = 0; j < BOX_COUNT(values); j++) {
            in.data[i] = values[j];
            refused += !unpacks_as_promised(TYPE(outer), box_buf_data(&in), box_buf_len(&in));
        }
        in.data[i] = old;
    }
    assert_true(refused > 0);
}

/* Always the same numbers (Marsaglia, Xorshift RNGs), so a failure can be repeated. */
static uint32_t next_random(uint32_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 17;
    *state ^= *state << 5;
    return *state;
}

/* Mostly fields of small numbers and lengths, so that something gets past the first tag. */
static size_t random_message(uint32_t *state, uint8_t *out, size_t size)
{
    size_t len = next_random(state) % size;
    for (size_t i = 0; i < len; i++) {
        uint32_t r = next_random(state);
        switch (r >> 8 & 3) {
        case 0:
            out[i] = (uint8_t)((r >> 16 & 15) << 3 | 2); /* a length-delimited field */
            break;
        case 1:
            out[i] = (uint8_t)(r >> 16 & 7);
            break;
        case 2:
            out[i] = (uint8_t)((r >> 16 & 15) << 3);
            break;
        default:
            out[i] = (uint8_t)(r >> 16);
        }
    }
    return len;
}

static void random_bytes_unpack_or_are_refused(void **state)
{
    (void)state;
    static const ProtobufCMessageDescriptor *const types[] = {
        TYPE(outer), TYPE(nest), TYPE(lists), TYPE(maps), TYPE(choice), TYPE(optionals)};
    uint32_t seed = 20240501;
    size_t valid = 0;
    uint8_t bytes[96];
    for (int i = 0; i < 60000; i++) {
        size_t len = random_message(&seed, bytes, sizeof(bytes));
        valid += unpacks_as_promised(types[i % (int)BOX_COUNT(types)], bytes, len);
    }
    assert_true(valid > 500);
}

/* --- framing ---------------------------------------------------------------------------------- */

static void refused_as_no_message(const ProtobufCMessageDescriptor *type, const char *bytes,
                                  size_t len)
{
    box_error err;
    assert_int_equal(check(type, bytes, len, &err), -1);
    assert_int_equal(err.reason, BOX_PROTOCOL);
}

#define REFUSED(type, bytes) refused_as_no_message(TYPE(type), bytes, sizeof(bytes) - 1)

static void broken_framing_is_refused(void **state)
{
    (void)state;
    REFUSED(point, "\x08");                                             /* no value */
    REFUSED(point, "\x08\x80");                                         /* value cut */
    REFUSED(point, "\x08\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01"); /* 11 bytes of varint */
    REFUSED(point, "\x00\x01");                                         /* field number 0 */
    REFUSED(point, "\x0b\x0c");                                         /* group */
    REFUSED(point, "\x0c");                                             /* end of a group */
    REFUSED(point, "\x0e\x01");                                         /* wire type 6 */
    REFUSED(point, "\xff\xff\xff\xff\x1f\x01");                         /* tag over 32 bits */
    REFUSED(point, "\x80\x80\x80\x80\x80\x01\x01");                     /* tag of six bytes */
    REFUSED(point, "\x0a\x01x");                                        /* text for a number */
    REFUSED(scalars, "\x72\x05hi");                                     /* longer than there is */
    REFUSED(scalars, "\x72\xff\xff\xff\xff\x0f");                       /* 4 GiB */
    REFUSED(scalars, "\x09\x01\x02\x03");                               /* double cut */
    REFUSED(scalars, "\x15\x01\x02\x03");                               /* float cut */
    REFUSED(lists, "\x0a\x07\x01\x02\x03\x04\x05\x06\x07");             /* packed doubles cut */
    REFUSED(lists, "\x1a\x02\x01\x80");                                 /* packed varints cut */
}

static void a_field_nobody_knows_is_kept_and_counted(void **state)
{
    (void)state;
    uint8_t bytes[3 + 5000] = {0xfa, 0x3e, 0x00}; /* field 1007, length-delimited */
    box_error err;
    assert_int_equal(check(TYPE(point), bytes, 3, &err), 0);
    bytes[2] = 0x88; /* 5000 = 0x1388 */
    bytes[3] = 0x27;
    assert_int_equal(check(TYPE(point), bytes, 4 + 5000 - 1, &err), -1);
    bytes[2] = 0x87; /* 4999 */
    assert_int_equal(check(TYPE(point), bytes, 4 + 4999, &err), 0);
    assert_int_equal(box_message_validate(TYPE(point), bytes, 4 + 4999, 5000, &err), -1);
    assert_int_equal(err.reason, BOX_MEMORY_BUDGET);
}

static void packed_and_single_numbers_may_be_mixed(void **state)
{
    (void)state;
    static const char bytes[] = "\x18\x01\x1a\x03\x02\xac\x02\x18\x04";
    box_arena arena;
    box_error err;
    ProtobufCMessage *message = NULL;
    box_arena_init(&arena, PLENTY);
    assert_int_equal(box_message_unpack(TYPE(lists), (const uint8_t *)bytes, sizeof(bytes) - 1,
                                        &arena, &message, &err),
                     0);
    const Box__Golden__Lists *lists = (const Box__Golden__Lists *)message;
    assert_int_equal(lists->n_int32s, 4);
    assert_int_equal(lists->int32s[2], 300);
    box_arena_done(&arena);
}

/* --- text ------------------------------------------------------------------------------------- */

static void refused_text(const ProtobufCMessageDescriptor *type, const char *bytes, size_t len,
                         const char *field)
{
    box_error err;
    size_t at = 0;
    const char *key;
    const char *value;
    assert_int_equal(check(type, bytes, len, &err), -1);
    assert_int_equal(err.reason, BOX_VALIDATION);
    assert_true(box_error_next(&err, &at, &key, &value));
    assert_string_equal(key, field);
}

#define BAD_TEXT(type, bytes, field) refused_text(TYPE(type), bytes, sizeof(bytes) - 1, field)

static void bad_text_is_refused_by_the_name_of_its_field(void **state)
{
    (void)state;
    BAD_TEXT(scalars, "\x72\x02\xc3\x28", "field:a_string");
    BAD_TEXT(scalars,
             "\x72\x03"
             "a\0b",
             "field:a_string");
    BAD_TEXT(scalars, "\x72\x03\xed\xa0\x80", "field:a_string"); /* a surrogate */
    BAD_TEXT(optionals, "\x72\x01\xff", "field:a_string");
    BAD_TEXT(choice, "\x0a\x01\xff", "field:name");
    BAD_TEXT(outer, "\x2a\x03\x72\x01\xff", "field:lists.strings");
    BAD_TEXT(outer, "\x32\x05\x0a\x03\x0a\x01\xff", "field:maps.labels.key");
    BAD_TEXT(outer, "\x32\x05\x0a\x03\x12\x01\x00", "field:maps.labels.value");
}

static void bytes_may_hold_anything(void **state)
{
    (void)state;
    static const char bytes[] = "\x7a\x03\x00\xff\xc0";
    box_error err;
    assert_int_equal(check(TYPE(scalars), bytes, sizeof(bytes) - 1, &err), 0);
}

/* --- depth and budget ------------------------------------------------------------------------- */

/* n messages in each other: the outermost included. */
static box_buf nested(size_t n)
{
    box_buf in = {0};
    for (size_t i = 1; i < n; i++) {
        box_buf outer = {0};
        box_error err;
        uint8_t head[8] = {0x0a};
        size_t len = box_buf_len(&in);
        size_t at = 1;
        for (; len >= 0x80; len >>= 7)
            head[at++] = (uint8_t)(len | 0x80);
        head[at++] = (uint8_t)len;
        assert_int_equal(box_buf_add(&outer, head, at, &err), 0);
        assert_int_equal(box_buf_add(&outer, box_buf_data(&in), box_buf_len(&in), &err), 0);
        box_buf_done(&in);
        in = outer;
    }
    return in;
}

static void messages_nest_to_the_limit_and_no_deeper(void **state)
{
    (void)state;
    box_error err;
    BOX_AUTO(box_buf_done) box_buf most = nested(BOX_MAX_MESSAGE_DEPTH);
    BOX_AUTO(box_buf_done) box_buf more = nested(BOX_MAX_MESSAGE_DEPTH + 1);
    BOX_AUTO(box_buf_done) box_buf far_more = nested(5000);
    assert_int_equal(check(TYPE(nest), box_buf_data(&most), box_buf_len(&most), &err), 0);
    assert_int_equal(check(TYPE(nest), box_buf_data(&more), box_buf_len(&more), &err), -1);
    assert_int_equal(err.reason, BOX_VALIDATION);
    assert_int_equal(check(TYPE(nest), box_buf_data(&far_more), box_buf_len(&far_more), &err), -1);
}

/* The message that protobuf-c turns into 64 times its size (c-grpc-codegen.md, section 3). */
static void many_empty_messages_pass_the_budget_before_anything_is_allocated(void **state)
{
    (void)state;
    enum { COUNT = 200000 };
    uint8_t *bytes = box_alloc(2 * COUNT);
    box_error err = {0};
    for (size_t i = 0; i < COUNT; i++)
        bytes[2 * i] = 0x1a; /* nests {} */
    size_t budget = BOX_CALL_BUDGET_FACTOR * 2 * COUNT + BOX_CALL_BUDGET_BYTES;
    assert_int_equal(box_message_validate(TYPE(nest), bytes, 2 * COUNT, budget, &err), -1);
    assert_int_equal(err.reason, BOX_MEMORY_BUDGET);
    assert_true(unpacks_as_promised(TYPE(nest), bytes, 2 * COUNT));
    free(bytes);
}

/* protobuf-c would lose numbers of the first one, or fail. */
static void a_message_field_that_is_there_twice_is_refused_by_name(void **state)
{
    (void)state;
    box_error err;
    assert_int_equal(check(TYPE(outer), "\x3a\x00", 2, &err), 0);
    BAD_TEXT(outer, "\x3a\x00\x3a\x00", "field:choice");
    BAD_TEXT(outer, "\x3a\x02\x22\x00\x2a\x00\x3a\x00", "field:choice");
    BAD_TEXT(choice, "\x22\x00\x22\x00", "field:point");
    assert_int_equal(check(TYPE(nest), "\x1a\x00\x1a\x00", 4, &err), 0); /* repeated */
}

static bool fits_a_call(size_t count, const char *text)
{
    Box__Golden__Lists lists;
    box__golden__lists__init(&lists);
    char **strings = box_alloc_array(count, sizeof(*strings));
    for (size_t i = 0; i < count; i++)
        set_text(&strings[i], text);
    lists.strings = strings;
    lists.n_strings = count;
    BOX_AUTO(box_buf_done) box_buf in = pack(&lists.base);
    free(strings);
    box_arena arena;
    box_error err;
    ProtobufCMessage *message;
    box_arena_init(&arena, BOX_CALL_BUDGET_FACTOR * box_buf_len(&in) + BOX_CALL_BUDGET_BYTES);
    int rc = box_message_unpack(TYPE(lists), box_buf_data(&in), box_buf_len(&in), &arena, &message,
                                &err);
    box_arena_done(&arena);
    return rc == 0;
}

static void as_many_arguments_as_may_be_fit_the_budget_of_a_call(void **state)
{
    (void)state;
    assert_true(fits_a_call(BOX_MAX_ARGS, "abc"));
    assert_true(fits_a_call(BOX_MAX_ARGS, "an argument of some length"));
    assert_false(fits_a_call(10 * BOX_MAX_ARGS, ""));
}

/* --- arena ------------------------------------------------------------------------------------ */

static void an_arena_stops_at_its_limit_and_takes_large_ones_back(void **state)
{
    (void)state;
    box_arena a;
    box_arena_init(&a, 10000);
    ProtobufCAllocator *with = &a.allocator;
    void *small = with->alloc(with->allocator_data, 10);
    void *large = with->alloc(with->allocator_data, 8000);
    assert_non_null(small);
    assert_non_null(large);
    assert_null(with->alloc(with->allocator_data, 3000));
    assert_null(with->alloc(with->allocator_data, SIZE_MAX));
    memset(large, 1, 8000);
    memset(small, 1, 10);
    with->free(with->allocator_data, small);
    with->free(with->allocator_data, large);
    with->free(with->allocator_data, NULL);
    assert_int_equal(a.used_bytes, 16);
    large = with->alloc(with->allocator_data, 3000);
    assert_non_null(large);
    assert_non_null(with->alloc(with->allocator_data, 100));
    box_arena_done(&a);
    box_arena_done(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_message_of_every_shape_is_valid_and_unpacks),
        cmocka_unit_test(no_bytes_at_all_are_an_empty_message),
        cmocka_unit_test(a_message_cut_anywhere_unpacks_or_is_refused),
        cmocka_unit_test(a_message_with_any_byte_changed_unpacks_or_is_refused),
        cmocka_unit_test(random_bytes_unpack_or_are_refused),
        cmocka_unit_test(broken_framing_is_refused),
        cmocka_unit_test(a_field_nobody_knows_is_kept_and_counted),
        cmocka_unit_test(packed_and_single_numbers_may_be_mixed),
        cmocka_unit_test(bad_text_is_refused_by_the_name_of_its_field),
        cmocka_unit_test(bytes_may_hold_anything),
        cmocka_unit_test(messages_nest_to_the_limit_and_no_deeper),
        cmocka_unit_test(many_empty_messages_pass_the_budget_before_anything_is_allocated),
        cmocka_unit_test(a_message_field_that_is_there_twice_is_refused_by_name),
        cmocka_unit_test(as_many_arguments_as_may_be_fit_the_budget_of_a_call),
        cmocka_unit_test(an_arena_stops_at_its_limit_and_takes_large_ones_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
