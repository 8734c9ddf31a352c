/* Device memory that stages need besides their arguments. It is taken when a model is opened, in the sizes of the
 * largest step (program/workspace.h), so that no step can run out of memory. */
#ifndef CUDA_COMMON_WORKSPACES_H
#define CUDA_COMMON_WORKSPACES_H

#include <stddef.h>

/* X(workspace); program/workspace.c has workspace_bytes_<workspace>(). */
#define WORKSPACE_LIST(X)                                                                          \
    X(batch)      /* the samples' random numbers, then the batch */                                \
    X(cos_sin)    /* of the rows' positions */                                                     \
    X(lists)      /* which rows an expert has: prefill/experts.cu */                               \
    X(operand)    /* prefill rows as products take them */                                         \
    X(units)      /* the experts' SwiGLU outputs in that form */                                   \
    X(tiles)      /* which rows an expert has: prefill/expert_lists.cu */                          \
    X(mxfp8)      /* normed prefill rows as MXFP8 */                                               \
    X(partials)   /* split-K partials of the plain attention kernel */                             \
    X(merge_bufs) /* where splits of a decode row's keys are merged; zeros at first */             \
    X(chunks)     /* sampling: a row's logits in parts */                                          \
    X(tops)       /* sampling: the likeliest tokens of each part */                                \
    X(bins)       /* sampling: histograms of rows with top_k or top_p */                           \
    X(rounded)    /* decode rows as FP16 or BF16 */                                                \
    X(jobs)       /* lists of the grouped experts' kernel */                                       \
    X(router)     /* fixed-point sums of the router's products of 1 to 4 rows */                   \
    X(factors)    /* 1 / RMS of rows whose norm is by partial sums */                              \
    X(raw)        /* weights on their way to be packed */

enum workspace {
#define WORKSPACE_ENUM(name) WORKSPACE_##name,
    WORKSPACE_LIST(WORKSPACE_ENUM)
#undef WORKSPACE_ENUM
        N_WORKSPACES
};

struct workspaces {
    struct gpu_workspace {
        void *data;
        size_t size_bytes;
    } at[N_WORKSPACES];
};

#endif
