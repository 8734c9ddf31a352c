/* A step's begin and end: its batch on the way to the device, and whether its stages are told or replayed. */
#include <string.h>

#include "base/rng.h"
#include "cuda/device/gpu.h"
#include "cuda/program/rooms.h"

/* ---- turns ---- */

static enum osp_status results_need(struct gpu *gpu, struct turn *t)
{
    const size_t n = (size_t)gpu->limits.n_samples_max * (2 + 2 * SAMPLE_TOP_MAX);
    enum osp_status st = OSP_OK;

    if (t->results != NULL)
        return OSP_OK;
    TRY(gpu_check(
        cudaMallocHost((void **)&t->results, sizeof(struct step_results) + n * sizeof(int32_t)),
        "memory for results"));
    memset(t->results, 0, sizeof(*t->results));
    TRY(gpu_check(cudaEventCreateWithFlags(&t->done, cudaEventDisableTiming), "an event"));
out:
    return st;
}

static enum osp_status turn_need(struct gpu *gpu, struct turn *t, size_t size_bytes)
{
    enum osp_status st;

    TRY(results_need(gpu, t));
    if (size_bytes <= t->batch_bytes)
        return OSP_OK;
    (void)cudaFreeHost(t->batch);
    t->batch = NULL;
    t->batch_bytes = 0;
    TRY(gpu_check(cudaMallocHost((void **)&t->batch, size_bytes), "memory for batches"));
    t->batch_bytes = size_bytes;
out:
    return st;
}

enum osp_status gpu_turns_need(struct gpu *gpu, size_t size_bytes)
{
    enum osp_status st = OSP_OK;

    for (int i = 0; i < N_TURNS; i++)
        TRY(turn_need(gpu, &gpu->turns[i], size_bytes));
out:
    return st;
}

void gpu_turns_release(struct gpu *gpu)
{
    for (struct turn *t = gpu->turns; t < gpu->turns + N_TURNS; t++) {
        (void)cudaFreeHost(t->batch);
        (void)cudaFreeHost(t->results);
        if (t->done != NULL)
            (void)cudaEventDestroy(t->done);
        for (int i = 0; i < 2; i++)
            if (t->span[i] != NULL)
                (void)cudaEventDestroy(t->span[i]);
        gpu_marks_release(&t->told);
    }
}

/* The one that is not under way, or the older one, which ends first. */
static enum osp_status take_turn(struct gpu *gpu)
{
    struct turn *next = &gpu->turns[(gpu->ticket + 1) % N_TURNS];
    enum osp_status st;

    TRY(gpu_step_finish(gpu, next));
    memset(next->work, 0, sizeof(next->work));
    gpu->turn = next;
out:
    return st;
}

/* ---- the batch ---- */

/* Whether a row has what the step before draws. */
static bool has_drawn(const struct batch *b)
{
    for (int row = 0; row < b->n_rows; row++)
        if (BATCH_TOKENS(b)[row] < 0)
            return true;
    return false;
}

static bool has_top(const struct batch *b)
{
    for (int i = 0; i < b->n_samples; i++)
        if (BATCH_SAMPLES(b)[i].n_top > 0)
            return true;
    return false;
}

/* The random numbers of the batch's samples and the batch: each always in the same place. */
static enum osp_status upload(struct gpu *gpu, const struct batch *b)
{
    const int64_t before_bytes = uniforms_bytes(gpu->limits.n_samples_max);
    const int64_t all_bytes = handed_bytes(gpu->limits.n_samples_max, b->size_bytes);
    const struct batch_sample *samples = BATCH_SAMPLES(b);
    struct turn *t = gpu->turn;
    struct take_launch l;
    enum osp_status st;

    TRY(turn_need(gpu, t, (size_t)all_bytes));
    TRY(gpu_room_need(gpu, &gpu->batch_room, all_bytes, "the batch"));
    memcpy(t->batch + before_bytes, b, (size_t)b->size_bytes);
    for (int i = 0; i < b->n_samples; i++)
        ((double *)(void *)t->batch)[i] = rng_uniform(samples[i].seed, samples[i].position, 0);
    l = (struct take_launch){.from = t->batch,
                             .to = gpu->batch_room.data,
                             .n_bytes = all_bytes,
                             .first_token =
                                 (before_bytes + b->offset_tokens) / (int64_t)sizeof(int32_t),
                             .n_tokens = b->n_rows,
                             .results = t->results};
    if (has_drawn(b))
        l.drawn = gpu->sampled.tokens.data;
    launch_take(gpu->stream, &l);
    TRY(gpu_check(cudaGetLastError(), "the batch to the device"));
    gpu->uniforms = gpu->batch_room.data;
    gpu->on_device =
        (const struct batch *)(const void *)((const char *)gpu->batch_room.data + before_bytes);
out:
    return st;
}

/* Kernels that are told one by one may read the batch before the kernel in front of them has ended (pdl.cuh); behind
 * anything else than a kernel they do not. A graph begins when all before it has ended. */
static enum osp_status part_from_stages(struct gpu *gpu)
{
    if (gpu->mode != MODE_EAGER)
        return OSP_OK;
    return gpu_check(cudaMemcpyAsync(&gpu->turn->results->n_experts_read, gpu->n_experts_read,
                                     sizeof(uint64_t), cudaMemcpyDeviceToHost, gpu->stream),
                     "the batch to the device");
}

