/* Benchmark of the decode kernels: layers of gpt-oss-120b's shape, each with its own weights, as
 * one CUDA graph of dependent launches in the order of a decode step. Prints us per layer for the
 * selected parts: q (norm, QKV, KV pages), a (attention), p (output projection and router) or o
 * (output projection) and r (router), l (q, a and p in one kernel, one row), u (up) and d (down; the
 * top-k uses the router sums of p if p is selected), or e (both products of the experts in one
 * kernel, one row). =PARTS compares the results with those of the kernels of qap.
 *
 *     make && nvcc -std=c++17 -O2 -arch=sm_90a -Isrc -o build/decode_cuda bench/decode_cuda.cu \
 *         build/obj/src/cuda/decode/decode_{qkv,out,matmul,up,down,experts}.cu.o \
 *         build/obj/src/cuda/layer/attn_layer.cu.o \
 *         build/obj/src/cuda/attention/attn_{decode,one_block,rows,window}.cu.o \
 *         build/obj/src/cuda/weights/expert_grid.cu.o \
 *         build/obj/src/cuda/launch/{launch_list,kernel_table}.o build/obj/src/backend/batch.o
 *     build/decode_cuda [tokens [rows [parts]...]] */
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <cuda_fp16.h>

#include "graph_times.h"

extern "C" {
#include "backend/kv_page.h"
}
#include "cuda/attention/attn.h"
#include "cuda/common/expert_sums.h"
#include "cuda/common/layout.h"
#include "cuda/common/out_sums.h"
#include "cuda/decode/decode.h"
#include "cuda/layer/attn_layer.h"

enum {
    WIDTH = 2880,
    HEADS = 64,
    KV_HEADS = 8,
    HEAD = 64,
    QKV_ROWS = (HEADS + 2 * KV_HEADS) * HEAD,
    ATT = HEADS * HEAD,
    EXPERTS = 128,
    ACTIVE = 4,
    LAYERS = 36,
    ROWS_MAX = 4,
    WINDOW = 128
};

/* Codes and scales of MXFP4 units, or BF16 numbers of both signs. */
static __global__ void fill(uint32_t *words, int64_t n, int64_t matrix_words, bool is_mxfp4,
                            uint32_t seed)
{
    for (int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x; i < n;
         i += gridDim.x * (int64_t)blockDim.x) {
        const int64_t at = i % matrix_words * 4 % MXFP4_UNIT_BYTES;
        uint64_t x = (uint64_t)(i + 1) * 0x9E3779B97F4A7C15u + seed * 0xD1B54A32D192ED03u;

        x ^= x >> 31, x *= 0xBF58476D1CE4E5B9u, x ^= x >> 27, x *= 0x94D049BB133111EBu;
        x ^= x >> 31;
        words[i] = !is_mxfp4                  ? ((uint32_t)x & 0x80FF80FFu) | 0x3C003C00u
                   : at < MXFP4_SCALES_OFFSET ? (uint32_t)x
                                              : 0x75757575u + ((uint32_t)x & 0x01010101u);
    }
}

static char *alloc_filled(int64_t n_bytes, int64_t matrix_bytes, bool is_mxfp4, uint32_t seed)
{
    char *at;

    CHECK(cudaMalloc(&at, (size_t)n_bytes));
    fill<<<2048, 256>>>((uint32_t *)at, n_bytes / 4, matrix_bytes / 4, is_mxfp4, seed);
    return at;
}

static float *zeros(int64_t n)
{
    float *at;

    CHECK(cudaMalloc(&at, (size_t)n * 4));
    CHECK(cudaMemset(at, 0, (size_t)n * 4));
    return at;
}

struct layer {
    char *qkv, *o, *router, *up, *down, *norm, *bias, *pages;
    float *grid;
};

static struct layer layers[LAYERS];
static float *x, *y, *q, *att, *router_logits, *gates, *h, *cos_sin, *sinks;
static int32_t *ids, *poison;
static uint16_t *gated;
static uint64_t *n_read, *sums;
static int32_t *expert_sums;
static char *merge_bufs, *layer_partials;
static uint32_t *layer_words;
static struct batch *batch_host;
static const struct batch *batch_device;

