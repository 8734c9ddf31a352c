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
#include "cuda/gemm.h"
#include "cuda/mma.cuh"
#include "cuda/wgmma.cuh"

enum {
    CONSUMERS = 2,
    GROUP_WARPS = 4,
    GROUP_THREADS = GROUP_WARPS * WARP_LANES,
    THREADS = (1 + CONSUMERS) * GROUP_THREADS,
    PRODUCER_REGISTERS = 56,
    CONSUMER_REGISTERS = 224,
    TILE_UNITS = GEMM_ROWS / UNIT_ROWS,
    GROUP_UNITS = TILE_UNITS / CONSUMERS,
    K_STEPS = UNIT_COLUMNS / 16,
    OPERAND_TILE_BYTES = GEMM_TOKENS_MAX * OPERAND_ROW_BYTES,
    SWIZZLE_BYTES = OPERAND_ALIGN_ROWS * OPERAND_ROW_BYTES,
    STAGES_MAX = 8,
    SUMS = GEMM_TOKENS_MAX / 2 /* of a thread and unit, in the widest tile */
};

enum format { FORMAT_BF16, FORMAT_MXFP4 };

/* How deep the ring is: shared memory is 227 KiB, of which swiglu takes 32. */
static HOST_DEVICE constexpr int stages_of(enum format format)
{
    return format == FORMAT_MXFP4 ? 7 : 4;
}

static HOST_DEVICE constexpr int bytes_of(enum format format)
{
    return format == FORMAT_MXFP4 ? MXFP4_UNIT_BYTES : BF16_UNIT_BYTES;
}

static HOST_DEVICE constexpr int shared_bytes_of(enum format format)
{
    return SWIZZLE_BYTES +
           stages_of(format) * (OPERAND_TILE_BYTES + TILE_UNITS * bytes_of(format)) +
           CONSUMERS * OPERAND_TILE_BYTES + 2 * STAGES_MAX * 8;
}

struct launch_plan {
    struct gemm g;
    int n_row_tiles;
};

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

/* ---- tiles ---- */

struct tile {
    int job;
    int64_t row; /* its first, of the job */
    int64_t expert;
    int first, n; /* rows of the operand */
    int width;    /* n, up to the next step of a product's */
};

static __device__ __forceinline__ int64_t row_tiles(const struct tensor *w)
{
    return units_of(matrix_rows(w), GEMM_ROWS);
}

