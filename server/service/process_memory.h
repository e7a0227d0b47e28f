/* Memory of this process. */
#pragma once

#include <stdint.h>

/* Resident bytes; 0 when that cannot be read. */
int64_t box_process_resident_bytes(void);
