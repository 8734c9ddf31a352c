/* Steps as graphs. The first step with a key runs as it is told; the next is recorded while the
 * stages are called, and launched; all later ones are replayed with one launch, over the new
 * batch in the old place.
 *
 * Timing costs an event a stage, and keeps kernels from overlapping: so one step in 128 is
 * timed, by a graph with events of its own, and the one behind it as a whole. Every step counts
 * as long as that one, divided among the stages as in the last timed one, and touches as many
 * bytes as the one that was recorded. */
#include <stdlib.h>
#include <string.h>

#include "cuda/device/gpu.h"

enum {
    TIMED_EVERY = 128, /* events take a decode step twice its time: every 16th cost 3 % */
    TIMED_AT = 2,
    SPANNED_AT = 3
};

static struct graph_key key_of(const struct compiled *c, const struct batch *b)
{
    struct graph_key key = {.program = c->serial,
                            .n_rows = b->n_rows,
                            .n_seqs = b->n_seqs,
                            .n_samples = b->n_samples,
                            .n_units = gpu_attn_units(b),
                            .has_special = batch_has_special(b)};

    for (int row = 0; row < b->n_rows; row++)
        key.n_prefill += BATCH_PHASES(b)[row] == PHASE_PREFILL;
    return key;
}

/* Times of a step that is still under way are lost. */
static void forget(struct gpu *gpu, const struct graph *g)
{
    for (struct step_slot *t = gpu->step_slots; t < gpu->step_slots + N_STEP_SLOTS; t++) {
        if (t->stage_events == &g->stage_events)
            t->stage_events = NULL;
        if (t->graph == g)
            t->graph = NULL;
    }
}

static void drop(struct gpu *gpu, struct graph *g)
{
    forget(gpu, g);
    gpu_stage_events_free(&g->stage_events);
    for (int i = 0; i < N_TIMINGS; i++)
        if (g->exec[i] != NULL)
            (void)cudaGraphExecDestroy(g->exec[i]);
    if (g->recorded != NULL)
        (void)cudaGraphDestroy(g->recorded);
    *g = (struct graph){0};
}

void gpu_graphs_drop(struct gpu *gpu)
{
    for (int i = 0; i < GRAPHS_MAX && gpu->graphs != NULL; i++)
        drop(gpu, &gpu->graphs[i]);
}

void gpu_graphs_drop_program(struct gpu *gpu, uint64_t serial)
{
    for (int i = 0; i < GRAPHS_MAX && gpu->graphs != NULL; i++)
        if (gpu->graphs[i].key.program == serial)
            drop(gpu, &gpu->graphs[i]);
}

/* The graph of this key; a free one or the one that was not used for longest takes it. */
static struct graph *graph_of(struct gpu *gpu, struct graph_key key)
{
    struct graph *oldest = gpu->graphs;

    for (int i = 0; i < GRAPHS_MAX; i++) {
        struct graph *g = &gpu->graphs[i];

        if (g->n_steps > 0 && memcmp(&g->key, &key, sizeof(key)) == 0)
            return g;
        if (g->last_step < oldest->last_step)
            oldest = g;
    }
    drop(gpu, oldest);
    oldest->key = key;
    return oldest;
}

enum osp_status gpu_graph_begin(struct gpu *gpu, const struct compiled *c, const struct batch *b)
{
    enum osp_status st = OSP_OK;

    gpu->graph = NULL;
    gpu->mode = MODE_EAGER;
    gpu->timing = TIMED;
    gpu->is_spanned = false;
    gpu->stage_events = &gpu->step_slot->timed_events;
    gpu->step_slot->timed_events.n = 0;
    if (gpu->limits.is_eager)
        return OSP_OK;
    if (gpu->graphs == NULL)
        gpu->graphs = calloc(GRAPHS_MAX, sizeof(*gpu->graphs));
    if (gpu->graphs == NULL)
        return fail(OSP_ENOMEM, "no memory for graphs");
    gpu->graph = graph_of(gpu, key_of(c, b));
    gpu->graph->last_step = gpu->ticket + 1;
    if (gpu->graph->n_steps++ == 0)
        return OSP_OK; /* memory grows in this one */
    gpu->timing = gpu->graph->n_steps % TIMED_EVERY == TIMED_AT ? TIMED : UNTIMED;
    gpu->is_spanned = gpu->graph->n_steps % TIMED_EVERY == SPANNED_AT;
    gpu->stage_events = gpu->timing == TIMED ? &gpu->graph->stage_events : NULL;
    if (gpu->graph->exec[gpu->timing] != NULL) {
        gpu->mode = MODE_REPLAYING;
        return OSP_OK;
    }
    TRY(gpu_check(cudaStreamBeginCapture(gpu->stream, cudaStreamCaptureModeThreadLocal),
                  "recording a step"));
    gpu->mode = MODE_RECORDING;
    gpu->expected = 0;
    if (gpu->stage_events != NULL)
        gpu->stage_events->n = 0;
out:
    return st;
}

static enum osp_status end_recording(struct gpu *gpu)
{
    cudaGraph_t recorded = NULL;
    enum osp_status st;

    gpu->mode = MODE_EAGER;
    for (int i = 0; i < N_STAGES; i++) {
        const struct stage_cost *work = &gpu->step_slot->work[i];
        struct stage_cost *step = &gpu->graph->step[i];

        step->n_calls = work->n_calls;
        step->bytes = work->bytes;
        step->flops = work->flops;
    }
    TRY(gpu_check(cudaStreamEndCapture(gpu->stream, &recorded), "recording a step"));
    TRY(gpu_check(cudaGraphInstantiate(&gpu->graph->exec[gpu->timing], recorded, 0),
                  "making a graph of a step"));
    if (gpu->graph->recorded == NULL) {
        gpu->graph->recorded = recorded;
        gpu->graph->expected = gpu->expected;
        recorded = NULL;
    }
out:
    if (recorded != NULL)
        (void)cudaGraphDestroy(recorded);
    return st;
}

static void count_replay(struct gpu *gpu)
{
    for (int i = 0; i < N_STAGES; i++) {
        gpu->step_slot->work[i].n_calls = gpu->graph->step[i].n_calls;
        gpu->step_slot->work[i].bytes = gpu->graph->step[i].bytes;
        gpu->step_slot->work[i].flops = gpu->graph->step[i].flops;
    }
}

static enum osp_status span(struct gpu *gpu, int end)
{
    cudaEvent_t *event = &gpu->step_slot->span[end];
    enum osp_status st = OSP_OK;

    if (!gpu->is_spanned)
        return OSP_OK;
    if (*event == NULL)
        TRY(gpu_check(cudaEventCreate(event), "an event"));
    TRY(gpu_check(cudaEventRecord(*event, gpu->stream), "an event"));
out:
    return st;
}

enum osp_status gpu_graph_end(struct gpu *gpu)
{
    enum osp_status st = OSP_OK;

    if (gpu->mode == MODE_EAGER)
        return OSP_OK;
    if (gpu->mode == MODE_RECORDING)
        TRY(end_recording(gpu));
    else
        count_replay(gpu);
    TRY(span(gpu, 0));
    TRY(gpu_check(cudaGraphLaunch(gpu->graph->exec[gpu->timing], gpu->stream), "a step's graph"));
    TRY(span(gpu, 1));
out:
    return st;
}
