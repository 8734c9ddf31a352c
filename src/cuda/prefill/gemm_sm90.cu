/* Prefill GEMM by wgmma: out[t][r] = sum over k of W[r][k] x[t][k] + b[r], for one matrix, or
 * grouped over the experts, whose rows expert_lists.cu has listed.
 *
 * Work division: persistent, warp-specialized blocks loop over tiles of 256, 128 or 64 rows of W
 * and up to 128 tokens. The producer warpgroup loads packed units of W, one per warp, and the
 * tokens' operand into a shared-memory pipeline, 64 columns per stage. Two consumer warpgroups run
 * wgmma with W as operand A from registers: a warp's tile of a unit is its part of A. The next unit
 * is expanded to FP16 while the wgmmas of the current one run. Each consumer has half of a tile of
 * 256 or 128 rows; tiles of 64 rows alternate between the consumers (ping-pong).
 *
 * MXFP4: a code times its block's scale, relative to the row's largest, is an FP16 number. It is
 * exact down to 2^-24 of the largest; the epilogue applies the remaining factor. BF16 is used as
 * stored. Each sum runs over all columns in order, in one accumulator: its bits depend only on its
 * row and its token.
 *
 * Flops: 2 rows columns tokens. Traffic of a tile per 64 columns: 34 bytes per row and 128 per
 * token, from L2 except for the first read. Bound by the tensor cores from some 300 tokens per
 * matrix on, by memory below that. */
#include "cuda/prefill/gemm_loop.cuh"

template <class FORM, int... WIDTHS>
static __device__ __forceinline__ void run(const struct launch_plan &p)
{
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    extern __shared__ __align__(1024) unsigned char smem[];
    const int group = threadIdx.x / GROUP_THREADS, warp = threadIdx.x / WARP_LANES % GROUP_WARPS;
    struct tile_ring r;

    ring_init<FORM>(&r, smem);
    if (group == 0) {
        warpgroup_reg_dealloc<PRODUCER_REGISTERS>();
        if (threadIdx.x % WARP_LANES == 0 && warp < FORM::TILE_UNITS)
            produce<FORM, WIDTHS...>(p, r, warp);
    } else {
        warpgroup_reg_alloc<CONSUMER_REGISTERS>();
        r.staging += (group - 1) * FORM::TILE_BYTES;
        r.info += (group - 1) * FORM::ROWS_INFO_BYTES;
        consume<FORM, WIDTHS...>(p, r, group - 1);
    }
#else
    (void)p; /* other architectures have no wgmma, and the tuning table has no such kernel for
              * them */
    __trap();
#endif
}

/* The kernel report tells the shapes apart by name: the rows of a tile. */
template <enum format FORMAT, int MAX_TOKENS, int... WIDTHS>
static __global__ void __launch_bounds__(THREADS, 1)
    gemm_256_kernel(const __grid_constant__ struct launch_plan p)
{
    run<kernel_shape<FORMAT, 256, MAX_TOKENS>, MAX_TOKENS, WIDTHS...>(p);
}

template <enum format FORMAT, int MAX_TOKENS, int... WIDTHS>
static __global__ void __launch_bounds__(THREADS, 1)
    gemm_128_kernel(const __grid_constant__ struct launch_plan p)
{
    run<kernel_shape<FORMAT, 128, MAX_TOKENS>, MAX_TOKENS, WIDTHS...>(p);
}

template <enum format FORMAT, int MAX_TOKENS, int... WIDTHS>
static __global__ void __launch_bounds__(THREADS, 1)
    gemm_64_kernel(const __grid_constant__ struct launch_plan p)
{
    run<kernel_shape<FORMAT, 64, MAX_TOKENS>, MAX_TOKENS, WIDTHS...>(p);
}

/* ---- host ---- */

static const struct {
    void (*kernel)(struct launch_plan);
    const char *(*name)(void);
    void (*add)(struct launch_list *, dim3, dim3, int64_t, const struct launch_plan &);
    int shared_bytes;
} kernels[][N_GEMM_SHAPES] = {{
#define BF16_KERNEL(shape, rows, max_tokens, ...)                                                  \
    {gemm_##rows##_kernel<FORMAT_BF16, max_tokens, __VA_ARGS__>,                                   \
     name_of_kernel<gemm_##rows##_kernel<FORMAT_BF16, max_tokens, __VA_ARGS__>>,                   \
     add_kernel<gemm_##rows##_kernel<FORMAT_BF16, max_tokens, __VA_ARGS__>, struct launch_plan>,   \
     kernel_shape<FORMAT_BF16, rows, max_tokens>::SHARED_BYTES},
                                  GEMM_SHAPES(BF16_KERNEL)
#undef BF16_KERNEL
                              },
                              {
#define MXFP4_KERNEL(shape, rows, max_tokens, ...)                                                 \
    {gemm_##rows##_kernel<FORMAT_MXFP4, max_tokens, __VA_ARGS__>,                                  \
     name_of_kernel<gemm_##rows##_kernel<FORMAT_MXFP4, max_tokens, __VA_ARGS__>>,                  \
     add_kernel<gemm_##rows##_kernel<FORMAT_MXFP4, max_tokens, __VA_ARGS__>, struct launch_plan>,  \
     kernel_shape<FORMAT_MXFP4, rows, max_tokens>::SHARED_BYTES},
                                  GEMM_SHAPES(MXFP4_KERNEL)
#undef MXFP4_KERNEL
                              }};

bool launch_gemm_available(const struct gpu_desc *gpu)
{
    bool all = gpu->major == 9 && gpu->minor == 0;

    for (int format = 0; format < 2; format++)
        for (int shape = 0; shape < N_GEMM_SHAPES; shape++) {
            const void *function = (const void *)kernels[format][shape].kernel;
            struct kernel_desc k;

            all = all && gpu->kernel(gpu->ctx, function, kernels[format][shape].name(), NULL, &k) &&
                  k.binary_version == 90;
        }
    return all;
}

void launch_gemm(struct launch_list *list, const struct gemm *g)
{
    const int format = g->w[0].dtype == DTYPE_MXFP4 ? FORMAT_MXFP4 : FORMAT_BF16;
    const unsigned n_blocks = (unsigned)list->gpu->n_sms;
    const int n_token_tiles = g->experts == NULL ? (g->n_tokens - 1) / g->n_tile_tokens + 1 : 0;
    const struct launch_plan p = plan_of(g, gemm_rows(g->shape), n_token_tiles);

    kernels[format][g->shape].add(list, n_blocks, THREADS, kernels[format][g->shape].shared_bytes,
                                  p);
}
