/* Times the probe's kernels: the best of a few runs of each. */
#include "cuda/device/gpu.h"
#include "cuda/device/host.h"

enum { RUNS = 8, BLOCKS_A_MULTIPROCESSOR = 8, ROOM_BYTES_MIN = 64 << 20 };
static const size_t ROOM_BYTES_MAX = (size_t)2 << 30; /* far beyond every cache */

struct trial {
    struct gpu *gpu;
    struct gpu_room room;
    cudaEvent_t begin, end;
    int n_blocks;
};

/* Seconds of the fastest of a few runs; *work is what a run does. */
static enum osp_status time_best(struct trial *t, double (*run)(struct trial *), double *best,
                                 double *work)
{
    enum osp_status st = OSP_OK;

    *best = 1e9;
    for (int i = 0; i < RUNS; i++) {
        float ms;

        TRY(gpu_check(cudaEventRecord(t->begin, t->gpu->stream), "the probe"));
        *work = run(t);
        TRY(gpu_check(cudaEventRecord(t->end, t->gpu->stream), "the probe"));
        TRY(gpu_check(cudaEventSynchronize(t->end), "the probe"));
        TRY(gpu_check(cudaEventElapsedTime(&ms, t->begin, t->end), "the probe"));
        *best = (double)ms * 1e-3 < *best ? (double)ms * 1e-3 : *best;
    }
out:
    return st;
}

static double run_read(struct trial *t)
{
    launch_probe_read(t->gpu->stream, t->room.data, (int64_t)t->room.size_bytes, t->n_blocks);
    return (double)t->room.size_bytes;
}

static double run_bf16(struct trial *t)
{
    return launch_probe_bf16(t->gpu->stream, t->room.data, t->n_blocks);
}

static double run_sm90(struct trial *t)
{
    return launch_probe_sm90(t->gpu->stream, t->room.data, t->n_blocks);
}

/* Products by every instruction that the card has for them. */
static enum osp_status time_products(struct trial *t, struct probe *out)
{
    double seconds, work;
    enum osp_status st;

    TRY(time_best(t, run_bf16, &seconds, &work));
    out->peaks[out->n_peaks++] = (struct probe_peak){
        .name = "mma.sync bf16", .kind = PROBE_BF16, .ops_per_s = work / seconds};
    if (t->gpu->card != CARD_HOPPER)
        return OSP_OK;
    TRY(time_best(t, run_sm90, &seconds, &work));
    out->peaks[out->n_peaks++] =
        (struct probe_peak){.name = "wgmma bf16", .kind = PROBE_BF16, .ops_per_s = work / seconds};
out:
    return st;
}

static enum osp_status trial_open(struct trial *t)
{
    size_t n_free, n_all;
    enum osp_status st;

    TRY(gpu_check(cudaMemGetInfo(&n_free, &n_all), "free memory"));
    t->room.size_bytes = n_free / 2 < ROOM_BYTES_MAX ? n_free / 2 : ROOM_BYTES_MAX;
    if (t->room.size_bytes < ROOM_BYTES_MIN)
        return fail(OSP_ENOMEM, "cuda: the probe needs %d MiB of free memory",
                    ROOM_BYTES_MIN >> 20);
    TRY(gpu_check(cudaMalloc(&t->room.data, t->room.size_bytes), "memory for the probe"));
    TRY(gpu_check(cudaMemsetAsync(t->room.data, 1, t->room.size_bytes, t->gpu->stream),
                  "the probe"));
    TRY(gpu_check(cudaEventCreate(&t->begin), "an event"));
    TRY(gpu_check(cudaEventCreate(&t->end), "an event"));
out:
    return st;
}

static void trial_close(struct trial *t)
{
    (void)cudaFree(t->room.data);
    if (t->begin != NULL)
        (void)cudaEventDestroy(t->begin);
    if (t->end != NULL)
        (void)cudaEventDestroy(t->end);
}

enum osp_status gpu_probe(struct gpu *gpu, struct probe *out)
{
    struct trial t = {.gpu = gpu,
                      .n_blocks = gpu->properties.multiProcessorCount * BLOCKS_A_MULTIPROCESSOR};
    double seconds, work;
    enum osp_status st;

    TRY(trial_open(&t));
    TRY(time_best(&t, run_read, &seconds, &work));
    *out = (struct probe){.read_bytes_per_s = work / seconds, .read_name = "16 bytes a load"};
    TRY(time_products(&t, out));
out:
    trial_close(&t);
    return st;
}
