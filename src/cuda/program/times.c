/* Times of the stages of a step, from events between them, which are read when the step has
 * ended. */
#include <stdlib.h>

#include "cuda/program/plan.h"

void gpu_stage_events_free(struct stage_events *events)
{
    for (size_t i = 0; i < events->capacity; i++)
        (void)cudaEventDestroy(events->list[i].begin);
    free(events->list);
    *events = (struct stage_events){0};
}

enum osp_status gpu_record_stage(struct gpu *gpu, struct stage_events *events, enum stage stage,
                                 bool is_captured)
{
    const unsigned flags = is_captured ? cudaEventRecordExternal : cudaEventRecordDefault;
    enum osp_status st;

    if (events->n == events->capacity) {
        struct stage_event *list =
            realloc(events->list, (events->capacity + 1) * sizeof(*events->list));

        if (list == NULL)
            return fail(OSP_ENOMEM, "out of memory for the times of the stages");
        events->list = list;
        TRY(gpu_check(cudaEventCreate(&list[events->n].begin), "creating an event"));
        events->capacity++;
    }
    events->list[events->n].stage = stage;
    TRY(gpu_check(cudaEventRecordWithFlags(events->list[events->n].begin, gpu->stream, flags),
                  "recording an event"));
    events->n++;
out:
    return st;
}

static enum osp_status read_times(const struct stage_events *events, int64_t time_ns[N_STAGES])
{
    enum osp_status st = OSP_OK;

    for (size_t i = 0; i + 1 < events->n; i++) {
        float time_ms;

        TRY(gpu_check(
            cudaEventElapsedTime(&time_ms, events->list[i].begin, events->list[i + 1].begin),
            "the time of a stage"));
        time_ns[events->list[i].stage] += (int64_t)((double)time_ms * 1e6);
    }
out:
    return st;
}

static enum osp_status read_span(const struct step_slot *slot)
{
    float time_ms;
    enum osp_status st;

    TRY(gpu_check(cudaEventElapsedTime(&time_ms, slot->span[0], slot->span[1]), "a step's time"));
    slot->plan->step_ns = (double)time_ms * 1e6;
out:
    return st;
}

/* The times of the stages in the last timed step, scaled to the length of a step without events. A
 * step without a graph keeps the times that were read. */
static void share_times(struct step_plan *plan, bool is_timed, int64_t time_ns[N_STAGES])
{
    double sum = 0;

    for (int i = 0; i < N_STAGES; i++) {
        if (is_timed)
            plan->time_ns[i] = time_ns[i];
        sum += (double)plan->time_ns[i];
    }
    for (int i = 0; i < N_STAGES; i++)
        time_ns[i] = plan->step_ns > 0 && sum > 0
                         ? (int64_t)((double)plan->time_ns[i] * plan->step_ns / sum)
                         : plan->time_ns[i];
}

enum osp_status gpu_step_finish(struct gpu *gpu, struct step_slot *slot)
{
    int64_t time_ns[N_STAGES] = {0};
    enum osp_status st;

    if (!slot->is_running)
        return OSP_OK;
    slot->is_running = false;
    TRY(gpu->window != NULL ? gpu_peers_wait(gpu, slot->done)
                            : gpu_check(cudaEventSynchronize(slot->done), "a step"));
    gpu->n_experts_read_so_far = slot->results->n_experts_read;
    if (slot->plan == NULL)
        return OSP_OK;
    if (slot->is_timed)
        TRY(read_times(slot->has_graph_events ? &slot->plan->events : &slot->events, time_ns));
    if (slot->is_spanned)
        TRY(read_span(slot));
    share_times(slot->plan, slot->is_timed, time_ns);
    for (int i = 0; i < N_STAGES; i++) {
        gpu->costs[i].n_calls += slot->work[i].n_calls;
        gpu->costs[i].bytes += slot->work[i].bytes;
        gpu->costs[i].flops += slot->work[i].flops;
        gpu->costs[i].time_ns += time_ns[i];
    }
out:
    return st;
}
