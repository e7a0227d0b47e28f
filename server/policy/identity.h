/* Who calls: the outcome of authentication, before any body is parsed. A plain value. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/id.h"

/* Scopes a token can carry; a method needs one (policy/scope.c). Bits of identity.scopes. */
typedef enum box_scope {
    BOX_SCOPE_NONE = 0, /* any authenticated caller */
    BOX_SCOPE_SESSION_READ = 1 << 0,
    BOX_SCOPE_SESSION_WRITE = 1 << 1,
    BOX_SCOPE_EXEC_WRITE = 1 << 2,
    BOX_SCOPE_PROCESS_READ = 1 << 3,
    BOX_SCOPE_PROCESS_WRITE = 1 << 4,
    BOX_SCOPE_FILE_READ = 1 << 5,
    BOX_SCOPE_FILE_WRITE = 1 << 6,
    BOX_SCOPE_SKILL_READ = 1 << 7,
    BOX_SCOPE_SKILL_WRITE = 1 << 8,
    BOX_SCOPE_TOOL_CALL = 1 << 9,
    BOX_SCOPE_IMAGE_READ = 1 << 10,
    BOX_SCOPE_IMAGE_WRITE = 1 << 11,
    BOX_SCOPE_ADMIN_READ = 1 << 12,
    BOX_SCOPE_ADMIN_WRITE = 1 << 13,
    BOX_SCOPE_TENANTS_ACT = 1 << 14,
} box_scope;

enum { BOX_ALL_SCOPES = (1 << 15) - 1, BOX_MAX_TENANT_ID = 64, BOX_CERTIFICATE_NAME = 128 };

typedef struct box_identity {
    char tenant[BOX_MAX_TENANT_ID + 1];
    uint64_t token_id; /* 0: a Unix-socket peer without a token, or authentication off */
    uint32_t scopes;
    char certificate[BOX_CERTIFICATE_NAME]; /* name in the verified client certificate, cut; "" */
    bool by_peer;                           /* by the uid of a Unix-socket peer */
} box_identity;

/* "session.write" <-> bit; NULL, 0 when there is none. */
const char *box_scope_name(uint32_t scope);
uint32_t box_scope_from_name(const char *name);
