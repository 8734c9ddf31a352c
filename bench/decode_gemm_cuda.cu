/* Benchmark of the dense MXFP4 GEMMs of gpt-oss-120b for many decode rows: QKV with RoPE and KV
 * pages, QKV alone (as with F8 pages), the output projection, and the LM head, by decode_gemm.cu
 * and by decode_gemm_sm90.cu, with each number of rows of units in an item. Checks first that both
 * leave the same bytes.
 *
 *     make && nvcc -std=c++17 -O2 -arch=sm_90a -Isrc -o build/decode_gemm_cuda \
 *         bench/decode_gemm_cuda.cu build/kernels.a \
 *         build/obj/src/cuda/launch/{launch_list,kernel_table}.o
 *     build/decode_gemm_cuda [rows...] */
#include <cstddef>
#include <cstdlib>

#include "../src/cuda/decode/decode_gemm_sm90.cu"
#include "backend/batch.h"
#include "graph_times.h"
#include "random_weights.h"

enum { WIDTH = 2880, ATT_WIDTH = 4096, N_Q = 64, N_KV = 8, VOCABULARY = 201088 };
enum { ROWS_MAX = 1024, LAYERS = 36, CHECKED_ROWS = 300, PAGES = ROWS_MAX };
enum shape { QKV, QKV_F32, QKV_PLAIN, OUT, OUT_WORDS, HEAD, N_SHAPES };
static const char *const shape_names[N_SHAPES] = {"qkv",      "qkv, F32 pages",  "qkv, no heads",
                                                  "attn_out", "attn_out, words", "LM head"};

static bool has_operand_kernel =
    true; /* steps have it only where no other kernel stores the rows */

/* What all launches share. */
static struct {
    char *weights[N_SHAPES], *rows, *operand, *pages;
    float *out, *cos_sin, *bias, *mhz;
    int32_t *low, *n_live;
    struct batch *batch;
    size_t pages_bytes;
} shared;

static int units_of_shape(enum shape s)
{
    return (int)units_of(s == OUT || s == OUT_WORDS ? ATT_WIDTH : WIDTH, UNIT_COLUMNS);
}

static int rows_of_shape(enum shape s)
{
    return s == HEAD                    ? (int)VOCABULARY
           : s == OUT || s == OUT_WORDS ? (int)WIDTH
                                        : (N_Q + 2 * N_KV) * 64;
}

static int64_t layer_bytes(enum shape s)
{
    return units_of(rows_of_shape(s), UNIT_ROWS) * units_of_shape(s) * MXFP4_UNIT_BYTES;
}

static void add_job(struct decode_gemm *p, const char *weights, int first, int n_rows, float *out,
                    int width)
{
    const int i = p->n_jobs++, n_units = p->w[0].n_units;

    p->w[i] = {(const unsigned char *)weights +
                   (int64_t)first / UNIT_ROWS * n_units * MXFP4_UNIT_BYTES,
               0, n_rows, n_units};
    p->bias[i] = {shared.bias + first, VECTOR_F32, n_rows};
    p->out[i] = out, p->out_width[i] = width;
}

static struct decode_gemm product_of(enum shape s, int layer, int n_rows)
{
    const char *weights = shared.weights[s] + layer * layer_bytes(s);
    struct decode_gemm p = {};

    p.n_tokens = n_rows, p.n_live = shared.n_live, p.is_mxfp4 = true;
    p.rows = (const uint16_t *)shared.rows;
    p.operand = shared.operand, p.n_operand_rows = (int)operand_rows(n_rows);
    p.w[0].n_units = units_of_shape(s);
    if (s == QKV || s == QKV_F32 || s == QKV_PLAIN) {
        float *const kv = shared.out + (int64_t)ROWS_MAX * N_Q * 64;

        add_job(&p, weights, 0, N_Q * 64, shared.out, N_Q * 64);
        add_job(&p, weights, N_Q * 64, N_KV * 64, kv, 2 * N_KV * 64);
        add_job(&p, weights, (N_Q + N_KV) * 64, N_KV * 64, kv + N_KV * 64, 2 * N_KV * 64);
        if (s != QKV_PLAIN)
            p.heads = {.pages = shared.pages,
                       .cos_sin = shared.cos_sin,
                       .batch = shared.batch,
                       .kv_half_bytes =
                           (int64_t)kv_side_bytes(s == QKV ? DTYPE_BF16 : DTYPE_F32, 64),
                       .n_kv = N_KV,
                       .group = GROUP_FULL,
                       .is_cache_bf16 = s == QKV};
        return p;
    }
    add_job(&p, weights, 0, rows_of_shape(s), shared.out, rows_of_shape(s));
    if (s != HEAD)
        p.slice_units = out_slice_units(p.w[0].n_units, N_KV);
    if (s == OUT_WORDS)
        p.low = shared.low;
    return p;
}

/* decode_gemm.cu, what launch_decode_gemm_sm90() selects, then each of its tiles. */
enum {
    BY_MMA,
    SELECTED,
    FIRST_TILE,
    N_KERNELS = FIRST_TILE + sizeof(tile_choices) / sizeof(tile_choices[0])
};

