/* The device under test, its tensors and batches: harness.h. */
#include "stages/harness.h"

struct under_test under = {.n_repeats = 1};
struct worst worst;
static uint64_t n_fills;

void must(enum osp_status st)
{
    if (st != OSP_OK) {
        fprintf(stderr, "%s: %s\n", status_name(st), fail_message());
        exit(2);
    }
}

void note(double found, double expected)
{
    worst.stage = worst_of(worst.stage, fabs(found - expected) / (1 + fabs(expected)));
}

void note_wrong(const char *what, int64_t found, int64_t expected)
{
    if (found == expected)
        return;
    printf("    %s: found %lld, expected %lld\n", what, (long long)found, (long long)expected);
    worst.stage = INFINITY;
}

/* ---- tensors ---- */

void *alloc_poisoned(int64_t size_bytes)
{
    void *data;

    must(mem_try_aligned(&data, (size_t)size_bytes + 1, 1, "a tensor"));
    memset(data, 0xFF, (size_t)size_bytes + 1); /* NaN in every float type */
    return data;
}

struct tensor shaped(enum dtype dtype, int n_dims, const int64_t *dim)
{
    struct tensor t = {.dtype = dtype, .n_dims = n_dims};
    int64_t n;

    memcpy(t.dim, dim, (size_t)n_dims * sizeof(*dim));
    n = tensor_elements(&t);
    t.data = alloc_poisoned(dtype == DTYPE_MXFP4 ? n / 2 : tensor_bytes(&t));
    if (dtype == DTYPE_MXFP4)
        t.scales = alloc_poisoned(n / MXFP4_BLOCK);
    return t;
}

void drop(struct tensor *t)
{
    free(t->data);
    free((void *)(uintptr_t)t->scales);
    *t = (struct tensor){0};
}

void begin_fill(void)
{
    n_fills++;
}

uint64_t fill_id(void)
{
    return n_fills;
}

float random_at(int64_t i, double deviation)
{
    return (float)((rng_uniform(n_fills, (uint64_t)i, 0) - 0.5) * 3.4641 * deviation);
}

static void fill(struct tensor *t, double deviation)
{
    const int64_t n = tensor_elements(t);
    const int exponent = (int)lround(log2(deviation / 2.93)); /* 2.93: deviation of e2m1 codes */

    begin_fill();
    for (int64_t i = 0; i < n && t->dtype == DTYPE_F32; i++)
        ((float *)t->data)[i] = random_at(i, deviation);
    for (int64_t i = 0; i < n && t->dtype == DTYPE_BF16; i++) {
        const float value = random_at(i, deviation);
        uint32_t bits;

        memcpy(&bits, &value, sizeof(bits));
        ((uint16_t *)t->data)[i] = (uint16_t)(bits >> 16);
    }
    if (t->dtype != DTYPE_MXFP4)
        return;
    for (int64_t i = 0; i < n / 2; i++)
        ((uint8_t *)t->data)[i] = (uint8_t)rng_bits(n_fills, (uint64_t)i, 0);
    for (int64_t i = 0; i < n / MXFP4_BLOCK; i++)
        ((uint8_t *)(uintptr_t)t->scales)[i] =
            (uint8_t)(126 + exponent + (int)(rng_bits(n_fills, (uint64_t)i, 1) % 3));
}

struct tensor filled(struct tensor t, double deviation)
{
    fill(&t, deviation);
    return t;
}

struct tensor packed(const struct tensor *host)
{
    struct tensor t;

    must(under.ops->pack(under.device, &t, host));
    return t;
}

float f32_at(const struct tensor *t, int64_t i)
{
    return ((const float *)t->data)[i];
}

const float *row_of(const struct tensor *t, int64_t row)
{
    return (const float *)t->data + row * t->dim[1];
}

double rounded_dot(const struct tensor *w, int64_t r, const float *x)
{
    const bool is_bf16 = under.has_rounding && w->dtype == DTYPE_BF16;
    const bool is_fp16 = under.is_in_worker && w->dtype == DTYPE_MXFP4;
    double sum = 0;

    if (!is_bf16 && !is_fp16)
        return naive_dot(w, 0, r, x);
    for (int64_t c = 0; c < w->dim[1]; c++)
        sum += naive_weight(w, 0, r, c) *
               (is_bf16 ? naive_round((double)x[c], 8, -125) : naive_round((double)x[c], 11, -13));
    return sum;
}

/* Row r of an MXFP4 matrix times x as MXFP8: each block of 32 is scaled by the smallest power of
 * two that brings all of its values within 448. */
