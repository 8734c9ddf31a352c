/* The arithmetic of penalties and masks on logits, shared by all devices. */
#ifndef BACKEND_LOGITS_PROCESS_H
#define BACKEND_LOGITS_PROCESS_H

#include <math.h>

#include "backend/batch.h"

/* Applies CTRL's repetition penalty, then OpenAI's presence and frequency penalties. z is the logit
 * of an id in seen[]. */
static inline HOST_DEVICE float penalised_logit(float z, int32_t n_generated,
                                                const struct batch_sample *s)
{
    if (s->repetition > 0)
        z = z > 0 ? z / s->repetition : z * s->repetition;
    if (n_generated == 0)
        return z;
    return fmaf(-s->frequency, (float)n_generated, z - s->presence);
}

/* Whether a mask allows an id. */
static inline HOST_DEVICE int mask_allows(const uint32_t *words, int id)
{
    return words[id / MASK_WORD_IDS] >> (id % MASK_WORD_IDS) & 1;
}

#endif
