/* A CUDA card as a device: its memory, its life, and a step. Stages are put into one stream while the step
 * is told, and run behind the host; step_wait waits for the last. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/rng.h"
#include "cuda/gemm.h"
#include "cuda/gpu.h"
#include "cuda/host.h"

enum osp_status gpu_check(cudaError_t error, const char *what)
{
    if (error == cudaSuccess)
        return OSP_OK;
    return fail(error == cudaErrorMemoryAllocation ? OSP_ENOMEM : OSP_EDEVICE, "cuda: %s: %s (%s)",
                what, cudaGetErrorString(error), cudaGetErrorName(error));
}

/* ---- memory ---- */

enum osp_status gpu_room_need(struct gpu *gpu, struct gpu_room *room, size_t size_bytes,
                              const char *what)
{
    void *data = NULL;
    enum osp_status st;

    if (size_bytes <= room->size_bytes)
        return OSP_OK;
    TRY(gpu_check(cudaStreamSynchronize(gpu->stream), what));
    TRY(gpu_check(cudaMalloc(&data, size_bytes), what));
    gpu_graphs_drop(gpu);
    (void)cudaFree(room->data);
    room->data = data;
    room->size_bytes = size_bytes;
out:
    return st;
}

static enum osp_status cuda_alloc(struct backend *be, struct mem *out, size_t size_bytes)
{
    enum osp_status st;

    (void)be;
    *out = (struct mem){0};
    if (size_bytes == 0)
        return OSP_OK;
    TRY(gpu_check(cudaMalloc(&out->data, size_bytes), "device memory"));
    out->size_bytes = size_bytes;
out:
    return st;
}

static void cuda_release(struct backend *be, struct mem *m)
{
    (void)be;
    (void)cudaFree(m->data);
    *m = (struct mem){0};
}

/* Behind everything that is in the stream, and done when it returns. */
static enum osp_status move(struct backend *be, void *dst, const void *src, size_t size_bytes,
                            const char *what)
{
    struct gpu *gpu = gpu_of(be);
    enum osp_status st;

    TRY(gpu_check(cudaMemcpyAsync(dst, src, size_bytes, cudaMemcpyDefault, gpu->stream), what));
    TRY(gpu_check(cudaStreamSynchronize(gpu->stream), what));
out:
    return st;
}

static enum osp_status cuda_write(struct backend *be, void *dst, const void *src, size_t size_bytes)
{
    return move(be, dst, src, size_bytes, "a copy to the device");
}

static enum osp_status cuda_read(struct backend *be, void *dst, const void *src, size_t size_bytes)
{
    return move(be, dst, src, size_bytes, "a copy from the device");
}

static enum osp_status cuda_copy(struct backend *be, void *dst, const void *src, size_t size_bytes)
{
    return move(be, dst, src, size_bytes, "a copy on the device");
}

static enum osp_status cuda_pack(struct backend *be, struct tensor *out, const struct tensor *host)
{
    return gpu_pack(gpu_of(be), out, host);
}

static enum osp_status cuda_generate(struct backend *be, struct tensor *out,
                                     const struct tensor *host, const struct generated *values)
{
    return gpu_generate(gpu_of(be), out, host, values);
}

static int64_t cuda_pack_bytes(const struct backend *be, const struct tensor *host)
{
    (void)be;
    return gpu_pack_bytes(host);
}

static enum osp_status cuda_kv_dtype(const struct backend_options *opt, enum dtype *out)
{
    (void)opt;
    if (*out == DTYPE_I16)
        return fail(OSP_EINVAL, "KV cache type int16: CPUs have it, CUDA devices have not");
    if (*out == DTYPE_NONE)
        *out = DTYPE_BF16;
    return OSP_OK;
}

enum osp_status gpu_memory(struct device_memory *out)
{
    size_t n_free, n_all;
    int is_integrated = 0;
    enum osp_status st;

    TRY(gpu_check(cudaMemGetInfo(&n_free, &n_all), "free memory"));
    TRY(gpu_check(cudaDeviceGetAttribute(&is_integrated, cudaDevAttrIntegrated, 0),
                  "kind of memory"));
    *out = (struct device_memory){
        .total_bytes = (int64_t)n_all, .free_bytes = (int64_t)n_free, .is_unified = is_integrated};
out:
    return st;
}

/* ---- life ---- */