static bool has_kernel(enum shape s, int kernel)
{
    const enum row_sums kind = s == OUT || s == OUT_WORDS ? SUMS_OF_OUT_SLICES : SUMS_OF_EIGHTHS;

    return kernel < FIRST_TILE || tile_choices[kernel - FIRST_TILE].kind == kind;
}

static void launch(struct launch_list *list, enum shape s, int kernel, int layer, int n_rows)
{
    const struct decode_gemm p = product_of(s, layer, n_rows);

    if (kernel == BY_MMA) {
        (void)launch_decode_gemm(list, &p);
        return;
    }
    if (has_operand_kernel)
        launch_decode_operand(list, &p);
    if (!(kernel == SELECTED ? launch_decode_gemm_sm90(list, &p)
                             : tile_choices[kernel - FIRST_TILE].launch(list, &p)))
        printf("%s: the GPU does not support kernel %d\n", shape_names[s], kernel);
}

/* What the kernels of a shape may write: out, pages, and the low words. */
static std::vector<uint32_t> bytes_left(cudaStream_t stream, enum shape s, int kernel, int n_rows)
{
    const size_t sizes[3] = {(size_t)(s == HEAD ? (int)CHECKED_ROWS : (int)ROWS_MAX) *
                                 rows_of_shape(s) * 4,
                             s == QKV || s == QKV_F32 ? shared.pages_bytes : 0,
                             s == OUT_WORDS ? (size_t)ROWS_MAX * WIDTH * 4 : 0};
    char *const from[3] = {(char *)shared.out, shared.pages, (char *)shared.low};
    std::vector<uint32_t> left((sizes[0] + sizes[1] + sizes[2]) / 4);
    char *to = (char *)left.data();

    for (int i = 0; i < 3; i++)
        CHECK(cudaMemsetAsync(from[i], 0xEE, sizes[i], stream));
    CHECK(cudaMemsetAsync(shared.operand, 0xFF,
                          (size_t)operand_bytes(operand_rows(ROWS_MAX), ATT_WIDTH, ROUNDS_TO_F16),
                          stream));
    launch_once(stream, [&](struct launch_list *list) { launch(list, s, kernel, 0, n_rows); });
    CHECK(cudaStreamSynchronize(stream));
    for (int i = 0; i < 3; i++, to += sizes[i - 1])
        CHECK(cudaMemcpy(to, from[i], sizes[i], cudaMemcpyDeviceToHost));
    return left;
}

static int check(cudaStream_t stream, enum shape s, int n_rows, int n_live)
{
    std::vector<uint32_t> expected;
    int n_bad = 0;

    CHECK(cudaMemcpy(shared.n_live, &n_live, sizeof(n_live), cudaMemcpyHostToDevice));
    expected = bytes_left(stream, s, 0, n_rows);
    for (int kernel = FIRST_TILE; kernel < N_KERNELS; kernel++) {
        if (!has_kernel(s, kernel))
            continue;
        const std::vector<uint32_t> left = bytes_left(stream, s, kernel, n_rows);
        size_t n_differ = 0;

        for (size_t i = 0; i < left.size(); i++)
            n_differ += left[i] != expected[i];
        if (n_differ > 0) {
            printf("%s, %d of %d rows, tiles of %d tokens and %d rows: %zu words differ\n",
                   shape_names[s], n_live, n_rows, tile_choices[kernel - FIRST_TILE].n_tokens,
                   tile_choices[kernel - FIRST_TILE].n_groups, n_differ);
            n_bad++;
        }
    }
    return n_bad;
}

static __global__ void clock_kernel(float *mhz)
{
    enum { NS = 50000 };
    const long long first = clock64();
    uint64_t begin, now;

    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin));
    do
        asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    while (now - begin < NS);
    *mhz = (float)((double)(clock64() - first) / (double)(now - begin) * 1e3);
}

/* The clock of the SMs behind many of these launches, MHz. */
static void print_clock(cudaStream_t stream, enum shape s, int kernel, int n_rows)
{
    enum { TIMES = 10 };
    const int n_launches = s == HEAD ? (int)TIMES : TIMES * (int)LAYERS;
    struct launch_list list = make_launches([&](struct launch_list *l) {
        for (int i = 0; i < n_launches; i++)
            launch(l, s, kernel, s == HEAD ? 0 : i % LAYERS, n_rows);
    });
    float mhz;

    run_launches(stream, &list);
    clock_kernel<<<1, 1, 0, stream>>>(shared.mhz);
    CHECK(cudaMemcpyAsync(&mhz, shared.mhz, sizeof(mhz), cudaMemcpyDeviceToHost, stream));
    CHECK(cudaStreamSynchronize(stream));
    launch_list_free(&list);
    printf("@%.0f", mhz);
}

