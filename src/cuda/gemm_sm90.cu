/* Products of many rows on Hopper: out[t][r] = sum over k of W[r][k] x[t][k] + b[r], for one matrix or for the
 * stack of experts, whose rows tiles.cu has listed.
 *
 * A block walks over tiles of 256 rows of W and up to 128 tokens. One warpgroup loads: units of W as they
 * are packed, a warp each, and the tokens' operand, 64 columns at a time, through a ring in shared memory.
 * Two warpgroups compute 128 rows each by wgmma, with W as operand A from registers: a warp's tile of a unit
 * is its part of A. While the products of one unit run, the next unit's codes become FP16.
 *
 * MXFP4: a code times its block's scale, relative to the row's largest, is an FP16 number: exact down to
 * 2^-24 of the largest, and the rest follows at the end. BF16: as it is. Each sum runs over all columns in
 * order, in one accumulator: its bits depend on nothing but its row and its token.
 *
 * Flops 2 rows columns tokens; bytes 34 a row and 128 a token for each 64 columns of a tile, from L2 but for the
 * first reading. Bound by the tensor cores from some 300 tokens on one matrix, and by the memory below. */
#include "cuda/gemm_ends.cuh"

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

/* ---- the ring ---- */

/* Addresses in shared memory. A stage is a tile of the operand and the units of W. */
struct ring {
    uint32_t operand, units, staging, info, full, empty;
    int stage;
    uint32_t parity; /* of the barriers' phase */
};

template <enum format FORMAT> static __device__ __forceinline__ void advance(struct ring *r)
{
    if (++r->stage == stages_of(FORMAT)) {
        r->stage = 0;
        r->parity ^= 1;
    }
}

template <enum format FORMAT>
static __device__ __forceinline__ uint32_t unit_at(const struct ring &r, int stage, int unit)
{
    return r.units + (stage * TILE_UNITS + unit) * bytes_of(FORMAT);
}

static __device__ __forceinline__ uint32_t operand_at(const struct ring &r, int stage)
{
    return r.operand + stage * OPERAND_TILE_BYTES;
}

/* Of the operand, all terms. */
static __device__ __forceinline__ int chunks_of(const struct gemm &g)
{
    return (int)units_of(matrix_columns(&g.w[0]), UNIT_COLUMNS) * rounding_terms(g.x.rounding);
}

/* One thread of each of the group's warps: a unit of W each, and the first the operand too. */
template <enum format FORMAT, int... WIDTHS>
static __device__ __forceinline__ void produce(const struct launch_plan &p, struct ring r, int warp)
{
    const int n_units = (int)units_of(matrix_columns(&p.g.w[0]), UNIT_COLUMNS);
    const int n_chunks = chunks_of(p.g);
    const int64_t chunk_bytes = p.g.x.n_rows * OPERAND_ROW_BYTES;
    struct tile tile;

    for (int id = blockIdx.x; find_tile<WIDTHS...>(p, id, &tile); id += gridDim.x) {
        const int row = tile.row + warp * UNIT_ROWS;
        const unsigned char *unit =
            matrix_of(p, tile) + (int64_t)row / UNIT_ROWS * n_units * bytes_of(FORMAT);
        const char *operand = (const char *)p.g.x.data + (int64_t)tile.first * OPERAND_ROW_BYTES;
        const uint32_t unit_bytes = row < p.jobs[tile.job].n_padded_rows ? bytes_of(FORMAT) : 0;
        const uint32_t operand_bytes = warp == 0 ? tile.width * OPERAND_ROW_BYTES : 0;

        for (int chunk = 0; chunk < n_chunks; chunk++) {
            const uint32_t full = r.full + r.stage * 8;

            barrier_wait(r.empty + r.stage * 8, r.parity ^ 1);
            barrier_expect(full, unit_bytes + operand_bytes);
            if (operand_bytes > 0)
                bulk_load(operand_at(r, r.stage), operand + chunk * chunk_bytes, operand_bytes,
                          full);
            if (unit_bytes > 0)
                bulk_load(unit_at<FORMAT>(r, r.stage, warp),
                          unit + (int64_t)(chunk % n_units) * bytes_of(FORMAT), unit_bytes, full);
            advance<FORMAT>(&r);
        }
    }
}

/* ---- sums ---- */

template <enum format FORMAT, int WIDTH>
static __device__ __forceinline__ void add_unit(float (&d)[SUMS], uint32_t a[K_STEPS][4],
                                                uint32_t operand)
{
    const uint64_t b = descriptor_of(operand);

    wgmma_fence();
#pragma unroll
    for (int i = 0; i < K_STEPS; i++)
        wgmma<FORMAT == FORMAT_MXFP4, WIDTH>(d, a[i], b + i * 2);
    wgmma_commit();
}

