/* Chains of attn_layer.cu: the units of one tile that a warp multiplies, copied to shared
 * memory as a whole. An eighth of a tile of QKV, or a slice of one of the output matrix. */
#ifndef CUDA_LAYER_CHAIN_CUH
#define CUDA_LAYER_CHAIN_CUH

#include "cuda/layer/shared.cuh"

static __device__ __forceinline__ void copy4(uint32_t to, const void *from)
{
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(to), "l"(from) : "memory");
}

/* Where a lane's words are in the first unit of a chain, and its scales in unit lane / 8. */
struct chain_source {
    const unsigned char *words, *scales;
};

/* Starts the copies of n <= N units that are STEP apart in memory, with constant offsets: few
 * instructions, for they compete with those of the kernel before. */
template <int N, int STEP>
static __device__ __forceinline__ void copy_chain(char *slots, struct chain_source from, int n)
{
    enum { AT_ONCE = WARP_LANES / 8, STEP_BYTES = STEP * MXFP4_UNIT_BYTES };
    const int lane = threadIdx.x % WARP_LANES, unit = lane / 8;
    const uint32_t to = opaque_address((uint32_t)__cvta_generic_to_shared(slots));
    const uint32_t words = opaque_address(to + lane * LANE_BYTES);
    const uint32_t scales =
        opaque_address(to + MXFP4_TILE_BYTES + unit * CHAIN_UNIT_BYTES + lane % 8 * 4);

#pragma unroll
    for (int i = 0; i < N; i++)
        if (i < N - 1 || i < n)
            copy_evict_first(words + i * CHAIN_UNIT_BYTES, from.words + i * STEP_BYTES);
#pragma unroll
    for (int i = 0; i < N; i += AT_ONCE)
        if (i + AT_ONCE < N || i + unit < n)
            copy4(scales + i * CHAIN_UNIT_BYTES, from.scales + i * STEP_BYTES);
}

/* A tile from a unit on; the chain's units are `step` apart. */
static __device__ __forceinline__ struct chain_source tile_source(const unsigned char *unit,
                                                                  int tile, int step)
{
    const int lane = threadIdx.x % WARP_LANES;

    return {unit + tile * MXFP4_TILE_BYTES + lane * LANE_BYTES,
            unit + MXFP4_SCALES_OFFSET + lane % 8 * MXFP4_GROUP_SCALES_BYTES + tile * 4 +
                lane / 8 * step * MXFP4_UNIT_BYTES};
}

/* Rows 8 half to 8 half + 7 of a tile, then those of the tile that is rotated with it. */
static __device__ __forceinline__ struct chain_source split_source(const unsigned char *unit,
                                                                   int tile, int half)
{
    const int lane = threadIdx.x % WARP_LANES, group = lane % 8;
    const int of_words = tile + lane / 16 * HALVES_OF_A_HEAD;
    const int of_scales = tile + group / 4 * HALVES_OF_A_HEAD;

    return {unit + of_words * MXFP4_TILE_BYTES + (half * 16 + lane % 16) * LANE_BYTES,
            unit + MXFP4_SCALES_OFFSET + (half * 4 + group % 4) * MXFP4_GROUP_SCALES_BYTES +
                of_scales * 4 + lane / 8 * RING_WARPS * MXFP4_UNIT_BYTES};
}

/* Stores the sums of n units of a chain times inputs that are `step` units apart; `first` are those
 * of its first unit. Lanes of other groups than 0 read zeros. */
static __device__ __forceinline__ void multiply_chain(float *sums, const char *slots, int n,
                                                      const char *first, int step,
                                                      const char *zeros)
{
    const int lane = threadIdx.x % WARP_LANES;
    const char *words = slots + lane * LANE_BYTES;
    const char *scales = slots + MXFP4_TILE_BYTES + lane / 4 * 4;
    const char *inputs = lane < 4 ? first + lane * LANE_BYTES : zeros;
    const int step_bytes = lane < 4 ? step * UNIT_BLOCKS * TOKEN_BLOCK_BYTES : 0;
    float acc[4] = {0.0f, 0.0f, 0.0f, 0.0f};

#pragma unroll 1
    for (int i = 0; i < n; i++) {
        const uint4 w = *(const uint4 *)words;
        const uint32_t codes = *(const uint32_t *)scales;

        multiply_mxfp4(acc, w.x, w.y, scale_at(codes, 0), scale_at(codes, 1),
                       *(const uint4 *)inputs);
        multiply_mxfp4(acc, w.z, w.w, scale_at(codes, 2), scale_at(codes, 3),
                       *(const uint4 *)(inputs + TOKEN_BLOCK_BYTES));
        words += CHAIN_UNIT_BYTES;
        scales += CHAIN_UNIT_BYTES;
        inputs += step_bytes;
    }
    if (lane % 4 == 0)
        ((float2 *)sums)[lane / 4] = make_float2(acc[0], acc[2]);
}

#endif
