/* Header fields as they come from a peer: what is kept could be sent back as it is. The input is a
 * list of fields, each a length of the key, the key, two bytes of length, the value. */
#include <assert.h>

#include "base/alloc.h"
#include "base/limits.h"
#include "fuzz.h"
#include "wire/metadata.h"

static void check_entries(const box_metadata *md)
{
    BOX_AUTO(box_metadata_done)
    box_metadata copy = {0};
    box_error err;
    assert(md->count <= BOX_MAX_METADATA_ENTRIES);
    for (size_t i = 0; i < md->count; i++) {
        const box_metadata_entry *e = &md->entries[i];
        assert(e->value[e->value_len] == '\0');
        int rc = box_metadata_add(&copy, e->key, e->value, e->value_len, &err);
        assert(rc == 0);
        assert(box_metadata_get(md, e->key) != NULL);
    }
    int rc = box_metadata_add_all(&copy, md, &err);
    assert(rc == 0 || md->count * 2 > BOX_MAX_METADATA_ENTRIES);
}

/* As an application would give it. */
static void add(box_metadata *md, box_bytes key, box_bytes value)
{
    BOX_AUTO(box_freep)
    char *text = fuzz_text(key);
    box_error err;
    if (box_metadata_add(md, text, value.data, value.len, &err) < 0)
        assert(err.reason == BOX_VALIDATION || err.reason == BOX_MEMORY_BUDGET);
}

static void add_received(box_metadata *md, box_bytes key, box_bytes value)
{
    BOX_AUTO(box_freep)
    char *name = (char *)fuzz_copy(key);
    BOX_AUTO(box_freep)
    char *text = (char *)fuzz_copy(value);
    box_error err;
    if (box_metadata_add_received(md, name, key.len, text, value.len, &err) < 0)
        assert(err.reason == BOX_PROTOCOL || err.reason == BOX_MEMORY_BUDGET);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    box_bytes in = {data, size};
    BOX_AUTO(box_metadata_done)
    box_metadata received = {0};
    BOX_AUTO(box_metadata_done)
    box_metadata given = {0};
    while (in.len > 0) {
        box_bytes key = fuzz_take(&in, fuzz_u8(&in));
        size_t len = (size_t)fuzz_u8(&in) << 8;
        box_bytes value = fuzz_take(&in, len | fuzz_u8(&in));
        add_received(&received, key, value);
        add(&given, key, value);
    }
    check_entries(&received);
    check_entries(&given);
    return 0;
}
