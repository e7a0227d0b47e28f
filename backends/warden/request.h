/* Checks what boxd sends, against the protocol and the warden's own configuration. */
#pragma once

#include "base/error.h"
#include "warden/config.h"
#include "warden/protocol.h"

/* What a zero field of a create request means, design section 6. */
#define BOX_SANDBOX_MEMORY_BYTES    (INT64_C(512) << 20)
#define BOX_SANDBOX_PIDS            128
#define BOX_SANDBOX_CPU_MILLIS      1000
#define BOX_SANDBOX_WORKSPACE_BYTES (INT64_C(64) << 20)
#define BOX_SANDBOX_TMP_BYTES       (INT64_C(64) << 20)
#define BOX_SANDBOX_HOME_BYTES      (INT64_C(16) << 20)
#define BOX_SANDBOX_SHM_BYTES       (INT64_C(16) << 20)

/* A packet: its header and where its body starts. PROTOCOL unless the length is exactly what the
 * type asks for and the type is one that boxd sends. `body` points into `packet`. */
int box_warden_packet_parse(const void *packet, size_t len, box_warden_header *header,
                            const void **body, box_error *err) BOX_MUST_USE;

/* HELLO of boxd. PROTOCOL for unended strings, VERSION_MISMATCH for another version. */
int box_warden_hello_check(const box_warden_hello *hello, const char *backend, box_error *err)
    BOX_MUST_USE;

/* Replaces zero fields by the defaults, then checks all of it. VALIDATION with every violation,
 * QUOTA above a maximum, GUARANTEE_UNSUPPORTED naming what `guarantees` lacks of it. */
int box_warden_create_check(box_warden_create *request, const box_warden_config *config,
                            const char *backend, uint32_t guarantees, box_error *err) BOX_MUST_USE;

/* Whether its workspace is an image on disk: a large or persistent one, where the backend has them,
 * or one that requires it. Of a request that was checked. */
bool box_warden_create_on_disk(const box_warden_create *request, uint32_t guarantees);

int box_warden_limits_check(const box_warden_limits *limits, const box_warden_config *config,
                            const char *backend, uint32_t guarantees, box_error *err) BOX_MUST_USE;

/* Fails with GUARANTEE_UNSUPPORTED and metadata guarantees (names, comma-separated) and backend. */
int box_guarantee_fail(box_error *err, const char *backend, uint32_t missing, const char *field);

/* Absolute, normalised (no empty part, "." or ".."), printable, and at none of the places that
 * belong to the system inside. `field` names it in the violation. */
int box_mount_path_check(const char *path, const char *field, box_error *err) BOX_MUST_USE;
/* True when path is dir or lies beneath it; both normalised. */
bool box_path_within(const char *path, const char *dir);
