/* Texts that callers send and no message format checks: page tokens, authorization values,
 * templates of session ids. */
#include <assert.h>

#include "base/alloc.h"
#include "base/id.h"
#include "fuzz.h"
#include "policy/token.h"
#include "service/page.h"
#include "session/id_template.h"

static void page(const char *text)
{
    box_position at = {0};
    box_error err = {0};
    char again[BOX_PAGE_TOKEN_TEXT];
    /* The binding 0 is sixteen zeros that anybody can write. */
    if (box_page_parse(text, 0, &at, &err) < 0) {
        assert(err.reason == BOX_VALIDATION);
        return;
    }
    assert(memchr(at.id, '\0', sizeof at.id) != NULL);
    box_page_token(0, &at, again);
    assert(strlen(again) < sizeof again);
}

static void token(const char *text)
{
    uint8_t hash[BOX_TOKEN_HASH_BYTES];
    const char *secret = box_token_of_header(text);
    if (secret != NULL)
        assert(secret > text && secret[0] != '\0' && secret[0] != ' ');
    if (box_token_hash(secret != NULL ? secret : text, hash))
        assert(strlen(secret != NULL ? secret : text) == BOX_TOKEN_SECRET_LEN);
}

/* The text is the template and a value. */
static void template(const char *text)
{
    char name[] = "a";
    char *value = box_strdup(text);
    box_label variable = {name, value};
    box_resolved_id id;
    box_error err = {0};
    if (box_id_template_resolve(text, &variable, 1, &id, &err) < 0)
        assert(err.reason == BOX_VALIDATION);
    else
        assert(id.id[0] != '\0' && strlen(id.id) <= BOX_MAX_ID_BYTES);
    free(value);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    BOX_AUTO(box_freep)
    char *text = fuzz_text((box_bytes){data, size});
    page(text);
    token(text);
    template(text);
    return 0;
}