static int64_t bytes_of(int n_rows, int n_columns)
{
    return units_of(n_rows, UNIT_ROWS) * units_of(n_columns, UNIT_COLUMNS) * MXFP4_UNIT_BYTES;
}

static int64_t expert_bytes(int n_rows)
{
    return bytes_of(n_rows, WIDTH) + units_of(units_of(n_rows, 64) * 64, 128) * 128;
}

static void make_batch(int n_tokens, int n_rows)
{
    const int n_pages = (n_tokens + PAGE_TOKENS - 1) / PAGE_TOKENS;
    struct batch_counts n = {n_rows, n_rows, 0, n_rows * n_pages};
    struct batch *b = batch_init(calloc(1, (size_t)batch_bytes(n)), n);

    for (int r = 0; r < n_rows; r++) {
        struct batch_seq *seq = (struct batch_seq *)BATCH_SEQS(b) + r;

        seq->first_row = r, seq->n_rows = 1;
        for (int g = 0; g < N_PAGE_GROUPS; g++)
            seq->table[g] = r * n_pages, seq->n_pages[g] = n_pages;
        for (int p = 0; p < n_pages; p++)
            ((int32_t *)BATCH_PAGES(b))[r * n_pages + p] = r * n_pages + p;
        ((int32_t *)BATCH_POSITIONS(b))[r] = n_tokens - 1;
        ((int32_t *)BATCH_ROW_SEQ(b))[r] = r;
        ((int32_t *)BATCH_PHASES(b))[r] = PHASE_DECODE;
    }
    batch_host = b;
    CHECK(cudaMalloc((void **)&batch_device, (size_t)b->size_bytes));
    CHECK(cudaMemcpy((void *)batch_device, b, (size_t)b->size_bytes, cudaMemcpyHostToDevice));
}

/* Scales of the integer sums of a layer's experts. */
static float *grid_of(const struct layer *l)
{
    struct experts_args a = {};
    struct expert_bounds bounds;
    float *grid = zeros(expert_grid_floats(WIDTH));

    a.w_down = {DTYPE_MXFP4, 3, {EXPERTS, WIDTH, WIDTH}, l->down, NULL, LAYOUT_PACKED};
    a.b_down = {DTYPE_BF16, 2, {EXPERTS, WIDTH}, l->bias, NULL, LAYOUT_PACKED};
    a.limit = 7.0f, a.alpha = 1.702f, a.slice_units = gpu_expert_units_per_slice(WIDTH);
    bounds.slices = zeros((int64_t)EXPERTS * EXPERT_SLICES * WIDTH);
    bounds.columns = zeros(2 * WIDTH);
    launch_expert_bounds(0, &bounds, &a, 0, 1);
    launch_expert_grid(0, grid, &bounds, &a, 1);
    return grid;
}

