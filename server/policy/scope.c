#include "policy/identity.h"

#include <string.h>

#include "base/macros.h"

typedef struct scope_row {
    uint32_t bit;
    const char *name;
} scope_row;

static const scope_row scopes[] = {
    {BOX_SCOPE_SESSION_READ, "session.read"},   {BOX_SCOPE_SESSION_WRITE, "session.write"},
    {BOX_SCOPE_EXEC_WRITE, "exec.write"},       {BOX_SCOPE_PROCESS_READ, "process.read"},
    {BOX_SCOPE_PROCESS_WRITE, "process.write"}, {BOX_SCOPE_FILE_READ, "file.read"},
    {BOX_SCOPE_FILE_WRITE, "file.write"},       {BOX_SCOPE_SKILL_READ, "skill.read"},
    {BOX_SCOPE_SKILL_WRITE, "skill.write"},     {BOX_SCOPE_TOOL_CALL, "tool.call"},
    {BOX_SCOPE_IMAGE_READ, "image.read"},       {BOX_SCOPE_IMAGE_WRITE, "image.write"},
    {BOX_SCOPE_ADMIN_READ, "admin.read"},       {BOX_SCOPE_ADMIN_WRITE, "admin.write"},
    {BOX_SCOPE_TENANTS_ACT, "tenants.act"},
};

const char *box_scope_name(uint32_t scope)
{
    for (size_t i = 0; i < BOX_COUNT(scopes); i++) {
        if (scopes[i].bit == scope)
            return scopes[i].name;
    }
    return NULL;
}

uint32_t box_scope_from_name(const char *name)
{
    for (size_t i = 0; i < BOX_COUNT(scopes); i++) {
        if (strcmp(scopes[i].name, name) == 0)
            return scopes[i].bit;
    }
    return 0;
}
