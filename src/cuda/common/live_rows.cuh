/* The number of rows of a step, as kernels read it from the batch. A launch list serves all batches
 * up to its number of rows (step_counts.c); rows behind those of the batch are padding, which no
 * kernel stores (in a build without batch invariance (order.h), prefill kernels may). */
#ifndef CUDA_COMMON_LIVE_ROWS_CUH
#define CUDA_COMMON_LIVE_ROWS_CUH

#include <stdint.h>

/* n_live: in the batch, which was uploaded before the step, so that it may be read before
 * pdl_wait(); NULL: all n_max rows of the launch. */
static __device__ __forceinline__ int live_rows(const int32_t *n_live, int n_max)
{
    return n_live == NULL ? n_max : *n_live;
}

#endif