/* Loads the kernels of handover.cu before a request waits for them. */
enum osp_status gpu_handover_try(struct gpu *gpu)
{
    struct turn *t = &gpu->turns[0];
    const struct take_launch take = {.from = t->batch,
                                     .to = gpu->batch_room.data,
                                     .n_bytes = handed_bytes(0, 1),
                                     .results = t->results};
    const struct give_launch give = {.n_experts_read = gpu->n_experts_read, .results = t->results};
    enum osp_status st;

    launch_take(gpu->stream, &take);
    launch_give(gpu->stream, &give);
    TRY(gpu_check(cudaGetLastError(), "batches and results"));
    TRY(gpu_check(cudaStreamSynchronize(gpu->stream), "batches and results"));
out:
    return st;
}

/* A step whose stages failed while it was recorded leaves the stream recording. */
static void end_abandoned(struct gpu *gpu)
{
    cudaGraph_t rest = NULL;

    if (gpu->mode != MODE_RECORDING)
        return;
    gpu->mode = MODE_EAGER;
    (void)cudaStreamEndCapture(gpu->stream, &rest);
    if (rest != NULL)
        (void)cudaGraphDestroy(rest);
    (void)cudaGetLastError();
    gpu_graphs_drop(gpu);
}

/* Rows in front of the first of a prompt, behind which there must be no generated one. */
static enum osp_status count_generated(const struct batch *b, int *out)
{
    int n = 0;

    while (n < b->n_rows && BATCH_KINDS(b)[n] == ROW_GENERATED)
        n++;
    *out = n;
    for (int row = n; row < b->n_rows; row++)
        if (BATCH_KINDS(b)[row] != ROW_PROMPT)
            return fail(OSP_EINTERNAL, "batch: row %d is generated, but row %d is of a prompt", row,
                        n);
    return OSP_OK;
}

enum osp_status gpu_step_begin(struct backend *be, const struct batch *b, enum step *out)
{
    struct gpu *gpu = gpu_of(be);
    enum osp_status st;

    TRY(take_turn(gpu));
    end_abandoned(gpu);
    TRY(gpu_pack_end(gpu));
    TRY(count_generated(b, &gpu->n_generated));
    TRY(upload(gpu, b));
    if (!gpu->limits.repeats_steps)
        gpu->sampled = (struct sample_args){0};
    gpu->batch = b;
    gpu->has_top = has_top(b);
    gpu_few_begin(gpu);
    gpu->rotations_of = NULL;
    gpu->mxfp8_of = NULL;
    TRY(gpu_graph_begin(gpu, b, out));
    TRY(part_from_stages(gpu));
out:
    return st;
}

/* Behind all of the step. */
static enum osp_status give_results(struct gpu *gpu)
{
    const struct give_launch l = {.args = gpu->sampled,
                                  .n_samples =
                                      gpu->sampled.tokens.data != NULL ? gpu->batch->n_samples : 0,
                                  .n_samples_max = gpu->limits.n_samples_max,
                                  .has_top = gpu->has_top,
                                  .n_experts_read = gpu->n_experts_read,
                                  .results = gpu->turn->results};
    enum osp_status st;

    launch_give(gpu->stream, &l);
    TRY(gpu_check(cudaGetLastError(), "results from the device"));
    TRY(gpu_check(cudaEventRecord(gpu->turn->done, gpu->stream), "an event"));
out:
    return st;
}

enum osp_status gpu_step_end(struct backend *be, uint64_t *ticket)
{
    struct gpu *gpu = gpu_of(be);
    struct turn *t = gpu->turn;
    enum osp_status st;

    if (gpu->mode != MODE_REPLAYING) {
        TRY(gpu_few_flush(gpu));
        TRY(gpu_check(cudaGetLastError(), "what stages had left"));
        TRY(gpu_mark(gpu, (enum stage)0)); /* where the last stage ends */
    }
    TRY(gpu_graph_end(gpu));
    TRY(give_results(gpu));
    gpu->batch = NULL;
    t->graph = gpu->graph;
    t->marks = gpu->marks;
    t->is_spanned = gpu->is_spanned;
    t->is_running = true;
    *ticket = t->ticket = ++gpu->ticket;
out:
    return st;
}

enum osp_status gpu_step_wait(struct backend *be, uint64_t ticket)
{
    struct gpu *gpu = gpu_of(be);
    struct turn *t = &gpu->turns[ticket % N_TURNS];

    gpu->heard = t->ticket == ticket ? t : NULL; /* NULL: the step after next has its turn */
    return gpu_step_finish(gpu, t);
}

/* What failed is told by the wait. */
bool gpu_step_has_ended(struct backend *be, uint64_t ticket)
{
    const struct turn *t = &gpu_of(be)->turns[ticket % N_TURNS];

    if (t->ticket != ticket || !t->is_running || cudaEventQuery(t->done) != cudaErrorNotReady)
        return true;
    (void)cudaGetLastError(); /* which is that it has not */
    return false;
}

enum osp_status gpu_drawn(struct backend *be, struct drawn *out)
{
    const struct gpu *gpu = gpu_of(be);
    const int64_t n = gpu->limits.n_samples_max;
    const int32_t *lists;

    if (gpu->heard == NULL)
        return fail(OSP_EINTERNAL, "cuda: results are asked for that were not waited for in time");
    lists = gpu->heard->results->lists;
    *out = (struct drawn){.tokens = lists,
                          .logprobs = (const float *)(lists + n),
                          .top_tokens = lists + 2 * n,
                          .top_logprobs = (const float *)(lists + (2 + SAMPLE_TOP_MAX) * n),
                          .begin_ns = gpu->heard->results->begin_ns,
                          .end_ns = gpu->heard->results->end_ns};
    return OSP_OK;
}
