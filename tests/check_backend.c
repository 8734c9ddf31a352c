/* The stage harness: every stage of a device, alone, over shapes at the edges of tiles, pages and
 * windows, against tests/naive.h; then the same stages timed at the shapes of gpt-oss-20b. Prints the
 * largest error of each stage, and its GB/s and Gflop/s as the device counts them, with the share of
 * what reading memory alone reaches in the same run. Fails when an error passes the limit. All levels
 * of the CPU's kernels that this machine has, or one. Of a device with memory of its own, the stage's
 * tensors are brought there, poison included, and back; its draws are held against the CPU's.
 *
 *     check_backend [DEVICE [N_THREADS [LEVEL [STAGE]]]]     default: cpu, 2, all, all; on cuda LEVEL may be
 *                                                            mxfp8: prompts' rows with MXFP4 weights
 *
 * CHECK_QUICK in the environment leaves the timing out, for builds with sanitizers. */
#include <stdio.h>
#include <string.h>

#include "backend/backend.h"
#include "base/clock.h"
#include "base/pool.h"
#include "base/rng.h"
#include "cpu/kernels.h"
#include "naive.h"
#include "worst.h"

enum { ROWS_MAX = 130, SAMPLES_MAX = 130, BLOCK_MAX = 512 };

/* |found - expected| / (1 + |expected|): sums of up to 3,000 products in f32 stay below 1e-5. */
static const double ERROR_MAX = 2e-5;
/* Of the experts where their inputs are int8 or bf16, the root of the mean square of errors over that
 * of the values: each of two products rounds its inputs to 1/254 of the largest of 32, which is about
 * 0.5 % of a typical one (or to 1/512 of each), and the gates between them double that at worst. */
static const double RELATIVE_ERROR_MAX = 0.02;
/* |found - expected| / (1 + |expected|) of attention where weights are rounded to bf16: each by 2^-9 of
 * itself, with values of up to 2.5. */
static const double WEIGHTS_ERROR_MAX = 4e-3;

/* The same where queries and weights become integers: the largest scores are 20, and an element is rounded to
 * 1/11,500 of the root of the mean square. */
static const double CODES_ERROR_MAX = 5e-4;
/* Of rows as MXFP8: numbers of e4m3 are off by up to 1/16, and by 2.6 % on the average of squares; the rest
 * is as above. */
static const double MXFP8_ERROR_MAX = 0.1;

static const struct backend_ops *ops;
static struct backend *device;
static double stage_error;     /* largest of the stage at hand */
static bool has_int8;          /* the level at hand */
static bool has_rounding;      /* it rounds what meets BF16 weights to bf16, but for the router */
static bool is_elsewhere;      /* the device has memory of its own; what meets MXFP4 is fp16 */
static bool is_mxfp8;          /* the device rounds prompts' rows to MXFP8 for MXFP4 weights */
static double mxfp8_error;     /* largest relative error of a case with such rows */
static double weights_error;   /* largest error of a row with rounded weights */
static double int8_error;      /* largest relative error of a case with int8 inputs */
static bool has_codes;         /* the level meets pages of I16 with integers */
static double codes_error;     /* largest of attention with them */
static uint64_t n_fills;       /* every tensor gets numbers of its own */
static const char *only_stage; /* NULL: all */
static enum dtype kv_timed;    /* the level's own type of KV cache: its time is printed */

static void must(enum osp_status st)
{
    if (st != OSP_OK) {
        fprintf(stderr, "%s: %s\n", status_name(st), fail_message());
        exit(2);
    }
}

static void note(double found, double expected)
{
    stage_error = worst_of(stage_error, fabs(found - expected) / (1 + fabs(expected)));
}

static void note_wrong(const char *what, int64_t found, int64_t expected)
{
    if (found == expected)
        return;
    printf("    %s: found %lld, expected %lld\n", what, (long long)found, (long long)expected);
    stage_error = INFINITY;
}

/* ---- tensors ---- */

static void *room(int64_t size_bytes)
{
    void *data;

    must(mem_try_aligned(&data, (size_t)size_bytes + 1, 1, "a tensor"));
    memset(data, 0xFF, (size_t)size_bytes + 1); /* NaN in every float type */
    return data;
}

static struct tensor shaped(enum dtype dtype, int n_dims, const int64_t *dim)
{
    struct tensor t = {.dtype = dtype, .n_dims = n_dims};
    int64_t n;

    memcpy(t.dim, dim, (size_t)n_dims * sizeof(*dim));
    n = tensor_elements(&t);
    t.data = room(dtype == DTYPE_MXFP4 ? n / 2 : tensor_bytes(&t));
    if (dtype == DTYPE_MXFP4)
        t.scales = room(n / MXFP4_BLOCK);
    return t;
}
#define SHAPED(dtype, ...)                                                                         \
    shaped(dtype, (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)),                       \
           (int64_t[]){__VA_ARGS__})

static void drop(struct tensor *t)
{
    free(t->data);
    free((void *)(uintptr_t)t->scales);
    *t = (struct tensor){0};
}

/* Uniform, with this standard deviation. */
static float random_at(int64_t i, double deviation)
{
    return (float)((rng_uniform(n_fills, (uint64_t)i, 0) - 0.5) * 3.4641 * deviation);
}

static void fill(struct tensor *t, double deviation)
{
    const int64_t n = tensor_elements(t);
    const int exponent = (int)lround(log2(deviation / 2.93)); /* 2.93: deviation of e2m1 codes */

    n_fills++;
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
#define FILLED(deviation, dtype, ...) filled(SHAPED(dtype, __VA_ARGS__), deviation)

/* The weight as the device wants it; what it packs is kept until the device closes. */
static struct tensor packed(const struct tensor *host)
{
    struct tensor t;

    must(ops->pack(device, &t, host));
    return t;
}

static struct tensor filled(struct tensor t, double deviation)
{
    fill(&t, deviation);
    return t;
}

static float f32_at(const struct tensor *t, int64_t i)
{
    return ((const float *)t->data)[i];
}

static const float *row_of(const struct tensor *t, int64_t row)
{
    return (const float *)t->data + row * t->dim[1];
}

/* Row r of a matrix times x, as the level rounds it. */
static double rounded_dot(const struct tensor *w, int64_t r, const float *x)
{
    const bool is_bf16 = has_rounding && w->dtype == DTYPE_BF16;
    const bool is_fp16 = is_elsewhere && w->dtype == DTYPE_MXFP4;
    double sum = 0;

    if (!is_bf16 && !is_fp16)
        return naive_dot(w, 0, r, x);
    for (int64_t c = 0; c < w->dim[1]; c++)
        sum += naive_weight(w, 0, r, c) *
               (is_bf16 ? naive_round((double)x[c], 8, -125) : naive_round((double)x[c], 11, -13));
    return sum;
}

/* Row r of an MXFP4 matrix times x as MXFP8: blocks of 32 under the smallest power of two by which all of
 * them are within 448. */
static double mxfp8_dot(const struct tensor *w, int64_t r, const float *x)
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

struct span {
    int first_position, n_rows;
};

/* Of which kinds the rows of batches are: a device may have kernels for each. */
static enum mixture { ALL_PROMPT, A_THIRD_GENERATED, ALL_GENERATED, N_MIXTURES } mixture;
static const char *const mixture_names[N_MIXTURES] = {"prompts", "both kinds", "generated rows"};

static enum row_kind kind_of(int row, int n_rows)
{
    return row < (mixture == ALL_PROMPT          ? 0
                  : mixture == A_THIRD_GENERATED ? (n_rows + 2) / 3
                                                 : n_rows)
               ? ROW_GENERATED
               : ROW_PROMPT;
}

/* Sequences with pages for all their positions, or for those that the window reaches; the pages are
 * numbered from the end of the pool. */
static struct batch *batch_of(const struct span *spans, int n, int n_samples, int window_tokens)
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
            ((int32_t *)BATCH_KINDS(b))[row] = (int32_t)kind_of(row, counts.n_rows);
        }
    }
    return b;
}

