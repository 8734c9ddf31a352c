/* Times attention's kernels on a card: launches over keys and values of many layers, so that the second-level
 * cache helps nobody, as one graph; "chain" with programmatic dependent launch from one to the next, "alone"
 * with an empty kernel between them, whose own chain is taken off. Prints us a launch, GB/s of keys
 * and values, and Tflop/s.
 *
 *     make && nvcc -std=c++17 -O2 -arch=sm_90a -Isrc -o build/attn_cuda bench/attn_cuda.cu \
 *         build/obj/src/cuda/attn_{decode,prompt,sm90}.cu.o build/obj/src/backend/batch.o
 *     build/attn_cuda [brief|decode|prompt]... */
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "check_cuda.h"

extern "C" {
#include "backend/kv_page.h"
}
#include "cuda/attn.h"

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
    bool is_scattered; /* pages follow each other in no order */
    bool is_wgmma;     /* of prompts; else mma.sync */
};

static char *pool;
static float *q, *att, *sinks;
static char *cells;
static const int64_t POOL_BYTES = 12ll << 30, CELLS_BYTES = 72ll << 20;
enum { ROWS_MAX = 8192, H = 64, K = 8, D = 64 };

static struct batch *batch_for(const struct setting *c, int64_t n_pool_pages, int layer, void **dev)
{
    const int end = c->first_position + c->rows_each, n_pages = (end + 63) / 64;
    struct batch_counts n = {c->n_seqs * c->rows_each, c->n_seqs, 0, c->n_seqs * n_pages};
    struct batch *b = batch_init(calloc(1, batch_bytes(n)), n);
    int row = 0;

    (void)layer;
    for (int s = 0; s < c->n_seqs; s++) {
        struct batch_seq *seq = (struct batch_seq *)BATCH_SEQS(b) + s;

        seq->first_row = row, seq->n_rows = c->rows_each;
        for (int g = 0; g < N_PAGE_GROUPS; g++)
            seq->table[g] = s * n_pages, seq->n_pages[g] = n_pages;
        for (int p = 0; p < n_pages; p++)
            ((int32_t *)BATCH_PAGES(b))[s * n_pages + p] =
                (int32_t)(((int64_t)s * n_pages + p) * (c->is_scattered ? 7919 : 1) % n_pool_pages);
        for (int i = 0; i < c->rows_each; i++, row++) {
            ((int32_t *)BATCH_POSITIONS(b))[row] = c->first_position + i;
            ((int32_t *)BATCH_ROW_SEQ(b))[row] = s;
            ((int32_t *)BATCH_KINDS(b))[row] = c->is_generated ? ROW_GENERATED : ROW_PROMPT;
        }
    }
    CHECK(cudaMalloc(dev, b->size_bytes));
    CHECK(cudaMemcpy(*dev, b, b->size_bytes, cudaMemcpyHostToDevice));
    return b;
}

static void launch(cudaStream_t stream, struct attn_launch *l, const struct setting *c)
{
    if (!c->is_generated) {
        (c->is_wgmma ? launch_attn_sm90 : launch_attn_prompt)(stream, l);
        return;
    }
    const int64_t row_bytes = (int64_t)K * ATTN_CELL_BYTES;
    const int all = c->n_seqs * c->rows_each;
    const int at_once = row_bytes * all <= CELLS_BYTES ? all : (int)(CELLS_BYTES / row_bytes);

    for (l->first_row = 0; l->first_row < all; l->first_row += at_once) {
        l->n_rows = all - l->first_row < at_once ? all - l->first_row : at_once;
        launch_attn_decode(stream, l);
    }
}