/* The last of the experts whose tiles begin at `id` or before. */
static __device__ __forceinline__ int expert_of(const struct gemm &g, int n_row_tiles, int64_t id)
{
    int low = 0, high = *g.n_active;

    while (high - low > 1) {
        const int middle = (low + high) / 2;

        if ((int64_t)g.experts[middle].first_tile * n_row_tiles <= id)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* The least of the widths that n tokens fit into; they fall. */
template <int... WIDTHS> static __device__ __forceinline__ int width_of(int n)
{
    int width = 0;

    ((width = WIDTHS >= n ? WIDTHS : width), ...);
    return width;
}

/* Tiles of the same weights are neighbours: they are read from the memory once. */
template <int... WIDTHS>
static __device__ __forceinline__ bool find_tile(const struct launch_plan &p, int64_t id,
                                                 struct tile *out)
{
    const struct gemm &g = p.g;
    int n = g.n_tokens, n_each = g.n_tile_tokens, first = 0, n_tiles = (n + n_each - 1) / n_each;

    out->expert = 0;
    if (g.experts != NULL) {
        if (id >= (int64_t)g.experts[*g.n_active].first_tile * p.n_row_tiles)
            return false;
        const int at = expert_of(g, p.n_row_tiles, id);
        const struct expert_rows e = g.experts[at];

        out->expert = e.expert;
        n = e.n_rows;
        n_tiles = g.experts[at + 1].first_tile - e.first_tile;
        n_each = width_of<WIDTHS...>((n + n_tiles - 1) / n_tiles);
        first = e.first_row;
        id -= (int64_t)e.first_tile * p.n_row_tiles;
    }
    out->row = id / n_tiles * GEMM_ROWS;
    out->first = first + (int)(id % n_tiles) * n_each;
    out->n = min(n_each, first + n - out->first);
    out->width = width_of<WIDTHS...>(out->n);
    out->job = 0;
    while (out->job < g.n_jobs && out->row >= row_tiles(&g.w[out->job]) * GEMM_ROWS)
        out->row -= row_tiles(&g.w[out->job++]) * GEMM_ROWS;
    return out->job < g.n_jobs;
}

static __device__ __forceinline__ int64_t padded_rows(const struct tensor *w)
{
    return units_of(matrix_rows(w), UNIT_ROWS) * UNIT_ROWS;
}

static __device__ __forceinline__ const unsigned char *matrix_of(const struct gemm &g,
                                                                 const struct tile &tile)
{
    const struct tensor *w = &g.w[tile.job];

    return (const unsigned char *)w->data + tile.expert * matrix_bytes(w);
}

/* ---- the ring ---- */

/* Addresses in shared memory. A stage is a tile of the operand and the units of W. */
struct ring {
    uint32_t operand, units, full, empty;
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

/* One thread of each of the group's warps: a unit of W each, and the first the operand too. */
template <enum format FORMAT, int... WIDTHS>
static __device__ __forceinline__ void produce(const struct launch_plan &p, struct ring r, int warp)
{
    const int n_chunks = (int)units_of(matrix_columns(&p.g.w[0]), UNIT_COLUMNS);
    const int64_t chunk_bytes = p.g.x.n_rows * OPERAND_ROW_BYTES;
    struct tile tile;

    for (int64_t id = blockIdx.x; find_tile<WIDTHS...>(p, id, &tile); id += gridDim.x) {
        const struct tensor *w = &p.g.w[tile.job];
        const int64_t row = tile.row + warp * UNIT_ROWS;
        const unsigned char *unit =
            matrix_of(p.g, tile) + row / UNIT_ROWS * n_chunks * bytes_of(FORMAT);
        const char *operand = (const char *)p.g.x.data + (int64_t)tile.first * OPERAND_ROW_BYTES;
        const uint32_t unit_bytes = row < padded_rows(w) ? bytes_of(FORMAT) : 0;
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
                          unit + (int64_t)chunk * bytes_of(FORMAT), unit_bytes, full);
            advance<FORMAT>(&r);
        }
    }
}

/* ---- operand A ---- */

static __device__ __forceinline__ uint4 load_16(uint32_t address)
{
    uint4 v;

    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "r"(address));
    return v;
}

static __device__ __forceinline__ uint32_t load_4(uint32_t address)
{
    uint32_t v;

    asm volatile("ld.shared.u32 %0, [%1];" : "=r"(v) : "r"(address));
    return v;
}

static __device__ __forceinline__ uint32_t times_f16(uint32_t x, uint32_t y)
{
    uint32_t product;

    asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(product) : "r"(x), "r"(y));
    return product;
}

/* 2^15 times a scale relative to its row's largest, twice, as FP16; `less` is 30 minus the largest's code. */
static __device__ __forceinline__ uint32_t relative_scale(uint32_t code, int less)
{
    return (uint32_t)max((int)code + less, 0) * 0x04000400u;
}

/* A lane's part of a unit: fragments of the K_STEPS products. `less` is for its even row and its odd one. */
static __device__ __forceinline__ void expand_mxfp4(uint32_t a[K_STEPS][4], uint4 codes,
                                                    uint32_t scales, const int less[2])
{
#pragma unroll
    for (int block = 0; block < UNIT_BLOCKS; block++) {
        const uint32_t even = relative_scale(scales >> block * 16 & 255, less[0]);
        const uint32_t odd = relative_scale(scales >> (block * 16 + 8) & 255, less[1]);
        uint32_t low[4], high[4];

        halves_of_word(low, block == 0 ? codes.x : codes.z);
        halves_of_word(high, block == 0 ? codes.y : codes.w);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            a[block * 2 + i / 2][i % 2 * 2] = times_f16(low[i], even);
            a[block * 2 + i / 2][i % 2 * 2 + 1] = times_f16(high[i], odd);
        }
    }
}

