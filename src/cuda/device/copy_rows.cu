/* Copies rows of several requests, such as the states of a step that wait for a draft head. The
 * kernel stands between two graphs: it neither waits for a part of the step before it nor lets the
 * next one begin early. */
#include "cuda/device/copy_rows.h"

enum { THREADS = 256, BLOCKS_OF_COPY_MAX = 16 };

/* Each copy has the blocks of one y. */
static __global__ void __launch_bounds__(THREADS)
    copy_rows_kernel(const __grid_constant__ struct row_copies c)
{
    const struct row_copy r = c.rows[blockIdx.y];
    const int64_t row_units = c.row_bytes / ROW_COPY_UNIT, n = r.n * row_units;
    uint4 *to = (uint4 *)c.to + r.to * row_units;
    const uint4 *from = (const uint4 *)c.from + r.from * row_units;

    for (int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x; i < n;
         i += (int64_t)gridDim.x * THREADS)
        to[i] = from[i];
}

void launch_copy_rows(cudaStream_t stream, const struct row_copies *copies)
{
    const int64_t n_wanted = (copies->row_bytes / ROW_COPY_UNIT + THREADS - 1) / THREADS;
    const int64_t n_blocks =
        n_wanted < (int64_t)BLOCKS_OF_COPY_MAX ? n_wanted : (int64_t)BLOCKS_OF_COPY_MAX;

    copy_rows_kernel<<<dim3((unsigned)n_blocks, (unsigned)copies->n), THREADS, 0, stream>>>(
        *copies);
}
