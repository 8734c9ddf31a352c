/* Which options to change when a memory plan does not fit. */
#ifndef ENGINE_MEMORY_MEMORY_ADVICE_H
#define ENGINE_MEMORY_MEMORY_ADVICE_H

#include "base/buf.h"
#include "engine/memory/memory_plan.h"

/* A request that does not fit, with memory_plan_try()'s other arguments. */
struct memory_query {
    const struct gptoss_config *config;
    const struct memory_request *request;
    int64_t weight_bytes, available_bytes;
    const struct memory_plan *plan; /* as far as it got: values requested or chosen */
};

/* Appends which options to change, each to what value, where any one is enough:
 * "--max-model-len 2048 or less, or ...". Each has been tried. Appends nothing when no value of any
 * of them is enough. */
void memory_advice_write(struct buf *out, const struct memory_query *q);

#endif
