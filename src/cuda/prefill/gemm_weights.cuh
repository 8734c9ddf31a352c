/* Weights of gemm_sm90.cu: expansion of operand A to registers, and the per-row values. */
#ifndef CUDA_PREFILL_GEMM_WEIGHTS_CUH
#define CUDA_PREFILL_GEMM_WEIGHTS_CUH

#include "cuda/prefill/gemm_tile.cuh"

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

/* 2^15 times the scales of a block relative to their rows' largest, as FP16: the even row's in the
 * lower half, the odd row's in the upper one. codes: theirs, in the lower two bytes from `byte` on.
 * `scale_shifts`: 30 minus the codes of the largest, as 16 bits each. */
static __device__ __forceinline__ uint32_t relative_scales(uint32_t codes, int block,
                                                           uint32_t scale_shifts)
{
    const uint32_t two = __byte_perm(codes, 0, block == 0 ? 0x4140 : 0x4342);

    return __viaddmax_s16x2_relu(two, scale_shifts, 0) << 10;
}

/* Two numbers times the half of `scales` that is theirs. */
template <int HALF>
static __device__ __forceinline__ uint32_t times_half(uint32_t x, uint32_t scales)
{
    uint32_t product;

    if (HALF == 0)
        asm("{\n.reg .b16 low, high;\n.reg .b32 both;\nmov.b32 {low, high}, %2;\n"
            "mov.b32 both, {low, low};\nmul.rn.f16x2 %0, %1, both;\n}"
            : "=r"(product)
            : "r"(x), "r"(scales));
    else
        asm("{\n.reg .b16 low, high;\n.reg .b32 both;\nmov.b32 {low, high}, %2;\n"
            "mov.b32 both, {high, high};\nmul.rn.f16x2 %0, %1, both;\n}"
            : "=r"(product)
            : "r"(x), "r"(scales));
    return product;
}

/* A lane's part of a unit: fragments of the K_STEPS wgmmas. */
static __device__ __forceinline__ void expand_mxfp4(uint32_t a[K_STEPS][4], uint4 codes,
                                                    uint32_t scales, uint32_t scale_shifts)
{
#pragma unroll
    for (int block = 0; block < UNIT_BLOCKS; block++) {
        const uint32_t both = relative_scales(scales, block, scale_shifts);
        uint32_t low[4], high[4];

        halves_of_word(low, block == 0 ? codes.x : codes.z);
        halves_of_word(high, block == 0 ? codes.y : codes.w);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            a[block * 2 + i / 2][i % 2 * 2] = times_half<0>(low[i], both);
            a[block * 2 + i / 2][i % 2 * 2 + 1] = times_half<1>(high[i], both);
        }
    }
}

/* A lane's part of a unit as stored: codes and the scales of its blocks; BF16: its address. */
struct packed_a {
    uint4 codes;
    uint32_t scales, words_at;
};

/* Addresses of a lane's part of a unit. */
struct lane_words {
    uint32_t words, scales;
};

template <class FORM>
static __device__ __forceinline__ struct lane_words lane_words_of(uint32_t unit)
{
    const int lane = threadIdx.x % WARP_LANES, warp = threadIdx.x / WARP_LANES % GROUP_WARPS;

    if (FORM::IS_MXFP4)
        return {unit + warp * MXFP4_TILE_BYTES + lane * LANE_BYTES,
                unit + MXFP4_SCALES_OFFSET + lane / 4 * MXFP4_GROUP_SCALES_BYTES +
                    warp * UNIT_BLOCKS * 2};
    return {unit + warp * BF16_TILE_BYTES + lane * LANE_BYTES, 0};
}

/* Loads a lane's part of the unit `offset` bytes behind. */
template <class FORM>
static __device__ __forceinline__ void load_packed(struct packed_a *out,
                                                   const struct lane_words &lane, uint32_t offset)
{
    if constexpr (FORM::IS_MXFP4) {
        out->codes = load_16(lane.words + offset);
        out->scales = load_4(lane.scales + offset);
    } else {
        out->words_at = lane.words + offset;
    }
}

/* Operand A of it. */
template <class FORM>
static __device__ __forceinline__ void load_a(uint32_t a[K_STEPS][4], const struct packed_a &from,
                                              uint32_t scale_shifts)
{
    if constexpr (FORM::IS_MXFP4) {
        expand_mxfp4(a, from.codes, from.scales, scale_shifts);
    } else {
#pragma unroll
        for (int i = 0; i < K_STEPS; i++) {
            const uint4 words = load_16(from.words_at + i * WARP_LANES * LANE_BYTES);

            a[i][0] = words.x, a[i][1] = words.y, a[i][2] = words.z, a[i][3] = words.w;
        }
    }
}

/* ---- per-row values ---- */

/* Per-row values that the expansion needs: two rows of each unit of the group. */
template <class FORM> struct my_rows {
    uint32_t scale_shifts[FORM::UNITS]; /* 30 minus the codes of the largest scales, 16 bits each */
};

/* Barrier over the threads of the group. */
static __device__ __forceinline__ void group_sync(int group)
{
    asm volatile("bar.sync %0, %1;" ::"r"(group + 1), "n"((int)GROUP_THREADS) : "memory");
}

static __device__ __forceinline__ void store_8(uint32_t to, uint32_t low, uint32_t high)
{
    asm volatile("st.shared.v2.u32 [%0], {%1, %2};" ::"r"(to), "r"(low), "r"(high) : "memory");
}

static __device__ __forceinline__ float bias_at(const struct launch_plan &p,
                                                const struct tile &tile, int row)
{
    const struct tensor *bias = &p.g.bias[tile.job];

    if (bias->data == NULL || row >= p.jobs[tile.job].n_rows)
        return 0.0f;
    return bias->n_dims == 1 ? weight_at(bias, 0, 0, row) : weight_at(bias, 0, tile.expert, row);
}

/* The thread's first row, relative to the group's; it is in the group's first unit. */
static __device__ __forceinline__ int my_row(void)
{
    const int thread = threadIdx.x % GROUP_THREADS;

    return thread / WARP_LANES * TILE_ROWS + thread % WARP_LANES / 4 * 2;
}

/* The group's rows begin at first_row of the tile's job. Each thread loads one row's values for the
 * group: 30 minus the code of its largest scale, and its bias. */
template <class FORM>
static __device__ __forceinline__ void find_rows(const struct launch_plan &p,
                                                 const struct tile &tile, int first_row, int group,
                                                 uint32_t info, struct my_rows<FORM> *out)
{
    const struct job *job = &p.jobs[tile.job];
    const int thread = threadIdx.x % GROUP_THREADS, row = first_row + thread;
    int top = 127;

    if (thread < FORM::GROUP_ROWS) {
        if (FORM::IS_MXFP4 && row < job->n_padded_rows)
            top = matrix_of(p, tile)[job->tops_offset + row];
        store_8(info + thread * ROW_INFO_BYTES, (uint32_t)(30 - top),
                __float_as_uint(bias_at(p, tile, row)));
    }
    group_sync(group);
#pragma unroll
    for (int u = 0; u < FORM::UNITS; u++) {
        const uint4 two = load_16(info + (my_row() + u * UNIT_ROWS) * ROW_INFO_BYTES);

        out->scale_shifts[u] = (two.x & 0xFFFF) | two.z << 16;
    }
}

#endif
