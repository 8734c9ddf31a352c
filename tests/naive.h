/* The stages' formulas once more, straight from the model's description, in double and without any
 * thought of speed: what check_backend holds a device against. Shares no code with the devices. */
#ifndef NAIVE_H
#define NAIVE_H

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backend/args.h"
#include "base/memory.h"

/* Element i of a vector or activation. */
static inline double naive_at(const struct tensor *t, int64_t i)
{
    if (t->dtype == DTYPE_BF16) {
        const uint32_t bits = (uint32_t)((const uint16_t *)t->data)[i] << 16;
        float value;

        memcpy(&value, &bits, sizeof(value));
        return (double)value;
    }
    return (double)((const float *)t->data)[i];
}

/* Row r, column c of matrix e of a stack with n_rows x n_columns matrices. */
static inline double naive_weight(const struct tensor *t, int64_t e, int64_t r, int64_t c)
{
    static const double values[8] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
    const int64_t n_rows = t->dim[t->n_dims - 2], n_columns = t->dim[t->n_dims - 1];
    const int64_t i = (e * n_rows + r) * n_columns + c;
    unsigned code;

    if (t->layout == LAYOUT_COLUMNS)
        return naive_at(t, (e * n_columns + c) * n_rows + r);
    if (t->dtype != DTYPE_MXFP4)
        return naive_at(t, i);
    code = ((const uint8_t *)t->data)[i / 2];
    code = i % 2 == 0 ? code & 15 : code >> 4;
    return ldexp(code & 8 ? -values[code & 7] : values[code & 7],
                 ((const uint8_t *)t->scales)[i / 32] - 127);
}

/* Row r of matrix e times x. */
static inline double naive_dot(const struct tensor *w, int64_t e, int64_t r, const float *x)
{
    double sum = 0;

    for (int64_t c = 0; c < w->dim[w->n_dims - 1]; c++)
        sum += naive_weight(w, e, r, c) * (double)x[c];
    return sum;
}

static inline void naive_norm(double *out, const double *x, const struct tensor *weight, int64_t n,
                              double eps)
{
    double squares = 0;

    for (int64_t i = 0; i < n; i++)
        squares += x[i] * x[i];
    for (int64_t i = 0; i < n; i++)
        out[i] = x[i] / sqrt(squares / (double)n + eps) * naive_at(weight, i);
}

/* Turns the pairs (i, i + D/2); the angle is rounded to f32, as the stage's contract says. */
static inline void naive_rotate(double *head, const struct rope *rope, int position)
{
    const int half = rope->head_dim / 2;

    for (int i = 0; i < half; i++) {
        const double angle = (double)((float)position * rope->inverse_frequency[i]);
        const double c = (double)rope->concentration * cos(angle);
        const double s = (double)rope->concentration * sin(angle);
        const double x1 = head[i], x2 = head[i + half];

        head[i] = x1 * c - x2 * s;
        head[i + half] = x2 * c + x1 * s;
    }
}

/* ---- the KV cache, as backend/kv_page.h tells of it ---- */

static inline int naive_kv_parts(enum dtype dtype)
{
    return dtype == DTYPE_F32 ? 1 : dtype == DTYPE_F8 ? 4 : 2;
}

static inline bool naive_has_scales(enum dtype dtype)
{
    return dtype == DTYPE_F8 || dtype == DTYPE_I16;
}

static inline int64_t naive_side_bytes(const struct tensor *kv)
{
    const int64_t width = (kv->dim[4] + 15) / 16 * 16;

    return 64 * width * 4 / naive_kv_parts(kv->dtype) + (naive_has_scales(kv->dtype) ? 64 * 4 : 0);
}

/* One element: where it is, and the scale of its slot (F8, I16). */
struct naive_element {
    char *at;
    float *scale;
};

static inline struct naive_element naive_element(const struct tensor *kv, int64_t page, int which,
                                                 int head, int slot, int d)
{
    const int n = naive_kv_parts(kv->dtype), size_bytes = 4 / n;
    const int64_t width = (kv->dim[4] + 15) / 16 * 16, side_bytes = naive_side_bytes(kv);
    const int64_t at = kv->dtype == DTYPE_I16 ? (page * kv->dim[2] + head) * 2 + which
                                              : (page * 2 + which) * kv->dim[2] + head;
    char *side = (char *)kv->data + at * side_bytes;
    const int64_t word = which == 0 ? slot / 16 * (16 * width / n) + d / n * 16 + slot % 16
                                    : d / 16 * (16 * 64 / n) + slot / n * 16 + d % 16;

    return (struct naive_element){.at = side + word * 4 + (which == 0 ? d : slot) % n * size_bytes,
                                  .scale = (float *)(side + side_bytes) - 64 + slot};
}

