#include "store/records.h"

#include "base/alloc.h"
#include "base/id.h"

void box_labels_done(box_labels *l)
{
    free(l->data);
    *l = (box_labels){0};
}

void box_labels_copy(const box_labels *from, box_labels *out)
{
    *out = (box_labels){.len = from->len};
    if (from->len > 0) {
        out->data = box_alloc(from->len);
        memcpy(out->data, from->data, from->len);
    }
}

bool box_labels_next(const box_labels *l, size_t *at, const char **key, const char **value)
{
    if (*at >= l->len)
        return false;
    *key = l->data + *at;
    *at += strlen(*key) + 1;
    *value = l->data + *at;
    *at += strlen(*value) + 1;
    return true;
}

const char *box_labels_get(const box_labels *l, const char *key)
{
    size_t at = 0;
    const char *k;
    const char *v;
    while (box_labels_next(l, &at, &k, &v)) {
        if (strcmp(k, key) == 0)
            return v;
    }
    return NULL;
}

void box_labels_put(box_labels *l, const char *key, const char *value)
{
    size_t key_size = strlen(key) + 1;
    size_t value_size = strlen(value) + 1;
    size_t at = 0;
    size_t next = 0;
    const char *k = NULL;
    const char *v;
    bool found = false;
    /* `at` becomes where the pair belongs, `next` where what follows it begins. */
    while (box_labels_next(l, &next, &k, &v)) {
        int order = strcmp(k, key);
        found = order == 0;
        if (order >= 0)
            break;
        at = next;
    }
    size_t rest = found ? next : at;
    char *data = box_alloc(l->len + key_size + value_size);
    if (at > 0)
        memcpy(data, l->data, at);
    memcpy(data + at, key, key_size);
    memcpy(data + at + key_size, value, value_size);
    if (l->len > rest)
        memcpy(data + at + key_size + value_size, l->data + rest, l->len - rest);
    l->len = at + key_size + value_size + (l->len - rest);
    free(l->data);
    l->data = data;
}

bool box_labels_match(const box_labels *l, const box_labels *wanted)
{
    size_t at = 0;
    const char *key;
    const char *value;
    while (box_labels_next(wanted, &at, &key, &value)) {
        const char *have = box_labels_get(l, key);
        if (have == NULL || (value[0] != '\0' && strcmp(have, value) != 0))
            return false;
    }
    return true;
}

void box_tenant_done(box_tenant *t)
{
    box_labels_done(&t->labels);
}

void box_tenants_free(box_tenant *tenants, size_t n)
{
    for (size_t i = 0; i < n; i++)
        box_tenant_done(&tenants[i]);
    free(tenants);
}

void box_token_id_text(uint64_t id, char out[BOX_TOKEN_ID_TEXT])
{
    (void)snprintf(out, BOX_TOKEN_ID_TEXT, "%016llx", (unsigned long long)id);
}

bool box_token_id_parse(const char *text, uint64_t *out)
{
    uint8_t bytes[8];
    if (!box_unhex(text, bytes, sizeof bytes))
        return false;
    uint64_t id = 0;
    for (size_t i = 0; i < sizeof bytes; i++)
        id = id << 8 | bytes[i];
    *out = id;
    return id != 0 && id <= INT64_MAX;
}
