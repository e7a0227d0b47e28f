/* ToolService: what a model can call. */
#pragma once

#include "tool/tool.h"
#include "wire/service.h"

/* What it works with; outlives the service. */
typedef struct box_toolbox {
    box_sessions *sessions;
    const box_tools *tools;
} box_toolbox;

box_service box_tool_service(box_toolbox *toolbox);