static void make_layers(int n_tokens, int n_rows)
{
    const int64_t n_pages = (int64_t)n_rows * ((n_tokens + PAGE_TOKENS - 1) / PAGE_TOKENS);

    for (int i = 0; i < LAYERS; i++) {
        struct layer *l = &layers[i];

        l->qkv = alloc_filled(bytes_of(QKV_ROWS, WIDTH), MXFP4_UNIT_BYTES, true, i * 8 + 1);
        l->o = alloc_filled(bytes_of(WIDTH, ATT), MXFP4_UNIT_BYTES, true, i * 8 + 2);
        l->router = alloc_filled(EXPERTS * WIDTH * 2, 4, false, i * 8 + 3);
        l->up = alloc_filled(EXPERTS * expert_bytes(2 * WIDTH), expert_bytes(2 * WIDTH), true,
                             i * 8 + 4);
        l->down = alloc_filled(EXPERTS * expert_bytes(WIDTH), expert_bytes(WIDTH), true, i * 8 + 5);
        l->norm = alloc_filled(8192, 4, false, i * 8 + 6);
        l->bias = alloc_filled(EXPERTS * BF16_UNIT_BYTES * 90, 4, false, i * 8 + 7);
        l->pages =
            alloc_filled(n_pages * kv_page_bytes(DTYPE_BF16, KV_HEADS, HEAD), 4, false, i * 8 + 8);
        l->grid = grid_of(l);
    }
    x = (float *)alloc_filled(ROWS_MAX * WIDTH * 4, 4, false, 1000);
    y = zeros(ROWS_MAX * WIDTH), h = zeros(ROWS_MAX * WIDTH), q = zeros(ROWS_MAX * ATT);
    att = zeros(ROWS_MAX * ATT), router_logits = zeros(ROWS_MAX * EXPERTS);
    gates = zeros(ROWS_MAX * ACTIVE), ids = (int32_t *)zeros(ROWS_MAX * ACTIVE);
    poison = (int32_t *)zeros(ROWS_MAX);
    gated = (uint16_t *)zeros(ROWS_MAX * ACTIVE * WIDTH), n_read = (uint64_t *)zeros(2);
    cos_sin = (float *)alloc_filled(ROWS_MAX * HEAD * 4, 4, false, 1001), sinks = zeros(HEADS);
    sums = (uint64_t *)zeros(DECODE_FUSED_MAX * 4 * ROUTER_ROW_SUMS + 1024);
    expert_sums = (int32_t *)zeros(WIDTH);
    merge_bufs = (char *)zeros(ROWS_MAX * KV_HEADS * (int64_t)ATTN_MERGE_BYTES / 4);
    layer_partials = (char *)zeros(LAYER_PARTIALS_BYTES / 4);
    layer_words = (uint32_t *)zeros(2 * LAYER_WORDS);
    CHECK(cudaMemset(layer_partials, 0xFF, LAYER_PARTIALS_BYTES));
    CHECK(cudaMemset(layer_words, 0xFF, 2 * LAYER_WORDS * 4));
}

static struct decode_vector bf16(const void *data, int n)
{
    return {data, VECTOR_BF16, n};
}

/* Those of the layer before, whose units are taken from this layer: their size matters only. */
static struct expert_sums sums_of_experts(const struct layer *l)
{
    return {expert_sums, l->grid + WIDTH, poison};
}

static struct decode_rows normed_x(const struct layer *l, bool has_expert_sums)
{
    struct decode_rows rows = {};

    if (has_expert_sums)
        rows.sums = sums_of_experts(l);
    rows.x = x, rows.n = WIDTH, rows.norm = bf16(l->norm, WIDTH), rows.eps = 1e-5f, rows.y = y;
    return rows;
}

static struct decode_matrix matrix(const char *units, int64_t matrix_bytes, int n_rows,
                                   int n_columns)
{
    return {(const unsigned char *)units, matrix_bytes, n_rows,
            (int32_t)units_of(n_columns, UNIT_COLUMNS)};
}

static struct decode_qkv qkv_of(const struct layer *l, int n_rows, bool has_expert_sums)
{
    struct decode_qkv p = {};
    const int heads[3] = {HEADS, KV_HEADS, KV_HEADS};
    const char *at = l->qkv;

    p.rows = normed_x(l, has_expert_sums);
    for (int i = 0; i < 3; i++) {
        p.units[i] = (const unsigned char *)at;
        p.bias[i] = bf16(l->bias + i * 16384, heads[i] * HEAD);
        at += bytes_of(heads[i] * HEAD, WIDTH);
    }
    p.q = q, p.pages = l->pages, p.cos_sin = cos_sin, p.batch = batch_device;
    p.kv_half_bytes = kv_side_bytes(DTYPE_BF16, HEAD);
    p.n_q = HEADS, p.n_kv = KV_HEADS, p.n_tokens = n_rows, p.group = GROUP_FULL;
    p.is_mxfp4 = p.is_cache_bf16 = true;
    p.router_sums = sums;
    return p;
}

static struct decode_matmul o_of(const struct layer *l, int n_rows)
{
    struct decode_matmul p = {};

