#include "service/session_convert.h"

#include <openssl/evp.h>

#include "base/alloc.h"
#include "base/limits.h"
#include "box/v1/types.fields.h"
#include "policy/identity.h"
#include "warden/protocol.h"

int box_convert_tenant(const box_call *call, const char **out, box_error *err)
{
    const box_identity *who = box_call_identity(call);
    if (who == NULL)
        return box_fail(err, BOX_UNAUTHENTICATED, "this call needs a known caller");
    *out = who->tenant;
    return 0;
}

int box_convert_not_built(const char *field, box_error *err)
{
    (void)box_fail(err, BOX_GUARANTEE_UNSUPPORTED, "%s is not built yet: leave it out", field);
    box_error_add(err, "guarantees", field);
    box_error_add(err, "backend", "");
    return -1;
}

int box_convert_span(const Google__Protobuf__Duration *d, const char *field, int64_t *out_ns,
                     box_error *err)
{
    const int64_t second = (int64_t)BOX_SECOND;
    const int64_t most = INT64_C(315576000000); /* 10,000 years: duration.proto, field seconds */
    bool mixed = (d->seconds > 0 && d->nanos < 0) || (d->seconds < 0 && d->nanos > 0);
    if (mixed || d->nanos >= second || d->nanos <= -second || d->seconds > most ||
        d->seconds < -most)
        return box_violation(err, field, "is not a well-formed duration");
    if (d->seconds < 0 || d->nanos < 0)
        return box_violation(err, field, "must not be negative");
    *out_ns = d->seconds >= INT64_MAX / second ? INT64_MAX : d->seconds * second + d->nanos;
    return 0;
}

void box_convert_digest(const ProtobufCMessage *message, uint8_t out[32])
{
    size_t len = protobuf_c_message_get_packed_size(message);
    BOX_AUTO(box_freep) uint8_t *bytes = box_alloc(len + 1);
    (void)protobuf_c_message_pack(message, bytes); /* len, as just said */
    if (!EVP_Digest(bytes, len, out, NULL, EVP_sha256(), NULL))
        abort(); /* only without memory */
}

/* --- specs in --------------------------------------------------------------------------------- */

static void take_text(box_spec *out, uint32_t bit, char **to, const char *value)
{
    if (value[0] == '\0')
        return;
    *to = box_strdup(value);
    out->set |= bit;
}

static int take_modes(const Box__V1__SessionSpec *m, box_spec *out, box_error *err)
{
    int bad = 0;
    if (m->network != BOX__V1__NETWORK_MODE__NETWORK_MODE_UNSPECIFIED) {
        out->set |= BOX_SPEC_NETWORK;
        out->network_on = m->network == BOX__V1__NETWORK_MODE__NETWORK_MODE_ON;
        if (m->network != BOX__V1__NETWORK_MODE__NETWORK_MODE_OFF && !out->network_on)
            bad |= box_violation(err, "spec.network", "is no known value");
    }
    switch (m->host_path_mode) {
    case BOX__V1__MOUNT_MODE__MOUNT_MODE_UNSPECIFIED:
        return bad;
    case BOX__V1__MOUNT_MODE__MOUNT_MODE_NONE:
        out->host_path_mode = BOX_HOST_PATH_NONE;
        break;
    case BOX__V1__MOUNT_MODE__MOUNT_MODE_READ_ONLY:
        out->host_path_mode = BOX_HOST_PATH_RO;
        break;
    case BOX__V1__MOUNT_MODE__MOUNT_MODE_READ_WRITE:
        out->host_path_mode = BOX_HOST_PATH_RW;
        break;
    default:
        bad |= box_violation(err, "spec.host_path_mode", "is no known value");
    }
    out->set |= BOX_SPEC_HOST_PATH_MODE;
    return bad;
}

static void take_numbers(const Box__V1__SessionSpec *m, box_spec *out)
{
    if (box__v1__session_spec__has_cpu_millis(m)) {
        out->set |= BOX_SPEC_CPU;
        out->cpu_millis = m->cpu_millis;
    }
    if (box__v1__session_spec__has_memory_bytes(m)) {
        out->set |= BOX_SPEC_MEMORY;
        out->memory_bytes = m->memory_bytes;
    }
    if (box__v1__session_spec__has_pids_limit(m)) {
        out->set |= BOX_SPEC_PIDS;
        out->pids = m->pids_limit;
    }
    if (box__v1__session_spec__has_read_only_rootfs(m)) {
        out->set |= BOX_SPEC_READ_ONLY_ROOTFS;
        out->read_only_rootfs = m->read_only_rootfs;
    }
    if (box__v1__session_spec__has_workspace_limit_bytes(m)) {
        out->set |= BOX_SPEC_WORKSPACE_LIMIT;
        out->workspace_limit_bytes = m->workspace_limit_bytes;
    }
    if (box__v1__session_spec__has_max_parallel_execs(m)) {
        out->set |= BOX_SPEC_MAX_PARALLEL_EXECS;
        /* a negative number is as wrong as 0 */
        out->max_parallel_execs = m->max_parallel_execs > 0 ? (uint32_t)m->max_parallel_execs : 0;
    }
    if (box__v1__session_spec__has_persistent(m)) {
        out->set |= BOX_SPEC_PERSISTENT;
        out->persistent = m->persistent;
    }
    if (box__v1__session_spec__has_destroy_on_timeout(m)) {
        out->set |= BOX_SPEC_DESTROY_ON_TIMEOUT;
        out->destroy_on_timeout = m->destroy_on_timeout;
    }
}

