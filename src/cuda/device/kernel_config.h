/* The kernels requested by name, checked against those that the tuning table has for this GPU. */
#ifndef CUDA_DEVICE_KERNEL_CONFIG_H
#define CUDA_DEVICE_KERNEL_CONFIG_H

#include "backend/backend.h"
#include "cuda/device/options.h"
#include "cuda/device/tuning.h"

struct kernel_config {
    struct kernel_request mxfp4; /* GEMMs with MXFP4 weights; the tile is for prefill experts */
    struct kernel_request attention;
};

/* Parses the option values. OSP_EINVAL: unknown value; OSP_EUNSUPPORTED: the table has no kernel of
 * that class for the GPU, and the message names those that exist. Kernel names of other engines are
 * mapped; `note` receives a description of the mapping, "" if there was no such name. */
enum { KERNEL_NOTE_BYTES = 512 };
CHECKED enum osp_status kernel_config_parse(struct kernel_config *out,
                                            const struct device_options *options, enum arch arch,
                                            char note[KERNEL_NOTE_BYTES]);

/* OSP_EUNSUPPORTED: decode rows of several ranks cannot use the requested kernels, which leave sums
 * as floats where ranks exchange whole numbers (common/out_sums.h). */
CHECKED enum osp_status kernel_config_check_ranks(const struct kernel_config *c, enum arch arch,
                                                  int n_ranks);

/* The request that applies to this stage's kernel. */
struct kernel_request kernel_request_of(const struct kernel_config *c, enum stage stage,
                                        enum weight_format format);

#endif
