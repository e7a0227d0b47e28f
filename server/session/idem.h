/* Idempotency keys: which creating and Exec calls were seen lately. A bounded table; entries stay
 * BOX_IDEMPOTENCY_SECONDS after their call ended. Not for several threads at once: the session
 * table's lock guards it. */
#pragma once

#include <stdbool.h>

#include "base/clock.h"
#include "base/error.h"

typedef struct box_idem box_idem;

typedef enum box_idem_outcome {
    BOX_IDEM_NEW,     /* this call is the first */
    BOX_IDEM_RUNNING, /* the first is not over */
    BOX_IDEM_ENDED,
} box_idem_outcome;

enum { BOX_IDEM_DIGEST = 32, BOX_MAX_IDEMPOTENCY_KEY_BYTES = 128 };

box_idem *box_idem_new(void);
void box_idem_free(box_idem *t);

/* Looks the key up, or enters it. method tells Create from Exec. *out_session: what the first call
 * noted ("" = nothing yet), borrowed until the next call here. IDEMPOTENCY_MISMATCH when the digest
 * is another, QUOTA when the table is full, VALIDATION for a key that is too long. */
int box_idem_begin(box_idem *t, const char *tenant, const char *method, const char *key,
                   const uint8_t digest[BOX_IDEM_DIGEST], box_time now, box_idem_outcome *out,
                   const char **out_session, box_error *err) BOX_MUST_USE;
/* Notes the session's id. */
void box_idem_note(box_idem *t, const char *tenant, const char *method, const char *key,
                   const char *session);
/* The call ended. keep false: it never did anything and may be tried again. */
void box_idem_end(box_idem *t, const char *tenant, const char *method, const char *key, bool keep,
                  box_time now);
