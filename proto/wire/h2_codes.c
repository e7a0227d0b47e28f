/* What HTTP says instead of a gRPC status: status codes and reset codes as reasons. */
#include "wire/h2_internal.h"

void box_h2_status_from_http(int http_status, const char *content_type, box_error *out)
{
    static const struct {
        int http;
        box_reason reason;
    } rows[] = {
        {400, BOX_PROTOCOL},
        {401, BOX_UNAUTHENTICATED},
        {403, BOX_PERMISSION},
        {404, BOX_UNIMPLEMENTED},
        {429, BOX_RUNTIME_UNAVAILABLE},
        {431, BOX_PROTOCOL},
        {502, BOX_RUNTIME_UNAVAILABLE},
        {503, BOX_RUNTIME_UNAVAILABLE},
        {504, BOX_RUNTIME_UNAVAILABLE},
    };
    box_reason reason = BOX_UNKNOWN;
    for (size_t i = 0; i < BOX_COUNT(rows); i++) {
        if (rows[i].http == http_status)
            reason = rows[i].reason;
    }
    (void)box_fail(out, reason, "the server sent no gRPC status (HTTP %d, content-type '%.60s')",
                   http_status, content_type);
}

void box_h2_status_from_reset(uint32_t code, box_error *out)
{
    static const struct {
        uint32_t code;
        box_reason reason;
    } rows[] = {
        {NGHTTP2_NO_ERROR, BOX_PROTOCOL},
        {NGHTTP2_PROTOCOL_ERROR, BOX_PROTOCOL},
        {NGHTTP2_INTERNAL_ERROR, BOX_PROTOCOL},
        {NGHTTP2_FLOW_CONTROL_ERROR, BOX_PROTOCOL},
        {NGHTTP2_SETTINGS_TIMEOUT, BOX_PROTOCOL},
        {NGHTTP2_FRAME_SIZE_ERROR, BOX_PROTOCOL},
        {NGHTTP2_COMPRESSION_ERROR, BOX_PROTOCOL},
        {NGHTTP2_CONNECT_ERROR, BOX_PROTOCOL},
        {NGHTTP2_REFUSED_STREAM, BOX_RUNTIME_UNAVAILABLE},
        {NGHTTP2_CANCEL, BOX_CANCELLED},
        {NGHTTP2_ENHANCE_YOUR_CALM, BOX_RATE_LIMIT},
        {NGHTTP2_INADEQUATE_SECURITY, BOX_PERMISSION},
    };
    box_reason reason = BOX_UNKNOWN;
    for (size_t i = 0; i < BOX_COUNT(rows); i++) {
        if (rows[i].code == code)
            reason = rows[i].reason;
    }
    (void)box_fail(out, reason, "the stream was reset with %s", nghttp2_http2_strerror(code));
}
