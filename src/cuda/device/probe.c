/* Measures the roofline of the device: runs the probe kernels a few times each and takes the
 * best. */
#include "cuda/device/gpu.h"
#include "cuda/device/host.h"

enum { RUNS = 8, BLOCKS_A_MULTIPROCESSOR = 8, BUFFER_BYTES_MIN = 64 << 20 };
static const size_t BUFFER_BYTES_MAX = (size_t)2 << 30; /* far larger than any cache */

struct probe_run {
    struct gpu *gpu;
    struct gpu_workspace scratch;
    cudaEvent_t begin, end;
    int n_blocks;
};

/* Seconds of the fastest of a few runs; *work receives the work of one run. */
static enum osp_status time_best(struct probe_run *t, double (*run)(struct probe_run *),
                                 double *best, double *work)
{
    enum osp_status st = OSP_OK;

    *best = 1e9;
    for (int i = 0; i < RUNS; i++) {
        float ms;

        TRY(gpu_check(cudaEventRecord(t->begin, t->gpu->stream), "running the probe"));
        *work = run(t);
        TRY(gpu_check(cudaEventRecord(t->end, t->gpu->stream), "running the probe"));
        TRY(gpu_check(cudaEventSynchronize(t->end), "running the probe"));
        TRY(gpu_check(cudaEventElapsedTime(&ms, t->begin, t->end), "running the probe"));
        *best = (double)ms * 1e-3 < *best ? (double)ms * 1e-3 : *best;
    }
out:
    return st;
}

static double run_read(struct probe_run *t)
{
    launch_probe_read(t->gpu->stream, t->scratch.data, (int64_t)t->scratch.size_bytes, t->n_blocks);
    return (double)t->scratch.size_bytes;
}

static double run_bf16(struct probe_run *t)
{
    return launch_probe_bf16(t->gpu->stream, t->scratch.data, t->n_blocks);
}

static double run_sm90(struct probe_run *t)
{
    return launch_probe_sm90(t->gpu->stream, t->scratch.data, t->n_blocks);
}

/* Measures matrix throughput with each MMA instruction that the GPU supports. */
static enum osp_status time_mma(struct probe_run *t, struct probe *out)
{
    double seconds, work;
    enum osp_status st;

    TRY(time_best(t, run_bf16, &seconds, &work));
    out->peaks[out->n_peaks++] = (struct probe_peak){
        .name = "mma.sync bf16", .kind = PROBE_BF16, .ops_per_s = work / seconds};
    if (t->gpu->arch != ARCH_HOPPER)
        return OSP_OK;
    TRY(time_best(t, run_sm90, &seconds, &work));
    out->peaks[out->n_peaks++] =
        (struct probe_peak){.name = "wgmma bf16", .kind = PROBE_BF16, .ops_per_s = work / seconds};
out:
    return st;
}

static enum osp_status probe_run_open(struct probe_run *t)
{
    size_t n_free, n_all;
    enum osp_status st;

    TRY(gpu_check(cudaMemGetInfo(&n_free, &n_all), "querying free memory"));
    t->scratch.size_bytes = n_free / 2 < BUFFER_BYTES_MAX ? n_free / 2 : BUFFER_BYTES_MAX;
    if (t->scratch.size_bytes < BUFFER_BYTES_MIN)
        return fail(OSP_ENOMEM, "cuda: the probe needs %d MiB of free memory",
                    BUFFER_BYTES_MIN >> 20);
    TRY(gpu_check(cudaMalloc(&t->scratch.data, t->scratch.size_bytes),
                  "allocating memory for the probe"));
    TRY(gpu_check(cudaMemsetAsync(t->scratch.data, 1, t->scratch.size_bytes, t->gpu->stream),
                  "running the probe"));
    TRY(gpu_check(cudaEventCreate(&t->begin), "creating an event"));
    TRY(gpu_check(cudaEventCreate(&t->end), "creating an event"));
out:
    return st;
}

static void probe_run_close(struct probe_run *t)
{
    (void)cudaFree(t->scratch.data);
    if (t->begin != NULL)
        (void)cudaEventDestroy(t->begin);
    if (t->end != NULL)
        (void)cudaEventDestroy(t->end);
}

enum osp_status gpu_probe(struct gpu *gpu, struct probe *out)
{
    struct probe_run t = {
        .gpu = gpu, .n_blocks = gpu->properties.multiProcessorCount * BLOCKS_A_MULTIPROCESSOR};
    double seconds, work;
    enum osp_status st;

    TRY(probe_run_open(&t));
    TRY(time_best(&t, run_read, &seconds, &work));
    *out = (struct probe){.read_bytes_per_s = work / seconds, .read_name = "16-byte loads"};
    TRY(time_mma(&t, out));
out:
    probe_run_close(&t);
    return st;
}
