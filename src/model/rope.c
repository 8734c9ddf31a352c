/* Computes the rotary frequencies: YaRN with the ramp between beta_fast and beta_slow (Peng et al.
 * 2023). As in gpt-oss, the ends of the ramp are not rounded to whole dimensions unless the config
 * says "truncate". */
#include <assert.h>
#include <math.h>

#include "model/config.h"

static const double TWO_PI = 6.283185307179586;

/* The pair index that makes `n_turns` full rotations within the original context. */
static double pair_of_turns(const struct gptoss_config *c, double n_turns)
{
    const double tokens_per_turn = c->rope_original_tokens / (n_turns * TWO_PI);

    return c->head_dim / 2.0 * log(tokens_per_turn) / log(c->rope_theta);
}

/* The share of the interpolated frequency at pair i: 0 up to low, 1 from high on. */
static double ramp(double i, double low, double high)
{
    const double share = (i - low) / (high - low);

    return share < 0 ? 0 : share > 1 ? 1 : share;
}

void rope_init(struct rope *out, const struct gptoss_config *c)
{
    const int n_pairs = c->head_dim / 2;
    double low = pair_of_turns(c, c->rope_beta_fast), high = pair_of_turns(c, c->rope_beta_slow);

    assert(n_pairs <= (int)(sizeof(out->inverse_frequency) / sizeof(float)));
    *out = (struct rope){.head_dim = c->head_dim, .concentration = 1};
    if (c->rope_truncate) {
        low = floor(low);
        high = ceil(high);
    }
    low = low < 0 ? 0 : low;
    high = high > c->head_dim - 1 ? c->head_dim - 1 : high;
    high = high > low ? high : low + 0.001; /* as in Transformers: avoids division by zero */
    if (c->rope_factor > 1)
        out->concentration = (float)(0.1 * log(c->rope_factor) + 1);
    for (int i = 0; i < n_pairs; i++) {
        const double plain = pow(c->rope_theta, -2.0 * i / c->head_dim);
        const double share = c->rope_factor > 1 ? ramp(i, low, high) : 0;

        out->inverse_frequency[i] = (float)(plain / c->rope_factor * share + plain * (1 - share));
    }
}
