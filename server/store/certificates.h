/* Development certificates: made on the first start when the configuration names none. */
#pragma once

#include <stdint.h>

#include "base/error.h"

/* Names of the files in the state directory. */
#define BOX_DEV_CA_FILE   "ca.pem"
#define BOX_DEV_CERT_FILE "server.pem"
#define BOX_DEV_KEY_FILE  "server.key"

/* Makes sure that dirfd holds a CA and a server certificate of it (P-256) for localhost, 127.0.0.1,
 * ::1 and this host's name, with its key (mode 0600). What is there stays, unless a file is missing
 * or broken, they do not belong together, or they end within 30 days; then all are made anew
 * (*made true), valid for 825 days. The CA's key is not kept: nobody can sign more with it. */
int box_dev_certificates(int dirfd, bool *made, box_error *err) BOX_MUST_USE;

/* When the first certificate of a PEM file ends, nanoseconds since 1970. VALIDATION when there is
 * none. Reads the disk. */
int box_certificate_expires(const char *path, int64_t *out_ns, box_error *err) BOX_MUST_USE;
