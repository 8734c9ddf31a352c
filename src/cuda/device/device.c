/* A CUDA GPU as a backend: opening, closing, memory, and the table of its operations. A step's
 * kernels are launched into one stream and run asynchronously; step_wait() waits for them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "cuda/device/copy_rows.h"
#include "cuda/device/kv_move.h"
#include "cuda/device/gpu.h"

enum osp_status gpu_check(cudaError_t error, const char *what)
{
    if (error == cudaSuccess)
        return OSP_OK;
    return fail(error == cudaErrorMemoryAllocation ? OSP_ENOMEM : OSP_EDEVICE, "cuda: %s: %s (%s)",
                what, cudaGetErrorString(error), cudaGetErrorName(error));
}

/* ---- memory ---- */

static enum osp_status cuda_alloc(struct backend *be, struct mem *out, size_t size_bytes)
{
    enum osp_status st;

    (void)gpu_select(be);
    *out = (struct mem){0};
    if (size_bytes == 0)
        return OSP_OK;
    TRY(gpu_check(cudaMalloc(&out->data, size_bytes), "allocating device memory"));
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

/* Ordered after all work in the stream, and complete when the function returns. */
static enum osp_status move(struct backend *be, void *dst, const void *src, size_t size_bytes,
                            const char *what)
{
    struct gpu *gpu = gpu_select(be);
    enum osp_status st;

    if (gpu->nccl != NULL) /* a copy to pageable memory blocks behind a step of a lost rank */
        TRY(gpu_stream_wait(gpu, what));
    TRY(gpu_check(cudaMemcpyAsync(dst, src, size_bytes, cudaMemcpyDefault, gpu->stream), what));
    TRY(gpu_stream_wait(gpu, what));
out:
    return st;
}

static enum osp_status cuda_write(struct backend *be, void *dst, const void *src, size_t size_bytes)
{
    return move(be, dst, src, size_bytes, "copying to the device");
}

static enum osp_status cuda_read(struct backend *be, void *dst, const void *src, size_t size_bytes)
{
    return move(be, dst, src, size_bytes, "copying from the device");
}

static enum osp_status cuda_copy(struct backend *be, void *dst, const void *src, size_t size_bytes)
{
    struct gpu *gpu = gpu_select(be);

    return gpu_check(cudaMemcpyAsync(dst, src, size_bytes, cudaMemcpyDeviceToDevice, gpu->stream),
                     "copying on the device");
}

/* One kernel: each copy of its own would wait for the one before it. */
static enum osp_status cuda_copy_rows(struct backend *be, const struct row_copies *copies)
{
    launch_copy_rows(gpu_select(be)->stream, copies);
    return gpu_check(cudaGetLastError(), "copying rows on the device");
}

static enum osp_status cuda_kv_move(struct backend *be, const struct kv_moves *moves)
{
    launch_kv_moves(gpu_select(be)->stream, moves);
    return gpu_check(cudaGetLastError(), "moving keys and values of accepted drafts");
}

static enum osp_status cuda_pack(struct backend *be, struct tensor *out, const struct tensor *host)
{
    return gpu_pack(gpu_select(be), out, host);
}

static enum osp_status cuda_fill_random(struct backend *be, struct tensor *out,
                                        const struct tensor *host,
                                        const struct random_weight *values)
{
    return gpu_generate(gpu_select(be), out, host, values);
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
        return fail(OSP_EINVAL,
                    "KV cache type int16 is supported on CPUs only, not on CUDA devices");
    if (*out == DTYPE_NONE)
        *out = DTYPE_BF16;
    return OSP_OK;
}

/* A rank's device is that of its number; more ranks than devices share them. */
static int device_of_rank(int rank, int n_devices)
{
    return n_devices > 0 ? rank % n_devices : 0;
}

static enum osp_status memory_of_device(struct device_memory *out, int device)
{
    size_t n_free, n_all;
    int is_integrated = 0;
    enum osp_status st;

