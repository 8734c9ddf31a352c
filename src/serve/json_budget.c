#include "serve/json_budget.h"

#include <jansson.h>
#include <malloc.h>
#include <stdlib.h>

static _Thread_local struct {
    bool on, exceeded;
    size_t used_bytes, limit_bytes;
} budget;

static void *budget_malloc(size_t n_bytes)
{
    void *memory;

    if (budget.on && (budget.used_bytes > budget.limit_bytes ||
                      n_bytes > budget.limit_bytes - budget.used_bytes)) {
        budget.exceeded = true;
        return NULL;
    }
    memory = malloc(n_bytes);
    if (budget.on && memory)
        budget.used_bytes += malloc_usable_size(memory);
    return memory;
}

static void budget_free(void *memory)
{
    size_t n_bytes = memory ? malloc_usable_size(memory) : 0;

    if (budget.on)
        budget.used_bytes -= n_bytes < budget.used_bytes ? n_bytes : budget.used_bytes;
    free(memory);
}

void json_budget_install(void)
{
    json_set_alloc_funcs(budget_malloc, budget_free);
}

void json_budget_begin(size_t limit_bytes)
{
    budget.on = true;
    budget.exceeded = false;
    budget.used_bytes = 0;
    budget.limit_bytes = limit_bytes;
}

bool json_budget_end(void)
{
    budget.on = false;
    return budget.exceeded;
}

size_t json_budget_for(size_t body_bytes)
{
    enum { FACTOR = 24, AT_LEAST = 1 << 20 };

    return body_bytes * FACTOR + AT_LEAST;
}
