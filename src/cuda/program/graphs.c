/* Steps as CUDA graphs: a step is one graph launch over its batch, which is always in the same
 * place. A step of decode rows alone is captured when it is first seen, since its counts are padded
 * and come again. The counts of a step with prefill rows seldom come again, and its launches are
 * short beside its kernels: its first step is launched kernel by kernel, the second is captured.
 *
 * Timing costs one event per stage and keeps kernels from overlapping. So one step in 1,024 is
 * timed by a graph with events for its stages, and the next step as a whole. The time of every step
 * is taken as that of the whole step, divided among the stages as in the last timed one. */
#include "cuda/program/plan.h"

enum {
    TIMED_EVERY = 1024, /* a step with events takes twice as long: every 128th cost 0.7 % */
    COLLECTIVES_QUEUED = 32
};

/* The end of the launches of one op that begin at `first`. */
static int end_of_op(const struct launch_list *list, int first)
{
    int end = first;

    while (end < list->n && list->launches[end].op == list->launches[first].op)
        end++;
    return end;
}

/* A stream queues 1,024 launches, and the next one blocks until a kernel ends. Those of NCCL do not
 * end when a rank is lost, so the host, which finds that while it waits, queues fewer. */
static enum osp_status limit_queue(struct gpu *gpu, bool is_captured, const char *what)
{
    if (is_captured || ++gpu->n_collectives % COLLECTIVES_QUEUED != 0)
        return OSP_OK;
    return gpu_stream_wait(gpu, what);
}

/* Launches [first, end) of the list, and between its kernels its collectives. */
static enum osp_status run_launches(struct gpu *gpu, const struct launch_list *list, int first,
                                    int end, bool is_captured, const char *what)
{
    enum osp_status st = OSP_OK;

    while (first < end) {
        int next = first;

        while (next < end && !is_collective(&list->launches[next]))
            next++;
        TRY(gpu_check(launch_list_run(list, first, next, gpu->stream), what));
        if (next < end) {
            TRY(gpu_collective(gpu, collective_of(list, &list->launches[next])));
            TRY(limit_queue(gpu, is_captured, what));
        }
        first = next + 1;
    }
out:
    return st;
}

/* events: one where the launches of each op begin, and one at the end; NULL: the step is not
 * timed. */
static enum osp_status run_list(struct gpu *gpu, const struct launch_list *list,
                                struct stage_events *events, bool is_captured)
{
    enum osp_status st = OSP_OK;

    if (events == NULL)
        return run_launches(gpu, list, 0, list->n, is_captured, "launching the kernels of a step");
    events->n = 0;
    for (int first = 0, end; first < list->n; first = end) {
        end = end_of_op(list, first);
        TRY(gpu_record_stage(gpu, events, (enum stage)list->launches[first].stage, is_captured));
        TRY(run_launches(gpu, list, first, end, is_captured, list->launches[first].name));
    }
    TRY(gpu_record_stage(gpu, events, (enum stage)0, is_captured));
out:
    return st;
}

/* Kernels that are launched one by one with PDL may read the batch before the previous kernel has
 * ended. The upload is that previous kernel, so a copy between the two separates them. A graph does
 * not need it: it begins when all earlier work has ended. */
static enum osp_status separate_from_upload(struct gpu *gpu, struct step_slot *slot)
{
    return gpu_check(cudaMemcpyAsync(&slot->results->n_experts_read, gpu->n_experts_read,
                                     sizeof(uint64_t), cudaMemcpyDeviceToHost, gpu->stream),
                     "copying the expert counter to the host");
}

static enum osp_status run_eager(struct gpu *gpu, struct step_plan *plan, struct step_slot *slot)
{
    enum osp_status st;

    slot->is_timed = true;
    slot->has_graph_events = slot->is_graph = false;
    TRY(separate_from_upload(gpu, slot));
    TRY(run_list(gpu, &plan->list, &slot->events, false));
out:
    return st;
}

/* ---- graphs ---- */

enum osp_status gpu_list_capture(struct gpu *gpu, const struct launch_list *list,
                                 struct stage_events *events, cudaGraphExec_t *out)
{
    cudaGraph_t graph = NULL;
    cudaError_t error;
    enum osp_status st;

    TRY(gpu_check(cudaStreamBeginCapture(gpu->stream, cudaStreamCaptureModeThreadLocal),
                  "capturing a step"));
    st = run_list(gpu, list, events, true);
    error = cudaStreamEndCapture(gpu->stream, &graph);
    if (st != OSP_OK)
        goto out;
    TRY(gpu_check(error, "capturing a step"));
    TRY(gpu_check(cudaGraphInstantiate(out, graph, 0), "instantiating the graph of a step"));
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
        TRY(gpu_check(cudaEventCreate(event), "creating an event"));
    TRY(gpu_check(cudaEventRecord(*event, gpu->stream), "recording an event"));
out:
    return st;
}

enum osp_status gpu_plan_run(struct gpu *gpu, struct step_plan *plan, struct step_slot *slot)
{
    const uint64_t n_eager = plan_has_prefill(plan) ? 1 : 0, n_before = plan->n_steps++;
    const uint64_t at = (n_before - n_eager) % TIMED_EVERY; /* of the steps as graphs */
    const enum timing timing = at == 0 ? TIMED : UNTIMED;
    enum osp_status st = OSP_OK;

    plan->last_step = gpu->ticket + 1;
    slot->plan = plan;
    slot->is_spanned = false;
    if (gpu->limits.is_eager || n_before < n_eager)
        return run_eager(gpu, plan, slot);
    slot->is_graph = true;
    slot->is_timed = slot->has_graph_events = timing == TIMED;
    slot->is_spanned = at == 1;
    if (plan->exec[timing] == NULL)
        TRY(gpu_list_capture(gpu, &plan->list, timing == TIMED ? &plan->events : NULL,
                             &plan->exec[timing]));
    TRY(record_span(gpu, slot, 0));
    TRY(gpu_check(cudaGraphLaunch(plan->exec[timing], gpu->stream),
                  "launching the graph of a step"));
    TRY(record_span(gpu, slot, 1));
out:
    return st;
}
