/* The kernels of the steps that ran, from their launch lists, and a check that the kernels that
 * options select by name are among them. */
#include <stdio.h>
#include <string.h>

#include "cuda/program/plan.h"

/* Kernels of the table whose symbol is the name up to its template arguments; N_KERNELS: none. */
static enum kernel kernel_of(const char *name)
{
    const size_t n = strcspn(name, "<");
    int i = 0;

    while (i < N_KERNELS &&
           (strlen(kernel_texts[i].symbol) != n || memcmp(kernel_texts[i].symbol, name, n) != 0))
        i++;
    return (enum kernel)i;
}

/* ---- one plan ---- */

struct report {
    struct kernel_use *uses; /* (n_max) */
    int n, n_max, first;     /* first: of the current plan */
    unsigned seen;           /* kernels of the table in any plan */
};

static bool is_same(const struct kernel_use *a, const struct kernel_use *b)
{
    return strcmp(a->name, b->name) == 0 && memcmp(a->grid, b->grid, sizeof(a->grid)) == 0 &&
           memcmp(a->block, b->block, sizeof(a->block)) == 0 && a->shared_bytes == b->shared_bytes;
}

static void add_use(struct report *r, const struct kernel_use *use)
{
    for (int i = r->first; i < r->n; i++)
        if (is_same(&r->uses[i], use)) {
            r->uses[i].n_calls++;
            return;
        }
    if (r->n < r->n_max)
        r->uses[r->n++] = *use;
}

static void add_launch(struct report *r, const struct step_plan *plan, const struct launch *l)
{
    struct kernel_use use = {.n_rows = plan->counts.n_rows,
                             .n_prefill = plan->counts.n_rows - plan->counts.n_decode,
                             .n_seqs = plan->counts.n_seqs,
                             .n_steps = (int64_t)plan->n_steps,
                             .n_calls = 1,
                             .shared_bytes = (int)l->shared_bytes};
    const enum kernel kernel = kernel_of(l->name);

    snprintf(use.name, sizeof(use.name), "%.90s", l->name);
    for (int i = 0; i < 3; i++) {
        use.grid[i] = (int)l->grid[i];
        use.block[i] = (int)l->block[i];
    }
    r->seen |= kernel < N_KERNELS ? SET(kernel) : 0;
    add_use(r, &use);
}

static void add_plan(struct report *r, const struct step_plan *plan)
{
    r->first = r->n;
    for (int i = 0; i < plan->list.n; i++)
        add_launch(r, plan, &plan->list.launches[i]);
}

/* ---- all ---- */

static enum osp_status check_request(const struct report *r, const struct kernel_request *w,
                                     const char *flag)
{
    for (int i = 0; i < N_KERNELS; i++)
        if (w->op_class == OPCLASS_AUTO ||
            (kernel_texts[i].op_class == w->op_class && r->seen & SET(i)))
            return OSP_OK;
    return fail(OSP_EDEVICE,
                "cuda: %s %s: no step has launched such a kernel; if it is a prefill kernel, "
                "measure prefill, too",
                flag, opclass_names[w->op_class]);
}

/* Whether the plans differ only in context length. */
static bool is_same_but_context(const struct step_plan *a, const struct step_plan *b)
{
    struct step_counts counts = a->counts;

    counts.n_units = b->counts.n_units;
    return memcmp(&counts, &b->counts, sizeof(counts)) == 0;
}

/* Of plans that differ only in context length, the one that ran most often. */
static bool is_representative(const struct compiled *c, const struct step_plan *plan)
{
    for (int i = 0; i < PLANS_MAX; i++) {
        const struct step_plan *o = c->plans[i];

        if (o != NULL && o != plan && is_same_but_context(o, plan) &&
            (o->n_steps > plan->n_steps || (o->n_steps == plan->n_steps && o < plan)))
            return false;
    }
    return true;
}

static void add_program(struct report *r, const struct compiled *c)
{
    for (int i = 0; i < PLANS_MAX; i++)
        if (c->plans[i] != NULL && is_representative(c, c->plans[i]))
            add_plan(r, c->plans[i]);
}

enum osp_status gpu_kernels(const struct gpu *gpu, struct kernel_use *out, int n_max, int *n)
{
    struct report r = {.uses = out, .n_max = n_max};
    enum osp_status st;

    *n = 0;
    for (const struct compiled *c = gpu->programs; c != NULL; c = c->next)
        add_program(&r, c);
    if (r.n == 0)
        return fail(OSP_EUNSUPPORTED, "cuda: no step has run yet, so there are no kernels to list");
    TRY(check_request(&r, &gpu->kernel_config.mxfp4, "--mxfp4-backend"));
    TRY(check_request(&r, &gpu->kernel_config.attention, "--attention-backend"));
    *n = r.n;
out:
    return st;
}