static void cuda_close(struct backend *be)
{
    struct gpu *gpu = gpu_of(be);

    if (gpu == NULL)
        return;
    if (gpu->stream != NULL)
        (void)cudaStreamSynchronize(gpu->stream);
    gpu_graphs_drop(gpu);
    free(gpu->graphs);
    gpu_pack_release(gpu);
    for (size_t i = 0; i < gpu->marks_room; i++)
        (void)cudaEventDestroy(gpu->marks[i].begin);
    free(gpu->marks);
    for (int i = 0; i < 2; i++)
        if (gpu->span[i] != NULL)
            (void)cudaEventDestroy(gpu->span[i]);
    (void)cudaFree(gpu->batch_room.data);
    (void)cudaFree(gpu->rotations.data);
    (void)cudaFree(gpu->lists.data);
    (void)cudaFree(gpu->operand.data);
    (void)cudaFree(gpu->units.data);
    (void)cudaFree(gpu->mxfp8.data);
    (void)cudaFree(gpu->tiles.data);
    (void)cudaFree(gpu->parts.data);
    (void)cudaFree(gpu->cells.data);
    (void)cudaFree(gpu->raw.data);
    (void)cudaFree(gpu->chunks.data);
    (void)cudaFree(gpu->jobs.data);
    (void)cudaFree(gpu->rounded.data);
    (void)cudaFree(gpu->n_experts_read);
    (void)cudaFreeHost(gpu->n_experts_read_host);
    (void)cudaFreeHost(gpu->staging);
    if (gpu->stream != NULL)
        (void)cudaStreamDestroy(gpu->stream);
    free(gpu);
}

static enum osp_status choose_kernels(struct gpu *gpu)
{
    char note[CHOICE_NOTE_BYTES];
    enum osp_status st;

    TRY(choice_read(&gpu->choice, &gpu->limits.kernels, gpu->card, note));
    if (note[0] != '\0')
        log_warn("%s", note);
out:
    return st;
}

/* Whether the wish, if only by its tile, is for the native products. */
static bool asks_for_native(const struct gpu *gpu)
{
    struct tuning_key key = {
        .stage = STAGE_experts, .card = gpu->card, .format = WEIGHTS_MXFP4, .kind = ROW_PROMPT};
    bool is_native = false;

    for (key.n_rows = 1; key.n_rows <= 1 << 16; key.n_rows *= 2)
        is_native =
            is_native ||
            kernel_texts[tuning_find(&key, &gpu->choice.mxfp4)->kernel].family == FAMILY_NATIVE;
    return is_native;
}

/* Rows as MXFP8 and native products come together: there is neither without the other. */
static enum osp_status choose_rows(struct gpu *gpu)
{
    const enum family family = gpu->choice.mxfp4.family;

    if (gpu->limits.has_mxfp8_rows && family != FAMILY_AUTO && family != FAMILY_NATIVE)
        return fail(OSP_EINVAL, "--mxfp4-activation mxfp8 needs --mxfp4-backend native, not %s",
                    family_words[family]);
    if (!gpu->limits.has_mxfp8_rows && !asks_for_native(gpu))
        return OSP_OK;
    gpu->choice.mxfp4.family = FAMILY_NATIVE;
    if (gpu->card != CARD_BLACKWELL_RTX)
        log_warn("prompts' rows as MXFP8: %s has no block-scaled matrix instructions; they are "
                 "emulated, and prompts are slow",
                 gpu->properties.name);
    return OSP_OK;
}

static enum osp_status cuda_open(struct backend **out, const struct backend_options *opt)
{
    static const char *const names[N_STAGES] = {
#define STAGE_NAME(stage) #stage,
        STAGE_LIST(STAGE_NAME)
#undef STAGE_NAME
    };
    struct gpu *gpu = calloc(1, sizeof(*gpu));
    enum osp_status st;

    if (gpu == NULL)
        return fail(OSP_ENOMEM, "no memory for the device");
    gpu->limits = *opt;
    for (int i = 0; i < N_STAGES; i++)
        gpu->costs[i].stage = names[i];
    TRY(gpu_check(cudaSetDevice(0), "the first device"));
    TRY(gpu_check(cudaGetDeviceProperties(&gpu->properties, 0), "properties of the device"));
    gpu->card = card_of_capability(gpu->properties.major);
    if (gpu->card == CARD_HOPPER && !launch_gemm_is_here())
        TRY(fail(OSP_EDEVICE, "cuda: %s needs code for sm_90a, which this build has not",
                 gpu->properties.name));
    TRY(choose_kernels(gpu));
    TRY(choose_rows(gpu));
    TRY(gpu_check(cudaStreamCreateWithFlags(&gpu->stream, cudaStreamNonBlocking), "a stream"));
    TRY(gpu_check(cudaMalloc((void **)&gpu->n_experts_read, sizeof(uint64_t)), "a counter"));
    TRY(gpu_check(cudaMemsetAsync(gpu->n_experts_read, 0, sizeof(uint64_t), gpu->stream),
                  "a counter"));
    TRY(gpu_check(cudaMallocHost((void **)&gpu->n_experts_read_host, sizeof(uint64_t)),
                  "a counter"));
    *gpu->n_experts_read_host = 0;
    *out = (struct backend *)gpu;
out:
    if (st != OSP_OK)
        cuda_close((struct backend *)gpu);
    return st;
}