static void measure(cudaStream_t stream, enum shape s, int n_rows)
{
    enum { TIMES = 12 };
    const int n_layers = s == HEAD ? 2 : LAYERS;

    CHECK(cudaMemcpy(shared.n_live, &n_rows, sizeof(n_rows), cudaMemcpyHostToDevice));
    printf("%4d rows, %s, us:", n_rows, shape_names[s]);
    for (int kernel = 0; kernel < N_KERNELS; kernel++) {
        if (!has_kernel(s, kernel))
            continue;
        const std::vector<float> times = graph_times(stream, TIMES, [&](struct launch_list *list) {
            for (int i = 0; i < n_layers; i++)
                launch(list, s, kernel, s == HEAD ? 0 : i, n_rows);
        });

        if (kernel < FIRST_TILE)
            printf("  %s", kernel == BY_MMA ? "mma.sync" : "wgmma");
        else
            printf("  %dx%d", tile_choices[kernel - FIRST_TILE].n_tokens,
                   tile_choices[kernel - FIRST_TILE].n_groups);
        printf(" %.2f", times[TIMES / 2] * 1e3 / n_layers);
        print_clock(stream, s, kernel, n_rows);
    }
    printf("\n");
    fflush(stdout);
}

/* The parts of a batch that the kernels read: row i is a sequence of its own, at a page of its
 * own. */
struct small_batch {
    struct batch header;
    int32_t positions[ROWS_MAX], row_seqs[ROWS_MAX], pages[ROWS_MAX];
    struct batch_seq seqs[ROWS_MAX];
};

static void make_batch(void)
{
    static struct small_batch b;

    b.header.offset_positions = offsetof(struct small_batch, positions);
    b.header.offset_row_seq = offsetof(struct small_batch, row_seqs);
    b.header.offset_pages = offsetof(struct small_batch, pages);
    b.header.offset_seqs = offsetof(struct small_batch, seqs);
    for (int i = 0; i < ROWS_MAX; i++) {
        b.positions[i] = PAGE_TOKENS * 5 + i * 7 % PAGE_TOKENS;
        b.row_seqs[i] = i;
        b.pages[i] = i * 5 % PAGES;
        b.seqs[i].table[GROUP_FULL] = i;
        b.seqs[i].first_page[GROUP_FULL] = 5;
    }
    CHECK(cudaMalloc(&shared.batch, sizeof(b)));
    CHECK(cudaMemcpy(shared.batch, &b, sizeof(b), cudaMemcpyHostToDevice));
}

static void make_shared(void)
{
    shared.pages_bytes = (size_t)(PAGES * kv_page_bytes(DTYPE_F32, N_KV, 64));
    for (int s = 0; s < N_SHAPES; s++)
        shared.weights[s] =
            s == QKV_F32 || s == QKV_PLAIN ? shared.weights[QKV]
            : s == OUT_WORDS
                ? shared.weights[OUT]
                : alloc_filled(layer_bytes((enum shape)s) * (s == HEAD ? 1 : (int)LAYERS), true,
                               (uint32_t)s);
    shared.rows = alloc_filled((int64_t)ROWS_MAX * ATT_WIDTH * 2, false, 1);
    shared.operand =
        alloc_filled(operand_bytes(operand_rows(ROWS_MAX), ATT_WIDTH, ROUNDS_TO_F16), false, 2);
    shared.bias = (float *)alloc_filled(VOCABULARY * 4, false, 3);
    shared.cos_sin = (float *)alloc_filled(ROWS_MAX * 64 * 4, false, 4);
    shared.pages = alloc_filled((int64_t)shared.pages_bytes, false, 5);
    CHECK(cudaMalloc(&shared.out, (size_t)ROWS_MAX * VOCABULARY * 4));
    CHECK(cudaMalloc(&shared.low, (size_t)ROWS_MAX * WIDTH * 4));
    CHECK(cudaMalloc(&shared.n_live, 4));
    CHECK(cudaMalloc(&shared.mhz, 4));
    make_batch();
    CHECK(cudaDeviceSynchronize());
}

int main(int argc, char **argv)
{
    static const int checked[][2] = {{65, 65},   {72, 66},   {128, 128}, {144, 129},
                                     {200, 200}, {256, 250}, {300, 300}};
    static const int many[][2] = {{384, 380}, {512, 512}, {640, 577}, {1024, 1024}};
    int n_bad = 0;
    cudaStream_t stream;

    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    make_shared();
    for (int s = 0; s < N_SHAPES; s++) {
        for (const int *n : checked)
            if (s != HEAD || n[0] == 72 || n[0] == 300)
                n_bad += check(stream, (enum shape)s, n[0], n[1]);
        for (const int *n : many)
            if (s == QKV || s == OUT)
                n_bad += check(stream, (enum shape)s, n[0], n[1]);
    }
    printf("checked: %d differ\n", n_bad);
    has_operand_kernel = false;
    for (int i = 1; i < argc; i++)
        for (int s = 0; s < N_SHAPES; s++)
            if (s == QKV || s == OUT || s == HEAD)
                measure(stream, (enum shape)s, std::max(1, std::min(atoi(argv[i]), (int)ROWS_MAX)));
    return n_bad > 0;
}
