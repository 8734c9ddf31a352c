/* Products of many rows on Hopper: out[t][r] = sum over k of W[r][k] x[t][k] + b[r], for one
 * matrix or for the stack of experts, whose rows expert_lists.cu has listed.
 *
 * A block walks over tiles of 256, 128 or 64 rows of W and up to 128 tokens. One warpgroup
 * loads: units of W as they are packed, a warp each, and the tokens' operand, 64 columns at a
 * time, through a ring in shared memory. Two warpgroups compute by wgmma, with W as operand A
 * from registers: a warp's tile of a unit is its part of A. While the products of one unit run,
 * the next unit's codes become FP16. Of a tile of 256 or 128 rows each group has half; tiles of
 * 64 rows go to the groups by turns.
 *
 * MXFP4: a code times its block's scale, relative to the row's largest, is an FP16 number: exact
 * down to 2^-24 of the largest, and the rest follows at the end. BF16: as it is. Each sum runs
 * over all columns in order, in one accumulator: its bits depend on nothing but its row and its
 * token.
 *
 * Flops 2 rows columns tokens; bytes 34 a row and 128 a token for each 64 columns of a tile,
 * from L2 but for the first reading. Bound by the tensor cores from some 300 tokens on one
 * matrix, and by the memory below. */
#include "cuda/prefill/gemm_epilogue.cuh"
#include "cuda/prefill/gemm_ring.cuh"

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

/* ---- sums ---- */

template <class FORM, int WIDTH>
static __device__ __forceinline__ void add_unit(float (&d)[FORM::SUMS], uint32_t a[K_STEPS][4],
                                                uint32_t operand)
{
    const uint64_t b = wgmma_descriptor(operand);

    wgmma_fence();
#pragma unroll
    for (int i = 0; i < K_STEPS; i++)
        wgmma<FORM::IS_MXFP4, WIDTH>(d, a[i], b + i * 2);
    wgmma_commit();
}

/* What the loop over chunks knows. */
struct walk {
    int warp;        /* of the group */
    int first_unit;  /* of the group, in a stage */
    uint32_t behind; /* the barrier of the stage before; 0: none */
};

/* One chunk with unit u of the group, and a stage is given back when the products of its last
 * unit have ended. */
template <class FORM, int WIDTH>
static __device__ __forceinline__ void add_chunk(float (&d)[FORM::SUMS], uint32_t a[K_STEPS][4],
                                                 struct ring *r, struct walk *w,
                                                 const struct my_rows<FORM> &rows, int u)
{
    if (u == 0)
        mbarrier_wait(r->full + r->stage * 8, r->parity);
    load_a<FORM>(a, unit_at<FORM>(*r, r->stage, w->first_unit + u), w->warp, rows.scale_shift[u]);
    add_unit<FORM, WIDTH>(d, a, operand_at<FORM>(*r, r->stage));
    wgmma_wait<1>();
    if (u == 0 && w->behind != 0)
        mbarrier_arrive(w->behind);
    if (u + 1 == FORM::UNITS) {
        w->behind = r->empty + r->stage * 8;
        advance<FORM>(r);
    }
}

/* All columns of the group's units. Registers of A are filled while the products with the others
 * run. */
template <class FORM, int WIDTH>
static __device__ __forceinline__ void add_columns(float (&d)[FORM::UNITS][FORM::SUMS],
                                                   struct ring *r, int n_chunks, int group,
                                                   int first_unit, const struct my_rows<FORM> &rows)
{
    struct walk w = {(int)threadIdx.x / WARP_LANES % GROUP_WARPS, first_unit, 0};
    uint32_t a0[K_STEPS][4], a1[K_STEPS][4];

    if (FORM::IS_PINGPONG)
        order_wait(r, group);
    if constexpr (FORM::UNITS == 2) {
        for (int chunk = 0; chunk < n_chunks; chunk++) {
            add_chunk<FORM, WIDTH>(d[0], a0, r, &w, rows, 0);
            add_chunk<FORM, WIDTH>(d[1], a1, r, &w, rows, 1);
        }
    } else {
        for (int chunk = 0;;) {
            add_chunk<FORM, WIDTH>(d[0], a0, r, &w, rows, 0);
            if (++chunk == n_chunks)
                break;
            add_chunk<FORM, WIDTH>(d[0], a1, r, &w, rows, 0);
            if (++chunk == n_chunks)
                break;
        }
    }
    if (FORM::IS_PINGPONG)
        order_arrive(*r, group);
    wgmma_wait<0>();
    mbarrier_arrive(w.behind);
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
    ((tile.width == WIDTHS ? add_columns<FORM, WIDTHS>(d, r, n_chunks, group, first_unit, rows)
                           : void()),
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

/* A tile that has no rows for the group: its stages are given back. */
template <class FORM>
static __device__ __forceinline__ void skip_tile(const struct launch_plan &p, struct ring *r)
{
    for (int chunk = chunks_of(p.g); chunk > 0; chunk--) {
        mbarrier_wait(r->full + r->stage * 8, r->parity);
        mbarrier_arrive(r->empty + r->stage * 8);
        advance<FORM>(r);
    }
}

/* Every tile of the block, a part of each; or every second one, whole. */
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
    for (; find_tile<FORM, WIDTHS...>(p, id, &tile); id += n_order_waits * gridDim.x) {
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
    extern __shared__ __align__(1024) unsigned char room[];
    const int group = threadIdx.x / GROUP_THREADS, warp = threadIdx.x / WARP_LANES % GROUP_WARPS;
    struct ring r;

    ring_init<FORM>(&r, room);
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
    (void)p; /* other cards have no wgmma, and the table no such kernel for them */
    __trap();
#endif
}

/* The report of what ran tells kernels apart by name: rows of a tile. */
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
