/* The end of the context: the last 256 rows of a sequence that ends at position 131071, with the
 * heads of gpt-oss (64 queries, 8 keys and values, width 64) over seeded random pages, against
 * sums in double. Every row is checked in two of its heads, which differ from row to row, as
 * prefill rows and as decode rows, with and without a window. The same rows in other chunks must
 * have the same bits. Then the stage before attention: queries and keys rotated by gpt-oss's
 * frequencies at those positions.
 *
 *     check_long_context [DEVICE [N_THREADS]]     default: cpu, 2
 *
 * Without a GPU it checks 16 rows instead of 256: the CPU's attention would take a minute.
 * CHECK_QUICK in the environment, for builds with sanitizers: the sequence ends at position
 * 8191. */
#include <stdio.h>
#include <string.h>

#include "backend/backend.h"
#include "base/pool.h"
#include "base/rng.h"
#include "model/config.h"
#include "naive.h"
#include "worst.h"

enum {
    H = 64,
    K = 8,
    D = 64,
    C = 64, /* model width of the rotated rows; their matmul is not what is tested */
    END = 131072,
    QUICK_END = 8192,
    ROWS_MAX = 256,
    HEADS_CHECKED = 2
};

/* Relative to 1 + |value|. A GPU has bf16 queries and weights for prefill rows: the queries are
 * rounded here, too. */
static const double ERROR_MAX = 2e-5, ROUNDED_ERROR_MAX = 4e-3;

static const struct backend_ops *ops;
static struct backend *device;
static bool is_in_worker;
static int n_rows = 16;
static int n_end = END;   /* positions of the sequence */
static double *values[2]; /* keys and values as double: (K, n_end, D) */
static int n_failed;

static int n_pages(void)
{
    return n_end / PAGE_TOKENS;
}

static void must(enum osp_status st)
{
    if (st != OSP_OK) {
        fprintf(stderr, "%s: %s\n", status_name(st), fail_message());
        exit(2);
    }
}

static float random_at(uint64_t what, int64_t i)
{
    return (float)((rng_uniform(what, (uint64_t)i, 0) - 0.5) * 3.4641);
}

/* ---- tensors on the device ---- */

static struct tensor there(const struct tensor *host, int64_t size_bytes)
{
    struct tensor t = *host;
    struct mem mem;

    if (!is_in_worker)
        return t;
    must(ops->alloc(device, &mem, (size_t)size_bytes));
    must(ops->write(device, mem.data, host->data, (size_t)size_bytes));
    t.data = mem.data;
    return t;
}

static void back(struct tensor *host, const struct tensor *t)
{
    if (is_in_worker)
        must(ops->read(device, host->data, t->data, (size_t)tensor_bytes(host)));
}

enum { KEPT_MAX = 32 };
static void *kept[KEPT_MAX]; /* freed by main() */
static int n_kept;

static void *keep(int64_t size_bytes)
{
    if (n_kept == KEPT_MAX)
        must(OSP_ENOMEM);
    return kept[n_kept++] = mem_new((size_t)size_bytes);
}

static struct tensor floats(uint64_t what, int64_t rows, int64_t columns, float factor)
{
    struct tensor t = {.dtype = DTYPE_F32, .n_dims = 2, .dim = {rows, columns}};

    t.data = keep(tensor_bytes(&t));
    for (int64_t i = 0; i < rows * columns; i++)
        ((float *)t.data)[i] = random_at(what, i) * factor;
    return t;
}

/* ---- pages ---- */

/* Any word is a number with a magnitude between 1/2 and 2: two of bf16, or one of float32. */
static struct tensor pages_of(enum dtype dtype)
{
    struct tensor t = {.dtype = dtype, .n_dims = 5, .dim = {n_pages(), 2, K, PAGE_TOKENS, D}};
    const int64_t n_words = 2 * n_pages() * K * naive_side_bytes(&t) / 4;
    const uint32_t mask = dtype == DTYPE_F32 ? 0x80FFFFFFu : 0x80FF80FFu;
    const uint32_t ones = dtype == DTYPE_F32 ? 0x3F000000u : 0x3F003F00u;
    uint32_t *words = mem_new((size_t)n_words * 4);

    for (int64_t i = 0; i < n_words; i += 2) {
        const uint64_t bits = rng_bits(7, (uint64_t)i, 0);

        words[i] = ((uint32_t)bits & mask) | ones;
        words[i + 1] = ((uint32_t)(bits >> 32) & mask) | ones;
    }
    t.data = words;
    return t;
}

struct widen {
    const struct tensor *kv;
    const struct batch *b;
};