/* All columns of the group's units. The unit that comes next is made ready while one is multiplied, and a
 * stage is given back when the products of its last unit have ended. */
template <enum format FORMAT, int WIDTH>
static __device__ __forceinline__ void add_columns(float (&d0)[SUMS], float (&d1)[SUMS],
                                                   struct ring *r, int n_chunks, int group,
                                                   const struct my_rows &rows)
{
    const int warp = threadIdx.x / WARP_LANES % GROUP_WARPS;
    const bool is_first_lane = threadIdx.x % WARP_LANES == 0;
    uint32_t behind = 0; /* the barrier of the stage before */

    for (int chunk = 0; chunk < n_chunks; chunk++) {
        uint32_t a0[K_STEPS][4], a1[K_STEPS][4];
        const uint32_t operand = operand_at(*r, r->stage);

        barrier_wait(r->full + r->stage * 8, r->parity);
        load_a<FORMAT>(a0, unit_at<FORMAT>(*r, r->stage, group * GROUP_UNITS), warp, rows.less[0]);
        add_unit<FORMAT, WIDTH>(d0, a0, operand);
        wgmma_wait<1>();
        if (chunk > 0 && is_first_lane)
            barrier_arrive(behind);
        load_a<FORMAT>(a1, unit_at<FORMAT>(*r, r->stage, group * GROUP_UNITS + 1), warp,
                       rows.less[1]);
        add_unit<FORMAT, WIDTH>(d1, a1, operand);
        wgmma_wait<1>();
        behind = r->empty + r->stage * 8;
        advance<FORMAT>(r);
    }
    wgmma_wait<0>();
    if (is_first_lane)
        barrier_arrive(behind);
}

template <enum format FORMAT, int... WIDTHS>
static __device__ __forceinline__ void
compute_tile(const struct launch_plan &p, const struct tile &tile, struct ring *r, int group)
{
    const int n_chunks = chunks_of(p.g);
    float d0[SUMS], d1[SUMS];
    struct my_rows rows;
    struct ends ends;
    const int row = tile.row + group * GROUP_ROWS + my_row();

#pragma unroll
    for (int i = 0; i < SUMS; i++)
        d0[i] = d1[i] = 0.0f;
    find_rows<FORMAT>(p, tile, group, r->info, &rows);
    ((tile.width == WIDTHS ? add_columns<FORMAT, WIDTHS>(d0, d1, r, n_chunks, group, rows)
                           : void()),
     ...);
    wgmma_settle(d0);
    wgmma_settle(d1);
    find_ends<FORMAT>(r->info, &ends);
    if (p.g.units.data != NULL) {
        put_units(p, tile, d0, d1, ends, row, r->staging, group);
        return;
    }
    note_use(p.g, tile, r->staging);
    group_sync(group);
    if (is_whole(p, tile, group))
        put_rows<true>(p, tile, d0, d1, ends, row, r->staging);
    else
        put_rows<false>(p, tile, d0, d1, ends, row, r->staging);
    group_sync(group);
}

/* A tile that has no rows for the group: its stages are given back. */
template <enum format FORMAT>
static __device__ __forceinline__ void pass_tile(const struct launch_plan &p, struct ring *r)
{
    for (int chunk = chunks_of(p.g); chunk > 0; chunk--) {
        barrier_wait(r->full + r->stage * 8, r->parity);
        if (threadIdx.x % WARP_LANES == 0)
            barrier_arrive(r->empty + r->stage * 8);
        advance<FORMAT>(r);
    }
}

template <enum format FORMAT, int... WIDTHS>
static __device__ __forceinline__ void consume(const struct launch_plan &p, struct ring r,
                                               int group)
{
    struct tile tile;

    for (int id = blockIdx.x; find_tile<WIDTHS...>(p, id, &tile); id += gridDim.x)
        if (tile.row + group * GROUP_ROWS < p.jobs[tile.job].n_rows)
            compute_tile<FORMAT, WIDTHS...>(p, tile, &r, group);
        else
            pass_tile<FORMAT>(p, &r);
    if (threadIdx.x % GROUP_THREADS == 0)
        bulk_stores_wait();
}

#endif

