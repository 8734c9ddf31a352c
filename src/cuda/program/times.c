/* What a step's stages took: events between them, and what becomes of them when the step has
 * ended. */
#include <stdlib.h>

#include "cuda/device/gpu.h"

void gpu_stage_events_free(struct stage_events *m)
{
    for (size_t i = 0; i < m->room; i++)
        (void)cudaEventDestroy(m->list[i].begin);
    free(m->list);
    *m = (struct stage_events){0};
}

/* Notes where a stage begins; the events are kept for later steps, and a graph has them as its
 * own. */
enum osp_status gpu_record_stage(struct gpu *gpu, enum stage stage)
{
    const unsigned flags =
        gpu->mode == MODE_RECORDING ? cudaEventRecordExternal : cudaEventRecordDefault;
    struct stage_events *m = gpu->stage_events;
    enum osp_status st;

    if (m == NULL)
        return OSP_OK;
    if (m->n == m->room) {
        struct stage_event *list = realloc(m->list, (m->room + 1) * sizeof(*list));

        if (list == NULL)
            return fail(OSP_ENOMEM, "no memory for the times of stages");
        m->list = list;
        TRY(gpu_check(cudaEventCreate(&list[m->n].begin), "an event"));
        m->room++;
    }
    m->list[m->n].stage = stage;
    TRY(gpu_check(cudaEventRecordWithFlags(m->list[m->n].begin, gpu->stream, flags), "an event"));
    m->n++;
out:
    return st;
}

static enum osp_status read_times(const struct stage_events *m, int64_t time_ns[N_STAGES])
{
    enum osp_status st = OSP_OK;

    for (size_t i = 0; i + 1 < m->n; i++) {
        float time_ms;

        TRY(gpu_check(cudaEventElapsedTime(&time_ms, m->list[i].begin, m->list[i + 1].begin),
                      "the time of a stage"));
        time_ns[m->list[i].stage] += (int64_t)((double)time_ms * 1e6);
    }
out:
    return st;
}

static enum osp_status read_span(const struct step_slot *t)
{
    float time_ms;
    enum osp_status st;

    TRY(gpu_check(cudaEventElapsedTime(&time_ms, t->span[0], t->span[1]), "a step's time"));
    t->graph->step_ns = (double)time_ms * 1e6;
out:
    return st;
}

/* Of a step with a graph: the stages' times as of the last timed one, in the length of one that
 * was not. */
static void share_times(struct graph *g, bool is_timed, int64_t time_ns[N_STAGES])
{
    double sum = 0;

    for (int i = 0; i < N_STAGES; i++) {
        if (is_timed)
            g->step[i].time_ns = time_ns[i];
        sum += (double)g->step[i].time_ns;
    }
    for (int i = 0; i < N_STAGES; i++)
        time_ns[i] = g->step_ns > 0 && sum > 0
                         ? (int64_t)((double)g->step[i].time_ns * g->step_ns / sum)
                         : g->step[i].time_ns;
}

enum osp_status gpu_step_finish(struct gpu *gpu, struct step_slot *t)
{
    int64_t time_ns[N_STAGES] = {0};
    enum osp_status st;

    if (!t->is_running)
        return OSP_OK;
    t->is_running = false;
    TRY(gpu_check(cudaEventSynchronize(t->done), "a step"));
    gpu->n_experts_read_then = t->results->n_experts_read;
    if (t->stage_events != NULL)
        TRY(read_times(t->stage_events, time_ns));
    if (t->is_spanned && t->graph != NULL)
        TRY(read_span(t));
    if (t->graph != NULL)
        share_times(t->graph, t->stage_events != NULL, time_ns);
    for (int i = 0; i < N_STAGES; i++) {
        gpu->costs[i].n_calls += t->work[i].n_calls;
        gpu->costs[i].bytes += t->work[i].bytes;
        gpu->costs[i].flops += t->work[i].flops;
        gpu->costs[i].time_ns += time_ns[i];
    }
out:
    return st;
}
