#include "serve/fields/json_budget.h"

#include <jansson.h>
#include <malloc.h>
#include <stdlib.h>

#include "serve/http/errors.h"

static _Thread_local struct {
    bool on, exceeded, failed;
    size_t used_bytes, limit_bytes;
} budget;

/* After one failed allocation all others fail, until the budget ends: jansson drops a value that
 * it cannot allocate and continues, and it aborts if a later allocation then succeeds. */
static void *budget_malloc(size_t n_bytes)
{
    void *memory;

    if (budget.on && (budget.failed || budget.exceeded))
        return NULL;
    if (budget.on && (budget.used_bytes > budget.limit_bytes ||
                      n_bytes > budget.limit_bytes - budget.used_bytes)) {
        budget.exceeded = true;
        return NULL;
    }
    memory = malloc(n_bytes);
    budget.failed = budget.failed || !memory;
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
    budget.exceeded = budget.failed = false;
    budget.used_bytes = 0;
    budget.limit_bytes = limit_bytes;
}

void json_budget_more(size_t n_bytes)
{
    budget.limit_bytes += n_bytes;
}

enum osp_status json_budget_end(void)
{
    budget.on = false;
    if (budget.failed)
        return OSP_ENOMEM;
    return budget.exceeded ? OSP_ELIMIT : OSP_OK;
}

size_t json_budget_for(size_t body_bytes)
{
    enum { FACTOR = 24, AT_LEAST = 1 << 20 };

    return body_bytes * FACTOR + AT_LEAST;
}

enum osp_status json_budget_failure(enum osp_status st, enum osp_status memory, size_t body_bytes,
                                    struct api_error *out)
{
    if (memory == OSP_ENOMEM) { /* what was read, and perhaps submitted, may lack something */
        api_error_set(out, 503, NULL, "out of memory for the JSON of the request; try again");
        return OSP_ENOMEM;
    }
    if (st != OSP_OK)
        api_error_set(out, 400, "invalid_value",
                      "the body has too many JSON values: they need more than %zu MiB of memory, "
                      "the limit for a body of this size; send fewer or larger values",
                      json_budget_for(body_bytes) >> 20);
    return st;
}
