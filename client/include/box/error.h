/* box_error for users of the client library: see base/error.h. */
#pragma once

#include "base/error.h"
