/* A client for tests, on the C library: runs one interoperability case (test_client_cases.c), or
 * the commands of a script that drives several calls at once (test_client_script.c). What happens
 * is printed as JSON objects, one a line. */
#pragma once

#include <jansson.h>

#include "box/call.h"
#include "testing.client.h"

/* Prints one object (taken) as a line. */
void tc_say(json_t *object);
/* code, status, reason, message, retry_ms and details of a status, put into object. */
void tc_put_status(json_t *object, const box_error *status);
/* [[key, value], ...] in order; values of -bin keys in hexadecimal. NULL: null. */
json_t *tc_metadata(const box_metadata *md);

/* Runs the case of that name; false: it failed, and why was printed. */
bool tc_run_case(box_channel *channel, const char *name);
/* Their names, as lines. */
void tc_list_cases(void);

/* Reads commands from stdin until it ends, and prints the events of the calls. A command is words:
 *
 * - open ID, then any of kind=unary|server|client|bidi, path=/S/M, body=BYTES, timeout_ns=N,
 *   md=KEY:VALUE (of -bin keys in hexadecimal), token=TEXT, wait=1, idempotent=1, max=BYTES,
 *   encoding=gzip|deflate; the kinds unary and server send one request and half-close
 *
 * - send ID, then body=BYTES, plain=1 (not compressed)
 *
 * - close ID (half-close), cancel ID, pause ID, resume ID, free ID */
void tc_run_script(box_channel *channel);
