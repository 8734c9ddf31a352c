/* A step's begin and end: its batch on the way to the device, and whether its stages are told or replayed. */
#include <string.h>

#include "base/rng.h"
#include "cuda/gpu.h"
#include "cuda/rooms.h"

enum osp_status gpu_staging_need(struct gpu *gpu, size_t size_bytes)
{
    enum osp_status st;

    if (size_bytes <= gpu->staging_bytes)
        return OSP_OK;
    (void)cudaFreeHost(gpu->staging);
    gpu->staging = NULL;
    gpu->staging_bytes = 0;
    TRY(gpu_check(cudaMallocHost((void **)&gpu->staging, size_bytes), "memory for batches"));
    gpu->staging_bytes = size_bytes;
out:
    return st;
}

/* The random numbers of the batch's samples and the batch, in one copy: each always in the same place. */
static enum osp_status upload(struct gpu *gpu, const struct batch *b)
{
    const size_t before_bytes = (size_t)uniforms_bytes(gpu->limits.n_samples_max);
    const size_t all_bytes = before_bytes + (size_t)b->size_bytes;
    const struct batch_sample *samples = BATCH_SAMPLES(b);
    enum osp_status st;

    TRY(gpu_staging_need(gpu, all_bytes));
    TRY(gpu_room_need(gpu, &gpu->batch_room, (int64_t)all_bytes, "the batch"));
    memcpy(gpu->staging + before_bytes, b, (size_t)b->size_bytes);
    memset(gpu->staging, 0, before_bytes);
    for (int i = 0; i < b->n_samples; i++)
        ((double *)(void *)gpu->staging)[i] = rng_uniform(samples[i].seed, samples[i].position, 0);
    TRY(gpu_check(cudaMemcpyAsync(gpu->batch_room.data, gpu->staging, all_bytes,
                                  cudaMemcpyHostToDevice, gpu->stream),
                  "the batch to the device"));
    gpu->uniforms = gpu->batch_room.data;
    gpu->on_device =
        (const struct batch *)(const void *)((const char *)gpu->batch_room.data + before_bytes);
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

    TRY(gpu_step_finish(gpu));
    end_abandoned(gpu);
    TRY(gpu_pack_end(gpu));
    TRY(count_generated(b, &gpu->n_generated));
    TRY(upload(gpu, b));
    gpu->batch = b;
    gpu_few_begin(gpu);
    gpu->rotations_of = NULL;
    gpu->mxfp8_of = NULL;
    TRY(gpu_graph_begin(gpu, b, out));
    if (gpu->mode != MODE_REPLAYING)
        gpu->n_marks = 0;
out:
    return st;
}

enum osp_status gpu_step_end(struct backend *be, uint64_t *ticket)
{
    struct gpu *gpu = gpu_of(be);
    enum osp_status st;

    if (gpu->mode != MODE_REPLAYING) {
        TRY(gpu_few_flush(gpu));
        TRY(gpu_check(cudaGetLastError(), "what stages had left"));
        TRY(gpu_mark(gpu, (enum stage)0)); /* where the last stage ends */
    }
    gpu->batch = NULL;
    TRY(gpu_graph_end(gpu));
    TRY(gpu_check(cudaMemcpyAsync(gpu->n_experts_read_host, gpu->n_experts_read, sizeof(uint64_t),
                                  cudaMemcpyDeviceToHost, gpu->stream),
                  "a counter"));
    gpu->is_running = true;
    *ticket = ++gpu->ticket;
out:
    return st;
}

enum osp_status gpu_step_wait(struct backend *be, uint64_t ticket)
{
    (void)ticket; /* steps end in order */
    return gpu_step_finish(gpu_of(be));
}