static struct batch *rows_batch(int n_rows, int n_samples)
{
    return batch_of(&(struct span){0, n_rows}, 1, n_samples, 0);
}

static int n_repeats = 1; /* of every stage that runs: more while it is timed */
static uint64_t best_ns;  /* of the last stage's repeats */

static void note_time(uint64_t start_ns, bool is_first)
{
    const uint64_t ns = clock_ns() - start_ns;

    best_ns = is_first || ns < best_ns ? ns : best_ns;
}

/* ---- the stages' tensors, for a device with memory of its own ---- */

enum role { WEIGHT, ROWS, CACHE };

struct member {
    size_t offset; /* of the tensor in the stage's arguments */
    enum role role;
};

/* X(member, role) */
#define MEMBERS_embed(X) X(x, ROWS) X(y, ROWS) X(table, WEIGHT) X(norm, WEIGHT)
#define MEMBERS_attn_in(X)                                                                         \
    X(q, ROWS)                                                                                     \
    X(kv, CACHE)                                                                                   \
    X(y, ROWS)                                                                                     \
    X(wqkv[0], WEIGHT)                                                                             \
    X(wqkv[1], WEIGHT)                                                                             \
    X(wqkv[2], WEIGHT)                                                                             \
    X(bqkv[0], WEIGHT) X(bqkv[1], WEIGHT) X(bqkv[2], WEIGHT) X(kv_rows, ROWS)
#define MEMBERS_attn(X)     X(att, ROWS) X(q, ROWS) X(kv, CACHE) X(sinks, WEIGHT)
#define MEMBERS_attn_out(X) X(h, ROWS) X(att, ROWS) X(wo, WEIGHT) X(bo, WEIGHT)
#define MEMBERS_join(X)     X(x, ROWS) X(y, ROWS) X(h, ROWS) X(norm, WEIGHT)
#define MEMBERS_route(X)                                                                           \
    X(ids, ROWS) X(gates, ROWS) X(y, ROWS) X(wr, WEIGHT) X(br, WEIGHT) X(scores, ROWS)
#define MEMBERS_experts(X)                                                                         \
    X(h, ROWS)                                                                                     \
    X(y, ROWS)                                                                                     \
    X(ids, ROWS)                                                                                   \
    X(gates, ROWS)                                                                                 \
    X(w_up, WEIGHT)                                                                                \
    X(b_up, WEIGHT) X(w_down, WEIGHT) X(b_down, WEIGHT) X(units, ROWS) X(parts, ROWS)
#define MEMBERS_logits(X) X(logits, ROWS) X(y, ROWS) X(head, WEIGHT)
#define MEMBERS_sample(X) X(tokens, ROWS) X(logprobs, ROWS) X(logits, ROWS)

#define STAGE_MEMBERS(stage)                                                                       \
    typedef struct stage##_args args_of_##stage;                                                   \
    static const struct member members_##stage[] = {MEMBERS_##stage(MEMBER_OF_##stage)};