    p.rows.x = att, p.rows.n = ATT;
    p.w = matrix(l->o, 0, WIDTH, ATT);
    p.bias = bf16(l->bias + 65536, WIDTH);
    p.out = x, p.out_width = WIDTH, p.n_tokens = n_rows, p.is_mxfp4 = p.adds = true;
    p.slice_units = out_slice_units(p.w.n_units, KV_HEADS);
    return p;
}

static struct decode_out out_of(const struct layer *l, int n_rows, bool has_expert_sums)
{
    struct decode_out o = {};

    o.p = o_of(l, n_rows);
    o.router = matrix(l->router, 0, EXPERTS, WIDTH);
    o.norm = bf16(l->norm, WIDTH);
    o.sums = sums;
    if (has_expert_sums)
        o.expert = sums_of_experts(l);
    return o;
}

static struct decode_matmul router_of(const struct layer *l, int n_rows)
{
    struct decode_matmul p = {};

    p.rows = normed_x(l, false);
    p.w = matrix(l->router, 0, EXPERTS, WIDTH);
    p.bias = bf16(l->bias + 131072, EXPERTS);
    p.out = router_logits, p.out_width = EXPERTS, p.n_tokens = n_rows, p.is_exact = true;
    return p;
}

static struct decode_experts experts_of(const struct layer *l, int n_rows, bool has_sums)
{
    struct decode_experts p = {};

    p.up = matrix(l->up, expert_bytes(2 * WIDTH), 2 * WIDTH, WIDTH);
    p.down = matrix(l->down, expert_bytes(WIDTH), WIDTH, WIDTH);
    p.bias_up = {l->bias, VECTOR_PACKED, 90};
    p.bias_down = {l->bias, VECTOR_PACKED, 45};
    p.y = y, p.router_logits = router_logits, p.units = gated, p.x = x, p.h = h, p.ids = ids,
    p.gates = gates;
    p.n_read = n_read, p.n_tokens = n_rows, p.n_ranks = ACTIVE, p.n_experts = EXPERTS;
    p.slice_units = gpu_expert_units_per_slice(WIDTH);
    p.n_columns = WIDTH, p.n_units = WIDTH, p.limit = 7.0f, p.alpha = 1.702f;
    p.grid = l->grid, p.poison = poison, p.sums = expert_sums;
    if (has_sums)
        p.topk_input = {sums, x, bf16(l->norm, WIDTH), bf16(l->bias + 131072, EXPERTS), 1e-5f};
    return p;
}

static struct attn_launch attn_of(const struct layer *l, int n_tokens, int n_rows, int window)
{
    const int n = window > 0 ? std::min(attn_units(0, n_tokens), 9) : attn_units(0, n_tokens);
    const int64_t n_pages = (int64_t)n_rows * ((n_tokens + PAGE_TOKENS - 1) / PAGE_TOKENS);
    const struct batch *b = batch_host;
    struct attn_launch a = {};

    a.args.q = {DTYPE_F32, 2, {n_rows, ATT}, q, NULL, LAYOUT_ROWS};
    a.args.att = {DTYPE_F32, 2, {n_rows, ATT}, att, NULL, LAYOUT_ROWS};
    a.args.sinks = {DTYPE_F32, 1, {HEADS}, sinks, NULL, LAYOUT_ROWS};
    a.args.kv = {DTYPE_BF16, 5,    {n_pages, 2, KV_HEADS, PAGE_TOKENS, HEAD},
                 l->pages,   NULL, LAYOUT_ROWS};
    a.args.window_tokens = window, a.args.scale = 0.125f, a.args.group = GROUP_FULL;
    a.batch = batch_device;
    a.rows = {(const int32_t *)batch_at(a.batch, b->offset_positions),
              (const int32_t *)batch_at(a.batch, b->offset_row_seq),
              (const int32_t *)batch_at(a.batch, b->offset_phases),
              (const int32_t *)batch_at(a.batch, b->offset_pages),
              (const struct batch_seq *)batch_at(a.batch, b->offset_seqs)};
    a.n_rows = a.n_seqs = n_rows, a.n_group = HEADS / KV_HEADS;
    a.n_units = attn_units_bucket(n), a.n_splits = attn_splits(a.n_units, ATTN_SPLITS_MAX);
    a.merge_bufs = merge_bufs;
    return a;
}