static void widen_head(void *ctx, int part, int worker)
{
    const struct widen *w = ctx;
    const int which = part / K, head = part % K;

    (void)worker;
    for (int j = 0; j < n_end; j++) {
        const int64_t page = naive_page(w->b, 0, GROUP_FULL, j);

        for (int d = 0; d < D; d++)
            values[which][((int64_t)head * n_end + j) * D + d] =
                naive_kv(w->kv, page, which, head, j % PAGE_TOKENS, d);
    }
}

/* ---- batches ---- */

static struct batch *batch_of(int first, int n, enum phase phase)
{
    const struct batch_counts counts = {
        .n_rows = n, .n_seqs = 1, .n_pages = N_PAGE_GROUPS * n_pages()};
    struct batch *b = batch_init(mem_new((size_t)batch_bytes(counts)), counts);
    struct batch_seq *s = (struct batch_seq *)BATCH_SEQS(b);

    *s = (struct batch_seq){.n_rows = n};
    for (int g = 0; g < N_PAGE_GROUPS; g++) {
        s->table[g] = g * n_pages();
        s->n_pages[g] = n_pages();
        for (int p = 0; p < n_pages(); p++)
            ((int32_t *)BATCH_PAGES(b))[g * n_pages() + p] = (p * 773 + 5) % n_pages();
    }
    for (int i = 0; i < n; i++) {
        ((int32_t *)BATCH_POSITIONS(b))[i] = n_end - n_rows + first + i;
        ((int32_t *)BATCH_PHASES(b))[i] = (int32_t)phase;
    }
    return b;
}

static void run_stage(enum stage stage, const union stage_args *args, const struct batch *b)
{
    struct program p = {0};
    struct compiled *c;
    uint64_t ticket;

    must(program_add(&p, stage, NO_LAYER, args));
    program_tap_outputs(&p);
    program_end(&p);
    must(ops->compile(device, &p, &c));
    must(ops->run(device, c, b, &ticket));
    must(ops->step_wait(device, ticket));
    ops->release_program(device, c);
    program_free(&p);
}