static void cuda_info(const struct backend *be, struct device_info *out)
{
    const struct gpu *gpu = (const struct gpu *)be;

    *out = (struct device_info){.memory_bytes = (int64_t)gpu->properties.totalGlobalMem};
    snprintf(out->name, sizeof(out->name), "%.80s, capability %d.%d, %d multiprocessors",
             gpu->properties.name, gpu->properties.major, gpu->properties.minor,
             gpu->properties.multiProcessorCount);
}

/* ---- time ---- */

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

static enum osp_status read_times(const struct gpu *gpu, int64_t time_ns[N_STAGES])
{
    enum osp_status st = OSP_OK;

    for (size_t i = 0; i + 1 < gpu->n_marks; i++) {
        float time_ms;

        TRY(gpu_check(cudaEventElapsedTime(&time_ms, gpu->marks[i].begin, gpu->marks[i + 1].begin),
                      "the time of a stage"));
        time_ns[gpu->marks[i].stage] += (int64_t)((double)time_ms * 1e6);
    }
out:
    return st;
}

static enum osp_status read_span(struct gpu *gpu)
{
    float time_ms;
    enum osp_status st;

    TRY(gpu_check(cudaEventElapsedTime(&time_ms, gpu->span[0], gpu->span[1]), "a step's time"));
    gpu->graph->step_ns = (double)time_ms * 1e6;
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

/* Waits for the step, and takes its times: those of the last timed one where it was not timed. */
static enum osp_status end_running(struct gpu *gpu)
{
    int64_t time_ns[N_STAGES] = {0};
    enum osp_status st;

    if (!gpu->is_running)
        return OSP_OK;
    gpu->is_running = false;
    TRY(gpu_check(cudaStreamSynchronize(gpu->stream), "a step"));
    if (gpu->timing == TIMED)
        TRY(read_times(gpu, time_ns));
    if (gpu->is_spanned)
        TRY(read_span(gpu));
    if (gpu->graph != NULL)
        share_times(gpu->graph, gpu->timing == TIMED, time_ns);
    for (int i = 0; i < N_STAGES; i++)
        gpu->costs[i].time_ns += time_ns[i];
out:
    return st;
}

/* ---- a step ---- */

static enum osp_status staging_need(struct gpu *gpu, size_t size_bytes)
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
    const size_t uniforms_bytes = (size_t)gpu->limits.n_samples_max * sizeof(double);
    const size_t all_bytes = uniforms_bytes + (size_t)b->size_bytes;
    const struct batch_sample *samples = BATCH_SAMPLES(b);
    enum osp_status st;

    TRY(staging_need(gpu, all_bytes));
    TRY(gpu_room_need(gpu, &gpu->batch_room, all_bytes, "the batch"));
    memcpy(gpu->staging + uniforms_bytes, b, (size_t)b->size_bytes);
    memset(gpu->staging, 0, uniforms_bytes);
    for (int i = 0; i < b->n_samples; i++)
        ((double *)(void *)gpu->staging)[i] = rng_uniform(samples[i].seed, samples[i].position, 0);
    TRY(gpu_check(cudaMemcpyAsync(gpu->batch_room.data, gpu->staging, all_bytes,
                                  cudaMemcpyHostToDevice, gpu->stream),
                  "the batch to the device"));
    gpu->uniforms = gpu->batch_room.data;
    gpu->on_device =
        (const struct batch *)(const void *)((const char *)gpu->batch_room.data + uniforms_bytes);
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

static enum osp_status cuda_step_begin(struct backend *be, const struct batch *b, enum step *out)
{
    struct gpu *gpu = gpu_of(be);
    enum osp_status st;

