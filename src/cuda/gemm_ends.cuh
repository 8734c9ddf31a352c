/* What becomes of the sums of a tile in gemm_sm90.cu: rows of floats, or through swiglu the next product's
 * operand. It is one long run of code a tile, and costs what its instructions take to be fetched: what can be
 * is worked out once. */
#ifndef CUDA_GEMM_ENDS_CUH
#define CUDA_GEMM_ENDS_CUH

#include "cuda/gemm_weights.cuh"
#include "cuda/mma.cuh"
#include "cuda/wgmma.cuh"

/* What is worked out once, and not again in each of many places. */
static __device__ __forceinline__ uint32_t kept(uint32_t value)
{
    asm volatile("" : "+r"(value));
    return value;
}

static __device__ __forceinline__ float kept(float value)
{
    asm volatile("" : "+f"(value));
    return value;
}

/* Of a thread's rows when their sums are there. */
struct ends {
    float factor[GROUP_UNITS][2], bias[GROUP_UNITS][2];
};

template <enum format FORMAT>
static __device__ __forceinline__ void find_ends(uint32_t info, struct ends *out)
{
#pragma unroll
    for (int u = 0; u < GROUP_UNITS; u++) {
        const uint4 two = load_16(info + (my_row() + u * UNIT_ROWS) * ROW_INFO_BYTES);
        const uint32_t less[2] = {two.x, two.z}, bias[2] = {two.y, two.w};

#pragma unroll
        for (int i = 0; i < 2; i++) {
            out->bias[u][i] = __uint_as_float(bias[i]);
            out->factor[u][i] = kept(FORMAT == FORMAT_MXFP4 ? 0.5f * scale_of(30 - less[i]) : 1.0f);
        }
    }
}

/* The sum d of a row as it is meant. */
static __device__ __forceinline__ float finished(float d, const struct ends &ends, int unit,
                                                 int odd)
{
    return __fmaf_rn(d, ends.factor[unit][odd], ends.bias[unit][odd]);
}

/* ---- what becomes of them ---- */

/* A token a thread: its use, to shared memory at `to`. */
static __device__ __forceinline__ void note_use(const struct gemm &g, const struct tile &tile,
                                                uint32_t to)
{
    const int column = threadIdx.x % GROUP_THREADS;
    struct row_use use = {tile.first + column, 1.0f};

    if (g.uses != NULL && column < tile.n)
        use = g.uses[tile.first + column];
    store_8(to + column * 8, (uint32_t)use.to, __float_as_uint(use.gate));
}

static __device__ __forceinline__ struct row_use use_at(uint32_t address)
{
    uint32_t to, gate;

    asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];" : "=r"(to), "=r"(gate) : "r"(address));
    return (struct row_use){(int32_t)to, __uint_as_float(gate)};
}

/* Both units' sums of a thread with a token, v[unit][even, odd], to where they belong; of a matrix that ends
 * here, or whose rows have no alignment, each by itself. */
static __device__ __forceinline__ void put_some(float *to, int n_left, const float v[4])
{
#pragma unroll
    for (int i = 0; i < 4; i++)
        if (n_left > i / 2 * UNIT_ROWS + i % 2)
            to[i / 2 * UNIT_ROWS + i % 2] = v[i];
}

static __device__ __forceinline__ void put_all(float *to, const float v[4])
{
    *reinterpret_cast<float2 *>(to) = make_float2(v[0], v[1]);
    *reinterpret_cast<float2 *>(to + UNIT_ROWS) = make_float2(v[2], v[3]);
}

/* The sums of both units to rows of floats, whose number of floats fits into 32 bits. */
template <bool IS_WHOLE>
static __device__ __forceinline__ void
put_rows(const struct launch_plan &p, const struct tile &tile, const float (&d0)[SUMS],
         const float (&d1)[SUMS], const struct ends &ends, int row, uint32_t uses)
{
    const uint32_t first = threadIdx.x % 4 * 2, n = kept(tile.n - first);
    const uint32_t width = kept((uint32_t)p.g.out_width[tile.job]);
    const uint32_t mine = kept(uses + first * 8);
    float *const out = p.g.out[tile.job] + row;

#pragma unroll
    for (int i = 0; i < SUMS / 2; i++) {
        const int column = i / 2 * 8 + i % 2, at = i / 2 * 4 + i % 2; /* column: behind `first` */

        if (column < (int)n) {
            const struct row_use use = use_at(mine + column * 8);
            const float v[4] = {use.gate * finished(d0[at], ends, 0, 0),
                                use.gate * finished(d0[at + 2], ends, 0, 1),
                                use.gate * finished(d1[at], ends, 1, 0),
                                use.gate * finished(d1[at + 2], ends, 1, 1)};
            float *const to = out + (uint32_t)use.to * width;

            if (IS_WHOLE)
                put_all(to, v);
            else
                put_some(to, p.jobs[tile.job].n_rows - row, v);
        }
    }
}