#define MEMBER_OF(stage, name, role_)                                                              \
    {.offset = offsetof(struct stage##_args, name), .role = role_},
#define MEMBER_OF_embed(name, role)    MEMBER_OF(embed, name, role)
#define MEMBER_OF_attn_in(name, role)  MEMBER_OF(attn_in, name, role)
#define MEMBER_OF_attn(name, role)     MEMBER_OF(attn, name, role)
#define MEMBER_OF_attn_out(name, role) MEMBER_OF(attn_out, name, role)
#define MEMBER_OF_join(name, role)     MEMBER_OF(join, name, role)
#define MEMBER_OF_route(name, role)    MEMBER_OF(route, name, role)
#define MEMBER_OF_experts(name, role)  MEMBER_OF(experts, name, role)
#define MEMBER_OF_logits(name, role)   MEMBER_OF(logits, name, role)
#define MEMBER_OF_sample(name, role)   MEMBER_OF(sample, name, role)
STAGE_LIST(STAGE_MEMBERS)

enum { MEMBERS_MAX = 16 };

/* A stage's arguments on their way. */
struct mirror {
    const struct member *members;
    int n;
    struct mem mem[MEMBERS_MAX];
};

static struct tensor *tensor_at(void *args, const struct member *m)
{
    return (struct tensor *)(void *)((char *)args + m->offset);
}

static size_t bytes_of(const struct tensor *t, enum role role)
{
    if (role != CACHE)
        return (size_t)tensor_bytes(t);
    return (size_t)(2 * t->dim[0] * t->dim[2] * naive_side_bytes(t));
}

/* Changes the tensors of args to such of the device with the same contents. */
static void move_there(struct mirror *m, void *args)
{
    for (int i = 0; i < m->n && is_elsewhere; i++) {
        struct tensor *t = tensor_at(args, &m->members[i]);
        const struct tensor host = *t;

        if (m->members[i].role == WEIGHT) {
            if (t->layout != LAYOUT_PACKED)
                must(ops->pack(device, t, &host));
            continue;
        }
        must(ops->alloc(device, &m->mem[i], bytes_of(t, m->members[i].role)));
        t->data = m->mem[i].data;
        must(ops->write(device, t->data, host.data, m->mem[i].size_bytes));
    }
}

/* Brings what the stage wrote to the tensors of `args` from those of `there`. */
static void move_back(struct mirror *m, const void *args, void *there)
{
    for (int i = 0; i < m->n && is_elsewhere; i++) {
        void *host = tensor_at((void *)(uintptr_t)args, &m->members[i])->data;

        if (m->members[i].role == WEIGHT)
            continue;
        must(ops->read(device, host, tensor_at(there, &m->members[i])->data, m->mem[i].size_bytes));
        ops->release(device, &m->mem[i]);
    }
}

/* Runs one stage over a batch. */
#define RUN(stage, batch, args)                                                                    \
    do {                                                                                           \
        struct mirror mirror = {                                                                   \
            members_##stage, sizeof(members_##stage) / sizeof(members_##stage[0]), {{0}}};         \
        args_of_##stage there = *(args);                                                           \
                                                                                                   \
        move_there(&mirror, &there);                                                               \
        for (int run = 0; run < n_repeats; run++) {                                                \
            enum step step;                                                                        \
            uint64_t ticket, start_ns;                                                             \
                                                                                                   \
            must(ops->step_begin(device, batch, &step));                                           \
            start_ns = clock_ns();                                                                 \
            must(ops->stage(device, &there));                                                      \
            must(ops->step_end(device, &ticket));                                                  \
            must(ops->step_wait(device, ticket));                                                  \
            note_time(start_ns, run == 0);                                                         \
        }                                                                                          \
        move_back(&mirror, args, &there);                                                          \
    } while (0)

/* One token, tiles of 2, 4, 8 and 16, and one more or less; of a device elsewhere blocks of 64 and 128
 * too. */
static const int row_counts[] = {1, 2, 3, 4,  5,  15, 16,  17,  130,
                                 7, 8, 9, 63, 64, 65, 127, 128, 129};
static int n_row_counts;

static const enum dtype plain_types[] = {DTYPE_F32, DTYPE_BF16};

/* ---- the stages' cases ---- */

static void check_embed(void)
{
    enum { V = 37, C = 100 };

    for (int i = 0; i < n_row_counts; i++) {
        const int T = row_counts[i];
        struct batch *b = rows_batch(T, 1);
        struct embed_args a = {.x = SHAPED(DTYPE_F32, T, C),
                               .y = SHAPED(DTYPE_F32, T, C),
                               .table = FILLED(1, plain_types[i % 2], V, C),
                               .norm = FILLED(1, plain_types[i / 2 % 2], C),
                               .eps = 1e-5f};
        double x[C], y[C];

        for (int t = 0; t < T; t++)
            ((int32_t *)BATCH_TOKENS(b))[t] = (t * 29 + V - 1) % V;
        RUN(embed, b, &a);
        for (int t = 0; t < T; t++) {
            for (int c = 0; c < C; c++) {
                x[c] = naive_weight(&a.table, 0, BATCH_TOKENS(b)[t], c);
                note(f32_at(&a.x, t * C + c), x[c]);
            }
            naive_norm(y, x, &a.norm, C, 1e-5);
            for (int c = 0; c < C; c++)
                note(f32_at(&a.y, t * C + c), y[c]);
        }
        drop(&a.x), drop(&a.y), drop(&a.table), drop(&a.norm);
        free(b);
    }
}

/* The distance of neighbours among the numbers of E4M3 near x. */
static double naive_f8_step(double x)
{
    int exponent;

    frexp(x, &exponent);
    return ldexp(1, (exponent < -5 ? -5 : exponent) - 4);
}

/* Any integer that a page may hold; some slots have the largest, so that sums come near their limit. */
static int16_t some_code(int which, int D, int64_t i)
{
    const double limit = which == 0 ? fmin(32767, 46200 / sqrt(D)) : 16383;
    const double share = (double)random_at(i, 1) / 1.7321;

    return (int16_t)(limit * (i / D % 11 == 3 ? copysign(1, share) : share));
}

/* A number of the fill at hand, in the type of the cache. */
static void put_element(struct naive_element e, enum dtype dtype, int which, int D, int64_t i)
{
    const float value = random_at(i, 1);
    uint32_t bits;

    memcpy(&bits, &value, sizeof(bits));
    if (dtype == DTYPE_F32)
        memcpy(e.at, &value, sizeof(value));
    else if (dtype == DTYPE_BF16)
        *(uint16_t *)e.at = (uint16_t)(bits >> 16);
    else if (dtype == DTYPE_I16) {
        *(int16_t *)e.at = some_code(which, D, i);
        *e.scale = (float)(1e-4 + 1e-5 * (double)(i / D % 7));
    } else {
        *e.at = (char)((bits >> 8) % 0x7F | (bits >> 24 & 0x80)); /* any code but NaN */
        *e.scale = (float)(0.005 + 0.0001 * (double)(i / 64 % 7));
    }
}

/* Frequencies of any kind: what matters here is where they are used. */
static struct rope some_rope(int head_width)
{
    struct rope rope = {.head_width = head_width, .concentration = 1.25f};

    for (int i = 0; i < head_width / 2; i++)
        rope.inverse_frequency[i] = (float)pow(0.5, i);
    return rope;
}

static const enum dtype kv_types[] = {DTYPE_F32, DTYPE_BF16, DTYPE_F8, DTYPE_I16};
static int n_kv_types; /* that the device has */

/* A KV cache full of NaN. */
static struct tensor cache_of(enum dtype dtype, int n_pages, int n_heads, int head_width)
{
    struct tensor t = {
        .dtype = dtype, .n_dims = 5, .dim = {n_pages, 2, n_heads, PAGE_TOKENS, head_width}};

    t.data = room(2 * n_pages * n_heads * naive_side_bytes(&t));
    return t;
}

static void compare_q(const struct attn_in_args *a, const struct batch *b, int row)
{
    const int D = a->rope->head_width;
    double head[256];

    for (int h = 0; h < (int)a->wqkv[0].dim[0] / D; h++) {
        for (int d = 0; d < D; d++)
            head[d] = rounded_dot(&a->wqkv[0], h * D + d, row_of(&a->y, row)) +
                      naive_at(&a->bqkv[0], h * D + d);
        naive_rotate(head, a->rope, BATCH_POSITIONS(b)[row]);
        for (int d = 0; d < D; d++)
            note((double)row_of(&a->q, row)[h * D + d], head[d]);
    }
}

/* What a row's key or value element should be. */
static double expected_kv(const struct attn_in_args *a, const struct batch *b, int row, int which,
                          int head, int d)
{
    const struct tensor *w = &a->wqkv[1 + which];
    const int D = a->rope->head_width;
    double all[256];

    for (int i = 0; i < D; i++)
        all[i] = rounded_dot(w, head * D + i, row_of(&a->y, row)) +
                 naive_at(&a->bqkv[1 + which], head * D + i);
    if (which == 0)
        naive_rotate(all, a->rope, BATCH_POSITIONS(b)[row]);
    return all[d];
}

/* Of a cache of F32 the values count; the others must hold exactly what rounding its values gives. */
static void compare_kv(const struct attn_in_args *a, const struct attn_in_args *f32,
                       const struct batch *b, int row, int which, int head)
{
    const int D = a->rope->head_width, slot = BATCH_POSITIONS(b)[row] % PAGE_TOKENS;
    const int64_t page = naive_page(b, BATCH_ROW_SEQ(b)[row], a->group, BATCH_POSITIONS(b)[row]);
    const double scale = (double)*naive_element(&a->kv, page, which, head, slot, 0).scale;
    double largest = 0, squares = 0;

    for (int d = 0; d < D; d++) {
        const double found = naive_kv(&a->kv, page, which, head, slot, d);
        const double exact = naive_kv(&f32->kv, page, which, head, slot, d);

        largest = fabs(exact) > largest ? fabs(exact) : largest;
        squares += exact * exact;
        if (a->kv.dtype == DTYPE_F32)
            note(found, expected_kv(a, b, row, which, head, d));
        else if (a->kv.dtype == DTYPE_BF16)
            note_wrong("bf16 of a key or value", found == naive_round(exact, 8, -126), true);
        else if (a->kv.dtype == DTYPE_I16)
            note_wrong("i16 of a key or value", fabs(found - exact) <= 0.503 * scale,
                       true); /* the product of 24 bits */
        else /* the division of our side is not theirs: near a tie either side will do */
            note_wrong("f8 of a key or value",
                       fabs(found - exact) <= 1.00001 * scale * naive_f8_step(exact / scale) / 2,
                       true);
    }
    if (a->kv.dtype == DTYPE_F8)
        note(scale, largest / 448);
    if (a->kv.dtype == DTYPE_I16)
        note(scale / (which == 1 ? largest / 16383 : fmax(sqrt(squares) / 46200, largest / 32767)),
             1);
}

/* Slots of the cache that hold something after the stage: exactly those of the rows. */
static int64_t count_written(const struct tensor *kv)
{
    int64_t n = 0;

    for (int page = 0; page < kv->dim[0]; page++)
        for (int which = 0; which < 2; which++)
            for (int head = 0; head < kv->dim[2]; head++)
                for (int slot = 0; slot < PAGE_TOKENS; slot++)
                    n += !isnan(naive_kv(kv, page, which, head, slot, 0));
    return n;
}

static void compare_attn_in(const struct attn_in_args *a, const struct attn_in_args *f32,
                            const struct batch *b)
{
    for (int row = 0; row < b->n_rows; row++) {
        compare_q(a, b, row);
        for (int which = 0; which < 2; which++)
            for (int head = 0; head < a->kv.dim[2]; head++)
                compare_kv(a, f32, b, row, which, head);
    }
    note_wrong("slots written", count_written(&a->kv), (int64_t)2 * a->kv.dim[2] * b->n_rows);
}

static void check_attn_in_case(const struct span *spans, int n_spans, int H, int K, int D, int C,
                               enum dtype dtype)
{
    struct batch *b = batch_of(spans, n_spans, 1, 0);
    const struct rope rope = some_rope(D);
    const int T = b->n_rows;
    struct attn_in_args a = {
        .q = SHAPED(DTYPE_F32, T, H * D),
        .kv = cache_of(DTYPE_F32, b->n_pages, K, D),
        .y = FILLED(1, DTYPE_F32, T, C),
        .wqkv = {FILLED(0.1, dtype, H * D, C), FILLED(0.1, dtype, K * D, C),
                 FILLED(0.1, dtype, K * D, C)},
        .bqkv = {FILLED(1, dtype, H * D), FILLED(1, dtype, K * D), FILLED(1, dtype, K * D)},
        .rope = &rope,
        .group = GROUP_WINDOW,
        .kv_rows = SHAPED(DTYPE_F32, T, 2 * K * D)};

    for (int i = 0; i < n_kv_types; i++) {
        struct attn_in_args typed = a;

        if (i > 0)
            typed.kv = cache_of(kv_types[i], b->n_pages, K, D);
        RUN(attn_in, b, &typed);
        compare_attn_in(&typed, &a, b);
        if (i > 0)
            drop(&typed.kv);
    }
    for (int i = 0; i < 3; i++)
        drop(&a.wqkv[i]), drop(&a.bqkv[i]);
    drop(&a.q), drop(&a.kv), drop(&a.y), drop(&a.kv_rows);
    free(b);
}

static void check_attn_in(void)
{
    const struct span one = {63, 3}, three[] = {{0, 1}, {62, 5}, {4095, 17}}, far = {131069, 3};

    check_attn_in_case(&one, 1, 4, 4, 32, 64, DTYPE_BF16);
    check_attn_in_case(three, 3, 8, 1, 64, 96, DTYPE_BF16);
    check_attn_in_case(three, 3, 6, 2, 40, 36, DTYPE_F32);
    check_attn_in_case(three, 3, 4, 2, 18, 36, DTYPE_F32);
    check_attn_in_case(&far, 1, 2, 1, 64, 32, DTYPE_BF16);
}

/* Random keys and values at the positions of a sequence, from the first page on that the batch has;
 * all other slots and the columns beyond D stay NaN. */
static void fill_cache(struct tensor *kv, const struct batch *b, int seq, enum page_group group)
{
    const struct batch_seq *s = &BATCH_SEQS(b)[seq];
    const int last = BATCH_POSITIONS(b)[s->first_row + s->n_rows - 1];
    const int D = (int)kv->dim[4];

    for (int which = 0; which < 2; which++)
        for (int head = 0; head < kv->dim[2]; head++)
            for (int j = s->first_page[group] * PAGE_TOKENS; j <= last; j++)
                for (int d = 0; d < D; d++) {
                    const int64_t i = (((int64_t)j * 2 + which) * kv->dim[2] + head) * D + d;

                    put_element(naive_element(kv, naive_page(b, seq, group, j), which, head,
                                              j % PAGE_TOKENS, d),
                                kv->dtype, which, D, i + ((int64_t)seq << 40));
                }
}

static struct attn_args some_attn(const struct batch *b, enum dtype dtype, int H, int K, int D)
{
    struct attn_args a = {.att = SHAPED(DTYPE_F32, b->n_rows, H * D),
                          .q = FILLED(1, DTYPE_F32, b->n_rows, H * D),
                          .kv = cache_of(dtype, b->n_pages, K, D),
                          .sinks = FILLED(3, DTYPE_F32, H),
                          .scale = 0.3f,
                          .group = GROUP_WINDOW};

    n_fills++;
    for (int seq = 0; seq < b->n_seqs; seq++)
        fill_cache(&a.kv, b, seq, a.group);
    return a;
}

static void drop_attn(struct attn_args *a)
{
    drop(&a->att), drop(&a->q), drop(&a->kv), drop(&a->sinks);
}

/* A batch of one row of b, in the same pages. */
static struct batch *only_row(const struct batch *b, int row)
{
    const struct batch_counts counts = {.n_rows = 1, .n_seqs = 1, .n_pages = b->n_pages};
    struct batch *one = batch_init(mem_new((size_t)batch_bytes(counts)), counts);
    struct batch_seq *seq = (struct batch_seq *)BATCH_SEQS(one);

    *seq = BATCH_SEQS(b)[BATCH_ROW_SEQ(b)[row]];
    seq->first_row = 0;
    seq->n_rows = 1;
    ((int32_t *)BATCH_POSITIONS(one))[0] = BATCH_POSITIONS(b)[row];
    ((int32_t *)BATCH_KINDS(one))[0] = BATCH_KINDS(b)[row];
    memcpy((int32_t *)BATCH_PAGES(one), BATCH_PAGES(b), (size_t)b->n_pages * sizeof(int32_t));
    return one;
}

/* A row alone has the same bits as among the others. */
static void compare_alone(const struct attn_args *a, const struct batch *b, int row)
{
    const size_t row_bytes = (size_t)a->att.dim[1] * sizeof(float);
    struct batch *one = only_row(b, row);
    struct attn_args alone = *a;

    alone.q = SHAPED(DTYPE_F32, 1, a->q.dim[1]);
    alone.att = SHAPED(DTYPE_F32, 1, a->att.dim[1]);
    memcpy(alone.q.data, row_of(&a->q, row), row_bytes);
    RUN(attn, one, &alone);
    if (memcmp(alone.att.data, row_of(&a->att, row), row_bytes) != 0) {
        printf("    KV %s, window %d, position %d, kind %d: a row alone has other bits\n",
               dtype_name(a->kv.dtype), a->window_tokens, BATCH_POSITIONS(b)[row],
               BATCH_KINDS(b)[row]);
        stage_error = INFINITY;
    }
    drop(&alone.q), drop(&alone.att);
    free(one);
}

/* A device of its own rounds the queries and weights of prompts to bf16, in pages of 16 bits or less. */
static bool rounds_weights(const struct attn_args *a, const struct batch *b, int row)
{
    return is_elsewhere && a->kv.dtype != DTYPE_F32 && a->kv.dim[4] == 64 &&
           BATCH_KINDS(b)[row] == ROW_PROMPT;
}

static void note_codes(double found, double expected)
{
    const double error = fabs(found - expected) / (1 + fabs(expected));

    codes_error = worst_of(codes_error, error);
    if (!(error <= CODES_ERROR_MAX))
        stage_error = INFINITY;
}

static void compare_attn_row(const struct attn_args *a, const struct attn_args *rounded,
                             const struct batch *b, int row)
{
    const int D = (int)a->kv.dim[4], H = (int)(a->q.dim[1] / D);
    const bool is_rounded = rounds_weights(a, b, row);
    double att[256];

    for (int h = 0; h < H; h++) {
        naive_attend(att, is_rounded ? rounded : a, b, row, h);
        for (int d = 0; d < D; d++) {
            const double found = f32_at(&a->att, (int64_t)row * H * D + h * D + d);

            if (is_rounded)
                weights_error = worst_of(weights_error, fabs(found - att[d]) / (1 + fabs(att[d])));
            else if (has_codes && a->kv.dtype == DTYPE_I16)
                note_codes(found, att[d]);
            else
                note(found, att[d]);
        }
    }
}

static void compare_attn(const struct attn_args *a, const struct batch *b)
{
    struct attn_args rounded = *a;

    rounded.q = SHAPED(DTYPE_F32, a->q.dim[0], a->q.dim[1]);
    for (int64_t i = 0; i < tensor_elements(&a->q); i++)
        ((float *)rounded.q.data)[i] = (float)naive_round((double)f32_at(&a->q, i), 8, -125);
    for (int row = 0; row < b->n_rows; row++)
        compare_attn_row(a, &rounded, b, row);
    drop(&rounded.q);
}

static void check_attn_case(const struct span *spans, int n_spans, int H, int K, int D,
                            int window_tokens)
{
    struct batch *b = batch_of(spans, n_spans, 1, window_tokens);

    for (int i = 0; i < n_kv_types; i++) {
        struct attn_args a = some_attn(b, kv_types[i], H, K, D);

        a.window_tokens = window_tokens;
        ((float *)a.sinks.data)[0] = -INFINITY;
        RUN(attn, b, &a);
        compare_attn(&a, b);
        compare_alone(&a, b, b->n_rows / 2);
        compare_alone(&a, b, b->n_rows - 1);
        drop_attn(&a);
    }
    free(b);
}

static void check_attn(void)
{
    static const int windows[] = {0, 128, 1, 5};
    const struct span start = {0, 130}, page = {62, 4}, window = {126, 5}, far = {5000, 9};
    const struct span several[] = {{0, 1}, {63, 1}, {64, 1}, {127, 1}, {128, 1}, {129, 17}};
    const struct span split[] = {{510, 4}, {1023, 1}, {1024, 1}, {700, 1}}; /* borders of 512 */
    /* where a device may divide keys into more, or larger, parts */
    const struct span levels[] = {{286, 4}, {510, 4}, {1022, 4}, {2047, 2}, {4094, 3}, {8191, 2}};
    const struct span last = {131070, 2};

    for (int i = 0; i < 4; i++) {
        check_attn_case(&start, 1, 2, 2, 32, windows[i]);
        check_attn_case(&page, 1, 8, 1, 64, windows[i]);
        check_attn_case(&window, 1, 5, 5, 64, windows[i]);
        check_attn_case(&window, 1, 14, 2, 18, windows[i]);
        check_attn_case(several, 6, 6, 2, 40, windows[i]);
        check_attn_case(split, 4, 9, 1, 64, windows[i]);
        check_attn_case(&far, 1, 3, 1, 64, windows[i]);
        check_attn_case(levels, 6, 10, 1, 64, windows[i]);
    }
    check_attn_case(&last, 1, 8, 1, 64, 128);
    check_attn_case(&last, 1, 2, 1, 16, 0);
    if (weights_error > 0)
        printf("attention with rounded weights: error %.2g, limit %g\n", weights_error,
               WEIGHTS_ERROR_MAX);
    note_wrong("attention with rounded weights", weights_error <= WEIGHTS_ERROR_MAX, true);
}

static void check_attn_out_case(int T, int C, int Q, enum dtype dtype, enum dtype bias_dtype)
{
    struct batch *b = rows_batch(T, 1);
    struct attn_out_args a = {.h = SHAPED(DTYPE_F32, T, C),
                              .att = FILLED(1, DTYPE_F32, T, Q),
                              .wo = FILLED(0.1, dtype, C, Q),
                              .bo = FILLED(1, bias_dtype, C)};

    RUN(attn_out, b, &a);
    for (int t = 0; t < T; t++) {
        const bool is_coarse = is_mxfp8 && dtype == DTYPE_MXFP4 && BATCH_KINDS(b)[t] == ROW_PROMPT;

        for (int c = 0; c < C; c++)
            note(f32_at(&a.h, t * C + c),
                 (is_coarse ? mxfp8_dot : rounded_dot)(&a.wo, c, row_of(&a.att, t)) +
                     naive_at(&a.bo, c));
    }
    drop(&a.h), drop(&a.att), drop(&a.wo), drop(&a.bo);
    free(b);
}

/* MXFP4 where its products are exact but for the rounding of the inputs. */
static void check_attn_out(void)
{
    for (int i = 0; i < n_row_counts; i++) {
        check_attn_out_case(row_counts[i], 33 + 31 * (i % 2), 64 + 36 * (i % 3), plain_types[i % 2],
                            plain_types[i % 2]);
        if (is_elsewhere)
            check_attn_out_case(row_counts[i], 65 + 40 * (i % 3), 32 * (1 + i % 21), DTYPE_MXFP4,
                                DTYPE_BF16);
    }
}

static void check_join(void)
{
    enum { C = 2880 };
    double x[C], y[C];

    for (int i = 0; i < n_row_counts; i++) {
        const int T = row_counts[i];
        struct batch *b = rows_batch(T, 1);
        struct join_args a = {.x = FILLED(3, DTYPE_F32, T, C),
                              .y = SHAPED(DTYPE_F32, T, C),
                              .h = FILLED(1, DTYPE_F32, T, C),
                              .norm = FILLED(1, plain_types[i % 2], C),
                              .eps = 1e-5f};
        float *before = mem_new((size_t)T * C * sizeof(float));

        memcpy(before, a.x.data, (size_t)T * C * sizeof(float));
        RUN(join, b, &a);
        for (int t = 0; t < T; t++) {
            for (int c = 0; c < C; c++) {
                x[c] = (double)before[t * C + c] + (double)f32_at(&a.h, t * C + c);
                note(f32_at(&a.x, t * C + c), x[c]);
            }
            naive_norm(y, x, &a.norm, C, 1e-5);
            for (int c = 0; c < C; c++)
                note(f32_at(&a.y, t * C + c), y[c]);
        }
        free(before);
        drop(&a.x), drop(&a.y), drop(&a.h), drop(&a.norm);
        free(b);
    }
}

/* How many experts come before e: larger logit, or the same and a lower id. */
static int rank_of(const double *z, int n, int e)
{
    int rank = 0;

    for (int i = 0; i < n; i++)
        rank += z[i] > z[e] || (z[i] == z[e] && i < e);
    return rank;
}

static void compare_route(const struct route_args *a, int t)
{
    const int E = (int)a->wr.dim[0], A = (int)a->ids.dim[1];
    double z[BLOCK_MAX], total = 0;

    for (int e = 0; e < E; e++)
        z[e] = naive_dot(&a->wr, 0, e, row_of(&a->y, t)) + naive_at(&a->br, e);
    for (int i = 0; i < A; i++)
        total += exp(z[((const int32_t *)a->ids.data)[t * A + i]]);
    for (int i = 0; i < A; i++) {
        const int id = ((const int32_t *)a->ids.data)[t * A + i];

        note_wrong("rank of the chosen expert", rank_of(z, E, id), i);
        note(f32_at(&a->gates, t * A + i), exp(z[id]) / total);
    }
}

/* Every second expert is the one before it again: exact ties. */
static void check_route(void)
{
    static const struct {
        int E, A;
    } sizes[] = {{3, 1}, {5, 5}, {32, 4}, {128, 4}};
    enum { C = 96 };

    for (int i = 0; i < n_row_counts; i++) {
        const int T = row_counts[i], E = sizes[i % 4].E, A = sizes[i % 4].A;
        struct batch *b = rows_batch(T, 1);
        struct route_args a = {.ids = SHAPED(DTYPE_I32, T, A),
                               .gates = SHAPED(DTYPE_F32, T, A),
                               .y = FILLED(1, DTYPE_F32, T, C),
                               .wr = FILLED(0.1, DTYPE_BF16, E, C),
                               .br = FILLED(1, DTYPE_BF16, E),
                               .scores = SHAPED(DTYPE_F32, T, E)};

        for (int e = 0; e + 1 < E; e += 2) {
            memcpy((uint16_t *)a.wr.data + (e + 1) * C, (uint16_t *)a.wr.data + e * C, 2 * C);
            ((uint16_t *)a.br.data)[e + 1] = ((uint16_t *)a.br.data)[e];
        }
        RUN(route, b, &a);
        for (int t = 0; t < T; t++)
            compare_route(&a, t);
        drop(&a.ids), drop(&a.gates), drop(&a.y), drop(&a.wr), drop(&a.br), drop(&a.scores);
        free(b);
    }
}

/* Who goes where: all tokens to the same experts, experts that nobody wants, and a mixture. */
enum spread { SPREAD_ONE, SPREAD_EVEN, SPREAD_RANDOM, N_SPREADS };

static int32_t chosen(enum spread spread, int token, int rank, int E)
{
    const int start = spread == SPREAD_ONE ? E - 1
                      : spread == SPREAD_EVEN
                          ? 2 * token
                          : (int)(rng_bits(5, (uint64_t)token, 0) % (uint64_t)E);

    return (int32_t)((start + rank) % E);
}

/* The same stage with the device's own weights. */
static struct experts_args on_device(const struct experts_args *host)
{
    struct experts_args a = *host;

    a.w_up = packed(&host->w_up);
    a.w_down = packed(&host->w_down);
    return a;
}

static struct experts_args some_experts(int T, int E, int A, int C, int F, enum dtype dtype)
{
    return (struct experts_args){.h = SHAPED(DTYPE_F32, T, C),
                                 .y = FILLED(1, DTYPE_F32, T, C),
                                 .ids = SHAPED(DTYPE_I32, T, A),
                                 .gates = FILLED(0.5, DTYPE_F32, T, A),
                                 .w_up = FILLED(4.0 / sqrt(C), dtype, E, 2 * F, C),
                                 .b_up = FILLED(1, DTYPE_BF16, E, 2 * F),
                                 .w_down = FILLED(1.0 / sqrt(F), dtype, E, C, F),
                                 .b_down = FILLED(1, DTYPE_BF16, E, C),
                                 .limit = 7,
                                 .alpha = 1.702f,
                                 .units = SHAPED(DTYPE_F32, T * A, F),
                                 .parts = SHAPED(DTYPE_F32, T * A, C)};
}

static void drop_experts(struct experts_args *a)
{
    drop(&a->h), drop(&a->y), drop(&a->ids), drop(&a->gates), drop(&a->w_up), drop(&a->b_up);
    drop(&a->w_down), drop(&a->b_down), drop(&a->units), drop(&a->parts);
}

/* Sums of squares. */
struct squares {
    double errors, values;
};

static void compare_experts(const struct experts_args *a, int t, struct squares *squares)
{
    const int A = (int)a->ids.dim[1], C = (int)a->h.dim[1];
    double sum[BLOCK_MAX] = {0}, part[BLOCK_MAX];

    for (int i = 0; i < A; i++) {
        naive_expert(part, a, ((const int32_t *)a->ids.data)[t * A + i], row_of(&a->y, t));
        for (int c = 0; c < C; c++)
            sum[c] += (double)f32_at(&a->gates, t * A + i) * part[c];
    }
    for (int c = 0; c < C; c++) {
        const double found = f32_at(&a->h, t * C + c);

        if (squares == NULL)
            note(found, sum[c]);
        else
            squares->errors += (found - sum[c]) * (found - sum[c]),
                squares->values += sum[c] * sum[c];
    }
}

/* One case's relative error, of its rows of each kind. */
static void note_squares(const struct squares s[2])
{
    for (int kind = 0; kind < 2; kind++) {
        const bool is_coarse = is_mxfp8 && kind == ROW_PROMPT;
        const double error = s[kind].values > 0 ? sqrt(s[kind].errors / s[kind].values) : 0;
        double *worst = is_coarse ? &mxfp8_error : &int8_error;

        *worst = worst_of(*worst, error);
        if (!(error <= (is_coarse ? MXFP8_ERROR_MAX : RELATIVE_ERROR_MAX)))
            stage_error = INFINITY;
    }
}

static void check_experts_case(int T, int E, int A, int C, int F, enum dtype dtype,
                               enum tensor_layout layout, enum spread spread)
{
    struct batch *b = rows_batch(T, 1);
    struct experts_args a = some_experts(T, E, A, C, F, dtype);

    const bool is_rounded = has_rounding && (is_elsewhere || layout == LAYOUT_ROWS);
    const bool is_coarse = dtype == DTYPE_MXFP4 ? has_int8 : is_rounded;
    struct squares squares[2] = {{0}}; /* of rows of each kind */
    struct experts_args ours;

    a.w_up.layout = a.w_down.layout = layout;
    for (int i = 0; i < T * A; i++)
        ((int32_t *)a.ids.data)[i] = chosen(spread, i / A, i % A, E);
    ours = on_device(&a);
    RUN(experts, b, &ours);
    for (int t = 0; t < T; t++)
        compare_experts(&a, t, is_coarse ? &squares[BATCH_KINDS(b)[t]] : NULL);
    if (is_coarse)
        note_squares(squares);
    drop_experts(&a);
    free(b);
}

static void check_experts(void)
{
    for (int i = 0; i < n_row_counts; i++)
        for (int spread = 0; spread < N_SPREADS; spread++) {
            const int T = row_counts[i];

            check_experts_case(T, 5, 2, 64, 32, DTYPE_MXFP4, LAYOUT_ROWS, (enum spread)spread);
            if (T > 17)
                continue;
            check_experts_case(T, 3, 1, 36, 36, DTYPE_BF16, LAYOUT_COLUMNS, (enum spread)spread);
            check_experts_case(T, 4, 4, 33, 21, DTYPE_BF16, LAYOUT_ROWS, (enum spread)spread);
            check_experts_case(T, 6, 3, 64, 160, DTYPE_MXFP4, LAYOUT_ROWS, (enum spread)spread);
        }
}

static void check_logits(void)
{
    enum { C = 96, V = 301 };

    for (int i = 0; i < n_row_counts; i++) {
        const int R = row_counts[i], T = R < 3 ? 3 : R;
        struct batch *b = rows_batch(T, R);
        struct logits_args a = {.logits = SHAPED(DTYPE_F32, R, V),
                                .y = FILLED(1, DTYPE_F32, T, C),
                                .head = FILLED(0.2, plain_types[i % 2], V, C)};

        for (int r = 0; r < R; r++) /* backwards, and some rows twice */
            ((struct batch_sample *)BATCH_SAMPLES(b))[r].row = T - 1 - r / 2;
        RUN(logits, b, &a);
        for (int r = 0; r < R; r++)
            for (int v = 0; v < V; v++)
                note(f32_at(&a.logits, r * V + v),
                     rounded_dot(&a.head, v, row_of(&a.y, T - 1 - r / 2)));
        drop(&a.logits), drop(&a.y), drop(&a.head);
        free(b);
    }
}

/* Settings of every kind, from hardly any to one of few candidates left. */
static struct batch_sample some_sample(int row)
{
    static const float shares[] = {1, 0.9f, 0.5f, 0.05f}, mins[] = {0, 0.1f};
    static const int counts[] = {0, 40, 3, 1000000};

    return (struct batch_sample){.row = row,
                                 .temperature = 0.5f + 0.25f * (float)(row % 5),
                                 .top_k = counts[row / 4 % 4],
                                 .top_p = shares[row % 4],
                                 .min_p = mins[row / 16 % 2],
                                 .position = (uint32_t)row,
                                 .seed = n_fills};
}

/* The tokens that the CPU draws with the same settings, seeds and logits. */
static void draw_on_cpu(int32_t *tokens, const struct sample_args *args, const struct batch *b)
{
    const struct backend_ops *cpu_ops = backend_find("cpu");
    const struct backend_options opt = {
        .n_threads = 2, .n_rows_max = ROWS_MAX, .n_samples_max = SAMPLES_MAX};
    struct sample_args a = *args;
    struct backend *cpu;
    enum step step;
    uint64_t ticket;

    a.tokens.data = tokens;
    must(cpu_ops->open(&cpu, &opt));
    must(cpu_ops->step_begin(cpu, b, &step));
    must(cpu_ops->sample(cpu, &a));
    must(cpu_ops->step_end(cpu, &ticket));
    must(cpu_ops->step_wait(cpu, ticket));
    cpu_ops->close(cpu);
}

/* The same tokens as the CPU's, but for a draw in a thousand that falls between two candidates: its
 * exponentials have other last bits. */
static void check_draws(int V)
{
    enum { R = SAMPLES_MAX, N_BATCHES = 8 };
    int32_t expected[R];
    int n_other = 0;

    for (int i = 0; i < N_BATCHES; i++) {
        struct batch *b = rows_batch(R, R);
        struct sample_args a = {.tokens = SHAPED(DTYPE_I32, R),
                                .logprobs = SHAPED(DTYPE_F32, R),
                                .logits = FILLED(3, DTYPE_F32, R, V),
                                .n_valid = V - i % 2};

        for (int r = 0; r < R; r++)
            ((struct batch_sample *)BATCH_SAMPLES(b))[r] = some_sample(r);
        draw_on_cpu(expected, &a, b);
        RUN(sample, b, &a);
        for (int r = 0; r < R; r++)
            n_other += ((const int32_t *)a.tokens.data)[r] != expected[r];
        drop(&a.tokens), drop(&a.logprobs), drop(&a.logits);
        free(b);
    }
    if (n_other > 1)
        note_wrong("draws that differ from the CPU's", n_other, 0);
}

/* Logits that are no numbers draw nothing. */
static void check_broken_logits(void)
{
    enum { V = 70, R = 4 };
    struct batch *b = rows_batch(R, R);
    struct sample_args a = {.tokens = SHAPED(DTYPE_I32, R),
                            .logprobs = SHAPED(DTYPE_F32, R),
                            .logits = FILLED(3, DTYPE_F32, R, V),
                            .n_valid = V - 1};

    ((float *)a.logits.data)[V - 1] = NAN; /* beyond the valid ids, and yet */
    ((float *)a.logits.data)[V + 3] = INFINITY;
    for (int v = 0; v < V; v++)
        ((float *)a.logits.data)[2 * V + v] = -INFINITY;
    for (int r = 0; r < R; r++)
        ((struct batch_sample *)BATCH_SAMPLES(b))[r] = some_sample(r);
    RUN(sample, b, &a);
    for (int r = 0; r < R; r++)
        note_wrong("a token of broken logits", ((const int32_t *)a.tokens.data)[r] < 0, r < 3);
    drop(&a.tokens), drop(&a.logprobs), drop(&a.logits);
    free(b);
}

/* Greedy, with the largest logit twice; how the draw itself works is tests/unit/test_sample.c's, and a
 * device elsewhere is held against the CPU. */
static void check_sample(void)
{
    static const int vocabs[] = {2, 3, 5, 257, 201088};

    for (int i = 0; i < 5; i++) {
        const int V = vocabs[i], R = 3;
        struct batch *b = rows_batch(R, R);
        struct sample_args a = {.tokens = SHAPED(DTYPE_I32, R),
                                .logprobs = SHAPED(DTYPE_F32, R),
                                .logits = FILLED(5, DTYPE_F32, R, V),
                                .n_valid = V};

        for (int r = 0; r < R; r++) {
            float *z = (float *)a.logits.data + (int64_t)r * V;
            const int first = (V - 1) * r / R;

            z[first] = z[V - 1] = 10;
            ((struct batch_sample *)BATCH_SAMPLES(b))[r] = (struct batch_sample){.row = r};
        }
        RUN(sample, b, &a);
        for (int r = 0; r < R; r++) {
            double total = 0;

            for (int v = 0; v < V; v++)
                total += exp((double)f32_at(&a.logits, (int64_t)r * V + v) - 10);
            note_wrong("token", ((const int32_t *)a.tokens.data)[r], (V - 1) * r / R);
            note(f32_at(&a.logprobs, r), -log(total));
        }
        drop(&a.tokens), drop(&a.logprobs), drop(&a.logits);
        free(b);
    }
    check_broken_logits();
    if (is_elsewhere) {
        check_draws(300);
        check_draws(5003);
    }
}

/* ---- time, at the shapes of gpt-oss-20b ---- */

enum { C20 = 2880, F20 = 2880, H20 = 64, K20 = 8, D20 = 64, E20 = 32, A20 = 4 };
enum { V20 = 201088 / 8 }; /* an eighth of the head: its time is proportional */
enum { CONTEXT = 4096, TIMED_RUNS = 3 };

static void time_attn_in(int T)
{
    struct batch *b = rows_batch(T, 1);
    const struct rope rope = some_rope(D20);
    const enum dtype t = DTYPE_BF16;
    struct attn_in_args a = {
        .q = SHAPED(DTYPE_F32, T, H20 * D20),
        .kv = cache_of(kv_timed, b->n_pages, K20, D20),
        .y = FILLED(1, DTYPE_F32, T, C20),
        .wqkv = {FILLED(0.02, t, H20 * D20, C20), FILLED(0.02, t, K20 * D20, C20),
                 FILLED(0.02, t, K20 * D20, C20)},
        .bqkv = {FILLED(1, t, H20 * D20), FILLED(1, t, K20 * D20), FILLED(1, t, K20 * D20)},
        .rope = &rope,
        .kv_rows = SHAPED(DTYPE_F32, T, 2 * K20 * D20)};

    RUN(attn_in, b, &a);
    for (int i = 0; i < 3; i++)
        drop(&a.wqkv[i]), drop(&a.bqkv[i]);
    drop(&a.q), drop(&a.kv), drop(&a.y), drop(&a.kv_rows);
    free(b);
}

static void time_attn(int T)
{
    struct batch *b = batch_of(&(struct span){CONTEXT - T, T}, 1, 1, 0);
    struct attn_args a = some_attn(b, kv_timed, H20, K20, D20);

    a.scale = 0.125f;
    RUN(attn, b, &a);
    drop_attn(&a);
    free(b);
}

static void time_attn_out(int T)
{
    struct batch *b = rows_batch(T, 1);
    struct attn_out_args a = {.h = SHAPED(DTYPE_F32, T, C20),
                              .att = FILLED(1, DTYPE_F32, T, H20 * D20),
                              .wo = FILLED(0.02, DTYPE_BF16, C20, H20 * D20),
                              .bo = FILLED(1, DTYPE_BF16, C20)};

    RUN(attn_out, b, &a);
    drop(&a.h), drop(&a.att), drop(&a.wo), drop(&a.bo);
    free(b);
}

static void time_join(int T)
{
    struct batch *b = rows_batch(T, 1);
    struct join_args a = {.x = FILLED(1, DTYPE_F32, T, C20),
                          .y = SHAPED(DTYPE_F32, T, C20),
                          .h = FILLED(1, DTYPE_F32, T, C20),
                          .norm = FILLED(1, DTYPE_F32, C20),
                          .eps = 1e-5f};

    RUN(join, b, &a);
    drop(&a.x), drop(&a.y), drop(&a.h), drop(&a.norm);
    free(b);
}

static void time_route(int T)
{
    struct batch *b = rows_batch(T, 1);
    struct route_args a = {.ids = SHAPED(DTYPE_I32, T, A20),
                           .gates = SHAPED(DTYPE_F32, T, A20),
                           .y = FILLED(1, DTYPE_F32, T, C20),
                           .wr = FILLED(0.02, DTYPE_BF16, E20, C20),
                           .br = FILLED(1, DTYPE_BF16, E20),
                           .scores = SHAPED(DTYPE_F32, T, E20)};

    RUN(route, b, &a);
    drop(&a.ids), drop(&a.gates), drop(&a.y), drop(&a.wr), drop(&a.br), drop(&a.scores);
    free(b);
}

static void time_experts(int T)
{
    const int E = T == 1 ? A20 : E20; /* one token reads four experts, wherever they lie */
    struct batch *b = rows_batch(T, 1);
    struct experts_args a = some_experts(T, E, A20, C20, F20, DTYPE_MXFP4), ours;

    for (int i = 0; i < T * A20; i++)
        ((int32_t *)a.ids.data)[i] = chosen(SPREAD_RANDOM, i / A20, i % A20, E);
    ours = on_device(&a);
    RUN(experts, b, &ours);
    drop_experts(&a);
    free(b);
}

static void time_logits(int T)
{
    struct batch *b = rows_batch(T, T < 8 ? T : 8);
    struct logits_args a = {.logits = SHAPED(DTYPE_F32, b->n_samples, V20),
                            .y = FILLED(1, DTYPE_F32, T, C20),
                            .head = FILLED(0.02, DTYPE_BF16, V20, C20)};

    RUN(logits, b, &a);
    drop(&a.logits), drop(&a.y), drop(&a.head);
    free(b);
}

/* ---- the run ---- */

/* X(stage): those that are timed too come with a time_ function */
static const struct {
    const char *stage;
    void (*check)(void);
    void (*time)(int n_rows); /* NULL: moves too little to matter */
} stages[] = {
    {"embed", check_embed, NULL},
    {"attn_in", check_attn_in, time_attn_in},
    {"attn", check_attn, time_attn},
    {"attn_out", check_attn_out, time_attn_out},
    {"join", check_join, time_join},
    {"route", check_route, time_route},
    {"experts", check_experts, time_experts},
    {"logits", check_logits, time_logits},
    {"sample", check_sample, NULL},
};
enum { N_STAGES = sizeof(stages) / sizeof(stages[0]) };

static struct stage_cost cost_of(const char *stage)
{
    struct stage_cost costs[32];
    const int n = ops->costs(device, costs, 32);

    for (int i = 0; i < n; i++)
        if (strcmp(costs[i].stage, stage) == 0)
            return costs[i];
    fprintf(stderr, "the device has no costs of %s\n", stage);
    exit(2);
}

/* The best of a few runs: other processes may be busy here. */
static void print_rate(int i, int n_rows, double read_gbs)
{
    const struct stage_cost before = cost_of(stages[i].stage);
    struct stage_cost after;
    double n_calls, ns, gbs;

    n_repeats = TIMED_RUNS;
    stages[i].time(n_rows);
    n_repeats = 1;
    after = cost_of(stages[i].stage);
    n_calls = (double)(after.n_calls - before.n_calls);
    ns = (double)best_ns;
    gbs = (after.bytes - before.bytes) / n_calls / ns;
    printf("   %3d rows %8.2f ms %6.1f GB/s (%3.0f %%) %6.1f Gflop/s", n_rows, ns * 1e-6, gbs,
           100 * gbs / read_gbs, (after.flops - before.flops) / n_calls / ns);
}

struct reading {
    const uint64_t *words;
    int64_t n_words;
    int n_parts;
    uint64_t sums[64];
};

static void probe_part(void *ctx, int part, int worker)
{
    struct reading *p = ctx;
    const int64_t n = p->n_words / p->n_parts;
    const uint64_t *words = p->words + part * n;
    uint64_t sums[8] = {0};

    (void)worker;
    for (int64_t i = 0; i + 8 <= n; i += 8)
        for (int k = 0; k < 8; k++)
            sums[k] += words[i + k];
    p->sums[part] = sums[0] + sums[1] + sums[2] + sums[3] + sums[4] + sums[5] + sums[6] + sums[7];
}

/* Bytes a nanosecond of threads that only read: the best of a few rounds. */
static double read_speed(int n_threads)
{
    struct reading p = {.n_words = 16 << 20, .n_parts = 64};
    struct pool *pool;
    uint64_t *words = room(p.n_words * 8), least_ns = UINT64_MAX;

    p.words = words;
    must(pool_open(&pool, n_threads));
    for (int i = 0; i < 4; i++) {
        const uint64_t start_ns = clock_ns();
        uint64_t ns;

        pool_run(pool, probe_part, &p, p.n_parts);
        ns = clock_ns() - start_ns;
        least_ns = ns < least_ns ? ns : least_ns;
    }
    pool_close(pool);
    free(words);
    return (double)p.n_words * 8 / (double)least_ns;
}

static void print_times(int i, double read_gbs)
{
    for (int n_rows = 1; n_rows <= 64 && stages[i].time != NULL; n_rows += 63)
        print_rate(i, n_rows, read_gbs);
}

/* Only the last type is not everywhere. */
static int count_kv_types(const struct backend_options *opt)
{
    enum { N = sizeof(kv_types) / sizeof(kv_types[0]) };
    enum dtype last = kv_types[N - 1];

    return ops->kv_dtype(opt, &last) == OSP_OK ? N : N - 1;
}

/* Gives the number of stages that fail. */
static int check_stages(double read_gbs)
{
    const bool is_timed = read_gbs > 0 && mixture == ALL_PROMPT;
    int n_failed = 0;

    for (int i = 0; i < N_STAGES; i++) {
        if (only_stage != NULL && strcmp(only_stage, stages[i].stage) != 0)
            continue;
        stage_error = 0;
        stages[i].check();
        printf("%-9s error %8.1e %s", stages[i].stage, stage_error,
               stage_error <= ERROR_MAX ? "ok  " : "FAIL");
        n_failed += !(stage_error <= ERROR_MAX);
        if (is_timed)
            print_times(i, read_gbs);
        printf("\n");
    }
    return n_failed;
}

/* The same of a level. */
static int check_level(const struct backend_options *opt, const struct kernels *level)
{
    const bool is_quick = getenv("CHECK_QUICK") != NULL;
    const double read_gbs = is_quick ? 0 : read_speed(opt->n_threads);
    struct device_info info;
    int n_failed = 0;

    is_elsewhere = level == NULL;
    has_int8 = level == NULL || level->products_int8 != NULL;
    has_rounding = level == NULL || level->products_rounded != NULL;
    has_codes = level != NULL && level->attend_i16 != NULL;
    n_row_counts = is_elsewhere ? (int)(sizeof(row_counts) / sizeof(row_counts[0])) : 9;
    int8_error = mxfp8_error = codes_error = 0;
    weights_error = 0;
    kv_timed = DTYPE_NONE;
    must(ops->kv_dtype(opt, &kv_timed));
    n_kv_types = count_kv_types(opt);
    must(ops->open(&device, opt));
    ops->info(device, &info);
    printf("%s, KV cache %s", info.name, dtype_name(kv_timed));
    if (!is_quick)
        printf("; reading memory alone: %.1f GB/s", read_gbs);
    printf("\n");
    for (mixture = ALL_PROMPT; mixture < (is_elsewhere ? N_MIXTURES : 1); mixture++) {
        if (is_elsewhere)
            printf("%s\n", mixture_names[mixture]);
        n_failed += check_stages(read_gbs);
    }
    if (has_int8)
        printf("experts with rounded inputs: relative error %.2g, limit %g\n", int8_error,
               RELATIVE_ERROR_MAX);
    if (is_mxfp8)
        printf("experts with rows as MXFP8: relative error %.2g, limit %g\n", mxfp8_error,
               MXFP8_ERROR_MAX);
    if (has_codes)
        printf("attention with integers: error %.2g, limit %g\n", codes_error, CODES_ERROR_MAX);
    ops->close(device);
    return n_failed;
}

static int check_levels(struct backend_options *opt, const char *only)
{
    const struct kernels *levels[KERNEL_LEVELS_MAX];
    const int n = kernels_here(levels);
    int n_failed = 0;

    for (int i = 0; i < n; i++)
        if (only == NULL || strcmp(only, "all") == 0 || strcmp(only, levels[i]->name) == 0) {
            opt->cpu_features = levels[i]->name;
            n_failed += check_level(opt, levels[i]);
        }
    return n_failed;
}

int main(int argc, char **argv)
{
    struct backend_options opt = {.n_threads = argc > 2 ? atoi(argv[2]) : 2,
                                  .n_rows_max = ROWS_MAX,
                                  .n_samples_max = SAMPLES_MAX};
    const char *name = argc > 1 ? argv[1] : "cpu";
    int n_failed;

    only_stage = argc > 4 ? argv[4] : NULL;
    ops = backend_find(name);
    if (ops == NULL)
        must(OSP_ENOTFOUND);
    is_mxfp8 = strcmp(name, "cpu") != 0 && argc > 3 && strcmp(argv[3], "mxfp8") == 0;
    opt.has_mxfp8_rows = is_mxfp8;
    n_failed = strcmp(name, "cpu") == 0 ? check_levels(&opt, argc > 3 ? argv[3] : NULL)
                                        : check_level(&opt, NULL);
    printf("%d stages failed; error limit %g of 1 + |value|\n", n_failed, ERROR_MAX);
    return n_failed > 0;
}
