/* The kernels that were asked for by name, against those that the table has for this card. */
#ifndef CUDA_DEVICE_KERNEL_CONFIG_H
#define CUDA_DEVICE_KERNEL_CONFIG_H

#include "backend/backend.h"
#include "cuda/device/tuning.h"

struct kernel_config {
    struct kernel_request mxfp4; /* products of MXFP4 weights; of its tile, the experts' prompts */
    struct kernel_request attention;
};

/* Reads the words. OSP_EINVAL: a word that nobody knows; OSP_EUNSUPPORTED: no kernel of that
 * kind is in the table for the card, the message names those that are. Names of other engines'
 * kernels are mapped, and `note` says to what, "" if there were none. */
enum { KERNEL_NOTE_BYTES = 512 };
CHECKED enum osp_status kernel_config_parse(struct kernel_config *out,
                                            const struct kernel_options *words, enum arch arch,
                                            char note[KERNEL_NOTE_BYTES]);

/* What the choice says about this stage's kernel. */
struct kernel_request kernel_request_of(const struct kernel_config *c, enum stage stage,
                                        enum weight_format format);

#endif
