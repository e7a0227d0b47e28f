#include "wire/service.h"

static const box_method *find_method(const box_service_type *type, const char *path)
{
    for (size_t i = 0; i < type->n_methods; i++) {
        if (strcmp(type->methods[i].path, path) == 0)
            return &type->methods[i];
    }
    return NULL;
}

/* Some fifteen services of some fifteen methods: the name comparison skips whole services. */
bool box_service_find(const box_service *services, size_t n_services, const char *path,
                      const box_service **service, const box_method **method)
{
    const char *slash = path[0] == '/' ? strchr(path + 1, '/') : NULL;
    if (slash == NULL)
        return false;
    size_t name_len = (size_t)(slash - path) - 1;
    for (size_t i = 0; i < n_services; i++) {
        const char *name = services[i].type->name;
        if (strncmp(name, path + 1, name_len) != 0 || name[name_len] != '\0')
            continue;
        const box_method *found = find_method(services[i].type, path);
        if (found == NULL)
            continue;
        *service = &services[i];
        *method = found;
        return true;
    }
    return false;
}
