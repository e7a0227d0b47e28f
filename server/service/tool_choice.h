/* Between box.v1's ToolSelection and box_tool_choice. */
#pragma once

#include "box/v1/types.box.h"
#include "session/tool_choice.h"

/* *out is to be done in any case. Violations name "spec.tools.FIELD". */
int box_convert_tools(const Box__V1__ToolSelection *m, box_tool_choice *out, box_error *err)
    BOX_MUST_USE;

typedef struct box_tool_choice_view {
    Box__V1__ToolSelection message;
    Box__V1__ToolSetting *settings; /* owned, with what follows */
    Box__V1__ToolSetting **pointers;
    Google__Protobuf__Duration *timeouts;
} box_tool_choice_view;

/* Borrows from c. */
void box_view_tools(box_tool_choice_view *v, const box_tool_choice *c);
void box_tool_choice_view_done(box_tool_choice_view *v);
