/* A warden's configuration file: what is taken is printed as a file that says the same. */
#include <assert.h>

#include "base/alloc.h"
#include "fuzz.h"
#include "warden/config.h"

static char *print(const box_warden_config *conf, size_t *len)
{
    char *text = NULL;
    FILE *to = open_memstream(&text, len);
    if (to == NULL)
        abort();
    int rc = box_warden_config_print(conf, to);
    assert(rc == 0);
    if (fclose(to) != 0)
        abort();
    return text;
}

static void round_trip(const box_warden_config *conf)
{
    size_t len, again_len;
    box_warden_config again;
    box_error err;
    BOX_AUTO(box_freep)
    char *text = print(conf, &len);
    int rc = box_warden_config_parse("printed", text, len, &again, &err);
    assert(rc == 0);
    BOX_AUTO(box_freep)
    char *again_text = print(&again, &again_len);
    assert(len == again_len && memcmp(text, again_text, len) == 0);
    box_warden_config_done(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    box_warden_config conf;
    box_error err = {0};
    if (box_warden_config_parse("fuzz", (const char *)data, size, &conf, &err) < 0) {
        assert(err.reason != BOX_NONE && err.msg[0] != '\0');
        return 0;
    }
    round_trip(&conf);
    box_warden_config_done(&conf);
    return 0;
}