/* The same from the unit in shared memory. */
template <enum format FORMAT>
static __device__ __forceinline__ void load_a(uint32_t a[K_STEPS][4], uint32_t unit, int warp,
                                              const int less[2])
{
    const int lane = threadIdx.x % WARP_LANES;

    if constexpr (FORMAT == FORMAT_MXFP4) {
        const uint4 codes = load_16(unit + warp * MXFP4_TILE_BYTES + lane * LANE_BYTES);
        const uint32_t scales =
            load_4(unit + MXFP4_SCALES_OFFSET + lane / 4 * MXFP4_GROUP_SCALES_BYTES +
                   warp * UNIT_BLOCKS * 2);

        expand_mxfp4(a, codes, scales, less);
    } else {
#pragma unroll
        for (int i = 0; i < K_STEPS; i++) {
            const uint4 words =
                load_16(unit + warp * BF16_TILE_BYTES + (i * WARP_LANES + lane) * LANE_BYTES);

            a[i][0] = words.x, a[i][1] = words.y, a[i][2] = words.z, a[i][3] = words.w;
        }
    }
}

/* ---- sums ---- */

/* What a thread needs of its rows: two of each unit of its group. */
struct my_rows {
    int64_t row[GROUP_UNITS]; /* the even one, of the job */
    int less[GROUP_UNITS][2];
    float factor[GROUP_UNITS][2]; /* of the sums */
};

template <enum format FORMAT>
static __device__ __forceinline__ void find_rows(const struct gemm &g, const struct tile &tile,
                                                 int group, struct my_rows *out)
{
    const struct tensor *w = &g.w[tile.job];
    const int warp = threadIdx.x / WARP_LANES % GROUP_WARPS, lane = threadIdx.x % WARP_LANES;
    const unsigned char *tops = matrix_of(g, tile) + mxfp4_tops_offset(w);

#pragma unroll
    for (int u = 0; u < GROUP_UNITS; u++) {
        out->row[u] =
            tile.row + (group * GROUP_UNITS + u) * UNIT_ROWS + warp * TILE_ROWS + lane / 4 * 2;
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const int top = FORMAT == FORMAT_MXFP4 && out->row[u] < padded_rows(w)
                                ? tops[out->row[u] + i]
                                : 127;

            out->less[u][i] = 30 - top;
            out->factor[u][i] = FORMAT == FORMAT_MXFP4 ? 0.5f * scale_of(top) : 1.0f;
        }
    }
}

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

/* ---- what becomes of them ---- */

static __device__ __forceinline__ float bias_at(const struct gemm &g, const struct tile &tile,
                                                int64_t row)
{
    const struct tensor *bias = &g.bias[tile.job];

    if (bias->data == NULL || row >= matrix_rows(&g.w[tile.job]))
        return 0.0f;
    return bias->n_dims == 1 ? weight_at(bias, 0, 0, row) : weight_at(bias, 0, tile.expert, row);
}

static __device__ __forceinline__ void put_two(const struct gemm &g, const struct tile &tile,
                                               int64_t row, int64_t token, float even, float odd)
{
    const int64_t n_rows = matrix_rows(&g.w[tile.job]), width = g.out_width[tile.job];
    float *to = g.out[tile.job] + token * width + row;

    if (row + 1 < n_rows && width % 2 == 0)
        *reinterpret_cast<float2 *>(to) = make_float2(even, odd);
    else if (row + 1 < n_rows)
        to[0] = even, to[1] = odd;
    else if (row < n_rows)
        to[0] = even;
}

