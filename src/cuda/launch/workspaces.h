/* Workspaces: device memory that stages need besides their arguments. It is allocated when a model
 * is opened, in the sizes of the largest step (program/workspace.h), so that no step can run out of
 * memory. */
#ifndef CUDA_LAUNCH_WORKSPACES_H
#define CUDA_LAUNCH_WORKSPACES_H

#include <stddef.h>

/* X(workspace); program/workspace.c has workspace_bytes_<workspace>(). */
#define WORKSPACE_LIST(X)                                                                          \
    X(batch)         /* the random numbers of the samples, then the batch */                       \
    X(sampled)       /* the tokens of the last steps that sampled, by ticket */                    \
    X(cos_sin)       /* cosines and sines of the rows' positions */                                \
    X(lists)         /* the rows of each expert: prefill/experts.cu */                             \
    X(operand)       /* prefill rows in the operand format of the GEMMs */                         \
    X(units)         /* SwiGLU outputs of the experts in that format */                            \
    X(tiles)         /* the rows of each expert: prefill/expert_lists.cu */                        \
    X(mxfp8)         /* normalized prefill rows as MXFP8 */                                        \
    X(gathered)      /* normalized prefill rows of all ranks, as an operand; in the window */      \
    X(routes)        /* ids and gates of these rows; likewise (common/rank_share.h) */             \
    X(partials)      /* split-K partials of the plain attention kernel */                          \
    X(merge_bufs)    /* merges the splits of a decode row's keys; zeros at first */                \
    X(chunks)        /* sampling: partial results of the chunks of a row */                        \
    X(tops)          /* sampling: the likeliest tokens of each chunk */                            \
    X(bins)          /* sampling: histograms of rows with top_k or top_p */                        \
    X(rounded)       /* decode rows as FP16 or BF16 */                                             \
    X(jobs)          /* job lists of the grouped experts' kernels */                               \
    X(expert_sums)   /* integer sums of the experts of a step of one row */                        \
    X(expert_totals) /* the same of all ranks */                                                   \
    X(poison)        /* rows of which a gated unit is not finite; zeros at first */                \
    X(out_low)       /* low words of the sums of attn_out, which ranks exchange */                 \
    X(router)        /* fixed-point sums of the router matmul of 1 to 4 rows */                    \
    X(attn_layer)    /* exchanges of layer/attn_layer.cu; EMPTY and zeros at first */              \
    X(factors)       /* 1 / RMS of rows whose norm uses partial sums */                            \
    X(raw)           /* staging of weights that are being packed */

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
