/* The inner loops of the CPU stages as one table of functions a level of the instruction set, chosen
 * at run time by features.c. A kernel works on rows of f32 in one thread; threads, tiles and weights'
 * layouts are the stages' business.
 *
 * The order of every sum is fixed by the row's length alone, so that a row's result does not depend
 * on how many rows, tokens or threads there are. */
#ifndef CPU_KERNELS_H
#define CPU_KERNELS_H

#include <stdint.h>

/* What a kernel multiplies with: n_rows rows of n floats, one behind the other. */
struct rows {
    const float *data;
    int n_rows, n;
};

struct swiglu {
    float limit, alpha;
};

struct kernels {
    const char *name;
    /* out[i] = in[i] for n weights as they lie in a checkpoint, in any alignment. */
    void (*widen_bf16)(float *out, const void *in, int64_t n);
    void (*widen_mxfp4)(float *out, const uint8_t *blocks, const uint8_t *scales, int64_t n);
    /* out[r] = w[r] . x; the two-token form gives the same bits for each token. */
    void (*dots)(float *out, struct rows w, const float *x);
    void (*dots_of_two)(float *out0, float *out1, struct rows w, const float *x0, const float *x1);
    /* acc += sum over r of p[r] * v[r], in the order of r. */
    void (*weighted_sum)(float *acc, struct rows v, const float *p);
    /* x[i] = exp(x[i] - shift); gives their sum. */
    float (*exp_sum)(float *x, int n, float shift);
    /* out = x / sqrt(mean(x^2) + eps) * weight */
    void (*norm)(float *out, const float *x, const float *weight, int n, float eps);
    /* out[i] of gate u[2i] and up u[2i+1]: g sigmoid(alpha g) (u + 1), g <= limit, |u| <= limit */
    void (*swiglu)(float *out, const float *u, int n, struct swiglu s);
};

extern const struct kernels kernels_ref;

/* The best table for this machine. */
const struct kernels *kernels_choose(void);

#endif