/* One unit's sums to rows of floats. */
static __device__ __forceinline__ void put_rows(const struct gemm &g, const struct tile &tile,
                                                const float (&d)[SUMS], int64_t row,
                                                const float factor[2])
{
    const float bias[2] = {bias_at(g, tile, row), bias_at(g, tile, row + 1)};

#pragma unroll
    for (int i = 0; i < SUMS / 2; i++) {
        const int column = i / 2 * 8 + threadIdx.x % 4 * 2 + i % 2;
        const int64_t from = tile.first + column;

        if (column < tile.n) {
            const int64_t token = g.source == NULL ? from : g.source[from];
            const float gate = g.gates == NULL ? 1.0f : g.gates[token];
            const float even = d[i / 2 * 4 + i % 2], odd = d[i / 2 * 4 + i % 2 + 2];

            put_two(g, tile, row, token, gate * __fmaf_rn(even, factor[0], bias[0]),
                    gate * __fmaf_rn(odd, factor[1], bias[1]));
        }
    }
}

/* min(g, limit) sigmoid(alpha min(g, limit)) (clamp(u, -limit, limit) + 1); NaN stays NaN. */
static __device__ __forceinline__ float swiglu(const struct gemm &a, float gate, float up)
{
    const float g = gate > a.limit ? a.limit : gate;
    const float u = up > a.limit ? a.limit : up < -a.limit ? -a.limit : up;

    return __fdividef(g, 1.0f + __expf(-a.alpha * g)) * (u + 1.0f);
}

/* One unit's 32 gated numbers a token, block `u` of the group's chunk, to the tile at `to` in shared memory.
 * A lane has number lane / 4 of its warp's eight, for two tokens; neighbours exchange one, so that each has
 * two numbers of one token. */
static __device__ __forceinline__ void stage_units(const struct gemm &g, const struct tile &tile,
                                                   const float (&d)[SUMS], int64_t row,
                                                   const float factor[2], uint32_t to, int u)
{
    const int warp = threadIdx.x / WARP_LANES % GROUP_WARPS, lane = threadIdx.x % WARP_LANES;
    const int number = lane / 4, piece = u * 4 + number / 2;
    const float bias[2] = {bias_at(g, tile, row), bias_at(g, tile, row + 1)};
    const bool is_here = row + 1 < matrix_rows(&g.w[tile.job]), is_odd = number % 2 != 0;

#pragma unroll
    for (int i = 0; i < SUMS / 4; i++) {
        const int token = i * 8 + lane % 4 * 2 + number % 2;
        float v[2];

        if (i * 8 >= tile.width)
            break;
#pragma unroll
        for (int k = 0; k < 2; k++)
            v[k] = is_here ? swiglu(g, __fmaf_rn(d[i * 4 + k], factor[0], bias[0]),
                                    __fmaf_rn(d[i * 4 + k + 2], factor[1], bias[1]))
                           : 0.0f;
        const float other = __shfl_xor_sync(0xFFFFFFFFu, is_odd ? v[0] : v[1], 4);
        const float first = is_odd ? other : v[0], second = is_odd ? v[1] : other;
        const uint32_t pair = g.units.is_f16 ? pair_f16(first, second) : pair_bf16(first, second);

        asm volatile("st.shared.u32 [%0], %1;" ::"r"(
                         to + token * OPERAND_ROW_BYTES +
                         (piece ^ token % OPERAND_ALIGN_ROWS) * OPERAND_PIECE_BYTES + warp * 4),
                     "r"(pair)
                     : "memory");
    }
}

/* All threads of the group. */
static __device__ __forceinline__ void group_sync(int group)
{
    asm volatile("bar.sync %0, %1;" ::"r"(group + 1), "n"((int)GROUP_THREADS) : "memory");
}

