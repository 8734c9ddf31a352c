/* Benchmark of the attention kernels: one CUDA graph of launches over the keys and values of many
 * layers, so that L2 holds none of them. "chain" uses programmatic dependent launch between
 * launches; "alone" puts an empty kernel between them, and subtracts the time of a chain of empty
 * kernels. Prints us per launch, GB/s of keys and values (and the fraction of an H200's read
 * bandwidth), and Tflop/s.
 *
 *     make && nvcc -std=c++17 -O2 -arch=sm_90a -Isrc -o build/attn_cuda bench/attn_cuda.cu \
 *         build/obj/src/cuda/attention/attn_{decode,rows,one_block,window,prefill,sm90}.cu.o \
 *         build/obj/src/cuda/launch/{launch_list,kernel_table}.o build/obj/src/backend/batch.o
 *     build/attn_cuda [brief|decode|rows|profile|prompt]...
 *
 * "rows" is steps of many decode rows. It prints a hash of the output, too, which must not depend
 * on the build; "profile" is two of them with F8 pages, for ncu. */
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "graph_times.h"

extern "C" {
#include "backend/kv_page.h"
}
#include "cuda/attention/attn.h"
#include "cuda/launch/launch_kernel.cuh"

static __global__ void nothing(void)
{
}

static __global__ void fill(uint32_t *words, int64_t n, bool is_f8)
{
    for (int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x; i < n;
         i += gridDim.x * (int64_t)blockDim.x) {
        uint64_t x = (uint64_t)i * 0x9E3779B97F4A7C15u;

        x ^= x >> 31, x *= 0xBF58476D1CE4E5B9u, x ^= x >> 27;
        words[i] =
            is_f8 ? ((uint32_t)x & 0xBFBFBFBFu) : (((uint32_t)x & 0x80FF80FFu) | 0x3F003F00u);
    }
}

struct setting {
    enum dtype dtype;
    int n_seqs, rows_each, first_position, window;
    bool is_generated;
    bool is_scattered; /* page numbers are shuffled */
    bool is_wgmma;     /* prefill; otherwise mma.sync */
    int spread;        /* sequences are shorter by up to this many tokens */
};

static char *pool;
static float *q, *att, *sinks;
static char *merge_bufs;
static cudaStream_t stream;
static const int64_t POOL_BYTES = 12ll << 30;
static const double H200_BYTES_A_S = 4.67e12; /* its read bandwidth */
enum { ROWS_MAX = 8192, H = 64, K = 8, D = 64, LAYERS_DECODE = 72, LAYERS_PREFILL = 4 };

static int pages_of(const struct setting *c)
{
    return (c->first_position + c->rows_each + PAGE_TOKENS - 1) / PAGE_TOKENS;
}

/* The pages of a layer are those of all sequences. free() the result, and cudaFree() *dev. */
static struct batch *batch_for(const struct setting *c, void **dev)
{
    const int n_pages = pages_of(c);
    const int64_t n_layer_pages = (int64_t)c->n_seqs * n_pages;
    struct batch_counts n = {c->n_seqs * c->rows_each, c->n_seqs, 0, c->n_seqs * n_pages};
    struct batch *b = batch_init(calloc(1, batch_bytes(n)), n);
    int row = 0;

    for (int s = 0; s < c->n_seqs; s++) {
        struct batch_seq *seq = (struct batch_seq *)BATCH_SEQS(b) + s;

        seq->first_row = row, seq->n_rows = c->rows_each;
        for (int g = 0; g < N_PAGE_GROUPS; g++)
            seq->table[g] = s * n_pages, seq->n_pages[g] = n_pages;
        for (int p = 0; p < n_pages; p++)
            ((int32_t *)BATCH_PAGES(b))[s * n_pages + p] =
                (int32_t)(((int64_t)s * n_pages + p) * (c->is_scattered ? 7919 : 1) %
                          n_layer_pages);
        for (int i = 0; i < c->rows_each; i++, row++) {
            ((int32_t *)BATCH_POSITIONS(b))[row] =
                c->first_position + i - s * 389 % (c->spread + 1);
            ((int32_t *)BATCH_ROW_SEQ(b))[row] = s;
            ((int32_t *)BATCH_PHASES(b))[row] = c->is_generated ? PHASE_DECODE : PHASE_PREFILL;
        }
    }
    CHECK(cudaMalloc(dev, b->size_bytes));
    CHECK(cudaMemcpy(*dev, b, b->size_bytes, cudaMemcpyHostToDevice));
    return b;
}

static void launch(struct launch_list *list, struct attn_launch *l, const struct setting *c)
{
    if (!c->is_generated) {
        (c->is_wgmma ? launch_attn_sm90 : launch_attn_prefill)(list, l);
        return;
    }
    if (launch_attn_one_block(list, l) || launch_attn_window(list, l))
        return;
    const int64_t row_bytes = (int64_t)K * ATTN_MERGE_BYTES;
    const int all = c->n_seqs * c->rows_each;
    const int most = (int)(ATTN_MERGE_BYTES_MAX / row_bytes), at_once = all < most ? all : most;

    for (l->first_row = 0; l->first_row < all; l->first_row += at_once) {
        l->n_rows = all - l->first_row < at_once ? all - l->first_row : at_once;
        launch_attn_decode(list, l);
    }
}

