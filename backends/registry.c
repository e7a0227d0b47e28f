#include "backend.h"

#include "namespace/namespace.h"

static const box_backend_ops *const backends[] = {
    &box_namespace_ops,
};

const box_backend_ops *box_backend_find(const char *name)
{
    for (size_t i = 0; i < BOX_COUNT(backends); i++) {
        if (strcmp(backends[i]->name, name) == 0)
            return backends[i];
    }
    return NULL;
}
