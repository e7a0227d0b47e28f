#include "service/tool_choice.h"

#include "base/alloc.h"
#include "base/limits.h"
#include "service/session_convert.h"
#include "service/times.h"
#include "tool/tool.h"

static int check_name(const char *name, const char *field, box_error *err)
{
    if (box_tool_is_own(name))
        return 0;
    return box_violation(err, field, "there is no tool called %.64s", name);
}

static int take_names(const Box__V1__ToolSelection *m, box_tool_choice *out, box_error *err)
{
    int bad = 0;
    if (m->n_names > BOX_MAX_TOOLS)
        return box_violation(err, "spec.tools.names", "more than %d", BOX_MAX_TOOLS);
    if (m->all && m->n_names > 0)
        return box_violation(err, "spec.tools.names", "must be empty with all");
    out->names = m->n_names > 0 ? box_alloc_array(m->n_names, sizeof *out->names) : NULL;
    for (; out->n_names < m->n_names; out->n_names++) {
        bad |= check_name(m->names[out->n_names], "spec.tools.names", err);
        out->names[out->n_names] = box_strdup(m->names[out->n_names]);
    }
    return bad;
}

static int take_setting(const Box__V1__ToolSetting *m, box_tool_choice *out, box_error *err)
{
    int64_t ns = 0;
    int bad = check_name(m->name, "spec.tools.settings.name", err);
    if (box_tool_choice_setting(out, m->name) != NULL)
        bad |= box_violation(err, "spec.tools.settings.name", "%.64s stands twice", m->name);
    if (strlen(m->description) > BOX_MAX_TOOL_DESCRIPTION_BYTES)
        bad |= box_violation(err, "spec.tools.settings.description", "longer than %d bytes",
                             BOX_MAX_TOOL_DESCRIPTION_BYTES);
    if (m->timeout != NULL &&
        box_convert_span(m->timeout, "spec.tools.settings.timeout", &ns, err) < 0)
        bad = -1;
    else if (m->timeout != NULL && ns == 0)
        bad |= box_violation(err, "spec.tools.settings.timeout", "must be greater than 0");
    out->settings[out->n_settings++] =
        (box_tool_setting){box_strdup(m->name), box_strdup(m->description), (uint64_t)ns};
    return bad;
}

int box_convert_tools(const Box__V1__ToolSelection *m, box_tool_choice *out, box_error *err)
{
    *out = (box_tool_choice){.all = m->all};
    int bad = take_names(m, out, err);
    if (m->n_settings > BOX_MAX_TOOLS)
        return box_violation(err, "spec.tools.settings", "more than %d", BOX_MAX_TOOLS);
    out->settings =
        m->n_settings > 0 ? box_alloc_array(m->n_settings, sizeof *out->settings) : NULL;
    for (size_t i = 0; i < m->n_settings; i++)
        bad |= take_setting(m->settings[i], out, err);
    return bad;
}

void box_view_tools(box_tool_choice_view *v, const box_tool_choice *c)
{
    box__v1__tool_selection__init(&v->message);
    v->message.all = c->all;
    v->message.names = c->names;
    v->message.n_names = c->n_names;
    v->message.n_settings = c->n_settings;
    if (c->n_settings == 0)
        return;
    v->settings = box_alloc_array(c->n_settings, sizeof *v->settings);
    v->pointers = box_alloc_array(c->n_settings, sizeof(void *));
    v->timeouts = box_alloc_array(c->n_settings, sizeof *v->timeouts);
    for (size_t i = 0; i < c->n_settings; i++) {
        const box_tool_setting *s = &c->settings[i];
        Box__V1__ToolSetting *m = v->pointers[i] = &v->settings[i];
        box__v1__tool_setting__init(m);
        m->name = s->name;
        m->description = s->description;
        if (s->timeout_ns > 0)
            m->timeout = box_times_span(&v->timeouts[i], s->timeout_ns);
    }
    v->message.settings = v->pointers;
}

void box_tool_choice_view_done(box_tool_choice_view *v)
{
    free(v->settings);
    free(v->pointers);
    free(v->timeouts);
    v->settings = NULL;
    v->pointers = NULL;
    v->timeouts = NULL;
}
