/* What a step's stages took: events between them, and what becomes of them when the step has ended. */
#include <stdlib.h>

#include "cuda/gpu.h"

/* Notes where a stage begins; the events are kept for later steps, and a graph has them as its own. */
enum osp_status gpu_mark(struct gpu *gpu, enum stage stage)
{
    const unsigned flags =
        gpu->mode == MODE_RECORDING ? cudaEventRecordExternal : cudaEventRecordDefault;
    enum osp_status st;

    if (gpu->timing == UNTIMED)
        return OSP_OK;
    if (gpu->n_marks == gpu->marks_room) {
        struct mark *marks = realloc(gpu->marks, (gpu->marks_room + 1) * sizeof(*marks));

        if (marks == NULL)
            return fail(OSP_ENOMEM, "no memory for the times of stages");
        gpu->marks = marks;
        TRY(gpu_check(cudaEventCreate(&marks[gpu->n_marks].begin), "an event"));
        gpu->marks_room++;
    }
    gpu->marks[gpu->n_marks].stage = stage;
    TRY(gpu_check(cudaEventRecordWithFlags(gpu->marks[gpu->n_marks].begin, gpu->stream, flags),
                  "an event"));
    gpu->n_marks++;
out:
    return st;
}

static enum osp_status read_times(const struct gpu *gpu, const struct turn *t,
                                  int64_t time_ns[N_STAGES])
{
    enum osp_status st = OSP_OK;

    for (size_t i = 0; i + 1 < t->n_marks; i++) {
        float time_ms;

        TRY(gpu_check(cudaEventElapsedTime(&time_ms, gpu->marks[i].begin, gpu->marks[i + 1].begin),
                      "the time of a stage"));
        time_ns[gpu->marks[i].stage] += (int64_t)((double)time_ms * 1e6);
    }
out:
    return st;
}

static enum osp_status read_span(const struct gpu *gpu, const struct turn *t)
{
    float time_ms;
    enum osp_status st;

    TRY(gpu_check(cudaEventElapsedTime(&time_ms, gpu->span[0], gpu->span[1]), "a step's time"));
    t->graph->step_ns = (double)time_ms * 1e6;
out:
    return st;
}

/* Of a step with a graph: the stages' times as of the last timed one, in the length of one that was not. */
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

enum osp_status gpu_step_finish(struct gpu *gpu, struct turn *t)
{
    int64_t time_ns[N_STAGES] = {0};
    enum osp_status st;

    if (!t->is_running)
        return OSP_OK;
    t->is_running = false;
    TRY(gpu_check(cudaEventSynchronize(t->done), "a step"));
    gpu->n_experts_read_then = t->results->n_experts_read;
    if (t->timing == TIMED)
        TRY(read_times(gpu, t, time_ns));
    if (t->is_spanned)
        TRY(read_span(gpu, t));
    if (t->graph != NULL)
        share_times(t->graph, t->timing == TIMED, time_ns);
    for (int i = 0; i < N_STAGES; i++)
        gpu->costs[i].time_ns += time_ns[i];
out:
    return st;
}