double mxfp8_dot(const struct tensor *w, int64_t r, const float *x)
{
    double sum = 0;

    for (int64_t block = 0; block < w->dim[1]; block += MXFP4_BLOCK) {
        double largest = 0, fraction;
        int exponent;

        for (int64_t c = block; c < block + MXFP4_BLOCK;
             c++) /* fmax() here crashes gcc 12 for Arm */
            if (fabs((double)x[c]) > largest)
                largest = fabs((double)x[c]);
        fraction = frexp(largest, &exponent); /* 448 = 0.875 * 2^9 */
        exponent -= fraction > 0.875 ? 8 : 9;
        for (int64_t c = block; c < block + MXFP4_BLOCK; c++)
            sum += naive_weight(w, 0, r, c) *
                   ldexp(naive_round(ldexp((double)x[c], -exponent), 4, -5), exponent);
    }
    return sum;
}

/* ---- batches ---- */

static enum phase phase_of(int row, int n_rows)
{
    return row < (under.mixture == ALL_PROMPT          ? 0
                  : under.mixture == A_THIRD_GENERATED ? (n_rows + 2) / 3
                                                       : n_rows)
               ? PHASE_DECODE
               : PHASE_PREFILL;
}

struct batch *batch_of(const struct span *spans, int n, int n_samples, int window_tokens)
{
    struct batch_counts counts = {.n_seqs = n, .n_samples = n_samples};
    int row = 0, entry = 0;
    struct batch *b;

    for (int i = 0; i < n; i++) {
        counts.n_rows += spans[i].n_rows;
        counts.n_pages += (spans[i].first_position + spans[i].n_rows) / PAGE_TOKENS + 1;
    }
    counts.n_pages *= N_PAGE_GROUPS;
    b = batch_init(mem_new((size_t)batch_bytes(counts)), counts);
    for (int i = 0; i < n; i++) {
        struct batch_seq *s = (struct batch_seq *)BATCH_SEQS(b) + i;
        const int last = spans[i].first_position + spans[i].n_rows - 1;
        const int seen = spans[i].first_position - window_tokens + 1;

        *s = (struct batch_seq){.first_row = row, .n_rows = spans[i].n_rows};
        for (int g = 0; g < N_PAGE_GROUPS; g++) {
            s->first_page[g] = window_tokens > 0 && seen > 0 ? seen / PAGE_TOKENS : 0;
            s->table[g] = entry;
            s->n_pages[g] = last / PAGE_TOKENS + 1 - s->first_page[g];
            for (int p = 0; p < s->n_pages[g]; p++, entry++)
                ((int32_t *)BATCH_PAGES(b))[entry] = counts.n_pages - 1 - entry;
        }
        for (int k = 0; k < spans[i].n_rows; k++, row++) {
            ((int32_t *)BATCH_POSITIONS(b))[row] = spans[i].first_position + k;
            ((int32_t *)BATCH_ROW_SEQ(b))[row] = i;
            ((int32_t *)BATCH_PHASES(b))[row] = (int32_t)phase_of(row, counts.n_rows);
        }
    }
    return b;
}

struct batch *rows_batch(int n_rows, int n_samples)
{
    return batch_of(&(struct span){0, n_rows}, 1, n_samples, 0);
}

/* ---- a stage's cases ---- */

/* 224: the kernels of many decode rows (cuda/decode/decode_sm90.cuh) begin at 129 to 209. */
static const int all_counts[ROW_COUNTS] = {1, 2, 3, 4,  5,  15, 16,  17,  224,
                                           7, 8, 9, 63, 64, 65, 127, 128, 129};
static const int quick_counts[ROW_COUNTS_QUICK] = {1, 5, 17, 65, 224};
const enum dtype plain_types[2] = {DTYPE_F32, DTYPE_BF16};
const enum dtype kv_types[KV_TYPES] = {DTYPE_F32, DTYPE_BF16, DTYPE_F8, DTYPE_I16};

void choose_row_counts(void)
{
    under.row_counts = under.is_quick ? quick_counts : all_counts;
    under.n_row_counts = under.is_quick       ? ROW_COUNTS_QUICK
                         : under.is_in_worker ? ROW_COUNTS
                                              : ROW_COUNTS_CPU;
}

struct rope some_rope(int head_dim)
{
    struct rope rope = {.head_dim = head_dim, .concentration = 1.25f};

    for (int i = 0; i < head_dim / 2; i++)
        rope.inverse_frequency[i] = (float)pow(0.5, i);
    return rope;
}

struct tensor cache_of(enum dtype dtype, int n_pages, int n_heads, int head_dim)
{
    struct tensor t = {
        .dtype = dtype, .n_dims = 5, .dim = {n_pages, 2, n_heads, PAGE_TOKENS, head_dim}};

    t.data = alloc_poisoned(2 * n_pages * n_heads * naive_side_bytes(&t));
    return t;
}
