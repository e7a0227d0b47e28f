#include "rpc/counts.h"

#include <stdatomic.h>

#include "base/alloc.h"

enum { CODES = BOX_CODE_UNAUTHENTICATED + 1 };

typedef atomic_uint_fast64_t row[CODES];

struct box_call_counts {
    const box_service *services;
    size_t n_services;
    row *rows; /* of all methods in order, then one for those that there are not */
};

box_call_counts *box_call_counts_new(const box_service *services, size_t n)
{
    size_t methods = 0;
    box_call_counts *c = box_alloc(sizeof *c);
    for (size_t i = 0; i < n; i++)
        methods += services[i].type->n_methods;
    c->services = services;
    c->n_services = n;
    c->rows = box_alloc((methods + 1) * sizeof c->rows[0]);
    return c;
}

void box_call_counts_free(box_call_counts *c)
{
    if (c == NULL)
        return;
    free(c->rows);
    free(c);
}

/* The methods of a service lie in one array. */
static size_t row_of(const box_call_counts *c, const box_method *method)
{
    size_t at = 0;
    for (size_t i = 0; i < c->n_services; i++) {
        const box_service_type *type = c->services[i].type;
        uintptr_t first = (uintptr_t)type->methods, wanted = (uintptr_t)method;
        if (wanted >= first && wanted < first + type->n_methods * sizeof *method)
            return at + (size_t)(method - type->methods);
        at += type->n_methods;
    }
    return at;
}

void box_call_counts_add(box_call_counts *c, const box_method *method, const box_error *err)
{
    if (c == NULL)
        return;
    box_code code = err != NULL ? box_error_code(err) : BOX_CODE_OK;
    if (code > BOX_CODE_UNAUTHENTICATED)
        code = BOX_CODE_UNKNOWN;
    atomic_fetch_add_explicit(&c->rows[row_of(c, method)][code], 1, memory_order_relaxed);
}

static void visit_row(const row *r, const char *path,
                      void (*visit)(void *arg, const char *path, box_code code, uint64_t count),
                      void *arg)
{
    for (unsigned code = 0; code < CODES; code++) {
        uint64_t count = atomic_load_explicit(&(*r)[code], memory_order_relaxed);
        if (count > 0)
            visit(arg, path, (box_code)code, count);
    }
}

void box_call_counts_each(box_call_counts *c,
                          void (*visit)(void *arg, const char *path, box_code code, uint64_t count),
                          void *arg)
{
    size_t at = 0;
    for (size_t i = 0; i < c->n_services; i++) {
        const box_service_type *type = c->services[i].type;
        for (size_t m = 0; m < type->n_methods; m++)
            visit_row(&c->rows[at++], type->methods[m].path, visit, arg);
    }
    visit_row(&c->rows[at], "", visit, arg);
}
