/* Benchmark of QKV (with RoPE and the KV page write) and of the output projection of gpt-oss-120b,
 * MXFP4, for many rows: the kernels of decode_gemm.cu and decode_smem_resident.cu, as a CUDA graph
 * of dependent launches over layers that each have their own weights. Checks that both give the
 * same bits.
 *
 *     make && nvcc -std=c++17 -O2 -arch=sm_90a -Isrc -o build/smem_resident_cuda \
 *         bench/smem_resident_cuda.cu build/obj/src/cuda/decode/decode_{gemm,smem_resident}.cu.o \
 *         build/obj/src/cuda/launch/{launch_list,kernel_table}.o build/obj/src/backend/batch.o
 *     build/smem_resident_cuda [rows...] */
#include <cstdlib>

#include "random_weights.h"
#include "graph_times.h"

extern "C" {
#include "backend/kv_page.h"
}
#include "cuda/decode/decode.h"

enum {
    WIDTH = 2880,
    HEADS = 64,
    KV_HEADS = 8,
    ATT = HEADS * DECODE_HEAD_WIDTH,
    LAYERS = 36,
    ROWS_MAX = 64,
    TOKENS = 1024,
    N_KERNELS = 2
};

static const struct {
    const char *name;
    bool (*launch)(struct launch_list *list, const struct decode_gemm *p);
} kernels[N_KERNELS] = {{"decode_gemm", launch_decode_gemm},
                        {"smem_resident", launch_decode_smem_resident}};

/* ---- data ---- */

static char *qkv[LAYERS], *o[LAYERS], *bias, *rows;
static float *cos_sin;
static const struct batch *batch;

/* The output of a kernel. */
static struct left {
    char *out, *pages;
} left[N_KERNELS];
static const int64_t out_bytes = (int64_t)ROWS_MAX * ATT * 4;
static const int64_t pages_bytes =
    ROWS_MAX * kv_page_bytes(DTYPE_BF16, KV_HEADS, DECODE_HEAD_WIDTH);

static int64_t bytes_of(int n_rows, int n_columns)
{
    return units_of(n_rows, UNIT_ROWS) * units_of(n_columns, UNIT_COLUMNS) * MXFP4_UNIT_BYTES;
}

static void make_batch(void)
{
    const struct batch_counts n = {ROWS_MAX, ROWS_MAX, 0, ROWS_MAX};
    struct batch *b = batch_init(calloc(1, (size_t)batch_bytes(n)), n);

    for (int r = 0; r < ROWS_MAX; r++) {
        struct batch_seq *seq = (struct batch_seq *)BATCH_SEQS(b) + r;

        seq->first_row = r, seq->n_rows = 1;
        for (int g = 0; g < N_PAGE_GROUPS; g++)
            seq->table[g] = r, seq->n_pages[g] = 1, seq->first_page[g] = TOKENS / PAGE_TOKENS - 1;
        ((int32_t *)BATCH_PAGES(b))[r] = r;
        ((int32_t *)BATCH_POSITIONS(b))[r] = TOKENS - 1 - r % PAGE_TOKENS;
        ((int32_t *)BATCH_ROW_SEQ(b))[r] = r;
        ((int32_t *)BATCH_PHASES(b))[r] = PHASE_DECODE;
    }
    CHECK(cudaMalloc((void **)&batch, (size_t)b->size_bytes));
    CHECK(cudaMemcpy((void *)batch, b, (size_t)b->size_bytes, cudaMemcpyHostToDevice));
    free(b);
}

static void make_data(void)
{
    make_batch();
    for (int i = 0; i < LAYERS; i++) {
        qkv[i] = alloc_filled(bytes_of((HEADS + 2 * KV_HEADS) * DECODE_HEAD_WIDTH, WIDTH), true,
                              (uint32_t)i * 2);
        o[i] = alloc_filled(bytes_of(WIDTH, ATT), true, (uint32_t)i * 2 + 1);
    }
    bias = alloc_filled(1 << 16, false, 101);
    rows = alloc_filled(ROWS_MAX * ATT * 2, false, 102);
    cos_sin = (float *)alloc_filled(ROWS_MAX * DECODE_HEAD_WIDTH * 4, false, 103);
    for (int k = 0; k < N_KERNELS; k++) {
        CHECK(cudaMalloc(&left[k].out, (size_t)out_bytes));
        CHECK(cudaMalloc(&left[k].pages, (size_t)pages_bytes));
    }
    CHECK(cudaDeviceSynchronize());
}

