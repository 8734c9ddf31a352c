/* Packs weights into the layout of the matrix kernels (layout.h), 16 bytes of a lane per thread.
 * Reads and writes each byte once: memory bound. At start-up the copy from the host takes far
 * longer. */
#include "cuda/launch/launch.h"
#include "cuda/common/layout.h"

enum { THREADS = 256 };

static __device__ void store_lane(unsigned char *to, const uint32_t words[4])
{
    *reinterpret_cast<uint4 *>(to) = make_uint4(words[0], words[1], words[2], words[3]);
}

/* blockIdx.x is the unit: the 16 bytes of its lanes, then its scales. */
static __global__ void pack_mxfp4(unsigned char *packed, const __grid_constant__ struct tensor raw)
{
    const int64_t n_across = units_of(raw.dim[1], UNIT_COLUMNS);
    const int64_t row = blockIdx.x / n_across * UNIT_ROWS;
    const int64_t column = blockIdx.x % n_across * UNIT_COLUMNS;
    unsigned char *unit = packed + (int64_t)blockIdx.x * MXFP4_UNIT_BYTES;

    for (int i = threadIdx.x; i < UNIT_TILES * WARP_LANES; i += blockDim.x) {
        uint32_t words[4];

        pack_mxfp4_lane(words, &raw, row, column, i / WARP_LANES, i % WARP_LANES);
        store_lane(unit + i * LANE_BYTES, words);
    }
    for (int i = threadIdx.x; i < MXFP4_UNIT_BYTES - MXFP4_SCALES_OFFSET; i += blockDim.x)
        unit[MXFP4_SCALES_OFFSET + i] = pack_mxfp4_scale(&raw, row, column, i);
}

/* The largest packed scale of each row, stored after the units; one warp per row. */
static __global__ void find_max_scales(unsigned char *packed,
                                       const __grid_constant__ struct tensor raw)
{
    const int64_t n_blocks = raw.dim[1] / MXFP4_BLOCK;
    const int64_t row = blockIdx.x * (THREADS / WARP_LANES) + threadIdx.x / WARP_LANES;
    int top = 1; /* a packed scale is not 0 */

    if (row >= units_of(raw.dim[0], UNIT_ROWS) * UNIT_ROWS)
        return;
    for (int64_t i = threadIdx.x % WARP_LANES; i < n_blocks && row < raw.dim[0]; i += WARP_LANES)
        top = max(top, (int)((const uint8_t *)raw.scales)[row * n_blocks + i]);
    for (int step = WARP_LANES / 2; step > 0; step /= 2)
        top = max(top, __shfl_xor_sync(0xFFFFFFFFu, top, step));
    if (threadIdx.x % WARP_LANES == 0)
        packed[mxfp4_tops_offset(&raw) + row] = (unsigned char)top;
}

static __global__ void pack_bf16(unsigned char *packed, const __grid_constant__ struct tensor raw)
{
    const int64_t n_across = units_of(raw.dim[1], UNIT_COLUMNS);
    const int64_t row = blockIdx.x / n_across * UNIT_ROWS;
    const int64_t column = blockIdx.x % n_across * UNIT_COLUMNS;
    unsigned char *unit = packed + (int64_t)blockIdx.x * BF16_UNIT_BYTES;
    enum { TILE_LANES = BF16_TILE_BYTES / LANE_BYTES };

    for (int i = threadIdx.x; i < UNIT_TILES * TILE_LANES; i += blockDim.x) {
        uint32_t words[4];

        pack_bf16_lane(words, &raw, row, column, i / TILE_LANES, i % TILE_LANES / WARP_LANES,
                       i % WARP_LANES);
        store_lane(unit + i * LANE_BYTES, words);
    }
}

void launch_pack(cudaStream_t stream, void *packed, const struct tensor *raw)
{
    const unsigned n_units = (unsigned)matrix_units(raw);
    const int64_t n_rows = units_of(raw->dim[0], UNIT_ROWS) * UNIT_ROWS;

    if (raw->dtype == DTYPE_BF16) {
        pack_bf16<<<n_units, THREADS, 0, stream>>>((unsigned char *)packed, *raw);
        return;
    }
    pack_mxfp4<<<n_units, THREADS, 0, stream>>>((unsigned char *)packed, *raw);
    find_max_scales<<<(unsigned)units_of(n_rows, THREADS / WARP_LANES), THREADS, 0, stream>>>(
        (unsigned char *)packed, *raw);
}

bool launch_has_code(void)
{
    struct cudaFuncAttributes attributes;
    const bool has_code = cudaFuncGetAttributes(&attributes, pack_bf16) == cudaSuccess;

    (void)cudaGetLastError(); /* a failed query is not an error */
    return has_code;
}
