/* Prefill GEMM by wgmma: out[t][r] = sum over k of W[r][k] x[t][k] + b[r], for one matrix, or
 * grouped over the experts, whose rows expert_lists.cu has listed.
 *
 * Work division: persistent, warp-specialized blocks loop over tiles of 256, 128 or 64 rows of W
 * and up to 128 tokens. The producer warpgroup loads packed units of W, one per warp, and the
 * tokens' operand into a shared-memory pipeline, 64 columns per stage. Two consumer warpgroups run
 * wgmma with W as operand A from registers: a warp's tile of a unit is its part of A. Each expands
 * the next unit while the wgmmas of the current one run. They share tiles of 256 and 128 rows;
 * tiles of 64 rows alternate between them (ping-pong).
 *
 * MXFP4: a code times its block's scale, relative to the row's largest, is an FP16 number. It is
 * exact down to 2^-24 of the largest; the epilogue applies the remaining factor. BF16 is used as
 * stored. Each sum runs over all columns in order, in one accumulator: its bits depend only on its
 * row and its token.
 *
 * Flops: 2 rows columns tokens. Traffic of a tile per 64 columns: 34 bytes per row and 128 per
 * token, from L2 except for the first read. Bound by the tensor cores from some 300 tokens per
 * matrix on; with few tokens by the chain of a warp from the load of a unit to the end of its
 * wgmmas, and by memory. Four consumers of one unit each took the same time (docs/speed-log.md). */
#include "cuda/prefill/gemm_epilogue.cuh"
#include "cuda/prefill/gemm_ring.cuh"

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

/* ---- main loop ---- */

/* d += A B; b: descriptor of the first 16 columns of B. */
template <class FORM, int WIDTH>
static __device__ __forceinline__ void add_unit(float (&d)[FORM::SUMS], uint32_t a[K_STEPS][4],
                                                uint64_t b)
{
    wgmma_fence();
#pragma unroll
    for (int i = 0; i < K_STEPS; i++)
        wgmma<FORM::IS_MXFP4, WIDTH>(d, a[i], b + i * 2);
    wgmma_commit();
}

/* State of the loop over chunks. */
struct walk {
    struct lane_words lane; /* in the group's first unit of stage 0 */
    int left;               /* chunks, including this one */
    struct packed_a a;      /* of the next unit */
    uint32_t full;          /* barrier of the current stage */
    uint32_t prev;          /* that of the previous one; 0: there was no stage yet */
};

/* Waits for the current stage, and loads from the group's first unit in it. */
template <class FORM>
static __device__ __forceinline__ void begin_stage(struct walk *w, const struct ring &r)
{
    w->full = r.full + r.stage * 8;
    mbarrier_wait(w->full, r.parity);
    load_packed<FORM>(&w->a, w->lane, stage_offset<FORM>(r, 0));
}

/* One chunk with unit u of the group. The next unit is loaded from shared memory before the wgmmas
 * of this one are issued. A stage is released when the wgmmas of its last unit have completed. */
template <class FORM, int WIDTH>
static __device__ __forceinline__ void add_chunk(float (&d)[FORM::SUMS], uint32_t a[K_STEPS][4],
                                                 struct ring *r, struct walk *w,
                                                 const struct my_rows<FORM> &rows, int u)
{
    const uint64_t b = wgmma_descriptor(r->operand) + r->stage * (uint32_t)(FORM::TILE_BYTES / 16);
    const uint32_t full = w->full;

    load_a<FORM>(a, w->a, rows.scale_shifts[u]);
    if (u + 1 < FORM::UNITS) {
        load_packed<FORM>(&w->a, w->lane, stage_offset<FORM>(*r, u + 1));
    } else {
        advance<FORM>(r);
        if (--w->left > 0)
            begin_stage<FORM>(w, *r);
    }
    add_unit<FORM, WIDTH>(d, a, b);
    wgmma_wait<1>();
    if (u == 0 && w->prev != 0)
        release_stage(w->prev);
    if (u + 1 == FORM::UNITS)
        w->prev = full;
}

/* All columns of the group's units. With two sets of registers of A, one is filled while the wgmmas
 * that use the other run. */