static float time_graph(cudaStream_t stream, cudaGraphExec_t exec)
{
    cudaEvent_t a, b;
    float best = 1e9f, ms;

    CHECK(cudaEventCreate(&a));
    CHECK(cudaEventCreate(&b));
    for (int i = 0; i < 6; i++) {
        CHECK(cudaEventRecord(a, stream));
        CHECK(cudaGraphLaunch(exec, stream));
        CHECK(cudaEventRecord(b, stream));
        CHECK(cudaStreamSynchronize(stream));
        CHECK(cudaEventElapsedTime(&ms, a, b));
        best = ms < best ? ms : best;
    }
    return best;
}

static void measure(cudaStream_t stream, struct setting c)
{
    const int end = c.first_position + c.rows_each, n_pages = (end + 63) / 64;
    const int64_t page_bytes = kv_page_bytes(c.dtype, K, D);
    int64_t layer_pages = (int64_t)c.n_seqs * n_pages;
    struct attn_launch l = {};
    void *dev;
    int64_t n_layers = POOL_BYTES / (layer_pages * page_bytes);
    float ms[3];
    double bytes = 0, flops = 0;

    n_layers = n_layers > (c.is_generated ? 72 : 4) ? (c.is_generated ? 72 : 4) : n_layers;
    struct batch *b = batch_for(&c, layer_pages, 0, &dev);
    l.args.q = {DTYPE_F32, 2, {ROWS_MAX, H * D}, q, NULL, LAYOUT_ROWS};
    l.args.att = {DTYPE_F32, 2, {ROWS_MAX, H * D}, att, NULL, LAYOUT_ROWS};
    l.args.sinks = {DTYPE_F32, 1, {H}, sinks, NULL, LAYOUT_ROWS};
    l.args.window_tokens = c.window;
    l.args.scale = 0.125f;
    l.args.group = GROUP_FULL;
    l.batch = (const struct batch *)dev;
    l.rows = {(const int32_t *)batch_at(l.batch, b->offset_positions),
              (const int32_t *)batch_at(l.batch, b->offset_row_seq),
              (const int32_t *)batch_at(l.batch, b->offset_kinds),
              (const int32_t *)batch_at(l.batch, b->offset_pages),
              (const struct batch_seq *)batch_at(l.batch, b->offset_seqs)};
    l.n_rows = b->n_rows;
    l.n_units = attn_units_level(c.window > 0 && attn_units(0, end) > 9 ? 9 : attn_units(0, end));
    l.n_splits = attn_splits(l.n_units);

    l.n_seqs = b->n_seqs;
    l.n_group = H / K;

    l.cells = cells;
    for (int r = 0; r < b->n_rows; r++) {
        int n = BATCH_POSITIONS(b)[r] + 1;

        n = c.window > 0 && n > c.window ? c.window : n;
        bytes +=
            c.is_generated || r % c.rows_each == c.rows_each - 1 ? n * (double)page_bytes / 64 : 0;
        flops += 4.0 * H * D * n;
    }
    if (c.window > 0 && !c.is_generated)
        bytes = (double)c.n_seqs * c.rows_each * page_bytes / 64;
    for (int mode = 0; mode < 3; mode++) { /* chain, alone, empty kernels */
        cudaGraph_t graph;
        cudaGraphExec_t exec;

        CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
        for (int i = 0; i < n_layers; i++) {
            l.args.kv = {c.dtype,
                         5,
                         {layer_pages, 2, K, 64, D},
                         pool + i * layer_pages * page_bytes,
                         NULL,
                         LAYOUT_ROWS};
            if (mode != 2)
                launch(stream, &l, &c);
            if (mode > 0)
                nothing<<<1, 32, 0, stream>>>();
        }
        CHECK(cudaStreamEndCapture(stream, &graph));
        CHECK(cudaGraphInstantiate(&exec, graph, 0));
        ms[mode] = time_graph(stream, exec);
        CHECK(cudaGraphExecDestroy(exec));
        CHECK(cudaGraphDestroy(graph));
    }
    const double us = ms[0] * 1e3 / n_layers, alone = (ms[1] - ms[2]) * 1e3 / n_layers;

    printf(
        "%s %s %3d seqs x %4d rows at %6d window %3d%s: chain %8.2f us, alone %8.2f us, %6.1f MB, "
        "%6.0f GB/s (%3.0f %%), %6.1f Tflop/s\n",
        c.is_generated ? "decode"
        : c.is_wgmma   ? "wgmma "
                       : "mma   ",
        c.dtype == DTYPE_F8 ? "f8  " : "bf16", c.n_seqs, c.rows_each, c.first_position, c.window,
        c.is_scattered ? " scattered" : "", us, alone, bytes * 1e-6, bytes / us * 1e-3,
        bytes / us * 1e-3 / 4670 * 100, flops / us * 1e-6);
    fflush(stdout);
    CHECK(cudaFree(dev));
    free(b);
}