/* The smaller and the larger of two; NaN if one is. */
static __device__ __forceinline__ float at_most(float x, float limit)
{
    asm("min.NaN.f32 %0, %0, %1;" : "+f"(x) : "f"(limit));
    return x;
}

static __device__ __forceinline__ float at_least(float x, float limit)
{
    asm("max.NaN.f32 %0, %0, %1;" : "+f"(x) : "f"(limit));
    return x;
}

/* x / (1 + 2^y), to about 2^-21 of it */
static __device__ __forceinline__ float over_one_and_power(float x, float y)
{
    float power, inverse;

    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(y));
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(1.0f + power));
    return x * inverse;
}

/* min(g, limit) sigmoid(alpha min(g, limit)) (clamp(u, -limit, limit) + 1); NaN stays NaN. `slope` is -alpha
 * log2 e. */
static __device__ __forceinline__ float swiglu(float gate, float up, float limit, float slope)
{
    const float g = at_most(gate, limit), u = at_least(at_most(up, limit), -limit);

    return over_one_and_power(g, slope * g) * (u + 1.0f);
}

/* Two numbers of an operand, first in the lower half. */
static __device__ __forceinline__ uint32_t pair_of(const struct operand &to, float x, float y)
{
    const float f16_largest = 65504.0f;

    if (to.rounding == ROUNDS_TO_BF16)
        return pair_bf16(x, y);
    x = at_least(at_most(x, f16_largest), -f16_largest);
    y = at_least(at_most(y, f16_largest), -f16_largest);
    const __half2 pair = __floats2half2_rn(x, y);

    return *reinterpret_cast<const uint32_t *>(&pair);
}

/* One unit's 32 gated numbers a token, block `u` of the group's chunk, to the tile at `to` in shared memory.
 * A lane has number lane / 4 of its warp's eight, for two tokens; neighbours exchange one, so that each has
 * two numbers of one token. */
static __device__ __forceinline__ void stage_units(const struct launch_plan &p,
                                                   const struct tile &tile, const float (&d)[SUMS],
                                                   const struct ends &ends, int row, uint32_t to,
                                                   int u)
{
    const int warp = threadIdx.x / WARP_LANES % GROUP_WARPS, lane = threadIdx.x % WARP_LANES;
    const int number = lane / 4, piece = u * 4 + number / 2, token = lane % 4 * 2 + number % 2;
    const bool is_here = row + u * UNIT_ROWS + 1 < p.jobs[tile.job].n_rows;
    const bool is_odd = number % 2 != 0;
    const float limit = kept(p.g.limit), slope = kept(-p.g.alpha * 1.44269504f);
    const uint32_t at =
        to + token * OPERAND_ROW_BYTES + (piece ^ token) * OPERAND_PIECE_BYTES + warp * 4;

#pragma unroll
    for (int i = 0; i < SUMS / 4; i++) {
        float v[2];

        if (i * 8 >= tile.n)
            break;
#pragma unroll
        for (int k = 0; k < 2; k++)
            v[k] = is_here ? swiglu(finished(d[i * 4 + k], ends, u, 0),
                                    finished(d[i * 4 + k + 2], ends, u, 1), limit, slope)
                           : 0.0f;
        const float other = __shfl_xor_sync(0xFFFFFFFFu, is_odd ? v[0] : v[1], 4);
        const float first = is_odd ? other : v[0], second = is_odd ? v[1] : other;
        asm volatile("st.shared.u32 [%0], %1;" ::"r"(at + i * 8 * OPERAND_ROW_BYTES),
                     "r"(pair_of(p.g.units, first, second))
                     : "memory");
    }
}

/* The group's gated numbers are one chunk of the next operand: its rows lie beside each other. */
static __device__ __forceinline__ void put_units(const struct launch_plan &p,
                                                 const struct tile &tile, const float (&d0)[SUMS],
                                                 const float (&d1)[SUMS], const struct ends &ends,
                                                 int row, uint32_t staging, int group)
{
    const struct operand *units = &p.g.units;
    const int64_t chunk = tile.row / 2 / UNIT_COLUMNS + group;
    const bool is_first = threadIdx.x % GROUP_THREADS == 0;
    const int64_t offset = (chunk * units->n_rows + tile.first) * OPERAND_ROW_BYTES;

    if (is_first)
        bulk_stores_read();
    group_sync(group);
    stage_units(p, tile, d0, ends, row, staging, 0);
    stage_units(p, tile, d1, ends, row, staging, 1);
    before_bulk();
    group_sync(group);
    if (is_first && chunk * UNIT_COLUMNS * 2 < p.jobs[tile.job].n_rows)
        bulk_store((char *)units->data + offset, staging, tile.n * OPERAND_ROW_BYTES);
}

/* All rows of the group are the matrix's, and pairs of floats are aligned. */
static __device__ __forceinline__ bool is_whole(const struct launch_plan &p,
                                                const struct tile &tile, int group)
{
    return p.g.out_width[tile.job] % 2 == 0 &&
           tile.row + (group + 1) * GROUP_ROWS <= p.jobs[tile.job].n_rows;
}

#endif
