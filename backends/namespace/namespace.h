/* The backend `namespace`: sandboxes from the kernel's own namespaces, made as root,
 * or without (outer.h). */
#pragma once

#include "backend.h"

extern const box_backend_ops box_namespace_ops;