    TRY(gpu_check(cudaSetDevice(device), "selecting a device"));
    TRY(gpu_check(cudaMemGetInfo(&n_free, &n_all), "querying free memory"));
    TRY(gpu_check(cudaDeviceGetAttribute(&is_integrated, cudaDevAttrIntegrated, device),
                  "querying the kind of memory"));
    out->total_bytes = (int64_t)n_all;
    out->free_bytes = (int64_t)n_free;
    out->is_unified = is_integrated;
out:
    return st;
}

/* The query makes a context on the device; those of other ranks' devices are removed again. */
enum osp_status gpu_memory(struct device_memory *out, int first, int n)
{
    struct device_memory least = {0};
    int n_devices = 1, own;
    enum osp_status st;

    TRY(gpu_check(cudaGetDeviceCount(&n_devices), "counting devices"));
    own = device_of_rank(first, n_devices);
    TRY(memory_of_device(&least, own));
    for (int i = 1; i < n && i < n_devices; i++) {
        struct device_memory m = {0};

        TRY(memory_of_device(&m, device_of_rank(first + i, n_devices)));
        TRY(gpu_check(cudaDeviceReset(), "removing a context"));
        if (m.free_bytes < least.free_bytes)
            least = m;
    }
    TRY(gpu_check(cudaSetDevice(own), "selecting a device"));
    *out = least;
    out->n_devices = n_devices;
out:
    return st;
}

/* ---- opening and closing ---- */

static void cuda_close(struct backend *be)
{
    struct gpu *gpu = gpu_select(be);

    if (gpu == NULL)
        return;
    gpu_peers_close(gpu);
    gpu_plans_drop(gpu);
    gpu_pack_release(gpu);
    gpu_workspaces_release(gpu);
    (void)cudaFree(gpu->n_experts_read);
    gpu_slots_release(gpu);
    if (gpu->stream != NULL)
        (void)cudaStreamDestroy(gpu->stream);
    free(gpu->kernels);
    free(gpu);
}

/* The architecture of the GPU; a test can select another one, whose rows of the tuning table then
 * apply here. */
static enum osp_status select_arch(struct gpu *gpu)
{
    const char *name = getenv("OSPREY_CUDA_CARD");

    gpu->arch = arch_of_capability(gpu->properties.major);
    if (IS_ORDER_FREE)
        log_warn("cuda: this build has no batch invariance (CUDA_FREE_ORDER); use it for "
                 "measurements only");
    if (!launch_has_code())
        return fail(OSP_EDEVICE,
                    "cuda: this build has no code for %s; CUDA_ARCHS at build time selects "
                    "the architectures",
                    gpu->properties.name);
    if (gpu->arch == ARCH_HOPPER && !launch_gemm_available(&gpu->kernels->gpu))
        return fail(OSP_EDEVICE, "cuda: %s needs code for sm_90a; this build has none",
                    gpu->properties.name);
    if (name == NULL || name[0] == '\0')
        return OSP_OK;
    if (arch_of_name(name) == N_ARCHS ||
        (arch_of_name(name) == ARCH_HOPPER && gpu->arch != ARCH_HOPPER))
        return fail(OSP_EINVAL, "OSPREY_CUDA_CARD is %s: not a GPU class whose kernels run on %s",
                    name, gpu->properties.name);
    gpu->arch = arch_of_name(name);
    log_warn("OSPREY_CUDA_CARD: using the kernels of %s", arch_texts[gpu->arch]);
    return OSP_OK;
}

static enum osp_status select_kernels(struct gpu *gpu)
{
    const struct exchange *x = gpu->limits.exchange;
    char note[KERNEL_NOTE_BYTES];
    enum osp_status st;