#define RUN_STAGE(stage, batch, args)                                                              \
    run_stage(STAGE_##stage, &(const union stage_args){.stage = *(args)}, batch)

static void report(const char *what, const char *phase, int window, double error, double error_max)
{
    const bool is_good = error <= error_max;

    printf("%s, %s rows, window %d: error %.1e, limit %.0e%s\n", what, phase, window, error,
           error_max, is_good ? "" : " FAIL");
    n_failed += !is_good;
}

/* ---- attention ---- */

struct head_check {
    const struct attn_args *a; /* in host memory */
    bool is_rounded;
    double errors[ROWS_MAX];
};

static void attend(double out[D], const struct attn_args *a, const double *q, int position,
                   int head)
{
    const double *keys = values[0] + (int64_t)(head / (H / K)) * n_end * D;
    const double *sums = values[1] + (int64_t)(head / (H / K)) * n_end * D;
    const int first = a->window_tokens > 0 ? position + 1 - a->window_tokens : 0;
    double *scores = mem_new((size_t)n_end * sizeof(double));
    double largest = naive_at(&a->sinks, head), total;

    for (int j = first; j <= position; j++) {
        for (int d = 0; d < D; d++)
            scores[j] += q[d] * keys[(int64_t)j * D + d];
        scores[j] *= (double)a->scale;
        largest = scores[j] > largest ? scores[j] : largest;
    }
    total = exp(naive_at(&a->sinks, head) - largest);
    memset(out, 0, D * sizeof(*out));
    for (int j = first; j <= position; j++) {
        const double weight = exp(scores[j] - largest);

        total += weight;
        for (int d = 0; d < D; d++)
            out[d] += weight * sums[(int64_t)j * D + d];
    }
    for (int d = 0; d < D; d++)
        out[d] /= total;
    free(scores);
}

static void check_row(void *ctx, int row, int worker)
{
    struct head_check *h = ctx;
    const float *q = (const float *)h->a->q.data, *att = (const float *)h->a->att.data;
    double x[D], out[D];

    (void)worker;
    for (int i = 0; i < HEADS_CHECKED; i++) {
        const int head = (row * HEADS_CHECKED + i * (H / 2 + 1)) % H;

        for (int d = 0; d < D; d++) {
            x[d] = (double)q[row * H * D + head * D + d];
            x[d] = h->is_rounded ? naive_round(x[d], 8, -125) : x[d];
        }
        attend(out, h->a, x, n_end - n_rows + row, head);
        for (int d = 0; d < D; d++)
            h->errors[row] =
                worst_of(h->errors[row], fabs((double)att[row * H * D + head * D + d] - out[d]) /
                                             (1 + fabs(out[d])));
    }
}

/* The rows in chunks of n. */
static void run_chunks(const struct attn_args *a, enum phase phase, int n)
{
    for (int first = 0; first < n_rows; first += n) {
        const int n_here = n_rows - first < n ? n_rows - first : n;
        struct batch *b = batch_of(first, n_here, phase);
        struct attn_args part = *a;

        part.q.data = (float *)a->q.data + first * H * D;
        part.att.data = (float *)a->att.data + first * H * D;
        part.q.dim[0] = part.att.dim[0] = n_here;
        RUN_STAGE(attn, b, &part);
        free(b);
    }
}

static void check_attn(struct pool *pool, const struct attn_args *host, const struct attn_args *a,
                       enum phase phase)
{
    static const int chunks[] = {1, 17, 100};
    const size_t size_bytes = (size_t)n_rows * H * D * sizeof(float);
    const char *name = phase == PHASE_PREFILL ? "prompt" : "generated";
    struct head_check head_check = {.a = host,
                                    .is_rounded = is_in_worker && phase == PHASE_PREFILL};
    struct attn_args checked = *host;
    float *whole = mem_new(size_bytes);
    double error = 0;

    run_chunks(a, phase, n_rows);
    back(&checked.att, &a->att);
    pool_run(pool, check_row, &head_check, n_rows);
    for (int row = 0; row < n_rows; row++)
        error = worst_of(error, head_check.errors[row]);
    report("attention", name, a->window_tokens, error,
           head_check.is_rounded ? ROUNDED_ERROR_MAX : ERROR_MAX);
    memcpy(whole, checked.att.data, size_bytes);
    for (int i = 0; i < 3 && is_in_worker; i++) {
        run_chunks(a, phase, chunks[i]);
        back(&checked.att, &a->att);
        report("bits with other chunks", name, a->window_tokens,
               memcmp(whole, checked.att.data, size_bytes) == 0 ? 0 : 1, 0);
    }
    free(whole);
}

static void check_attention(struct pool *pool)
{
    const enum dtype dtype = is_in_worker ? DTYPE_BF16 : DTYPE_F32;
    struct batch *b = batch_of(0, n_rows, PHASE_PREFILL);
    struct attn_args host = {.att = floats(1, n_rows, H * D, 1),
                             .q = floats(2, n_rows, H * D, 3),
                             .kv = pages_of(dtype),
                             .sinks = floats(3, 1, H, 3),
                             .scale = 0.125f,
                             .group = GROUP_FULL};
    struct attn_args a = host;
    struct widen widen = {&host.kv, b};

    for (int i = 0; i < 2; i++)
        values[i] = mem_new((size_t)n_end * K * D * sizeof(double));
    pool_run(pool, widen_head, &widen, 2 * K);
    host.sinks.n_dims = a.sinks.n_dims = 1;
    host.sinks.dim[0] = a.sinks.dim[0] = H;
    a.att = there(&host.att, tensor_bytes(&host.att));
    a.q = there(&host.q, tensor_bytes(&host.q));
    a.sinks = there(&host.sinks, tensor_bytes(&host.sinks));
    a.kv = there(&host.kv, (int64_t)2 * n_pages() * K * naive_side_bytes(&host.kv));
    for (int window = 0; window <= 128; window += 128)
        for (int phase = PHASE_PREFILL; phase <= PHASE_DECODE; phase++) {
            a.window_tokens = host.window_tokens = window;
            check_attn(pool, &host, &a, (enum phase)phase);
        }
    free(values[0]), free(values[1]), free(host.kv.data), free(b);
}

/* ---- rotation ---- */

enum { LAST_PAGES = ROWS_MAX / PAGE_TOKENS };

static struct tensor raw_weights(uint64_t what, int64_t rows)
{
    struct tensor t = {.dtype = DTYPE_BF16, .n_dims = 2, .dim = {rows, C}};

    t.data = keep(tensor_bytes(&t));
    for (int64_t i = 0; i < rows * C; i++) {
        const float value = random_at(what, i) * 0.1f;
        uint32_t bits;

        memcpy(&bits, &value, sizeof(bits));
        ((uint16_t *)t.data)[i] = (uint16_t)(bits >> 16);
    }
    return t;
}

static struct tensor weights(uint64_t what, int64_t rows)
{
    const struct tensor raw = raw_weights(what, rows);
    struct tensor packed;

    if (!is_in_worker)
        return raw;
    must(ops->pack(device, &packed, &raw));
    return packed;
}

static void note_head(double *error, const float *found, const struct tensor *w, int head,
                      const float *y, const struct rope *rope, int position)
{
    double x[D];

    for (int d = 0; d < D; d++)
        x[d] = naive_dot(w, 0, head * D + d, y);
    naive_rotate(x, rope, position);
    for (int d = 0; d < D; d++)
        *error = worst_of(*error, fabs((double)found[d] - x[d]) / (1 + fabs(x[d])));
}

/* Only the last pages, because the stage needs no others. */
static struct batch *last_batch(void)
{
    struct batch *b = batch_of(0, n_rows, PHASE_DECODE);
    struct batch_seq *s = (struct batch_seq *)BATCH_SEQS(b);

    for (int g = 0; g < N_PAGE_GROUPS; g++) {
        s->first_page[g] = n_pages() - LAST_PAGES;
        s->n_pages[g] = LAST_PAGES;
        for (int p = 0; p < LAST_PAGES; p++)
            ((int32_t *)BATCH_PAGES(b))[s->table[g] + p] = LAST_PAGES - 1 - p;
    }
    return b;
}

static void compare_rotated(const struct attn_qkv_args *host, const struct tensor raw[2],
                            const struct batch *b)
{
    double errors[2] = {0};

    for (int row = 0; row < n_rows; row++) {
        const int position = BATCH_POSITIONS(b)[row], head = row % H, kv_head = row % K;
        const int64_t page = naive_page(b, 0, host->group, position);
        const float *y = (const float *)host->y.data + row * C;
        float key[D];

        for (int d = 0; d < D; d++)
            key[d] = (float)naive_kv(&host->kv, page, 0, kv_head, position % PAGE_TOKENS, d);
        note_head(&errors[0], (const float *)host->q.data + (row * H + head) * D, &raw[0], head, y,
                  host->rope, position);
        note_head(&errors[1], key, &raw[1], kv_head, y, host->rope, position);
    }
    report("rotated queries", "all", 0, errors[0], ERROR_MAX);
    report("rotated keys", "all", 0, errors[1], ERROR_MAX);
}

static void check_rotation(void)
{
    const struct gptoss_config config = {.head_dim = D,
                                         .rope_theta = 150000,
                                         .rope_factor = 32,
                                         .rope_beta_fast = 32,
                                         .rope_beta_slow = 1,
                                         .rope_original_tokens = 4096};
    struct tensor raw[2], zeros = {.dtype = DTYPE_F32, .n_dims = 1};
    struct batch *b = last_batch();
    struct rope rope;
    struct attn_qkv_args host = {
        .q = floats(1, n_rows, H * D, 1),
        .kv = {.dtype = DTYPE_F32, .n_dims = 5, .dim = {LAST_PAGES, 2, K, PAGE_TOKENS, D}},
        .y = floats(2, n_rows, C, 1),
        .rope = &rope,
        .group = GROUP_WINDOW,
        .kv_rows = floats(3, n_rows, 2 * K * D, 1)};
    const int64_t kv_bytes = 2 * LAST_PAGES * K * naive_side_bytes(&host.kv);
    struct attn_qkv_args a;

    rope_init(&rope, &config);
    host.kv.data = keep(kv_bytes);
    for (int64_t i = 0; i < tensor_elements(&host.y); i++) /* a GPU rounds them to bf16 */
        ((float *)host.y.data)[i] = (float)naive_round((double)((float *)host.y.data)[i], 8, -125);
    a = host;
    a.q = there(&host.q, tensor_bytes(&host.q));
    a.y = there(&host.y, tensor_bytes(&host.y));
    a.kv_rows = there(&host.kv_rows, tensor_bytes(&host.kv_rows));
    a.kv = there(&host.kv, kv_bytes);
    for (int i = 0; i < 3; i++) {
        zeros.dim[0] = i == 0 ? H * D : K * D;
        zeros.data = keep(tensor_bytes(&zeros));
        a.wqkv[i] = weights((uint64_t)(10 + i), zeros.dim[0]);
        a.bqkv[i] = there(&zeros, tensor_bytes(&zeros));
    }
    RUN_STAGE(attn_qkv, b, &a);
    back(&host.q, &a.q);
    if (is_in_worker)
        must(ops->read(device, host.kv.data, a.kv.data, (size_t)kv_bytes));
    for (int i = 0; i < 2; i++)
        raw[i] = raw_weights((uint64_t)(10 + i), i == 0 ? H * D : K * D);
    compare_rotated(&host, raw, b);
    free(b);
}

int main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "cpu";
    struct backend_options opt = {.n_threads = argc > 2 ? atoi(argv[2]) : 2,
                                  .n_rows_max = ROWS_MAX,
                                  .n_samples_max = 1,
                                  .is_eager = true};
    struct pool *pool;

    is_in_worker = strcmp(name, "cpu") != 0;
    n_rows = is_in_worker ? ROWS_MAX : n_rows;
    n_end = getenv("CHECK_QUICK") != NULL ? QUICK_END : END;
    ops = backend_find(name);
    if (ops == NULL)
        must(OSP_ENOTFOUND);
    must(ops->open(&device, &opt));
    must(pool_open(&pool, 0));
    check_rotation();
    check_attention(pool);
    pool_close(pool);
    ops->close(device);
    while (n_kept > 0)
        free(kept[--n_kept]);
    printf("%d failures\n", n_failed);
    return n_failed > 0;
}
