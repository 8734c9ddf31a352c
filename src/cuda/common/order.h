/* Build switch for batch-dependent summation order. `make cuda-free` builds a plug-in whose kernels
 * may sum a row in a different order for each number of rows. It exists only to measure the cost of
 * batch invariance (bench/batch_invariance.py): with it, a result depends on the other requests. */
#ifndef CUDA_COMMON_ORDER_H
#define CUDA_COMMON_ORDER_H

enum {
#ifdef CUDA_FREE_ORDER
    IS_ORDER_FREE = 1
#else
    IS_ORDER_FREE = 0
#endif
};

#endif