    TRY(kernel_config_parse(&gpu->kernel_config, &gpu->limits.device_options, gpu->arch, note));
    if (note[0] != '\0')
        log_warn("%s", note);
    TRY(kernel_config_check_ranks(&gpu->kernel_config, gpu->arch,
                                  x != NULL ? x->shard.n_ranks : 1));
out:
    return st;
}

/* Whether the options, if only by a tile, select the native (block-scaled) matmuls. */
static bool requests_native(const struct gpu *gpu)
{
    struct tuning_key key = {
        .stage = STAGE_experts, .arch = gpu->arch, .format = WEIGHTS_MXFP4, .phase = PHASE_PREFILL};
    bool is_native = false;

    for (key.n_rows = 1; key.n_rows <= 1 << 16; key.n_rows *= 2)
        is_native = is_native ||
                    kernel_texts[tuning_find(&key, &gpu->kernel_config.mxfp4)->kernel].op_class ==
                        OPCLASS_NATIVE;
    return is_native;
}

/* MXFP8 activations and native matmuls need each other: one selects the other. */
static enum osp_status select_rows(struct gpu *gpu)
{
    const enum op_class op_class = gpu->kernel_config.mxfp4.op_class;
    const bool is_mxfp8 = gpu_option_is_mxfp8(&gpu->limits.device_options);

    if (is_mxfp8 && op_class != OPCLASS_AUTO && op_class != OPCLASS_NATIVE)
        return fail(OSP_EINVAL, "--mxfp4-activation mxfp8 needs --mxfp4-backend native, not %s",
                    opclass_names[op_class]);
    if (!is_mxfp8 && !requests_native(gpu))
        return OSP_OK;
    gpu->kernel_config.mxfp4.op_class = OPCLASS_NATIVE;
    if (gpu->arch != ARCH_BLACKWELL_RTX)
        log_warn(
            "MXFP8 activations: %s has no block-scaled MMA instructions; they are emulated, and "
            "prefill is slow",
            gpu->properties.name);
    return OSP_OK;
}

/* Kernels for Hopper have the encoding of the L2 policy evict_first as a constant, because
 * createpolicy takes longer than the rest of their start. */
static enum osp_status check_policy(struct gpu *gpu)
{
    uint64_t policy = 0, of_kernels;
    enum osp_status st = OSP_OK;

    if (gpu->properties.major != PDL_MAJOR_MIN)
        return OSP_OK;
    of_kernels = launch_probe_policy(gpu->stream, gpu->n_experts_read);
    TRY(gpu_check(cudaMemcpyAsync(&policy, gpu->n_experts_read, sizeof(policy),
                                  cudaMemcpyDeviceToHost, gpu->stream),
                  "reading the L2 policy"));
    TRY(gpu_check(cudaStreamSynchronize(gpu->stream), "reading the L2 policy"));
    if (policy != of_kernels)
        log_warn("cuda: %s encodes the L2 policy evict_first as %#llx, the kernels of this build "
                 "as %#llx: decoding may be slower",
                 gpu->properties.name, (unsigned long long)policy, (unsigned long long)of_kernels);
out:
    return st;
}

static enum osp_status select_device(struct gpu *gpu)
{
    int n_devices = 0;
    enum osp_status st = OSP_OK;

