#include "base/siphash.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

/* Of the key 00 01 .. 0f and the texts "", 00, 00 01, ...: made with OpenSSL 3.0's siphash,
 * c-rounds 1 and d-rounds 3. */
static void the_known_answers_come_out(void **state)
{
    (void)state;
    static const uint64_t known[] = {
        UINT64_C(0xabac0158050fc4dc), UINT64_C(0xc9f49bf37d57ca93), UINT64_C(0x82cb9b024dc7d44d),
        UINT64_C(0x8bf80ab8e7ddf7fb), UINT64_C(0xcf75576088d38328), UINT64_C(0xdef9d52f49533b67),
        UINT64_C(0xc50d2b50c59f22a7), UINT64_C(0xd3927d989bb11140), UINT64_C(0x369095118d299a8e),
        UINT64_C(0x25a48eb36c063de4), UINT64_C(0x79de85ee92ff097f), UINT64_C(0x70c118c1f94dc352),
        UINT64_C(0x78a384b157b4d9a2), UINT64_C(0x306f760c1229ffa7), UINT64_C(0x605aa111c0f95d34),
        UINT64_C(0xd320d86d2a519956), UINT64_C(0xcc4fdd1a7d908b66), UINT64_C(0x9cf2689063dbd80c),
    };
    box_hash_seed seed = {{UINT64_C(0x0706050403020100), UINT64_C(0x0f0e0d0c0b0a0908)}};
    uint8_t text[64];
    for (unsigned i = 0; i < sizeof text; i++)
        text[i] = (uint8_t)i;
    for (unsigned i = 0; i < sizeof known / sizeof known[0]; i++)
        assert_true(box_siphash(&seed, text, i) == known[i]);
}

static void another_seed_makes_another_hash(void **state)
{
    (void)state;
    box_hash_seed a = box_hash_seed_new();
    box_hash_seed b = box_hash_seed_new();
    assert_true(box_siphash(&a, "key", 3) == box_siphash(&a, "key", 3));
    assert_true(box_siphash(&a, "key", 3) != box_siphash(&b, "key", 3));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_known_answers_come_out),
        cmocka_unit_test(another_seed_makes_another_hash),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