static inline double naive_f8_value(uint8_t code)
{
    const int exponent = code >> 3 & 15, mantissa = code & 7;
    const double value =
        exponent == 0 ? mantissa / 512.0 : (1 + mantissa / 8.0) * (1 << exponent) / (1 << 7);

    if ((code & 0x7F) == 0x7F)
        return NAN;
    return code & 0x80 ? -value : value;
}

/* The nearest number with that many bits from the first one to the last, ties to even. */
static inline double naive_round(double x, int n_bits, int exponent_min)
{
    int exponent;

    frexp(x, &exponent); /* x = [0.5, 1) 2^exponent */
    exponent = exponent < exponent_min ? exponent_min : exponent;
    return ldexp(nearbyint(ldexp(x, n_bits - exponent)), exponent - n_bits);
}

static inline double naive_kv(const struct tensor *kv, int64_t page, int which, int head, int slot,
                              int d)
{
    const struct naive_element e = naive_element(kv, page, which, head, slot, d);
    uint32_t bits;
    float value;

    if (kv->dtype == DTYPE_F8)
        return naive_f8_value((uint8_t)*e.at) * (double)*e.scale;
    if (kv->dtype == DTYPE_I16)
        return *(const int16_t *)e.at * (double)*e.scale;
    if (kv->dtype == DTYPE_BF16)
        bits = (uint32_t) * (const uint16_t *)e.at << 16;
    else
        memcpy(&bits, e.at, sizeof(bits));
    memcpy(&value, &bits, sizeof(value));
    return (double)value;
}

/* The page of a position. */
static inline int64_t naive_page(const struct batch *b, int seq, enum page_group group,
                                 int position)
{
    const struct batch_seq *s = &BATCH_SEQS(b)[seq];

    return BATCH_PAGES(b)[s->table[group] + position / PAGE_TOKENS - s->first_page[group]];
}

/* One row and query head: softmax over all keys and the sink at once. */
static inline void naive_attend(double *out, const struct attn_args *a, const struct batch *b,
                                int row, int head)
{
    const int D = (int)a->kv.dim[4], n_group = (int)(a->q.dim[1] / D / a->kv.dim[2]);
    const int position = BATCH_POSITIONS(b)[row], seq = BATCH_ROW_SEQ(b)[row];
    const float *q = (const float *)a->q.data + row * a->q.dim[1] + head * D;
    double *scores = mem_new((size_t)(position + 1) * sizeof(double));
    double largest = naive_at(&a->sinks, head), total;
    int first = 0;

    if (a->window_tokens > 0 && position - a->window_tokens + 1 > 0)
        first = position - a->window_tokens + 1;
    for (int j = first; j <= position; j++) {
        const int64_t page = naive_page(b, seq, a->group, j);

        for (int d = 0; d < D; d++)
            scores[j] +=
                (double)q[d] * naive_kv(&a->kv, page, 0, head / n_group, j % PAGE_TOKENS, d);
        scores[j] *= (double)a->scale;
        largest = scores[j] > largest ? scores[j] : largest;
    }
    total = exp(naive_at(&a->sinks, head) - largest);
    for (int j = first; j <= position; j++)
        total += exp(scores[j] - largest);
    for (int d = 0; d < D; d++)
        out[d] = 0;
    for (int j = first; j <= position; j++) {
        const int64_t page = naive_page(b, seq, a->group, j);
        const double weight = exp(scores[j] - largest) / total;

        for (int d = 0; d < D; d++)
            out[d] += weight * naive_kv(&a->kv, page, 1, head / n_group, j % PAGE_TOKENS, d);
    }
    free(scores);
}

static inline double naive_swiglu(double gate, double up, double limit, double alpha)
{
    const double g = gate > limit ? limit : gate;
    const double u = up > limit ? limit : up < -limit ? -limit : up;

    return g / (1 + exp(-alpha * g)) * (u + 1);
}

/* One token through expert e; out has C elements. */
static inline void naive_expert(double *out, const struct experts_args *a, int64_t e,
                                const float *y)
{
    const int64_t C = a->w_down.dim[1], F = a->w_down.dim[2];
    double *units = mem_new((size_t)F * sizeof(double));

    for (int64_t i = 0; i < F; i++) {
        const double gate = naive_dot(&a->w_up, e, 2 * i, y);
        const double up = naive_dot(&a->w_up, e, 2 * i + 1, y);

        units[i] = naive_swiglu(gate + naive_at(&a->b_up, e * 2 * F + 2 * i),
                                up + naive_at(&a->b_up, e * 2 * F + 2 * i + 1), (double)a->limit,
                                (double)a->alpha);
    }
    for (int64_t c = 0; c < C; c++) {
        out[c] = naive_at(&a->b_down, e * C + c);
        for (int64_t i = 0; i < F; i++)
            out[c] += naive_weight(&a->w_down, e, c, i) * units[i];
    }
    free(units);
}

#endif
