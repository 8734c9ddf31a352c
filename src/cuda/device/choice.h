/* The kernels that were asked for by name, against those that the table has for this card. */
#ifndef CUDA_DEVICE_CHOICE_H
#define CUDA_DEVICE_CHOICE_H

#include "backend/backend.h"
#include "cuda/device/tuning.h"

struct choice {
    struct wish mxfp4; /* products of MXFP4 weights; of its tile, the experts' prompts */
    struct wish attention;
};

/* Reads the words. OSP_EINVAL: a word that nobody knows; OSP_EUNSUPPORTED: no kernel of that kind is in the
 * table for the card, the message names those that are. Names of other engines' kernels are mapped, and
 * `note` says to what, "" if there were none. */
enum { CHOICE_NOTE_BYTES = 512 };
CHECKED enum osp_status choice_read(struct choice *out, const struct kernel_words *words,
                                    enum card card, char note[CHOICE_NOTE_BYTES]);

/* What the choice says about this stage's kernel. */
struct wish choice_of(const struct choice *c, enum stage stage, enum weight_format format);

#endif
