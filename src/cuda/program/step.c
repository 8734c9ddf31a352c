/* A step's begin and end: its batch on the way to the device, and whether its stages are told or
 * replayed. */
#include <string.h>

#include "base/rng.h"
#include "cuda/device/gpu.h"
#include "cuda/program/workspace.h"

/* ---- turns ---- */

static enum osp_status results_reserve(struct gpu *gpu, struct step_slot *t)
{
    const size_t n = (size_t)gpu->limits.n_samples_max * (2 + 2 * TOP_LOGPROBS_MAX);
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

static enum osp_status slot_reserve(struct gpu *gpu, struct step_slot *t, size_t size_bytes)
{
    enum osp_status st;

    TRY(results_reserve(gpu, t));
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

enum osp_status gpu_slots_reserve(struct gpu *gpu, size_t size_bytes)
{
    enum osp_status st = OSP_OK;

    for (int i = 0; i < N_STEP_SLOTS; i++)
        TRY(slot_reserve(gpu, &gpu->step_slots[i], size_bytes));
out:
    return st;
}

void gpu_slots_release(struct gpu *gpu)
{
    for (struct step_slot *t = gpu->step_slots; t < gpu->step_slots + N_STEP_SLOTS; t++) {
        (void)cudaFreeHost(t->batch);
        (void)cudaFreeHost(t->results);
        if (t->done != NULL)
            (void)cudaEventDestroy(t->done);
        for (int i = 0; i < 2; i++)
            if (t->span[i] != NULL)
                (void)cudaEventDestroy(t->span[i]);
        gpu_stage_events_free(&t->timed_events);
    }
}

/* The one that is not under way, or the older one, which ends first. */
static enum osp_status next_slot(struct gpu *gpu)
{
    struct step_slot *next = &gpu->step_slots[(gpu->ticket + 1) % N_STEP_SLOTS];
    enum osp_status st;

    TRY(gpu_step_finish(gpu, next));
    memset(next->work, 0, sizeof(next->work));
    gpu->step_slot = next;
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
    const int64_t all_bytes = upload_bytes(gpu->limits.n_samples_max, b->size_bytes);
    const struct batch_sample *samples = BATCH_SAMPLES(b);
    struct step_slot *t = gpu->step_slot;
    struct upload_launch l;
    enum osp_status st;

    TRY(slot_reserve(gpu, t, (size_t)all_bytes));
    TRY(gpu_workspace_reserve(gpu, &gpu->batch_buffer, all_bytes, "the batch"));
    memcpy(t->batch + before_bytes, b, (size_t)b->size_bytes);
    for (int i = 0; i < b->n_samples; i++)
        ((double *)(void *)t->batch)[i] = rng_uniform(samples[i].seed, samples[i].position, 0);
    l = (struct upload_launch){.from = t->batch,
                               .to = gpu->batch_buffer.data,
                               .n_bytes = all_bytes,
                               .first_token =
                                   (before_bytes + b->offset_tokens) / (int64_t)sizeof(int32_t),
                               .n_tokens = b->n_rows,
                               .results = t->results};
    if (has_drawn(b))
        l.sampled = gpu->sampled.tokens.data;
    launch_upload(gpu->stream, &l);
    TRY(gpu_check(cudaGetLastError(), "the batch to the device"));
    gpu->uniforms = gpu->batch_buffer.data;
    gpu->on_device =
        (const struct batch *)(const void *)((const char *)gpu->batch_buffer.data + before_bytes);
out:
    return st;
}

/* Kernels that are told one by one may read the batch before the kernel in front of them has
 * ended (pdl.cuh); behind anything else than a kernel they do not. A graph begins when all
 * before it has ended. */
static enum osp_status part_from_stages(struct gpu *gpu)
{
    if (gpu->mode != MODE_EAGER)
        return OSP_OK;
    return gpu_check(cudaMemcpyAsync(&gpu->step_slot->results->n_experts_read, gpu->n_experts_read,
                                     sizeof(uint64_t), cudaMemcpyDeviceToHost, gpu->stream),
                     "the batch to the device");
}

/* Loads the kernels of transfer.cu before a request waits for them. */
enum osp_status gpu_transfer_try(struct gpu *gpu)
{
    struct step_slot *t = &gpu->step_slots[0];
    const struct upload_launch take = {.from = t->batch,
                                       .to = gpu->batch_buffer.data,
                                       .n_bytes = upload_bytes(0, 1),
                                       .results = t->results};
    const struct download_launch give = {.n_experts_read = gpu->n_experts_read,
                                         .results = t->results};
    enum osp_status st;

