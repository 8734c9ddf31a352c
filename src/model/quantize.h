/* Quantizes BF16 matrices of bound weights to MXFP4, in memory of their own. */
#ifndef MODEL_QUANTIZE_H
#define MODEL_QUANTIZE_H

#include "base/pool.h"
#include "model/weights.h"

struct quantize_options {
    unsigned mxfp4_layers;      /* from quantize_layers_check() */
    int n_threads;              /* 0 = all usable */
    load_progress_fn *progress; /* counts bytes of the BF16 matrices; may be NULL */
    void *progress_ctx;
};

/* Sets *out to those of these layers (enum mxfp4_layer) that are BF16 in a checkpoint with this
 * config, and so can be quantized. OSP_EINVAL: only one of embed and lm_head, which are one matrix
 * in this model. OSP_EFORMAT: columns are not whole blocks of 32. */
CHECKED enum osp_status quantize_layers_check(unsigned *out, const struct gptoss_config *c,
                                              unsigned mxfp4_layers);

/* Bytes of the matrices of these layers as BF16, and as MXFP4. */
struct quantize_sizes {
    int64_t bf16_bytes, mxfp4_bytes;
};
struct quantize_sizes quantize_sizes(const struct gptoss_config *c, unsigned mxfp4_layers);

/* Replaces the layers' tensors in `w` and their bytes in `report` (may be NULL). OSP_EFORMAT: a
 * value is NaN or infinite; the message names the tensor and the index. The memory of the BF16
 * matrices is released: unless it maps a file, it must not be read again. */
CHECKED enum osp_status weights_quantize(struct weights *w, const struct checkpoint *c,
                                         const struct quantize_options *opt,
                                         struct weights_report *report);

/* Only marks these layers in `w` and `report` as MXFP4, for a device that already has the packed
 * weights: their data must not be read. */
CHECKED enum osp_status weights_mark_mxfp4(struct weights *w, const struct checkpoint *c,
                                           unsigned mxfp4_layers, struct weights_report *report);

/* Quantizes a BF16 matrix, or a stack of them, in either layout, to n / 2 bytes of blocks and n /
 * 32 scales, in row-major order. */
struct quantize_job {
    struct tensor from;
    uint8_t *blocks, *scales;
    const char *file, *name; /* for messages */
    load_progress_fn *progress;
    void *progress_ctx;
    int64_t done_bytes, total_bytes; /* of the progress; done_bytes is updated */
};
CHECKED enum osp_status tensor_quantize(struct quantize_job *job, struct pool *pool);

#endif