static uint64_t *sums_of_layer(int i, bool has_layer)
{
    return sums + (has_layer ? i % 2 * DECODE_FUSED_MAX * ROUTER_ROW_SUMS : 0);
}

static struct decode_attn_layer attn_layer_of(const struct layer *l, int i, int n_tokens,
                                              bool has_expert_sums)
{
    const struct attn_launch a = attn_of(l, n_tokens, 1, i % 2 == 1 ? 0 : WINDOW);
    struct decode_attn_layer f = {};

    f.qkv = qkv_of(l, 1, has_expert_sums);
    f.out = out_of(l, 1, has_expert_sums);
    f.out.sums = sums_of_layer(i, true);
    f.sums_before = sums_of_layer(i + 1, true);
    f.sinks = sinks;
    f.seqs = a.rows.seqs, f.positions = a.rows.positions, f.row_seq = a.rows.row_seq;
    f.pages_of_batch = a.rows.pages;
    f.window = a.args.window_tokens, f.scale = a.args.scale;
    f.words = layer_words + i % 2 * LAYER_WORDS;
    f.words_before = layer_words + (i + 1) % 2 * LAYER_WORDS;
    f.partials = layer_partials;
    return f;
}

static void launch_layer(struct launch_list *list, int i, const char *parts, int n_tokens,
                         int n_rows)
{
    const struct layer *l = &layers[i];
    const bool has_layer = strchr(parts, 'l') != NULL;
    struct decode_experts e = experts_of(l, n_rows, has_layer || strchr(parts, 'p') != NULL);
    const bool has_expert_sums = strchr(parts, 'e') != NULL;

    if (has_layer)
        e.topk_input.sums = sums_of_layer(i, true);
    for (const char *part = parts; *part != '\0'; part++) {
        bool is_done = true;

        if (*part == 'l') {
            const struct decode_attn_layer p = attn_layer_of(l, i, n_tokens, has_expert_sums);
            is_done = launch_decode_attn_layer(list, &p);
        } else if (*part == 'q') {
            const struct decode_qkv p = qkv_of(l, n_rows, has_expert_sums);
            is_done = launch_decode_qkv(list, &p);
        } else if (*part == 'a' || *part == 'f' || *part == 'w') {
            const bool is_full = *part == 'f' || (*part == 'a' && i % 2 == 1);
            const struct attn_launch p = attn_of(l, n_tokens, n_rows, is_full ? 0 : WINDOW);
            launch_attn_decode(list, &p);
        } else if (*part == 'p') {
            const struct decode_out p = out_of(l, n_rows, has_expert_sums);
            is_done = launch_decode_out(list, &p);
        } else if (*part == 'o' || *part == 'r') {
            const struct decode_matmul p = *part == 'o' ? o_of(l, n_rows) : router_of(l, n_rows);
            is_done = launch_decode_matmul(list, &p);
        } else if (*part == 'e') {
            is_done = launch_decode_experts_row(list, &e);
        } else {
            is_done = *part == 'u' ? launch_decode_up(list, &e) : launch_decode_down(list, &e);
        }
        if (!is_done)
            printf("%c does not fit\n", *part);
    }
}

static void measure(cudaStream_t stream, const char *parts, int n_tokens, int n_rows)
{
    enum { TIMES = 12 };
    const std::vector<float> times = graph_times(stream, TIMES, [&](struct launch_list *list) {
        for (int i = 0; i < LAYERS; i++)
            launch_layer(list, i, parts, n_tokens, n_rows);
    });

    printf("%-8s %5d tokens %d rows: %6.2f us a layer (least %6.2f)\n", parts, n_tokens, n_rows,
           times[TIMES / 2] * 1e3 / LAYERS, times[0] * 1e3 / LAYERS);
    fflush(stdout);
}

/* ---- the same results ---- */

struct results {
    std::vector<char> x, expert_sums, ids, gates, logits, pages;
};

