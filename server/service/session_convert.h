/* Between box.v1's messages and the session manager's structs: specs and sessions. */
#pragma once

#include "box/v1/types.box.h"
#include "service/times.h"
#include "service/tool_choice.h"
#include "session/session.h"
#include "wire/call.h"

/* The caller's tenant; UNAUTHENTICATED when nobody is known. */
int box_convert_tenant(const box_call *call, const char **out, box_error *err) BOX_MUST_USE;

/* Nanoseconds, saturating. A violation of `field` when it is malformed or negative. */
int box_convert_span(const Google__Protobuf__Duration *d, const char *field, int64_t *out_ns,
                     box_error *err) BOX_MUST_USE;

/* GUARANTEE_UNSUPPORTED {guarantees, backend}: the request sets a field that nothing is made of
 * yet.
 */
int box_convert_not_built(const char *field, box_error *err);

/* message NULL asks nothing. *out is to be freed (box_spec_done) in any case. Violations name
 * "spec.FIELD". What is not built yet is noted in out->unsupported. */
int box_convert_spec(const Box__V1__SessionSpec *message, box_spec *out, box_error *err)
    BOX_MUST_USE;

/* SHA-256 of a request, for idempotency keys. */
void box_convert_digest(const ProtobufCMessage *message, uint8_t out[32]);

enum { BOX_VIEW_GUARANTEES = 20 /* bits of box_guarantee */, BOX_VIEW_LABELS = 64 };

/* What a profile changed, as messages. */
typedef struct box_adjustment_view {
    Box__V1__Adjustment messages[BOX_MAX_ADJUSTMENTS + 1];
    Box__V1__Adjustment *pointers[BOX_MAX_ADJUSTMENTS + 1];
    char fields[BOX_MAX_ADJUSTMENTS + 1][64];
    char texts[2][48]; /* of one with numbers */
    size_t n;
} box_adjustment_view;

void box_view_adjustments(box_adjustment_view *v, const box_session_info *info);
/* Adds "command.timeout". */
void box_view_timeout(box_adjustment_view *v, int64_t asked_ns, uint64_t effective_ns);

/* A session as a message, with all it points to; borrows from info. */
typedef struct box_session_view {
    Box__V1__Session message;
    Box__V1__SessionSpec spec;
    Box__V1__SessionUsage usage;
    Google__Protobuf__Timestamp created, updated, used, expires, stopped, measured;
    Google__Protobuf__Duration idle, lifetime, timeout, cpu;
    Box__V1__SessionSpec__LabelsEntry labels[BOX_VIEW_LABELS];
    Box__V1__SessionSpec__LabelsEntry *label_pointers[BOX_VIEW_LABELS];
    Box__V1__Guarantee guarantees[BOX_VIEW_GUARANTEES];
    Box__V1__Guarantee *guarantee_pointers[BOX_VIEW_GUARANTEES];
    char *required[BOX_VIEW_GUARANTEES];
    box_adjustment_view adjustments;
    box_tool_choice_view tools;
    char **env_keys; /* owned */
    char uid[BOX_UID_TEXT];
} box_session_view;

void box_view_session(box_session_view *v, const box_session_info *info);
void box_view_usage(box_session_view *v, const box_session_usage *usage);
void box_session_view_done(box_session_view *v);

Box__V1__SessionState box_view_state(box_session_state s);