    launch_upload(gpu->stream, &take);
    launch_download(gpu->stream, &give);
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

    while (n < b->n_rows && BATCH_PHASES(b)[n] == PHASE_DECODE)
        n++;
    *out = n;
    for (int row = n; row < b->n_rows; row++)
        if (BATCH_PHASES(b)[row] != PHASE_PREFILL)
            return fail(OSP_EINTERNAL, "batch: row %d is generated, but row %d is of a prompt", row,
                        n);
    return OSP_OK;
}

enum osp_status gpu_step_begin(struct gpu *gpu, const struct compiled *c, const struct batch *b,
                               bool *is_replayed)
{
    enum osp_status st;

    TRY(next_slot(gpu));
    end_abandoned(gpu);
    TRY(gpu_pack_end(gpu));
    TRY(count_generated(b, &gpu->n_decode));
    TRY(upload(gpu, b)); /* with what the step before samples */
    gpu->sampled = c->sample;
    gpu->batch = b;
    gpu->has_top = has_top(b);
    gpu_fused_begin(gpu);
    gpu->cos_sin_of = NULL;
    gpu->mxfp8_of = NULL;
    TRY(gpu_graph_begin(gpu, c, b));
    *is_replayed = gpu->mode == MODE_REPLAYING;
    TRY(part_from_stages(gpu));
out:
    return st;
}

/* Behind all of the step. */
static enum osp_status read_results(struct gpu *gpu)
{
    const struct download_launch l = {
        .args = gpu->sampled,
        .n_samples = gpu->sampled.tokens.data != NULL ? gpu->batch->n_samples : 0,
        .n_samples_max = gpu->limits.n_samples_max,
        .has_top = gpu->has_top,
        .n_experts_read = gpu->n_experts_read,
        .results = gpu->step_slot->results};
    enum osp_status st;

    launch_download(gpu->stream, &l);
    TRY(gpu_check(cudaGetLastError(), "results from the device"));
    TRY(gpu_check(cudaEventRecord(gpu->step_slot->done, gpu->stream), "an event"));
out:
    return st;
}

enum osp_status gpu_step_end(struct gpu *gpu, uint64_t *ticket)
{
    struct step_slot *t = gpu->step_slot;
    enum osp_status st;

    if (gpu->mode != MODE_REPLAYING) {
        TRY(gpu_fused_flush(gpu));
        TRY(gpu_check(cudaGetLastError(), "what stages had left"));
        TRY(gpu_record_stage(gpu, (enum stage)0)); /* where the last stage ends */
    }
    TRY(gpu_graph_end(gpu));
    TRY(read_results(gpu));
    gpu->batch = NULL;
    t->graph = gpu->graph;
    t->stage_events = gpu->stage_events;
    t->is_spanned = gpu->is_spanned;
    t->is_running = true;
    *ticket = t->ticket = ++gpu->ticket;
out:
    return st;
}

enum osp_status gpu_step_wait(struct backend *be, uint64_t ticket)
{
    struct gpu *gpu = gpu_of(be);
    struct step_slot *t = &gpu->step_slots[ticket % N_STEP_SLOTS];

    gpu->completed = t->ticket == ticket ? t : NULL; /* NULL: the step after next has its turn */
    return gpu_step_finish(gpu, t);
}

/* What failed is told by the wait. */
bool gpu_step_has_ended(struct backend *be, uint64_t ticket)
{
    const struct step_slot *t = &gpu_of(be)->step_slots[ticket % N_STEP_SLOTS];

    if (t->ticket != ticket || !t->is_running || cudaEventQuery(t->done) != cudaErrorNotReady)
        return true;
    (void)cudaGetLastError(); /* which is that it has not */
    return false;
}

enum osp_status gpu_sampled(struct backend *be, struct sampled *out)
{
    const struct gpu *gpu = gpu_of(be);
    const int64_t n = gpu->limits.n_samples_max;
    const int32_t *lists;

    if (gpu->completed == NULL)
        return fail(OSP_EINTERNAL, "cuda: results are asked for that were not waited for in time");
    lists = gpu->completed->results->lists;
    *out = (struct sampled){.tokens = lists,
                            .logprobs = (const float *)(lists + n),
                            .top_tokens = lists + 2 * n,
                            .top_logprobs = (const float *)(lists + (2 + TOP_LOGPROBS_MAX) * n),
                            .begin_ns = gpu->completed->results->begin_ns,
                            .end_ns = gpu->completed->results->end_ns};
    return OSP_OK;
}