int main(int argc, char **argv)
{
    cudaStream_t stream;

    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CHECK(cudaMalloc(&pool, POOL_BYTES));
    CHECK(cudaMalloc(&q, (size_t)ROWS_MAX * H * D * 4));
    CHECK(cudaMalloc(&att, (size_t)ROWS_MAX * H * D * 4));
    CHECK(cudaMalloc(&cells, CELLS_BYTES));
    CHECK(cudaMalloc(&sinks, 1024));
    CHECK(cudaMemset(cells, 0, CELLS_BYTES));
    CHECK(cudaMemset(sinks, 0, 1024));
    fill<<<1024, 256, 0, stream>>>((uint32_t *)q, (int64_t)ROWS_MAX * H * D, false);
    for (int w = 1; w < argc; w++) {
        const bool is_decode = strcmp(argv[w], "decode") == 0;
        const bool is_brief = strcmp(argv[w], "brief") == 0;

        for (int t = 0; t < (is_brief ? 1 : 2); t++) {
            const enum dtype d = t == 0 ? DTYPE_BF16 : DTYPE_F8;

            fill<<<1024, 256, 0, stream>>>((uint32_t *)pool, POOL_BYTES / 4, t == 1);
            CHECK(cudaStreamSynchronize(stream));
            if (is_brief) {
                measure(stream, {d, 1, 1, 1023, 0, true});
                measure(stream, {d, 1, 1, 2047, 0, true});
                measure(stream, {d, 1, 1, 32767, 0, true});
                measure(stream, {d, 1, 1, 32767, 0, true, true});
                measure(stream, {d, 1, 1, 131071, 0, true});
                measure(stream, {d, 1, 1, 131071, 0, true, true});
                measure(stream, {d, 1, 1, 2047, 128, true});
                measure(stream, {d, 64, 1, 1023, 0, true});
            } else if (is_decode) {
                static const int at[] = {100,  255,   511,   1023,  2047,  4095,
                                         8191, 16383, 32767, 65535, 131071};

                for (int i = 0; i < 11; i++)
                    measure(stream, {d, 1, 1, at[i], 0, true});
                measure(stream, {d, 1, 1, 2047, 128, true});
                measure(stream, {d, 1, 1, 32767, 128, true});
                measure(stream, {d, 4, 1, 2047, 0, true});
                measure(stream, {d, 16, 1, 1023, 0, true});
                measure(stream, {d, 64, 1, 1023, 0, true});
                measure(stream, {d, 64, 1, 1023, 128, true});
            } else {
                const struct setting all[] = {
                    {d, 1, 512, 0, 0},    {d, 1, 2048, 0, 0},   {d, 1, 8192, 0, 0},
                    {d, 1, 2048, 0, 128}, {d, 1, 8192, 0, 128}, {d, 1, 2048, 30720, 0},
                    {d, 16, 128, 0, 0},   {d, 1, 17, 4000, 0},
                };

                for (struct setting c : all)
                    for (int w = 0; w < 2; w++) {
                        c.is_wgmma = w == 1;
                        measure(stream, c);
                    }
            }
        }
    }
    return 0;
}