static struct decode_gemm product_of(char part, int layer, int n_rows, const struct left *to)
{
    static const int heads[3] = {HEADS, KV_HEADS, KV_HEADS};
    struct decode_gemm p = {};
    const char *at = qkv[layer];

    p.rows = (const uint16_t *)rows, p.n_tokens = n_rows, p.is_mxfp4 = true;
    p.out[0] = (float *)to->out;
    if (part == 'o') {
        p.n_jobs = 1, p.out_width[0] = WIDTH;
        p.w[0] = {(const unsigned char *)o[layer], 0, WIDTH, ATT / UNIT_COLUMNS};
        p.bias[0] = {bias, VECTOR_BF16, WIDTH};
        return p;
    }
    p.n_jobs = 3, p.out_width[0] = ATT;
    for (int i = 0; i < 3; at += bytes_of(heads[i++] * DECODE_HEAD_WIDTH, WIDTH)) {
        p.w[i] = {(const unsigned char *)at, 0, heads[i] * DECODE_HEAD_WIDTH, WIDTH / UNIT_COLUMNS};
        p.bias[i] = {bias + i * 8192, VECTOR_BF16, heads[i] * DECODE_HEAD_WIDTH};
    }
    p.heads = {to->pages, cos_sin,    batch, kv_side_bytes(DTYPE_BF16, DECODE_HEAD_WIDTH),
               KV_HEADS,  GROUP_FULL, true};
    return p;
}

static void launch(struct launch_list *list, char part, int layer, int n_rows, int kernel)
{
    const struct decode_gemm p = product_of(part, layer, n_rows, &left[kernel]);

    if (!kernels[kernel].launch(list, &p))
        printf("%c: %s does not support this shape\n", part, kernels[kernel].name);
}

/* ---- comparison of bits ---- */

static std::vector<char> bytes_at(const char *at, int64_t n)
{
    std::vector<char> v((size_t)n);

    CHECK(cudaMemcpy(v.data(), at, (size_t)n, cudaMemcpyDeviceToHost));
    return v;
}

static bool is_same(cudaStream_t stream, char part, int n_rows)
{
    for (int k = 0; k < N_KERNELS; k++) {
        CHECK(cudaMemset(left[k].out, 0xEE, (size_t)out_bytes));
        CHECK(cudaMemset(left[k].pages, 0xEE, (size_t)pages_bytes));
        CHECK(cudaDeviceSynchronize()); /* the stream is not ordered after them */
        launch_once(stream, [&](struct launch_list *list) { launch(list, part, 0, n_rows, k); });
        CHECK(cudaStreamSynchronize(stream));
        CHECK(cudaGetLastError());
    }
    return bytes_at(left[0].out, out_bytes) == bytes_at(left[1].out, out_bytes) &&
           bytes_at(left[0].pages, pages_bytes) == bytes_at(left[1].pages, pages_bytes);
}

static void measure(cudaStream_t stream, const char *parts, int kernel, int n_rows)
{
    enum { TIMES = 10 };
    const std::vector<float> times = graph_times(stream, TIMES, [&](struct launch_list *list) {
        for (int i = 0; i < LAYERS; i++)
            for (const char *part = parts; *part != '\0'; part++)
                launch(list, *part, i, n_rows, kernel);
    });

    printf("%3d rows, %-2s by %s: %6.2f us a layer (least %6.2f)\n", n_rows, parts,
           kernels[kernel].name, times[TIMES / 2] * 1e3 / LAYERS, times[0] * 1e3 / LAYERS);
}

int main(int argc, char **argv)
{
    static const int checked[] = {33, 40, 48, 63, 64};
    int n_bad = 0;
    cudaStream_t stream;

    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    make_data();
    for (int n_rows : checked)
        for (const char *part = "qo"; *part != '\0'; part++)
            if (!is_same(stream, *part, n_rows)) {
                printf("%c, %d rows: the bits differ\n", *part, n_rows);
                n_bad++;
            }
    printf("%d of %d differ in bits\n", n_bad, (int)(2 * sizeof(checked) / sizeof(checked[0])));
    for (int i = 1; i < argc; i++)
        for (const char *parts : {"q", "o", "qo"})
            for (int k = 0; k < N_KERNELS; k++)
                measure(stream, parts, k, std::max(33, std::min(atoi(argv[i]), (int)ROWS_MAX)));
    return n_bad > 0;
}