    if (gpu->limits.exchange != NULL) {
        TRY(gpu_check(cudaGetDeviceCount(&n_devices), "counting devices"));
        gpu->device = device_of_rank(gpu->limits.exchange->shard.rank, n_devices);
    }
    TRY(gpu_check(cudaSetDevice(gpu->device), "selecting a device"));
out:
    return st;
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
        return fail(OSP_ENOMEM, "out of memory for the state of the device");
    gpu->limits = *opt;
    for (int i = 0; i < N_STAGES; i++)
        gpu->costs[i].stage = names[i];
    TRY(select_device(gpu));
    TRY(gpu_check(cudaGetDeviceProperties(&gpu->properties, gpu->device),
                  "querying the device properties"));
    gpu->kernels = calloc(1, sizeof(*gpu->kernels));
    if (gpu->kernels == NULL) {
        st = fail(OSP_ENOMEM, "out of memory for the state of the device");
        goto out;
    }
    kernel_table_init(gpu->kernels, &gpu->properties);
    TRY(select_arch(gpu));
    TRY(select_kernels(gpu));
    TRY(select_rows(gpu));
    gpu->exchange_asked = exchange_backend_asked(&gpu->limits.device_options);
    gpu->limits.device_options = (struct device_options){0}; /* borrowed until here */
    TRY(gpu_check(cudaStreamCreateWithFlags(&gpu->stream, cudaStreamNonBlocking),
                  "creating a stream"));
    TRY(gpu_check(cudaMalloc((void **)&gpu->n_experts_read, sizeof(uint64_t)),
                  "allocating a counter"));
    TRY(check_policy(gpu));
    TRY(gpu_check(cudaMemsetAsync(gpu->n_experts_read, 0, sizeof(uint64_t), gpu->stream),
                  "clearing a counter"));
    *out = (struct backend *)gpu;
out:
    if (st != OSP_OK)
        cuda_close((struct backend *)gpu);
    return st;
}

static void cuda_info(const struct backend *be, struct device_info *out)
{
    const struct gpu *gpu = (const struct gpu *)be;

    *out = (struct device_info){.memory_bytes = (int64_t)gpu->properties.totalGlobalMem,
                                .runs_async = true,
                                .runs_pipelined = true,
                                .runs_phases_apart = !IS_ORDER_FREE,
                                .has_slow_small_prefill = true};
    snprintf(out->name, sizeof(out->name), "%.80s, capability %d.%d, %d multiprocessors",
             gpu->properties.name, gpu->properties.major, gpu->properties.minor,
             gpu->properties.multiProcessorCount);
}

static int cuda_costs(const struct backend *be, struct stage_cost *out, int n_max)
{
    const struct gpu *gpu = (const struct gpu *)be;
    const int n = n_max < N_STAGES ? n_max : N_STAGES;

    memcpy(out, gpu->costs, (size_t)n * sizeof(*out));
    if (n > STAGE_experts)
        out[STAGE_experts].bytes += (double)gpu->n_experts_read_so_far * gpu->expert_bytes;
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
    return gpu_probe(gpu_select(be), out);
}

static enum osp_status cuda_exchange_time(struct backend *be, int n_rows, int n_columns, int n_sums,
                                          double *us)
{
    return gpu_exchange_time(gpu_select(be), n_rows, n_columns, n_sums, us);
}

const struct backend_ops gpu_ops = {.name = "cuda",
                                    .options = gpu_option_rows,
                                    .open = cuda_open,
                                    .close = cuda_close,
                                    .info = cuda_info,
                                    .alloc = cuda_alloc,
                                    .release = cuda_release,
                                    .write = cuda_write,
                                    .read = cuda_read,
                                    .copy = cuda_copy,
                                    .kv_move = cuda_kv_move,
                                    .copy_rows = cuda_copy_rows,
                                    .pack = cuda_pack,
                                    .fill_random = cuda_fill_random,
                                    .pack_bytes = cuda_pack_bytes,
                                    .kv_dtype = cuda_kv_dtype,
                                    .memory = gpu_memory,
                                    .step_bytes = gpu_step_bytes,
                                    .step_reserve = gpu_step_reserve,
                                    .describe = cuda_describe,
                                    .kernels = cuda_kernels,
                                    .probe = cuda_probe,
                                    .links = gpu_links,
                                    .exchange_time = cuda_exchange_time,
                                    .compile = gpu_compile,
                                    .release_program = gpu_release_program,
                                    .run = gpu_run,
                                    .step_wait = gpu_step_wait,
                                    .step_has_ended = gpu_step_has_ended,
                                    .sampled = gpu_sampled,
                                    .costs = cuda_costs};
