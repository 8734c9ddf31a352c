/* Copies rows of floats to the front of another tensor: the rows of the last layer that are
 * sampled.
 *
 * One block per row; 16 bytes per thread if the rows have a multiple of four floats. Memory
 * traffic: each row is read and written once. One launch per step, of at most a few hundred
 * rows. */
#include "cuda/launch/launch.h"
#include "cuda/launch/launch_kernel.cuh"
#include "cuda/common/live_rows.cuh"
#include "cuda/common/pdl.cuh"

enum { THREADS = 256, FLOATS_OF_PIECE = 4 };

static __global__ void __launch_bounds__(THREADS)
    gather_rows(float *to, const float *from, const int32_t *index, int stride, int64_t n,
                const int32_t *n_live)
{
    if ((int)blockIdx.x >= live_rows(n_live, (int)gridDim.x))
        return;
    const int64_t row = blockIdx.x, source = index == NULL ? row : index[row * stride];

    pdl_launch_dependents();
    pdl_wait();
    to += row * n;
    from += source * n;
    if (n % FLOATS_OF_PIECE == 0)
        for (int64_t i = threadIdx.x; i < n / FLOATS_OF_PIECE; i += THREADS)
            ((float4 *)to)[i] = __ldcg((const float4 *)from + i);
    else
        for (int64_t i = threadIdx.x; i < n; i += THREADS)
            to[i] = __ldcg(from + i);
}

void launch_gather_rows(struct launch_list *list, float *to, const float *from,
                        const int32_t *index, int stride, int n_rows, int64_t n,
                        const int32_t *n_live)
{
    add_dependent<gather_rows>(list, (unsigned)n_rows, THREADS, 0, to, from, index, stride, n,
                               n_live);
}