static std::vector<char> copy_of(const void *from, size_t n_bytes)
{
    std::vector<char> to(n_bytes);

    CHECK(cudaMemcpy(to.data(), from, n_bytes, cudaMemcpyDeviceToHost));
    return to;
}

static void reset(const std::vector<char> &x0, const std::vector<char> &pages0, size_t page_bytes)
{
    CHECK(cudaMemcpy(x, x0.data(), x0.size(), cudaMemcpyHostToDevice));
    CHECK(cudaMemset(sums, 0, 2 * DECODE_FUSED_MAX * ROUTER_ROW_SUMS * 8));
    CHECK(cudaMemset(expert_sums, 0, WIDTH * 4));
    CHECK(cudaMemset(poison, 0, 4));
    for (int i = 0; i < LAYERS; i++)
        CHECK(cudaMemcpy(layers[i].pages, pages0.data() + i * page_bytes, page_bytes,
                         cudaMemcpyHostToDevice));
}

static struct results results_of(cudaStream_t stream, const char *parts, int n_tokens,
                                 size_t page_bytes)
{
    const bool has_layer = strchr(parts, 'l') != NULL;
    struct results r;

    launch_once(stream, [&](struct launch_list *list) {
        for (int i = 0; i < LAYERS; i++)
            launch_layer(list, i, parts, n_tokens, 1);
    });
    CHECK(cudaStreamSynchronize(stream));
    r.x = copy_of(x, WIDTH * 4), r.expert_sums = copy_of(expert_sums, WIDTH * 4);
    r.ids = copy_of(ids, ACTIVE * 4), r.gates = copy_of(gates, ACTIVE * 4);
    r.logits = copy_of(sums_of_layer(LAYERS - 1, has_layer), ROUTER_ROW_SUMS * 8);
    uint64_t *s = (uint64_t *)r.logits.data();
    for (int i = 0; i < ROUTER_COPY_SUMS; i++)
        s[i] += s[ROUTER_COPY_SUMS + i], s[ROUTER_COPY_SUMS + i] = 0;
    for (int i = 0; i < LAYERS; i++) {
        const std::vector<char> p = copy_of(layers[i].pages, page_bytes);
        r.pages.insert(r.pages.end(), p.begin(), p.end());
    }
    return r;
}

static void compare(const char *what, const std::vector<char> &a, const std::vector<char> &b)
{
    size_t n = 0, first = a.size();

    for (size_t i = 0; i < a.size(); i++)
        if (a[i] != b[i]) {
            first = n == 0 ? i : first;
            n++;
        }
    printf(" %s %s", what, n == 0 ? "same" : "DIFFERS");
    if (n > 0)
        printf(" (%zu bytes of %zu, first %zu)", n, a.size(), first);
}

static void check(cudaStream_t stream, const char *parts, const char *layer, int n_tokens)
{
    const size_t page_bytes = (size_t)((n_tokens + PAGE_TOKENS - 1) / PAGE_TOKENS) *
                              kv_page_bytes(DTYPE_BF16, KV_HEADS, HEAD);
    static std::vector<char> x0;
    std::vector<char> pages0;

    if (x0.empty())
        x0 = copy_of(x, WIDTH * 4);
    for (int i = 0; i < LAYERS; i++) {
        const std::vector<char> p = copy_of(layers[i].pages, page_bytes);
        pages0.insert(pages0.end(), p.begin(), p.end());
    }
    reset(x0, pages0, page_bytes);
    const struct results a = results_of(stream, parts, n_tokens, page_bytes);
    for (int k = 0; k < 2; k++) {
        reset(x0, pages0, page_bytes);
        const struct results b = results_of(stream, layer, n_tokens, page_bytes);
        printf("%s against %s, %d tokens:", layer, parts, n_tokens);
        compare("x", a.x, b.x), compare("experts", a.expert_sums, b.expert_sums);
        compare("ids", a.ids, b.ids), compare("gates", a.gates, b.gates);
        compare("logits", a.logits, b.logits), compare("pages", a.pages, b.pages);
        compare("(before)", pages0, b.pages);
        printf("\n");
        fflush(stdout);
    }
    reset(x0, pages0, page_bytes);
}