    TRY(end_running(gpu));
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

static enum osp_status cuda_step_end(struct backend *be, uint64_t *ticket)
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

static enum osp_status cuda_step_wait(struct backend *be, uint64_t ticket)
{
    (void)ticket; /* steps end in order */
    return end_running(gpu_of(be));
}

/* A stage as the seam calls it: noted, launched, checked, and accounted for. */
#define MARKED_STAGE(stage)                                                                        \
    static enum osp_status marked_##stage(struct backend *be, const struct stage##_args *a)        \
    {                                                                                              \
        struct gpu *gpu = gpu_of(be);                                                              \
        struct stage_cost *cost = &gpu->costs[STAGE_##stage];                                      \
        struct work work = {0};                                                                    \
        enum osp_status st;                                                                        \
                                                                                                   \
        TRY(gpu_mark(gpu, STAGE_##stage));                                                         \
        TRY(gpu_##stage(gpu, a, &work));                                                           \
        TRY(gpu_check(cudaGetLastError(), #stage));                                                \
        cost->n_calls++;                                                                           \
        cost->bytes += work.bytes;                                                                 \
        cost->flops += work.flops;                                                                 \
    out:                                                                                           \
        return st;                                                                                 \
    }
STAGE_LIST(MARKED_STAGE)
#undef MARKED_STAGE

static int cuda_costs(const struct backend *be, struct stage_cost *out, int n_max)
{
    const struct gpu *gpu = (const struct gpu *)be;
    const int n = n_max < N_STAGES ? n_max : N_STAGES;

    memcpy(out, gpu->costs, (size_t)n * sizeof(*out));
    if (n > STAGE_experts)
        out[STAGE_experts].bytes += (double)*gpu->n_experts_read_host * gpu->expert_bytes;
    return n;
}

static enum osp_status cuda_kernels(const struct backend *be, struct kernel_use *out, int n_max,
                                    int *n)
{
    return gpu_kernels((const struct gpu *)be, out, n_max, n);
}

static void cuda_describe(const struct backend *be, describe_fn *put, void *ctx)
{
    gpu_describe((const struct gpu *)be, put, ctx);
}

static enum osp_status cuda_probe(struct backend *be, struct probe *out)
{
    return gpu_probe(gpu_of(be), out);
}

#define STAGE_OPERATION(stage) .stage = marked_##stage,
static const struct backend_ops cuda_ops = {.name = "cuda",
                                            .open = cuda_open,
                                            .close = cuda_close,
                                            .info = cuda_info,
                                            .alloc = cuda_alloc,
                                            .release = cuda_release,
                                            .write = cuda_write,
                                            .read = cuda_read,
                                            .copy = cuda_copy,
                                            .pack = cuda_pack,
                                            .generate = cuda_generate,
                                            .pack_bytes = cuda_pack_bytes,
                                            .kv_dtype = cuda_kv_dtype,
                                            .memory = gpu_memory,
                                            .describe = cuda_describe,
                                            .kernels = cuda_kernels,
                                            .probe = cuda_probe,
                                            .step_begin = cuda_step_begin,
                                            .step_end = cuda_step_end,
                                            .step_wait = cuda_step_wait,
                                            STAGE_LIST(STAGE_OPERATION).costs = cuda_costs};

/* ---- the plug-in ---- */

static enum osp_status check_driver(void)
{
    int driver = 0, runtime = 0;
    enum osp_status st;

    TRY(gpu_check(cudaDriverGetVersion(&driver), "version of the driver"));
    TRY(gpu_check(cudaRuntimeGetVersion(&runtime), "version of the runtime"));
    if (driver == 0)
        return fail(OSP_EDEVICE, "cuda: no driver is loaded (libcuda.so.1 and its kernel module)");
    if (driver / 1000 < runtime / 1000)
        return fail(OSP_EDEVICE,
                    "cuda: the driver is too old: it speaks CUDA %d.%d, this build needs %d.0",
                    driver / 1000, driver % 1000 / 10, runtime / 1000);
out:
    return st;
}

/* The kernels' code is there for this card: any of them will tell. */
static enum osp_status check_code(void)
{
    struct cudaDeviceProp p;
    enum osp_status st;

    TRY(gpu_check(cudaGetDeviceProperties(&p, 0), "properties of the device"));
    if (card_of_capability(p.major) == N_CARDS || !launch_has_code())
        return fail(
            OSP_EDEVICE,
            "cuda: %s has capability %d.%d, for which this build has no code (see docs/cuda.md)",
            p.name, p.major, p.minor);
out:
    return st;
}

static enum osp_status cuda_start(const struct plugin_host *host)
{
    int n_devices = 0;
    enum osp_status st;

    host_is(host);
    TRY(check_driver());
    TRY(gpu_check(cudaGetDeviceCount(&n_devices), "counting devices"));
    if (n_devices == 0)
        return fail(OSP_EDEVICE, "cuda: the driver is here, but it sees no device");
    TRY(check_code());
out:
    return st;
}

__attribute__((visibility("default"))) extern const struct plugin osprey_plugin;
const struct plugin osprey_plugin = {
    .version = PLUGIN_VERSION, .sizes = PLUGIN_SIZES, .ops = &cuda_ops, .start = cuda_start};
