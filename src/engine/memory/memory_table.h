/* The memory plan as a table for people, before weights are loaded. */
#ifndef ENGINE_MEMORY_MEMORY_TABLE_H
#define ENGINE_MEMORY_MEMORY_TABLE_H

#include "base/buf.h"
#include "engine/memory/memory_plan.h"
#include "model/weights.h"

/* Lines with '\n': a part of the memory each, its bytes, and what decides them. parts: of the
 * weights; NULL: not known (generated weights). */
void memory_table_write(struct buf *out, const struct memory_plan *p, const struct gptoss_config *c,
                        const struct device_memory_info *info, const struct weights_report *parts);

/* The same as log lines. */
void memory_table_log(const struct memory_plan *p, const struct gptoss_config *c,
                      const struct device_memory_info *info, const struct weights_report *parts);

#endif
