#include "wire/compress.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>
#include <zlib.h>

#include "base/alloc.h"
#include "base/limits.h"

enum { KIB = 1024, MIB = 1024 * 1024 };
static const box_encoding encodings[] = {BOX_GZIP, BOX_DEFLATE};

/* A text with some repetition, ended by nothing. */
static uint8_t *text_of(size_t len)
{
    uint8_t *text = box_alloc(len + 1);
    uint32_t x = 1;
    for (size_t i = 0; i < len; i++) {
        x = x * 1664525 + 1013904223;
        text[i] = (uint8_t)('a' + (x >> 28));
    }
    return text;
}

static void what_was_compressed_comes_back(void **state)
{
    (void)state;
    const size_t sizes[] = {0, 1, 1000, 64 * KIB - 1, 64 * KIB, 64 * KIB + 1, 3 * MIB};
    for (size_t e = 0; e < BOX_COUNT(encodings); e++) {
        for (size_t i = 0; i < BOX_COUNT(sizes); i++) {
            BOX_AUTO(box_freep) uint8_t *text = text_of(sizes[i]);
            BOX_AUTO(box_buf_done) box_buf packed = {0};
            BOX_AUTO(box_buf_done) box_buf plain = {0};
            box_error err;
            assert_int_equal(box_compress(encodings[e], text, sizes[i], &packed, &err), 0);
            assert_int_equal(box_decompress(encodings[e], box_buf_data(&packed),
                                            box_buf_len(&packed), sizes[i], &plain, &err),
                             0);
            assert_int_equal(box_buf_len(&plain), sizes[i]);
            assert_true(sizes[i] == 0 || memcmp(box_buf_data(&plain), text, sizes[i]) == 0);
            assert_true(sizes[i] < 1000 || box_buf_len(&packed) < sizes[i]);
        }
    }
}

/* RFC 1952 and RFC 1950: the first bytes. */
static void gzip_is_gzip_and_deflate_is_zlib(void **state)
{
    (void)state;
    BOX_AUTO(box_buf_done) box_buf gzip = {0};
    BOX_AUTO(box_buf_done) box_buf zlib = {0};
    BOX_AUTO(box_buf_done) box_buf plain = {0};
    box_error err;
    const uint8_t data[] = "hello";
    assert_int_equal(box_compress(BOX_GZIP, data, 5, &gzip, &err), 0);
    assert_int_equal(box_compress(BOX_DEFLATE, data, 5, &zlib, &err), 0);
    assert_memory_equal(box_buf_data(&gzip), "\x1f\x8b\x08", 3);
    assert_int_equal(box_buf_data(&zlib)[0], 0x78);
    assert_int_equal(
        box_decompress(BOX_DEFLATE, box_buf_data(&gzip), box_buf_len(&gzip), 100, &plain, &err),
        -1);
    assert_int_equal(err.reason, BOX_PROTOCOL);
    assert_int_equal(
        box_decompress(BOX_GZIP, box_buf_data(&zlib), box_buf_len(&zlib), 100, &plain, &err), -1);
    assert_int_equal(err.reason, BOX_PROTOCOL);
}

static void a_stream_cut_anywhere_is_refused(void **state)
{
    (void)state;
    BOX_AUTO(box_freep) uint8_t *text = text_of(5000);
    for (size_t e = 0; e < BOX_COUNT(encodings); e++) {
        BOX_AUTO(box_buf_done) box_buf packed = {0};
        box_error err;
        assert_int_equal(box_compress(encodings[e], text, 5000, &packed, &err), 0);
        for (size_t len = 0; len < box_buf_len(&packed); len++) {
            BOX_AUTO(box_buf_done) box_buf plain = {0};
            assert_int_equal(
                box_decompress(encodings[e], box_buf_data(&packed), len, MIB, &plain, &err), -1);
            assert_int_equal(err.reason, BOX_PROTOCOL);
        }
    }
}

static void a_changed_byte_or_one_after_the_end_is_refused(void **state)
{
    (void)state;
    BOX_AUTO(box_freep) uint8_t *text = text_of(500);
    for (size_t e = 0; e < BOX_COUNT(encodings); e++) {
        BOX_AUTO(box_buf_done) box_buf packed = {0};
        box_error err;
        assert_int_equal(box_compress(encodings[e], text, 500, &packed, &err), 0);
        size_t len = box_buf_len(&packed);
        BOX_AUTO(box_buf_done) box_buf plain = {0};
        BOX_AUTO(box_freep) uint8_t *copy = box_alloc(len + 1);
        memcpy(copy, box_buf_data(&packed), len);
        assert_int_equal(box_decompress(encodings[e], copy, len + 1, MIB, &plain, &err), -1);
        assert_int_equal(err.reason, BOX_PROTOCOL);
        copy[len - 1] ^= 1; /* of the checksum or the size */
        assert_int_equal(box_decompress(encodings[e], copy, len, MIB, &plain, &err), -1);
        assert_int_equal(err.reason, BOX_PROTOCOL);
    }
}

static void the_limit_passes_and_one_byte_more_does_not(void **state)
{
    (void)state;
    BOX_AUTO(box_freep) uint8_t *text = text_of(100001);
    BOX_AUTO(box_buf_done) box_buf packed = {0};
    box_error err = {0};
    assert_int_equal(box_compress(BOX_GZIP, text, 100001, &packed, &err), 0);
    BOX_AUTO(box_buf_done) box_buf plain = {0};
    assert_int_equal(
        box_decompress(BOX_GZIP, box_buf_data(&packed), box_buf_len(&packed), 100001, &plain, &err),
        0);
    box_buf_clear(&plain);
    assert_int_equal(
        box_decompress(BOX_GZIP, box_buf_data(&packed), box_buf_len(&packed), 100000, &plain, &err),
        -1);
    assert_int_equal(err.reason, BOX_MESSAGE_SIZE);
    assert_string_equal(box_error_get(&err, "max"), "100000");
    box_buf_clear(&plain);
    assert_int_equal(box_decompress(BOX_GZIP, box_buf_data(&packed), box_buf_len(&packed), SIZE_MAX,
                                    &plain, &err),
                     0); /* a client without a limit */
}

