/* Rows of the last layer that no sample needs are left out. */
#ifndef CUDA_ATTENTION_ATTN_NEEDED_CUH
#define CUDA_ATTENTION_ATTN_NEEDED_CUH

#include "cuda/attention/attn.h"

/* Whether one of the rows [first, first + n) is needed. */
static __device__ __forceinline__ bool is_needed(const struct attn_launch &l, int first, int n)
{
    int low = 0, high = l.n_samples; /* samples before `low` have rows before `first` */

    if (l.samples == NULL)
        return true;
    while (low < high) {
        const int middle = (low + high) / 2;

        if (l.samples[middle].row < first)
            low = middle + 1;
        else
            high = middle;
    }
    return low < l.n_samples && l.samples[low].row < first + n;
}

#endif
