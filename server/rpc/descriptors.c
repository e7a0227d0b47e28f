#include "rpc/descriptors.h"

#include <stdio.h>

#include "base/alloc.h"
#include "base/map.h"

typedef struct file {
    box_descriptor_file public; /* first */
    char **imports;
    size_t n_imports;
    unsigned index; /* in box_descriptors.files */
} file;

typedef struct symbol {
    const file *file;
    bool is_message;
} symbol;

struct box_descriptors {
    file **files;
    size_t n_files;
    box_map *by_name;   /* file */
    box_map *by_symbol; /* symbol */
};

/* --- the protobuf wire format, as far as descriptors use it ----------------------------------- */

typedef struct field {
    uint32_t number;
    box_bytes bytes; /* of a length-delimited one, else empty */
} field;

static bool read_varint(box_bytes *in, uint64_t *out)
{
    *out = 0;
    for (unsigned shift = 0; shift < 64 && in->len > 0; shift += 7) {
        uint8_t byte = *in->data++;
        in->len--;
        *out |= (uint64_t)(byte & 0x7f) << shift;
        if ((byte & 0x80) == 0)
            return true;
    }
    return false;
}

static bool skip(box_bytes *in, uint64_t len)
{
    if (len > in->len)
        return false;
    in->data += len;
    in->len -= len;
    return true;
}

/* 1: *out is the next field; 0: the end; -1: broken. */
static int next_field(box_bytes *in, field *out)
{
    enum { WIRE_VARINT = 0, WIRE_FIXED64 = 1, WIRE_LENGTH = 2, WIRE_FIXED32 = 5 };
    uint64_t tag;
    uint64_t value = 0;
    if (in->len == 0)
        return 0;
    if (!read_varint(in, &tag))
        return -1;
    *out = (field){.number = (uint32_t)(tag >> 3)};
    switch (tag & 7) {
    case WIRE_VARINT:
        return read_varint(in, &value) ? 1 : -1;
    case WIRE_FIXED64:
        return skip(in, 8) ? 1 : -1;
    case WIRE_FIXED32:
        return skip(in, 4) ? 1 : -1;
    case WIRE_LENGTH:
        if (!read_varint(in, &value))
            return -1;
        out->bytes = (box_bytes){in->data, value};
        return skip(in, value) ? 1 : -1;
    default:
        return -1;
    }
}

static char *text_of(box_bytes b)
{
    char *text = box_alloc(b.len + 1);
    if (b.len > 0)
        memcpy(text, b.data, b.len);
    return text;
}

/* The first field of that number as text; "" when there is none. */
static char *text_field(box_bytes message, uint32_t number)
{
    field f;
    while (next_field(&message, &f) == 1) {
        if (f.number == number)
            return text_of(f.bytes);
    }
    return text_of((box_bytes){0});
}

/* --- what a file declares --------------------------------------------------------------------- */

/* Field numbers of descriptor.proto: which fields of a declaration hold declarations. */
typedef enum kind { KIND_FILE, KIND_MESSAGE, KIND_ENUM, KIND_SERVICE, KIND_LEAF } kind;

typedef struct child {
    kind parent;
    uint32_t number;
    kind kind;
} child;

static const child children[] = {
    {KIND_FILE, 4, KIND_MESSAGE},    /* message_type */
    {KIND_FILE, 5, KIND_ENUM},       /* enum_type */
    {KIND_FILE, 6, KIND_SERVICE},    /* service */
    {KIND_FILE, 7, KIND_LEAF},       /* extension */
    {KIND_MESSAGE, 2, KIND_LEAF},    /* field */
    {KIND_MESSAGE, 3, KIND_MESSAGE}, /* nested_type */
    {KIND_MESSAGE, 4, KIND_ENUM},    /* enum_type */
    {KIND_MESSAGE, 6, KIND_LEAF},    /* extension */
    {KIND_MESSAGE, 8, KIND_LEAF},    /* oneof_decl */
    {KIND_ENUM, 2, KIND_LEAF},       /* value */
    {KIND_SERVICE, 2, KIND_LEAF},    /* method */
};

static const child *find_child(kind parent, uint32_t number)
{
    for (size_t i = 0; i < BOX_COUNT(children); i++) {
        if (children[i].parent == parent && children[i].number == number)
            return &children[i];
    }
    return NULL;
}

static char *join(const char *scope, const char *name)
{
    size_t size = strlen(scope) + strlen(name) + 2;
    char *full = box_alloc(size);
    (void)snprintf(full, size, "%s%s%s", scope, scope[0] == '\0' ? "" : ".", name);
    return full;
}

static void add_symbol(box_descriptors *d, const file *f, const char *name, bool is_message)
{
    symbol *s = box_alloc(sizeof *s);
    *s = (symbol){.file = f, .is_message = is_message};
    free(box_map_put(d->by_symbol, name, s));
}

/* scope: full name of what message_bytes declares, or the package. Enum values stand beside their
 * enum, in enum_scope. protoc's output nests as deep as the .proto does. */
