/* Keys that order logits or scores of ids, for the sampling kernels and their tests on the host. */
#ifndef CUDA_SAMPLING_SAMPLE_KEY_H
#define CUDA_SAMPLING_SAMPLE_KEY_H

#include "backend/gumbel.h"

/* Larger for a larger value, then for a lower id; 0 is not the key of any id. */
static inline HOST_DEVICE uint64_t sample_key(float value, int id)
{
    const float x = value + 0.0f; /* maps -0 to 0 */
    uint32_t bits;

    memcpy(&bits, &x, sizeof(bits));
    bits = (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
    return (uint64_t)bits << 32 | (0xFFFFFFFFu - (uint32_t)id);
}

static inline HOST_DEVICE int sample_key_id(uint64_t key)
{
    return (int)(0xFFFFFFFFu - (uint32_t)(key & 0xFFFFFFFFu));
}

static inline HOST_DEVICE float sample_key_value(uint64_t key)
{
    const uint32_t rising = (uint32_t)(key >> 32);

    return gumbel_float((rising & 0x80000000u) != 0 ? rising & 0x7FFFFFFFu : ~rising);
}

/* The key of an id's score; 0 if the score is below `least`. noise_ids: as in struct
 * sample_args. */
static inline HOST_DEVICE uint64_t sample_score_key(float ln_weight, int id, uint64_t noise_key,
                                                    const int32_t *noise_ids, float least)
{
    const float score =
        gumbel_score(ln_weight, noise_key, noise_ids != NULL ? noise_ids[id] : id, least);

    return score > -INFINITY ? sample_key(score, id) : 0;
}

/* The least score that can be the largest of a row with top_k or top_p, for an id of this weight.
 * `least` is the score of the largest logit, which is a candidate, unless lower ids have a weight
 * of 1, too, and are top_k many: then only ids of weight 1 are candidates. */
static inline HOST_DEVICE float sample_least(float weight, float least)
{
    return weight < 1.0f ? least : -INFINITY;
}

#endif