/* Stage by stage, one layer. */
static void check_stages(cudaStream_t stream, const char *layer, int n_tokens)
{
    const size_t page_bytes = (size_t)((n_tokens + PAGE_TOKENS - 1) / PAGE_TOKENS) *
                              kv_page_bytes(DTYPE_BF16, KV_HEADS, HEAD);

    for (int i = 0; i < 2; i++) {
        const std::vector<char> x0 = copy_of(x, WIDTH * 4);
        const std::vector<char> p0 = copy_of(layers[i].pages, page_bytes);
        std::vector<char> q_ref, att_ref, x_ref, p_ref, h_ref(ATT * 2);

        CHECK(cudaMemset(sums, 0, 4 * DECODE_FUSED_MAX * ROUTER_ROW_SUMS * 4));
        launch_once(stream,
                    [&](struct launch_list *list) { launch_layer(list, i, "qap", n_tokens, 1); });
        CHECK(cudaStreamSynchronize(stream));
        q_ref = copy_of(q, ATT * 4), att_ref = copy_of(att, ATT * 4), x_ref = copy_of(x, WIDTH * 4);
        p_ref = copy_of(layers[i].pages, page_bytes);
        for (int k = 0; k < ATT; k++)
            ((__half *)h_ref.data())[k] = __float2half_rn(((const float *)att_ref.data())[k]);
        CHECK(cudaMemcpy(x, x0.data(), x0.size(), cudaMemcpyHostToDevice));
        CHECK(cudaMemcpy(layers[i].pages, p0.data(), page_bytes, cudaMemcpyHostToDevice));
        launch_once(stream,
                    [&](struct launch_list *list) { launch_layer(list, i, layer, n_tokens, 1); });
        CHECK(cudaStreamSynchronize(stream));
        const char *words = (const char *)(layer_words + i % 2 * LAYER_WORDS);
        printf("layer %d of %s, %d tokens:", i, layer, n_tokens);
        compare("q", q_ref, copy_of(words, ATT * 4));
        compare("att", h_ref, copy_of(words + LAYER_ATT_AT * 4, ATT * 2));
        compare("x", x_ref, copy_of(x, WIDTH * 4));
        compare("pages", p_ref, copy_of(layers[i].pages, page_bytes));
        compare("(before)", p0, copy_of(layers[i].pages, page_bytes));
        printf("\n");
        CHECK(cudaMemcpy(x, x0.data(), x0.size(), cudaMemcpyHostToDevice));
        CHECK(cudaMemset(layer_words + i % 2 * LAYER_WORDS, 0xFF, LAYER_WORDS * 4));
        CHECK(cudaMemset(sums, 0, 4 * DECODE_FUSED_MAX * ROUTER_ROW_SUMS * 4));
        fflush(stdout);
    }
}

int main(int argc, char **argv)
{
    const int n_tokens = argc > 1 ? atoi(argv[1]) : 2048, n_rows = argc > 2 ? atoi(argv[2]) : 1;
    static const char *const all[] = {"qapud", "qape", "qwp", "qfp"};
    cudaStream_t stream;

    if (n_tokens < 1 || n_rows < 1 || n_rows > ROWS_MAX) {
        printf("tokens from 1 on, and 1 to %d rows\n", ROWS_MAX);
        return 2;
    }
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    make_batch(n_tokens, n_rows);
    make_layers(n_tokens, n_rows);
    CHECK(cudaDeviceSynchronize());
    for (int i = 3; i < (argc > 3 ? argc : 7); i++) {
        const char *parts = argc > 3 ? argv[i] : all[i - 3];

        if (parts[0] == '=') {
            check(stream, strchr(parts, 'e') != NULL ? "qape" : "qap", parts + 1, n_tokens);
        } else if (parts[0] == '?') {
            check_stages(stream, parts + 1, n_tokens);
        } else {
            measure(stream, parts, n_tokens, n_rows);
        }
    }
    return 0;
}