static void add_declarations(box_descriptors *d, const file *f, kind parent, const char *scope,
                             const char *enum_scope, box_bytes bytes)
{
    field at;
    while (next_field(&bytes, &at) == 1) {
        const child *c = find_child(parent, at.number);
        if (c == NULL)
            continue;
        BOX_AUTO(box_freep) char *name = text_field(at.bytes, 1);
        BOX_AUTO(box_freep) char *full = join(parent == KIND_ENUM ? enum_scope : scope, name);
        add_symbol(d, f, full, c->kind == KIND_MESSAGE);
        add_declarations(d, f, c->kind, full, scope, at.bytes);
    }
}

static void add_imports(file *f)
{
    box_bytes bytes = f->public.bytes;
    field at;
    while (next_field(&bytes, &at) == 1) {
        if (at.number != 3) /* dependency */
            continue;
        char **grown = box_alloc_array(f->n_imports + 1, sizeof *grown);
        if (f->n_imports > 0)
            memcpy(grown, f->imports, f->n_imports * sizeof *grown);
        free(f->imports);
        f->imports = grown;
        f->imports[f->n_imports++] = text_of(at.bytes);
    }
}

static void add_file(box_descriptors *d, box_bytes bytes)
{
    BOX_AUTO(box_freep) char *name = text_field(bytes, 1);
    if (box_map_get(d->by_name, name) != NULL)
        return;
    file *f = box_alloc(sizeof *f);
    f->public = (box_descriptor_file){.name = name, .bytes = bytes};
    f->index = (unsigned)d->n_files;
    add_imports(f);
    BOX_AUTO(box_freep) char *package = text_field(bytes, 2);
    add_declarations(d, f, KIND_FILE, package, package, bytes);
    d->files[d->n_files++] = f;
    box_map_put(d->by_name, name, f);
    (void)box_take(name); /* the file's now */
}

/* --- life ------------------------------------------------------------------------------------- */

static int count_files(box_bytes set, size_t *n)
{
    field f;
    int rc;
    while ((rc = next_field(&set, &f)) == 1)
        *n += f.number == 1; /* FileDescriptorSet.file */
    return rc;
}

int box_descriptors_new(const box_descriptor_set *sets, size_t n_sets, box_descriptors **out,
                        box_error *err)
{
    size_t n = 0;
    for (size_t i = 0; i < n_sets; i++) {
        if (count_files((box_bytes){sets[i].data, sets[i].len}, &n) < 0)
            return box_fail(err, BOX_INTERNAL, "embedded descriptor set %zu is broken", i);
    }
    box_descriptors *d = box_alloc(sizeof *d);
    d->files = box_alloc_array(n + 1, sizeof(file *));
    d->by_name = box_map_new();
    d->by_symbol = box_map_new();
    for (size_t i = 0; i < n_sets; i++) {
        box_bytes set = {sets[i].data, sets[i].len};
        field f;
        while (next_field(&set, &f) == 1) {
            if (f.number == 1)
                add_file(d, f.bytes);
        }
    }
    *out = d;
    return 0;
}

static void file_free(file *f)
{
    char *name = (char *)(uintptr_t)f->public.name; /* text_of made it */
    free(name);
    for (size_t i = 0; i < f->n_imports; i++)
        free(f->imports[i]);
    free(f->imports);
    free(f);
}

void box_descriptors_free(box_descriptors *d)
{
    if (d == NULL)
        return;
    size_t at = 0;
    void *value;
    while (box_map_next(d->by_symbol, &at, &value))
        free(value);
    box_map_free(d->by_symbol);
    box_map_free(d->by_name);
    for (size_t i = 0; i < d->n_files; i++)
        file_free(d->files[i]);
    free(d->files);
    free(d);
}

/* --- look-up ---------------------------------------------------------------------------------- */

/* Breadth first: out doubles as the queue. */
static void with_imports(const box_descriptors *d, const file *first,
                         const box_descriptor_file ***out, size_t *n)
{
    *n = 0;
    if (first == NULL)
        return;
    BOX_AUTO(box_freep) bool *seen = box_alloc_array(d->n_files, sizeof *seen);
    const box_descriptor_file **list = box_alloc_array(d->n_files, sizeof(file *));
    list[(*n)++] = &first->public;
    seen[first->index] = true;
    for (size_t i = 0; i < *n; i++) {
        const file *f = (const file *)list[i];
        for (size_t k = 0; k < f->n_imports; k++) {
            const file *import = box_map_get(d->by_name, f->imports[k]);
            if (import == NULL || seen[import->index])
                continue;
            seen[import->index] = true;
            list[(*n)++] = &import->public;
        }
    }
    *out = list;
}

void box_descriptors_by_file(const box_descriptors *d, const char *name,
                             const box_descriptor_file ***out, size_t *n)
{
    with_imports(d, box_map_get(d->by_name, name), out, n);
}

void box_descriptors_by_symbol(const box_descriptors *d, const char *name,
                               const box_descriptor_file ***out, size_t *n)
{
    const symbol *s = box_map_get(d->by_symbol, name);
    with_imports(d, s == NULL ? NULL : s->file, out, n);
}

bool box_descriptors_has_message(const box_descriptors *d, const char *name)
{
    const symbol *s = box_map_get(d->by_symbol, name);
    return s != NULL && s->is_message;
}
