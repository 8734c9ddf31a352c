#include "cuda/program/plan.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "cuda/common/expert_sums.h"

static void drop_plan(struct gpu *gpu, struct step_plan *plan)
{
    if (plan == NULL)
        return;
    for (struct step_slot *s = gpu->step_slots; s < gpu->step_slots + STEPS_QUEUED_MAX; s++)
        if (s->plan == plan)
            s->plan = NULL; /* the times of a step that still runs are lost */
    for (int i = 0; i < N_TIMINGS; i++)
        if (plan->exec[i] != NULL)
            (void)cudaGraphExecDestroy(plan->exec[i]);
    gpu_stage_events_free(&plan->events);
    launch_list_free(&plan->list);
    free(plan);
}

static void drop_plans(struct gpu *gpu, struct compiled *c)
{
    for (int i = 0; i < PLANS_MAX; i++) {
        drop_plan(gpu, c->plans[i]);
        c->plans[i] = NULL;
    }
}

void gpu_plans_drop(struct gpu *gpu)
{
    for (struct compiled *c = gpu->programs; c != NULL; c = c->next)
        drop_plans(gpu, c);
}

/* ---- programs ---- */

/* Memory for the bounds of one layer. */
struct bounds_memory {
    struct expert_bounds bounds; /* device */
    int64_t *host;               /* the same, where ranks exchange it; NULL: one rank */
    size_t n_bytes;
};

static int64_t slices_floats(const struct experts_args *a)
{
    return a->w_down.dim[0] * EXPERT_SLICES * a->h.dim[1];
}

static enum osp_status bounds_alloc(struct bounds_memory *m, const struct experts_args *a,
                                    int n_ranks)
{
    const int64_t n_floats = slices_floats(a) + 2 * (int64_t)n_ranks * a->h.dim[1];
    enum osp_status st = OSP_OK;

    if (m->bounds.slices != NULL)
        return OSP_OK;
    m->n_bytes = (size_t)(n_floats + 1) / 2 * 2 * sizeof(float);
    TRY(gpu_check(cudaMalloc((void **)&m->bounds.slices, m->n_bytes),
                  "allocating bounds of the experts' sums"));
    m->bounds.columns = m->bounds.slices + slices_floats(a);
    if (n_ranks > 1)
        TRY(gpu_check(cudaMallocHost((void **)&m->host, m->n_bytes),
                      "allocating bounds of the experts' sums"));
out:
    return st;
}

static void bounds_release(struct bounds_memory *m)
{
    (void)cudaFree(m->bounds.slices);
    (void)cudaFreeHost(m->host);
}

/* Every word is set by one rank and zero on the others, so that a sum of integers collects them. */
static enum osp_status share_bounds(struct gpu *gpu, struct bounds_memory *m)
{
    enum osp_status st = OSP_OK;

    if (m->host == NULL)
        return OSP_OK;
    TRY(gpu_check(
        cudaMemcpyAsync(m->host, m->bounds.slices, m->n_bytes, cudaMemcpyDeviceToHost, gpu->stream),
        "reading bounds of the experts' sums"));
    TRY(gpu_check(cudaStreamSynchronize(gpu->stream), "reading bounds of the experts' sums"));
    TRY(gpu_peers_sum(gpu, m->host, m->n_bytes / sizeof(*m->host)));
    TRY(gpu_check(
        cudaMemcpyAsync(m->bounds.slices, m->host, m->n_bytes, cudaMemcpyHostToDevice, gpu->stream),
        "writing bounds of the experts' sums"));
out:
    return st;
}

static enum osp_status make_grid(struct gpu *gpu, struct bounds_memory *m, float *grid,
                                 const struct experts_args *a)
{
    const int n_ranks = gpu->window != NULL ? gpu->peers.n_ranks : 1;
    enum osp_status st;

    TRY(bounds_alloc(m, a, n_ranks));
    TRY(gpu_check(cudaMemsetAsync(m->bounds.slices, 0, m->n_bytes, gpu->stream),
                  "clearing bounds of the experts' sums"));
    launch_expert_bounds(gpu->stream, &m->bounds, a, gpu->peers.rank, n_ranks);
    TRY(gpu_check(cudaGetLastError(), "computing bounds of the experts' sums"));
    TRY(share_bounds(gpu, m));
    launch_expert_grid(gpu->stream, grid, &m->bounds, a, n_ranks);
    TRY(gpu_check(cudaGetLastError(), "computing scales of the experts' sums"));
out:
    return st;
}