static struct attn_launch launch_of(const struct setting *c, const struct batch *b,
                                    const struct batch *dev)
{
    const int n_units = attn_units(0, c->first_position + c->rows_each);
    struct attn_launch l = {};

    l.args.q = {DTYPE_F32, 2, {ROWS_MAX, H * D}, q, NULL, LAYOUT_ROWS};
    l.args.att = {DTYPE_F32, 2, {ROWS_MAX, H * D}, att, NULL, LAYOUT_ROWS};
    l.args.sinks = {DTYPE_F32, 1, {H}, sinks, NULL, LAYOUT_ROWS};
    l.args.window_tokens = c->window;
    l.args.scale = 0.125f;
    l.args.group = GROUP_FULL;
    l.batch = dev;
    l.rows = {(const int32_t *)batch_at(dev, b->offset_positions),
              (const int32_t *)batch_at(dev, b->offset_row_seq),
              (const int32_t *)batch_at(dev, b->offset_phases),
              (const int32_t *)batch_at(dev, b->offset_pages),
              (const struct batch_seq *)batch_at(dev, b->offset_seqs)};
    l.n_rows = b->n_rows;
    l.n_seqs = b->n_seqs;
    l.n_group = H / K;
    l.n_units = attn_units_bucket(c->window > 0 && n_units > 9 ? 9 : n_units);
    l.n_splits = attn_splits(l.n_units, ATTN_SPLITS_MAX);
    l.merge_bufs = merge_bufs;
    return l;
}

/* Work of one launch: bytes of keys and values, and flops. */
struct work {
    double bytes, flops;
};

static struct work work_of(const struct setting *c, const struct batch *b)
{
    const double token_bytes = (double)kv_page_bytes(c->dtype, K, D) / PAGE_TOKENS;
    struct work work = {};

    for (int r = 0; r < b->n_rows; r++) {
        const bool is_last =
            r % c->rows_each == c->rows_each - 1; /* it sees all keys that the other rows see */
        int n = BATCH_POSITIONS(b)[r] + 1;

        n = c->window > 0 && n > c->window ? c->window : n;
        work.bytes += c->is_generated || is_last ? n * token_bytes : 0;
        work.flops += 4.0 * H * D * n;
    }
    if (c->window > 0 && !c->is_generated)
        work.bytes = c->n_seqs * c->rows_each * token_bytes;
    return work;
}

enum mode { CHAIN, ALONE, EMPTY, N_MODES };
enum { RUNS = 6 }; /* the best one counts */

/* Milliseconds of launches over the pages of n_layers layers. */
static float time_layers(struct attn_launch *l, const struct setting *c, int n_layers,
                         enum mode mode)
{
    const int64_t n_pages = (int64_t)c->n_seqs * pages_of(c);
    const int64_t layer_bytes = n_pages * kv_page_bytes(c->dtype, K, D);

    return graph_times(stream, RUNS, [&](struct launch_list *list) {
        for (int i = 0; i < n_layers; i++) {
            l->args.kv = {
                c->dtype, 5,          {n_pages, 2, K, PAGE_TOKENS, D}, pool + i * layer_bytes,
                NULL,     LAYOUT_ROWS};
            if (mode != EMPTY)
                launch(list, l, c);
            if (mode != CHAIN)
                add_kernel<nothing>(list, 1, 32, 0);
        }
    })[0];
}

static int layers_of(const struct setting *c)
{
    const int64_t layer_bytes = (int64_t)c->n_seqs * pages_of(c) * kv_page_bytes(c->dtype, K, D);
    const int most = c->is_generated ? LAYERS_DECODE : LAYERS_PREFILL;

    return POOL_BYTES / layer_bytes < most ? (int)(POOL_BYTES / layer_bytes) : most;
}

/* FNV-1a of the output of all rows. */
static uint64_t hash_output(const struct batch *b)
{
    const size_t n = (size_t)b->n_rows * H * D;
    uint32_t *words = (uint32_t *)malloc(n * sizeof(uint32_t));
    uint64_t hash = 14695981039346656037u;

    CHECK(cudaMemcpy(words, att, n * sizeof(uint32_t), cudaMemcpyDeviceToHost));
    for (size_t i = 0; i < n; i++)
        hash = (hash ^ words[i]) * 1099511628211u;
    free(words);
    return hash;
}