/* The group's gated numbers are one chunk of the next operand: its rows lie beside each other. */
static __device__ __forceinline__ void put_units(const struct gemm &g, const struct tile &tile,
                                                 const float (&d0)[SUMS], const float (&d1)[SUMS],
                                                 const struct my_rows &rows, uint32_t staging,
                                                 int group)
{
    const int64_t chunk = tile.row / 2 / UNIT_COLUMNS + group;
    const bool is_first = threadIdx.x % GROUP_THREADS == 0;
    const int64_t offset = (chunk * g.units.n_rows + tile.first) * OPERAND_ROW_BYTES;

    if (is_first)
        bulk_stores_read();
    group_sync(group);
    stage_units(g, tile, d0, rows.row[0], rows.factor[0], staging, 0);
    stage_units(g, tile, d1, rows.row[1], rows.factor[1], staging, 1);
    before_bulk();
    group_sync(group);
    if (is_first && chunk * UNIT_COLUMNS * 2 < matrix_rows(&g.w[tile.job]))
        bulk_store((char *)g.units.data + offset, staging, tile.n * OPERAND_ROW_BYTES);
}

template <enum format FORMAT, int... WIDTHS>
static __device__ __forceinline__ void compute_tile(const struct gemm &g, const struct tile &tile,
                                                    struct ring *r, int group, uint32_t staging)
{
    const int n_chunks = (int)units_of(matrix_columns(&g.w[0]), UNIT_COLUMNS);
    float d0[SUMS], d1[SUMS];
    struct my_rows rows;

#pragma unroll
    for (int i = 0; i < SUMS; i++)
        d0[i] = d1[i] = 0.0f;
    find_rows<FORMAT>(g, tile, group, &rows);
    ((tile.width == WIDTHS ? add_columns<FORMAT, WIDTHS>(d0, d1, r, n_chunks, group, rows)
                           : void()),
     ...);
    wgmma_settle(d0);
    wgmma_settle(d1);
    if (g.units.data != NULL) {
        put_units(g, tile, d0, d1, rows, staging, group);
        return;
    }
    put_rows(g, tile, d0, rows.row[0], rows.factor[0]);
    put_rows(g, tile, d1, rows.row[1], rows.factor[1]);
}

template <enum format FORMAT, int... WIDTHS>
static __device__ __forceinline__ void consume(const struct launch_plan &p, struct ring r,
                                               int group, uint32_t staging)
{
    struct tile tile;

    for (int64_t id = blockIdx.x; find_tile<WIDTHS...>(p, id, &tile); id += gridDim.x)
        compute_tile<FORMAT, WIDTHS...>(p.g, tile, &r, group, staging);
    if (threadIdx.x % GROUP_THREADS == 0)
        bulk_stores_wait();
}

#endif

template <enum format FORMAT, int... WIDTHS>
static __global__ void __launch_bounds__(THREADS, 1)
    gemm_kernel(const __grid_constant__ struct launch_plan p)
{
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    extern __shared__ unsigned char room[];
    const uint32_t base =
        (shared_address(room) + SWIZZLE_BYTES - 1) / SWIZZLE_BYTES * SWIZZLE_BYTES;
    const uint32_t staging = base + stages_of(FORMAT) * OPERAND_TILE_BYTES;
    const int group = threadIdx.x / GROUP_THREADS, warp = threadIdx.x / WARP_LANES % GROUP_WARPS;
    struct ring r = {.operand = base, .units = staging + CONSUMERS * OPERAND_TILE_BYTES};

    r.full = r.units + stages_of(FORMAT) * TILE_UNITS * bytes_of(FORMAT);
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
        consume<FORMAT, WIDTHS...>(p, r, group - 1, staging + (group - 1) * OPERAND_TILE_BYTES);
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

void launch_gemm(cudaStream_t stream, const struct gemm *g)
{
    const int format = g->w[0].dtype == DTYPE_MXFP4 ? FORMAT_MXFP4 : FORMAT_BF16;
    const int n_blocks = device_attribute(cudaDevAttrMultiProcessorCount);
    struct launch_plan p = {.g = *g, .n_row_tiles = 0};

    for (int i = 0; i < g->n_jobs; i++)
        p.n_row_tiles += (int)units_of(matrix_rows(&g->w[i]), GEMM_ROWS);
    kernels[format][g->shape]
        .kernel<<<n_blocks, THREADS, kernels[format][g->shape].shared_bytes, stream>>>(p);
}