/* The op of the next experts with a grid, from op `first` on, and their arguments; -1: none. */
static int next_grid(const struct program *p, int first, union stage_args *args)
{
    for (int i = first; i < p->n_ops; i++) {
        if (p->ops[i].stage != STAGE_experts)
            continue;
        program_args(p, i, args);
        if (has_expert_grid(&args->experts))
            return i;
    }
    return -1;
}

/* Whether two programs have the same experts in the same order, and so the same scales. */
static bool has_same_experts(const struct program *a, const struct program *b)
{
    union stage_args of_a, of_b;
    int i = -1, k = -1;

    do {
        i = next_grid(a, i + 1, &of_a);
        k = next_grid(b, k + 1, &of_b);
        if ((i < 0) != (k < 0) || (i >= 0 && of_a.experts.w_down.data != of_b.experts.w_down.data))
            return false;
    } while (i >= 0);
    return true;
}

/* The scales of a program that was compiled before and has the same experts; NULL: there is none.
 * A model with a draft head has two programs of its layers. */
static float *find_grids(const struct gpu *gpu, const struct program *p)
{
    for (const struct compiled *c = gpu->programs; c != NULL; c = c->next)
        if (c->expert_grids != NULL && has_same_experts(c->program, p))
            return c->expert_grids;
    return NULL;
}

/* Unless another program uses them. c is not in the list of programs. */
static void release_grids(const struct gpu *gpu, const struct compiled *c)
{
    for (const struct compiled *other = gpu->programs; other != NULL; other = other->next)
        if (other->expert_grids == c->expert_grids)
            return;
    (void)cudaFree(c->expert_grids);
}

/* Computes the scales of the experts' integer sums from their weights, on all ranks alike. */
static enum osp_status make_grids(struct gpu *gpu, struct compiled *c, const struct program *p)
{
    const size_t size_bytes = (size_t)expert_grids_floats(p, p->n_ops) * sizeof(float);
    struct bounds_memory m = {.host = NULL};
    union stage_args args;
    enum osp_status st = OSP_OK;

    if (size_bytes == 0)
        return OSP_OK;
    c->expert_grids = find_grids(gpu, p);
    if (c->expert_grids != NULL)
        return OSP_OK;
    TRY(gpu_check(cudaMalloc((void **)&c->expert_grids, size_bytes),
                  "allocating scales of the experts' sums"));
    for (int i = next_grid(p, 0, &args); i >= 0; i = next_grid(p, i + 1, &args))
        TRY(make_grid(gpu, &m, c->expert_grids + expert_grids_floats(p, i), &args.experts));
    TRY(gpu_check(cudaStreamSynchronize(gpu->stream), "computing scales of the experts' sums"));
out:
    bounds_release(&m);
    return st;
}

enum osp_status gpu_compile(struct backend *be, const struct program *p, struct compiled **out)
{
    struct gpu *gpu = gpu_select(be);
    struct compiled *c = calloc(1, sizeof(*c));
    union stage_args args;
    enum osp_status st;

    if (c == NULL)
        return fail(OSP_ENOMEM, "out of memory for a compiled program");
    c->program = p;
    work_rates_of(&c->rates, p);
    for (int i = 0; i < p->n_ops; i++)
        if (p->ops[i].stage == STAGE_sample) {
            program_args(p, i, &args);
            c->sample = args.sample;
        } else if (p->ops[i].stage == STAGE_logits) {
            program_args(p, i, &args);
            TRY(gpu_peers_logits(gpu, args.logits.logits.data));
        }
    TRY(gpu_program_reserve(gpu, p));
    TRY(make_grids(gpu, c, p));
    if (step_expert_bytes(p) > 0)
        gpu->expert_bytes = step_expert_bytes(p);
    c->next = gpu->programs;
    gpu->programs = c;
    *out = c;
out:
    if (st != OSP_OK) {
        release_grids(gpu, c);
        free(c);
    }
    return st;
}

