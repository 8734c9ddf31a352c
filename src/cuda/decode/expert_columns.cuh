/* The columns of h that a lane adds to the integer sums of rows, in the kernels that compute both
 * products of the experts at once: their scales and biases. */
#ifndef CUDA_DECODE_EXPERT_COLUMNS_CUH
#define CUDA_DECODE_EXPERT_COLUMNS_CUH

#include "cuda/common/expert_sums.cuh"
#include "cuda/decode/decode.cuh"

static __device__ __forceinline__ void add_to(int32_t *sum, int value)
{
    asm volatile("red.relaxed.gpu.global.add.s32 [%0], %1;" ::"l"(sum), "r"(value) : "memory");
}

/* Scales and biases of a lane's two rows. */
struct lane_rows {
    float scale[2];
    uint32_t bias_bits[2]; /* not converted, so that the loads are not waited for */
};

static __device__ __forceinline__ int row_of_lane(int row_of_units, int half)
{
    return row_of_units * UNIT_ROWS + half * WARP_LANES + (int)threadIdx.x % WARP_LANES;
}

static __device__ __forceinline__ void load_scales(struct lane_rows *r,
                                                   const struct decode_experts &p, int row_of_units)
{
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const int row = row_of_lane(row_of_units, half);

        r->scale[half] = row < p.down.n_rows ? p.grid[row] : 1.0f;
    }
}

static __device__ __forceinline__ void
load_biases(struct lane_rows *r, const struct decode_experts &p, int id, int row_of_units)
{
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const int row = row_of_lane(row_of_units, half);

        r->bias_bits[half] = row < p.down.n_rows ? vector_bits(p.bias_down, id, row) : 0;
    }
}

static __device__ __forceinline__ float value_of_bits(const struct decode_vector &v, uint32_t bits)
{
    return __uint_as_float(v.kind == VECTOR_F32 ? bits : bits << 16);
}

#endif
