/* Whether this build is free of the rule of the same tokens: `make cuda-free` makes a plug-in
 * whose kernels may add a row up in another order for every number of rows. It is there to
 * measure what the rule costs (bench/batch_invariance.py), and for nothing else: what a request
 * gets then depends on the requests beside it. */
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