template <class FORM, int WIDTH>
static __device__ __forceinline__ void add_columns(float (&d)[FORM::UNITS][FORM::SUMS],
                                                   struct ring *r, int n_chunks, int group,
                                                   int first_unit, const struct my_rows<FORM> &rows)
{
    struct walk w = {lane_words_of<FORM>(unit_at<FORM>(*r, 0, first_unit)), n_chunks, {}, 0, 0};
    uint32_t a0[K_STEPS][4], a1[K_STEPS][4];

    if (FORM::IS_PINGPONG)
        order_wait(r, group);
    begin_stage<FORM>(&w, *r);
    while (w.left > 0) {
        add_chunk<FORM, WIDTH>(d[0], a0, r, &w, rows, 0);
        if constexpr (FORM::UNITS == 2) {
            add_chunk<FORM, WIDTH>(d[1], a1, r, &w, rows, 1);
        } else {
            if (w.left == 0)
                break;
            add_chunk<FORM, WIDTH>(d[0], a1, r, &w, rows, 0);
        }
    }
    if (FORM::IS_PINGPONG)
        order_arrive(*r, group);
    wgmma_wait<0>();
    release_stage(w.prev);
}

/* The group's part of a tile, units from first_unit on. */
template <class FORM, int... WIDTHS>
static __device__ __forceinline__ void compute_tile(const struct launch_plan &p,
                                                    const struct tile &tile, struct ring *r,
                                                    int group, int first_unit)
{
    const int n_chunks = chunks_of(p.g), first_row = tile.row + first_unit * UNIT_ROWS;
    const int row = first_row + my_row();
    float d[FORM::UNITS][FORM::SUMS];
    struct my_rows<FORM> rows;
    struct epilogue<FORM> epilogue;

#pragma unroll
    for (int u = 0; u < FORM::UNITS; u++)
#pragma unroll
        for (int i = 0; i < FORM::SUMS; i++)
            d[u][i] = 0.0f;
    find_rows<FORM>(p, tile, first_row, group, r->info, &rows);
    (void)((tile.width == WIDTHS &&
            (add_columns<FORM, WIDTHS>(d, r, n_chunks, group, first_unit, rows), true)) ||
           ...);
#pragma unroll
    for (int u = 0; u < FORM::UNITS; u++)
        wgmma_fence_operand(d[u]);
    load_epilogue<FORM>(r->info, &epilogue);
    if (p.g.units.data != NULL) {
        store_swiglu<FORM>(p, tile, d, epilogue, first_row, r->staging, group);
        return;
    }
    load_row_use(p.g, tile, r->staging);
    group_sync(group);
    if (is_whole<FORM>(p, tile, first_row))
        store_tile_rows<FORM, true>(p, tile, d, epilogue, row, r->staging);
    else
        store_tile_rows<FORM, false>(p, tile, d, epilogue, row, r->staging);
    group_sync(group);
}

/* A tile without rows for this group: releases its stages. */
template <class FORM>
static __device__ __forceinline__ void skip_tile(const struct launch_plan &p, struct ring *r)
{
    for (int chunk = chunks_of(p.g); chunk > 0; chunk--) {
        mbarrier_wait(r->full + r->stage * 8, r->parity);
        release_stage(r->full + r->stage * 8);
        advance<FORM>(r);
    }
}

/* All tiles of the block, half of each; with ping-pong every second tile, whole. */
template <class FORM, int... WIDTHS>
static __device__ __forceinline__ void consume(const struct launch_plan &p, struct ring r,
                                               int group)
{
    const int n_order_waits = FORM::IS_PINGPONG ? CONSUMERS : 1;
    const int first_unit = FORM::IS_PINGPONG ? 0 : group * FORM::UNITS;
    int id = blockIdx.x;
    struct tile tile;

    if (FORM::IS_PINGPONG && group > 0) {
        skip<FORM>(&r, chunks_of(p.g));
        id += gridDim.x;
    }
    for (; find_warp_tile<FORM, WIDTHS...>(p, id, &tile); id += n_order_waits * gridDim.x) {
        if (tile.row + first_unit * UNIT_ROWS < p.jobs[tile.job].n_rows)
            compute_tile<FORM, WIDTHS...>(p, tile, &r, group, first_unit);
        else
            skip_tile<FORM>(p, &r);
        if (FORM::IS_PINGPONG)
            skip<FORM>(&r, chunks_of(p.g));
    }
    bulk_stores_wait();
}

#endif

template <class FORM, int... WIDTHS>
static __device__ __forceinline__ void run(const struct launch_plan &p)
{
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    extern __shared__ __align__(1024) unsigned char smem[];
    const int group = uniform(threadIdx.x / GROUP_THREADS);
    const int warp = uniform(threadIdx.x / WARP_LANES % GROUP_WARPS);
    struct ring r;

    ring_init<FORM>(&r, smem);
    if (group == 0) {
        warpgroup_reg_dealloc<PRODUCER_REGISTERS>();
        if (warp < FORM::TILE_UNITS)
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