template <enum format FORMAT, int... WIDTHS>
static __global__ void __launch_bounds__(THREADS, 1)
    gemm_kernel(const __grid_constant__ struct launch_plan p)
{
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    extern __shared__ __align__(1024) unsigned char room[];
    const int group = threadIdx.x / GROUP_THREADS, warp = threadIdx.x / WARP_LANES % GROUP_WARPS;
    struct ring r = {.operand = shared_address(room)};

    if (r.operand % SWIZZLE_BYTES != 0)
        __trap();
    r.staging = r.operand + stages_of(FORMAT) * OPERAND_TILE_BYTES;
    r.units = r.staging + CONSUMERS * OPERAND_TILE_BYTES;
    r.info = r.units + stages_of(FORMAT) * TILE_UNITS * bytes_of(FORMAT);
    r.full = r.info + CONSUMERS * ROWS_INFO_BYTES;
    r.empty = r.full + STAGES_MAX * 8;
    r.stage = 0;
    r.parity = 0;
    if (threadIdx.x == 0) {
        for (int i = 0; i < stages_of(FORMAT); i++) {
            barrier_init(r.full + i * 8, GROUP_WARPS);
            barrier_init(r.empty + i * 8, CONSUMERS * GROUP_WARPS);
        }
        barriers_are_ready();
    }
    __syncthreads();
    if (group == 0) {
        registers_less<PRODUCER_REGISTERS>();
        if (threadIdx.x % WARP_LANES == 0)
            produce<FORMAT, WIDTHS...>(p, r, warp);
    } else {
        registers_more<CONSUMER_REGISTERS>();
        r.staging += (group - 1) * OPERAND_TILE_BYTES;
        r.info += (group - 1) * ROWS_INFO_BYTES;
        consume<FORMAT, WIDTHS...>(p, r, group - 1);
    }
#else
    (void)p; /* other cards have no wgmma, and the table no such kernel for them */
    __trap();
#endif
}
/* ---- host ---- */

static const struct {
    void (*kernel)(struct launch_plan);
    int shared_bytes;
} kernels[][N_GEMM_SHAPES] = {{
#define BF16_KERNEL(shape, ...)                                                                    \
    {gemm_kernel<FORMAT_BF16, __VA_ARGS__>, shared_bytes_of(FORMAT_BF16)},
                                  GEMM_SHAPES(BF16_KERNEL)
#undef BF16_KERNEL
                              },
                              {
#define MXFP4_KERNEL(shape, ...)                                                                   \
    {gemm_kernel<FORMAT_MXFP4, __VA_ARGS__>, shared_bytes_of(FORMAT_MXFP4)},
                                  GEMM_SHAPES(MXFP4_KERNEL)
#undef MXFP4_KERNEL
                              }};

static bool is_here(const void *kernel, int shared_bytes)
{
    struct cudaFuncAttributes attributes;

    return cudaFuncGetAttributes(&attributes, kernel) == cudaSuccess &&
           attributes.binaryVersion == 90 &&
           cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                shared_bytes) == cudaSuccess;
}

static int device_attribute(enum cudaDeviceAttr attribute)
{
    int device = 0, value = 0;

    (void)cudaGetDevice(&device);
    (void)cudaDeviceGetAttribute(&value, attribute, device);
    return value;
}

bool launch_gemm_is_here(void)
{
    bool all = device_attribute(cudaDevAttrComputeCapabilityMajor) == 9 &&
               device_attribute(cudaDevAttrComputeCapabilityMinor) == 0;

    for (int format = 0; format < 2; format++)
        for (int shape = 0; shape < N_GEMM_SHAPES; shape++)
            all = all && is_here((const void *)kernels[format][shape].kernel,
                                 kernels[format][shape].shared_bytes);
    (void)cudaGetLastError(); /* asking is no failure */
    return all;
}

static struct job job_of(const struct tensor *w, int first_tile)
{
    return (struct job){.data = (const unsigned char *)w->data,
                        .matrix_bytes = matrix_bytes(w),
                        .tops_offset = mxfp4_tops_offset(w),
                        .n_rows = (int)matrix_rows(w),
                        .n_padded_rows = (int)units_of(matrix_rows(w), UNIT_ROWS) * UNIT_ROWS,
                        .first_tile = first_tile};
}

void launch_gemm(cudaStream_t stream, const struct gemm *g)
{
    const int format = g->w[0].dtype == DTYPE_MXFP4 ? FORMAT_MXFP4 : FORMAT_BF16;
    const int n_blocks = device_attribute(cudaDevAttrMultiProcessorCount);
    struct launch_plan p = {.g = *g, .jobs = {}, .n_row_tiles = 0, .n_token_tiles = 0};

    if (g->experts == NULL)
        p.n_token_tiles = (g->n_tokens - 1) / g->n_tile_tokens + 1;
    for (int i = 0; i < g->n_jobs; i++) {
        p.jobs[i] = job_of(&g->w[i], p.n_row_tiles);
        p.n_row_tiles += (int)units_of(matrix_rows(&g->w[i]), GEMM_ROWS);
    }
    kernels[format][g->shape]
        .kernel<<<n_blocks, THREADS, kernels[format][g->shape].shared_bytes, stream>>>(p);
}