void gpu_release_program(struct backend *be, struct compiled *c)
{
    struct gpu *gpu = gpu_select(be);
    struct compiled **at = &gpu->programs;

    if (c == NULL)
        return;
    if (gpu_stream_wait(gpu, "the steps of a program") != OSP_OK)
        log_debug("a program is released after a fault");
    while (*at != NULL && *at != c)
        at = &(*at)->next;
    if (*at == c)
        *at = c->next;
    drop_plans(gpu, c);
    release_grids(gpu, c);
    free(c);
}

/* ---- plans ---- */

static enum osp_status prepare(struct gpu *gpu, const struct launch_list *list)
{
    const struct launch *l = kernel_table_prepare(gpu->kernels, list);

    if (l == NULL)
        return OSP_OK;
    return fail(
        OSP_EDEVICE,
        "cuda: %s cannot run kernel %s: this build has no code of it for the GPU, or a block "
        "needs too much shared memory: %u bytes besides static arrays, limit %d",
        gpu->properties.name, l->name, l->shared_bytes, gpu->kernels->gpu.shared_per_block);
}

static enum osp_status new_plan(struct gpu *gpu, const struct compiled *c,
                                const struct step_counts *counts, const struct batch *header,
                                struct step_plan **out)
{
    const struct fuse_input in = {.program = c->program,
                                  .counts = *counts,
                                  .gpu = &gpu->kernels->gpu,
                                  .arch = gpu->arch,
                                  .config = &gpu->kernel_config,
                                  .n_rows_max = gpu->limits.n_rows_max,
                                  .n_samples_max = gpu->limits.n_samples_max,
                                  .workspaces = &gpu->workspaces,
                                  .batch = header,
                                  .n_experts_read = gpu->n_experts_read,
                                  .peers = &gpu->peers,
                                  .signals_at = gpu->signals_at,
                                  .gather = gpu->nccl == NULL ? &gpu->gather : NULL,
                                  .is_gathered = gpu->nccl != NULL,
                                  .expert_grids = c->expert_grids};
    struct step_plan *plan = calloc(1, sizeof(*plan));
    enum osp_status st;

    if (plan == NULL)
        return fail(OSP_ENOMEM, "out of memory for the launches of a step");
    plan->counts = *counts;
    launch_list_init(&plan->list, &gpu->kernels->gpu);
    TRY(fuse(&plan->list, &in));
    TRY(prepare(gpu, &plan->list));
    *out = plan;
out:
    if (st != OSP_OK)
        drop_plan(gpu, plan);
    return st;
}

static struct step_plan *find_plan(const struct compiled *c, const struct step_counts *counts)
{
    for (int i = 0; i < PLANS_MAX; i++)
        if (c->plans[i] != NULL && memcmp(&c->plans[i]->counts, counts, sizeof(*counts)) == 0)
            return c->plans[i];
    return NULL;
}

/* A free place, or that of the plan to be dropped. */
static struct step_plan **place_of_new_plan(struct compiled *c)
{
    struct step_plan **free = NULL, **oldest = NULL, **oldest_prefill = NULL;
    int n_prefill = 0;

    for (struct step_plan **at = c->plans; at < c->plans + PLANS_MAX; at++) {
        if (*at == NULL) {
            free = at;
            continue;
        }
        if (oldest == NULL || (*at)->last_step < (*oldest)->last_step)
            oldest = at;
        if (!plan_has_prefill(*at))
            continue;
        n_prefill++;
        if (oldest_prefill == NULL || (*at)->last_step < (*oldest_prefill)->last_step)
            oldest_prefill = at;
    }
    if (n_prefill >= PREFILL_PLANS_MAX)
        return oldest_prefill;
    return free != NULL ? free : oldest;
}

enum osp_status gpu_plan_of(struct gpu *gpu, struct compiled *c, const struct step_counts *counts,
                            const struct batch *header, struct step_plan **out)
{
    struct step_plan **place;
    enum osp_status st = OSP_OK;

    *out = find_plan(c, counts);
    if (*out != NULL)
        return OSP_OK;
    place = place_of_new_plan(c);
    drop_plan(gpu, *place);
    *place = NULL;
    TRY(new_plan(gpu, c, counts, header, place));
    *out = *place;
out:
    return st;
}
