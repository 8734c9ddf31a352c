/* Steps as CUDA graphs. The first step of a plan is launched kernel by kernel; the second is captured and launched, and
 * all later ones are one graph launch over the new batch in the same place.
 *
 * Timing costs an event a stage and keeps kernels from overlapping. So one step in 128 is timed by a graph with events of
 * its own, and the one after it as a whole. Every step counts as long as that one, divided among the stages as in the
 * last timed one. */
#include "cuda/program/plan.h"

enum {
    TIMED_EVERY = 128, /* events double the time of a decode step: every 16th cost 3 % */
    TIMED_AT = 2,
    SPANNED_AT = 3
};

/* Launches of one op, from `first` on: their end. */
static int end_of_op(const struct launch_list *list, int first)
{
    int end = first;

    while (end < list->n && list->launches[end].op == list->launches[first].op)
        end++;
    return end;
}

/* events NULL: the step is not timed. Else one where each op's launches begin, and one at the end. */
static enum osp_status run_list(struct gpu *gpu, const struct launch_list *list,
                                struct stage_events *events, bool is_captured)
{
    enum osp_status st = OSP_OK;

    if (events == NULL)
        return gpu_check(launch_list_run(list, 0, list->n, gpu->stream), "a step's kernels");
    events->n = 0;
    for (int first = 0, end; first < list->n; first = end) {
        end = end_of_op(list, first);
        TRY(gpu_record_stage(gpu, events, (enum stage)list->launches[first].stage, is_captured));
        TRY(gpu_check(launch_list_run(list, first, end, gpu->stream), list->launches[first].name));
    }
    TRY(gpu_record_stage(gpu, events, (enum stage)0, is_captured));
out:
    return st;
}

/* Kernels launched one by one with PDL may read the batch before the kernel in front of them has ended, which here
 * would be the upload's; behind a copy they do not. A graph begins when all before it has ended. */
static enum osp_status separate_from_upload(struct gpu *gpu, struct step_slot *slot)
{
    return gpu_check(cudaMemcpyAsync(&slot->results->n_experts_read, gpu->n_experts_read,
                                     sizeof(uint64_t), cudaMemcpyDeviceToHost, gpu->stream),
                     "the batch to the device");
}

static enum osp_status run_eager(struct gpu *gpu, struct step_plan *plan, struct step_slot *slot)
{
    enum osp_status st;

    slot->is_timed = true;
    slot->has_graph_events = false;
    TRY(separate_from_upload(gpu, slot));
    TRY(run_list(gpu, &plan->list, &slot->events, false));
out:
    return st;
}

/* ---- graphs ---- */

static enum osp_status capture(struct gpu *gpu, struct step_plan *plan, enum timing timing)
{
    cudaGraph_t graph = NULL;
    cudaError_t error;
    enum osp_status st;

    TRY(gpu_check(cudaStreamBeginCapture(gpu->stream, cudaStreamCaptureModeThreadLocal),
                  "capturing a step"));
    st = run_list(gpu, &plan->list, timing == TIMED ? &plan->events : NULL, true);
    error = cudaStreamEndCapture(gpu->stream, &graph);
    if (st != OSP_OK)
        goto out;
    TRY(gpu_check(error, "capturing a step"));
    TRY(gpu_check(cudaGraphInstantiate(&plan->exec[timing], graph, 0), "making a graph of a step"));
out:
    if (graph != NULL)
        (void)cudaGraphDestroy(graph);
    return st;
}

static enum osp_status record_span(struct gpu *gpu, struct step_slot *slot, int end)
{
    cudaEvent_t *event = &slot->span[end];
    enum osp_status st = OSP_OK;

    if (!slot->is_spanned)
        return OSP_OK;
    if (*event == NULL)
        TRY(gpu_check(cudaEventCreate(event), "an event"));
    TRY(gpu_check(cudaEventRecord(*event, gpu->stream), "an event"));
out:
    return st;
}

enum osp_status gpu_plan_run(struct gpu *gpu, struct step_plan *plan, struct step_slot *slot)
{
    const uint64_t at = ++plan->n_steps % TIMED_EVERY;
    const enum timing timing = at == TIMED_AT ? TIMED : UNTIMED;
    enum osp_status st = OSP_OK;

    plan->last_step = gpu->ticket + 1;
    slot->plan = plan;
    slot->is_spanned = false;
    if (gpu->limits.is_eager || plan->n_steps == 1)
        return run_eager(gpu, plan, slot);
    slot->is_timed = slot->has_graph_events = timing == TIMED;
    slot->is_spanned = at == SPANNED_AT;
    if (plan->exec[timing] == NULL)
        TRY(capture(gpu, plan, timing));
    TRY(record_span(gpu, slot, 0));
    TRY(gpu_check(cudaGraphLaunch(plan->exec[timing], gpu->stream), "a step's graph"));
    TRY(record_span(gpu, slot, 1));
out:
    return st;
}
