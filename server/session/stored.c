#include "session/stored.h"

#include "base/alloc.h"
#include "base/limits.h"
#include "session/table.h"

/* 1: the first. A field is only ever added, behind the others, with a number of its own. 2: tools.
 */
enum { FIRST = 1, WITH_TOOLS, VERSION = WITH_TOOLS };

/* One walk over the fields for both directions, so that they cannot differ. Numbers are in the
 * machine's order: the file stays on it. */
typedef struct codec {
    box_buf *out; /* NULL: reads */
    const uint8_t *at;
    const uint8_t *end;
    bool bad; /* damaged, or too large: see err */
    box_error *err;
} codec;

static void raw(codec *c, void *data, size_t len)
{
    if (c->bad)
        return;
    if (c->out != NULL) {
        c->bad = box_buf_add(c->out, data, len, c->err) < 0;
    } else if ((size_t)(c->end - c->at) < len) {
        c->bad = true;
    } else {
        memcpy(data, c->at, len);
        c->at += len;
    }
}

static void u32(codec *c, uint32_t *v)
{
    raw(c, v, sizeof *v);
}

static void u64(codec *c, uint64_t *v)
{
    raw(c, v, sizeof *v);
}

static void i64(codec *c, int64_t *v)
{
    raw(c, v, sizeof *v);
}

static void flag(codec *c, bool *v)
{
    uint8_t byte = *v;
    raw(c, &byte, 1);
    c->bad |= byte > 1;
    *v = byte == 1;
}

static void text(codec *c, char **v)
{
    uint32_t len = c->out != NULL && *v != NULL ? (uint32_t)strlen(*v) : 0;
    u32(c, &len);
    if (c->out == NULL && !c->bad) {
        c->bad = (size_t)(c->end - c->at) < len;
        free(*v);
        *v = c->bad ? NULL : box_alloc((size_t)len + 1);
    }
    if (len > 0 && !c->bad)
        raw(c, *v, len);
    if (c->out == NULL && !c->bad)
        c->bad = memchr(*v, '\0', len) != NULL;
}

static void pairs(codec *c, box_label **all, size_t *n, size_t max)
{
    uint32_t count = (uint32_t)*n;
    u32(c, &count);
    c->bad |= count > max;
    if (c->bad)
        return;
    if (c->out == NULL && count > 0)
        *all = box_alloc_array(count, sizeof **all);
    for (uint32_t i = 0; i < count; i++) {
        if (c->out == NULL)
            *n = i + 1; /* what is there is freed, also of damaged ones */
        text(c, &(*all)[i].key);
        text(c, &(*all)[i].value);
    }
}

static void spec(codec *c, box_spec *s)
{
    uint32_t mode = s->host_path_mode;
    uint32_t cpu = (uint32_t)s->cpu_millis;
    text(c, &s->profile);
    text(c, &s->backend);
    text(c, &s->image);
    text(c, &s->host_path);
    text(c, &s->mount_path);
    text(c, &s->workdir);
    flag(c, &s->network_on);
    flag(c, &s->read_only_rootfs);
    flag(c, &s->destroy_on_timeout);
    u32(c, &mode);
    u32(c, &cpu);
    u32(c, &s->max_parallel_execs);
    u32(c, &s->guarantees);
    i64(c, &s->memory_bytes);
    i64(c, &s->pids);
    i64(c, &s->workspace_limit_bytes);
    u64(c, &s->idle_ttl_ns);
    u64(c, &s->max_lifetime_ns);
    u64(c, &s->command_timeout_ns);
    pairs(c, &s->labels, &s->n_labels, BOX_MAX_LABELS);
    pairs(c, &s->env, &s->n_env, BOX_MAX_ENV);
    c->bad |= mode > BOX_HOST_PATH_NONE;
    s->host_path_mode = (box_host_path_mode)mode;
    s->cpu_millis = (int32_t)cpu;
}

static void adjustments(codec *c, box_session *s)
{
    uint32_t n = (uint32_t)s->n_adjustments;
    u32(c, &n);
    c->bad |= n > BOX_MAX_ADJUSTMENTS;
    for (uint32_t i = 0; i < n && !c->bad; i++) {
        box_adjustment *a = &s->adjustments[i];
        raw(c, a, sizeof *a);
        a->field[sizeof a->field - 1] = a->rule[sizeof a->rule - 1] = '\0';
        a->requested[sizeof a->requested - 1] = a->effective[sizeof a->effective - 1] = '\0';
        s->n_adjustments = i + 1;
    }
}

static void tools(codec *c, box_tool_choice *t)
{
    uint32_t n_names = (uint32_t)t->n_names;
    uint32_t n_settings = (uint32_t)t->n_settings;
    flag(c, &t->all);
    u32(c, &n_names);
    u32(c, &n_settings);
    c->bad |= n_names > BOX_MAX_TOOLS || n_settings > BOX_MAX_TOOLS;
    if (c->bad)
        return;
    if (c->out == NULL) { /* zeroed: what is there is freed, also of damaged ones */
        t->names = box_alloc_array((size_t)n_names + 1, sizeof *t->names);
        t->settings = box_alloc_array((size_t)n_settings + 1, sizeof *t->settings);
        t->n_names = n_names;
        t->n_settings = n_settings;
    }
    for (uint32_t i = 0; i < n_names; i++)
        text(c, &t->names[i]);
    for (uint32_t i = 0; i < n_settings; i++) {
        text(c, &t->settings[i].name);
        text(c, &t->settings[i].description);
        u64(c, &t->settings[i].timeout_ns);
    }
}

static void session(codec *c, uint32_t version, box_session *s)
{
    text(c, &s->id);
    spec(c, &s->spec);
    adjustments(c, s);
    u32(c, &s->required);
    u32(c, &s->best_effort);
    u32(c, &s->guarantees);
    u32(c, &s->rebuilds);
    i64(c, &s->created_wall_ns);
    i64(c, &s->updated_wall_ns);
    if (version >= WITH_TOOLS)
        tools(c, &s->spec.tools);
    else
        s->spec.tools.all = true;
}

int box_stored_pack(box_session *s, box_buf *out, box_error *err)
{
    uint32_t version = VERSION;
    codec c = {.out = out, .err = err};
    u32(&c, &version);
    session(&c, version, s);
    return c.bad ? -1 : 0;
}

int box_stored_unpack(box_bytes record, box_session *s, box_error *err)
{
    uint32_t version = 0;
    codec c = {.at = record.data, .end = record.data + record.len, .err = err};
    u32(&c, &version);
    if (!c.bad && version > VERSION)
        return box_fail(err, BOX_VERSION_MISMATCH, "a session's record has version %u, this is %d",
                        version, VERSION);
    if (!c.bad)
        session(&c, version, s);
    if (c.bad || version < FIRST || c.at != c.end || s->id[0] == '\0' ||
        box_session_id_check(s->id, "session_id", err) < 0)
        return box_fail(err, BOX_PROTOCOL, "a damaged record of a session");
    s->spec.set = BOX_SPEC_ALL;
    s->spec.persistent = true;
    return 0;
}