/* Zeros are 1030 times smaller, at zlib's best. What stock peers would take passes, a bomb stops
 * early. */
static void a_bomb_is_stopped_by_its_ratio(void **state)
{
    (void)state;
    const size_t sizes[] = {BOX_FREE_INFLATE_BYTES, 32 * MIB};
    for (size_t i = 0; i < BOX_COUNT(sizes); i++) {
        BOX_AUTO(box_freep) uint8_t *zeros = box_alloc(sizes[i]);
        BOX_AUTO(box_freep) uint8_t *packed = box_alloc(sizes[i]);
        BOX_AUTO(box_buf_done) box_buf plain = {0};
        uLongf len = sizes[i];
        box_error err = {0};
        assert_int_equal(compress2(packed, &len, zeros, sizes[i], Z_BEST_COMPRESSION), Z_OK);
        int rc = box_decompress(BOX_DEFLATE, packed, len, sizes[i], &plain, &err);
        assert_int_equal(rc, i == 0 ? 0 : -1);
        if (rc == 0)
            continue;
        assert_int_equal(err.reason, BOX_MESSAGE_SIZE);
        assert_true(box_buf_len(&plain) < len * BOX_MAX_INFLATE_RATIO + MIB);
    }
}

/* Whatever size: our own peers are never taken for attackers. */
static void our_own_zeros_are_no_bomb(void **state)
{
    (void)state;
    for (size_t e = 0; e < BOX_COUNT(encodings); e++) {
        const size_t len = 16 * MIB;
        BOX_AUTO(box_freep) uint8_t *zeros = box_alloc(len);
        BOX_AUTO(box_buf_done) box_buf packed = {0};
        BOX_AUTO(box_buf_done) box_buf plain = {0};
        box_error err;
        assert_int_equal(box_compress(encodings[e], zeros, len, &packed, &err), 0);
        assert_int_equal(box_decompress(encodings[e], box_buf_data(&packed), box_buf_len(&packed),
                                        len, &plain, &err),
                         0);
    }
}

static void a_buffer_without_room_is_an_error(void **state)
{
    (void)state;
    BOX_AUTO(box_freep) uint8_t *text = text_of(MIB);
    BOX_AUTO(box_buf_done) box_buf packed = {0};
    BOX_AUTO(box_buf_done) box_buf full = {0};
    box_error err = {0};
    assert_int_equal(box_compress(BOX_GZIP, text, MIB, &packed, &err), 0);
    box_buf_init(&full, 100 * KIB);
    assert_int_equal(box_compress(BOX_GZIP, text, MIB, &full, &err), -1);
    assert_int_equal(err.reason, BOX_MEMORY_BUDGET);
    assert_int_equal(
        box_decompress(BOX_GZIP, box_buf_data(&packed), box_buf_len(&packed), MIB, &full, &err),
        -1);
    assert_int_equal(err.reason, BOX_MEMORY_BUDGET);
}

static void names_are_read_and_written(void **state)
{
    (void)state;
    assert_string_equal(box_encoding_name(BOX_GZIP), "gzip");
    assert_int_equal(box_encoding_parse("gzip", 4), BOX_GZIP);
    assert_int_equal(box_encoding_parse("deflate", 7), BOX_DEFLATE);
    assert_int_equal(box_encoding_parse("identity", 8), BOX_IDENTITY);
    assert_int_equal(box_encoding_parse("", 0), BOX_IDENTITY);
    assert_int_equal(box_encoding_parse("gzip2", 5), BOX_ENCODING_OTHER);
    assert_int_equal(box_encoding_parse("gzi", 3), BOX_ENCODING_OTHER);
}

static void lists_are_read(void **state)
{
    (void)state;
    const unsigned identity = 1u << BOX_IDENTITY, gzip = 1u << BOX_GZIP, zlib = 1u << BOX_DEFLATE;
    const struct {
        const char *list;
        unsigned found;
    } rows[] = {
        {"", identity},
        {"gzip", identity | gzip},
        {"identity,deflate,gzip", identity | gzip | zlib},
        {" identity , deflate\t,", identity | zlib},
        {"br,snappy,gzip", identity | gzip},
        {",,,", identity},
        {"gzip;q=0.5", identity},
    };
    for (size_t i = 0; i < BOX_COUNT(rows); i++)
        assert_int_equal(box_encodings_parse(rows[i].list, strlen(rows[i].list)), rows[i].found);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_compressed_comes_back),
        cmocka_unit_test(gzip_is_gzip_and_deflate_is_zlib),
        cmocka_unit_test(a_stream_cut_anywhere_is_refused),
        cmocka_unit_test(a_changed_byte_or_one_after_the_end_is_refused),
        cmocka_unit_test(the_limit_passes_and_one_byte_more_does_not),
        cmocka_unit_test(a_bomb_is_stopped_by_its_ratio),
        cmocka_unit_test(our_own_zeros_are_no_bomb),
        cmocka_unit_test(a_buffer_without_room_is_an_error),
        cmocka_unit_test(names_are_read_and_written),
        cmocka_unit_test(lists_are_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