static void measure(struct setting c)
{
    const int n_layers = layers_of(&c);
    void *dev;
    struct batch *b = batch_for(&c, &dev);
    struct attn_launch l = launch_of(&c, b, (const struct batch *)dev);
    const struct work work = work_of(&c, b);
    float us[N_MODES];

    for (int mode = 0; mode < N_MODES; mode++)
        us[mode] = time_layers(&l, &c, n_layers, (enum mode)mode) * 1e3f / n_layers;
    printf(
        "%s %s %3d seqs x %4d rows at %6d window %3d%s: chain %8.2f us, alone %8.2f us, %6.1f MB, "
        "%6.0f GB/s (%3.0f %%), %6.1f Tflop/s\n",
        c.is_generated ? "decode"
        : c.is_wgmma   ? "wgmma "
                       : "mma   ",
        c.dtype == DTYPE_F8 ? "f8  " : "bf16", c.n_seqs, c.rows_each, c.first_position, c.window,
        c.is_scattered ? " scattered" : "", us[CHAIN], us[ALONE] - us[EMPTY], work.bytes * 1e-6,
        work.bytes / us[CHAIN] * 1e-3, work.bytes / us[CHAIN] * 1e6 / H200_BYTES_A_S * 100,
        work.flops / us[CHAIN] * 1e-6);
    if (c.is_generated && c.n_seqs > 1)
        printf("    mean position %.0f, hash %016llx\n", work.flops / (4.0 * H * D * b->n_rows) - 1,
               (unsigned long long)hash_output(b));
    fflush(stdout);
    CHECK(cudaFree(dev));
    free(b);
}

/* ---- settings ---- */

static void measure_brief(enum dtype d)
{
    const struct setting all[] = {
        {d, 1, 1, 1023, 0, true},   {d, 1, 1, 2047, 0, true},
        {d, 1, 1, 32767, 0, true},  {d, 1, 1, 32767, 0, true, true},
        {d, 1, 1, 131071, 0, true}, {d, 1, 1, 131071, 0, true, true},
        {d, 1, 1, 2047, 128, true}, {d, 64, 1, 1023, 0, true},
    };

    for (const struct setting &c : all)
        measure(c);
}

static void measure_decode(enum dtype d)
{
    const struct setting all[] = {
        {d, 1, 1, 2047, 128, true}, {d, 1, 1, 32767, 128, true}, {d, 4, 1, 2047, 0, true},
        {d, 16, 1, 1023, 0, true},  {d, 64, 1, 1023, 0, true},   {d, 64, 1, 1023, 128, true},
    };

    for (int position : {100, 255, 511, 1023, 2047, 4095, 8191, 16383, 32767, 65535, 131071})
        measure({d, 1, 1, position, 0, true});
    for (const struct setting &c : all)
        measure(c);
}

static void measure_rows(enum dtype d)
{
    for (int n : {64, 128, 256, 512, 1024}) {
        measure({d, n, 1, 1023, 0, true});
        measure({d, n, 1, 1023, 128, true});
    }
    for (int n : {256, 512}) {
        measure({d, n, 1, 2047, 0, true, true, false, 1023});
        measure({d, n, 1, 1000, 0, true, false, false, 999});
        measure({d, n, 1, 1000, 128, true, false, false, 999});
    }
}

static void measure_profile(enum dtype d)
{
    measure({d, 512, 1, 1023, 0, true});
    measure({d, 512, 1, 1023, 128, true});
}

static void measure_prefill(enum dtype d)
{
    const struct setting all[] = {
        {d, 1, 512, 0, 0},    {d, 1, 2048, 0, 0},     {d, 1, 8192, 0, 0}, {d, 1, 2048, 0, 128},
        {d, 1, 8192, 0, 128}, {d, 1, 2048, 30720, 0}, {d, 16, 128, 0, 0}, {d, 1, 17, 4000, 0},
    };

    for (struct setting c : all)
        for (bool is_wgmma : {false, true}) {
            c.is_wgmma = is_wgmma;
            measure(c);
        }
}

static void measure_all(const char *what)
{
    const bool is_brief = strcmp(what, "brief") == 0, is_decode = strcmp(what, "decode") == 0;
    const bool is_rows = strcmp(what, "rows") == 0, is_profile = strcmp(what, "profile") == 0;

    for (enum dtype d : {DTYPE_BF16, DTYPE_F8}) {
        if (is_brief && d == DTYPE_F8)
            continue;
        if (is_profile && d == DTYPE_BF16)
            continue;
        fill<<<1024, 256, 0, stream>>>((uint32_t *)pool, POOL_BYTES / 4, d == DTYPE_F8);
        CHECK(cudaStreamSynchronize(stream));
        (is_brief     ? measure_brief
         : is_decode  ? measure_decode
         : is_rows    ? measure_rows
         : is_profile ? measure_profile
                      : measure_prefill)(d);
    }
}

int main(int argc, char **argv)
{
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CHECK(cudaMalloc(&pool, POOL_BYTES));
    CHECK(cudaMalloc(&q, (size_t)ROWS_MAX * H * D * 4));
    CHECK(cudaMalloc(&att, (size_t)ROWS_MAX * H * D * 4));
    CHECK(cudaMalloc(&merge_bufs, ATTN_MERGE_BYTES_MAX));
    CHECK(cudaMalloc(&sinks, H * 4));
    CHECK(cudaMemset(merge_bufs, 0, ATTN_MERGE_BYTES_MAX));
    CHECK(cudaMemset(sinks, 0, H * 4));
    fill<<<1024, 256, 0, stream>>>((uint32_t *)q, (int64_t)ROWS_MAX * H * D, false);
    for (int i = 1; i < argc; i++)
        measure_all(argv[i]);
    return 0;
}