static int take_span(const Google__Protobuf__Duration *d, const char *field, uint32_t bit,
                     uint64_t *to, box_spec *out, box_error *err)
{
    int64_t ns = 0;
    if (d == NULL)
        return 0;
    if (box_convert_span(d, field, &ns, err) < 0)
        return -1;
    out->set |= bit;
    *to = (uint64_t)ns;
    return 0;
}

/* The entries of every map<string, string> have the same shape: base, key, value. */
static void take_labels(const Box__V1__SessionSpec *m, box_spec *out)
{
    if (m->n_labels > 0) {
        out->labels = box_alloc_array(m->n_labels, sizeof *out->labels);
        for (; out->n_labels < m->n_labels; out->n_labels++) {
            out->labels[out->n_labels].key = box_strdup(m->labels[out->n_labels]->key);
            out->labels[out->n_labels].value = box_strdup(m->labels[out->n_labels]->value);
        }
        out->set |= BOX_SPEC_LABELS;
    }
    if (m->n_env > 0) {
        out->env = box_alloc_array(m->n_env, sizeof *out->env);
        for (; out->n_env < m->n_env; out->n_env++) {
            out->env[out->n_env].key = box_strdup(m->env[out->n_env]->key);
            out->env[out->n_env].value = box_strdup(m->env[out->n_env]->value);
        }
        out->set |= BOX_SPEC_ENV;
    }
}

static int take_guarantees(const Box__V1__SessionSpec *m, box_spec *out, box_error *err)
{
    enum { MAX_GUARANTEES = 64 };
    if (m->n_guarantees > MAX_GUARANTEES)
        return box_violation(err, "spec.guarantees", "more than 64 names");
    int bad = 0;
    for (size_t i = 0; i < m->n_guarantees; i++) {
        uint32_t bit = box_guarantee_from_name(m->guarantees[i]);
        out->guarantees |= bit;
        if (bit == 0)
            bad |= box_violation(err, "spec.guarantees", "there is no guarantee called %.64s",
                                 m->guarantees[i]);
    }
    return bad;
}

static void take_not_built(const Box__V1__SessionSpec *m, box_spec *out)
{
    const struct {
        const char *name;
        bool is_set;
    } rows[] = {
        {"extra_mounts", m->n_extra_mounts > 0},
        {"skills", m->skills != NULL},
        {"extra_hosts", m->n_extra_hosts > 0},
    };
    for (size_t i = 0; i < BOX_COUNT(rows); i++) {
        if (rows[i].is_set)
            box_spec_refuse(out, rows[i].name);
    }
}

int box_convert_spec(const Box__V1__SessionSpec *m, box_spec *out, box_error *err)
{
    *out = (box_spec){0};
    if (m == NULL)
        return 0;
    take_text(out, BOX_SPEC_PROFILE, &out->profile, m->profile);
    take_text(out, BOX_SPEC_BACKEND, &out->backend, m->backend);
    take_text(out, BOX_SPEC_IMAGE, &out->image, m->image);
    take_text(out, BOX_SPEC_HOST_PATH, &out->host_path, m->host_path);
    take_text(out, BOX_SPEC_MOUNT_PATH, &out->mount_path, m->mount_path);
    take_text(out, BOX_SPEC_WORKDIR, &out->workdir, m->workdir);
    take_numbers(m, out);
    take_labels(m, out);
    take_not_built(m, out);
    int bad = take_modes(m, out, err);
    bad |= take_span(m->command_timeout, "spec.command_timeout", BOX_SPEC_COMMAND_TIMEOUT,
                     &out->command_timeout_ns, out, err);
    bad |= take_span(m->idle_ttl, "spec.idle_ttl", BOX_SPEC_IDLE_TTL, &out->idle_ttl_ns, out, err);
    bad |= take_span(m->max_lifetime, "spec.max_lifetime", BOX_SPEC_MAX_LIFETIME,
                     &out->max_lifetime_ns, out, err);
    bad |= take_guarantees(m, out, err);
    if (m->tools != NULL) {
        out->set |= BOX_SPEC_TOOLS;
        bad |= box_convert_tools(m->tools, &out->tools, err);
    }
    return bad;
}
