/* Benchmark of the prefill GEMM (gemm_sm90.cu) on Hopper, in every tile shape: a dense matrix with
 * a given number of tokens, the router's, and the experts of a layer. Weights are random, in
 * several copies, so that L2 holds none of them. Prints us per launch, Tflop/s, whether all shapes
 * gave the same bits, and a checksum of them, by which builds are compared; for the router also the
 * largest error against sums in double. Exit status 1: the bits differ, or the error is above 2e-5
 * of 1 + |value|.
 *
 *     make && nvcc -std=c++17 -O2 -arch=sm_90a -Isrc -o build/gemm_cuda bench/gemm_cuda.cu \
 *         build/obj/src/cuda/prefill/{gemm_sm90,operand,expert_lists}.cu.o \
 *         build/obj/src/cuda/launch/{launch_list,kernel_table}.o
 *     build/gemm_cuda [TOKENS]... */
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "run_launches.h"
#include "cuda/prefill/gemm.h"

enum { C = 2880, F = 2880, QKV = 5120, HEADS = 4096, E = 128, A = 4, T_MAX = 8192, THREADS = 256 };
static const size_t POOL_BYTES = (size_t)4 << 30;
static cudaStream_t stream;
static char *pool;
static float *x, *out, *bias;
static bool is_wrong;

static __device__ __host__ uint32_t hash(uint64_t i)
{
    uint64_t v = (i + 1) * 0x9E3779B97F4A7C15u;

    v ^= v >> 31, v *= 0xBF58476D1CE4E5B9u, v ^= v >> 27;
    return (uint32_t)(v >> 16);
}

static __global__ void fill_floats(float *to, int64_t n, float scale)
{
    for (int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x; i < n;
         i += gridDim.x * (int64_t)blockDim.x)
        to[i] = ((float)hash(i) / 4294967296.0f - 0.5f) * scale;
}

/* Bytes of packed matrices: random codes, scales up to 120, which is the largest of each row. */
static __global__ void fill_mxfp4(unsigned char *to, int64_t n, int64_t matrix_bytes, int64_t tops)
{
    for (int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x; i < n;
         i += gridDim.x * (int64_t)blockDim.x) {
        const int64_t at = i % matrix_bytes;

        to[i] = at >= tops                                              ? 120
                : at % MXFP4_UNIT_BYTES >= (int64_t)MXFP4_SCALES_OFFSET ? 117 + hash(i) % 4
                                                                        : hash(i) & 255;
    }
}

static __global__ void fill_bf16(uint16_t *to, int64_t n)
{
    for (int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x; i < n;
         i += gridDim.x * (int64_t)blockDim.x)
        to[i] = (uint16_t)((hash(i) & 0x80FF) | 0x3D00);
}

static __global__ void add_bits(const uint32_t *words, int64_t n, unsigned long long *sum)
{
    unsigned long long mine = 0;

    for (int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x; i < n;
         i += gridDim.x * (int64_t)blockDim.x)
        mine += (unsigned long long)words[i] * (2 * (unsigned long long)i + 1);
    atomicAdd(sum, mine);
}

static __global__ void find_error(const struct tensor w, const float *x, const float *out,
                                  unsigned *largest)
{
    const int row = threadIdx.x, token = blockIdx.x;
    double sum = 0;

    for (int c = 0; c < C; c++)
        sum += (double)weight_at(&w, 0, row, c) * (double)x[(int64_t)token * C + c];
    atomicMax(largest,
              __float_as_uint((float)(fabs(out[token * E + row] - sum) / (1 + fabs(sum)))));
}

static unsigned long long bits_of(const float *from, int64_t n)
{
    unsigned long long *sum, host;

    CHECK(cudaMallocAsync(&sum, 8, stream));
    CHECK(cudaMemsetAsync(sum, 0, 8, stream));
    add_bits<<<1024, THREADS, 0, stream>>>((const uint32_t *)from, n, sum);
    CHECK(cudaMemcpyAsync(&host, sum, 8, cudaMemcpyDeviceToHost, stream));
    CHECK(cudaFreeAsync(sum, stream));
    CHECK(cudaStreamSynchronize(stream));
    return host;
}

/* Microseconds per launch of the launches that `add` appends. */
template <typename Add> static float time_of(Add add)
{
    struct launch_list list = make_launches(add);
    cudaEvent_t a, b;
    float best = 1e9f, ms;

    CHECK(cudaEventCreate(&a));
    CHECK(cudaEventCreate(&b));
    for (int i = 0; i < 4; i++) {
        CHECK(cudaEventRecord(a, stream));
        run_launches(stream, &list);
        CHECK(cudaEventRecord(b, stream));
        CHECK(cudaStreamSynchronize(stream));
        CHECK(cudaEventElapsedTime(&ms, a, b));
        best = ms < best ? ms : best;
    }
    CHECK(cudaEventDestroy(a));
    CHECK(cudaEventDestroy(b));
    best = best * 1e3f / list.n;
    launch_list_free(&list);
    return best;
}

static struct tensor packed(enum dtype dtype, int n_experts, int rows, int columns)
{
    struct tensor t = {dtype, 2, {rows, columns}, pool, NULL, LAYOUT_PACKED};

    if (n_experts > 0)
        t = {dtype, 3, {n_experts, rows, columns}, pool, NULL, LAYOUT_PACKED};
    return t;
}

static struct operand operand_for(int64_t n_rows, int64_t columns, enum rounding rounding)
{
    struct operand o = {NULL, n_rows, rounding};

    CHECK(cudaMalloc(&o.data, operand_bytes(n_rows, columns, rounding)));
    CHECK(cudaMemset(o.data, 0, operand_bytes(n_rows, columns, rounding)));
    return o;
}

static void compare(unsigned long long *first, unsigned long long bits)
{
    *first = *first == 0 ? bits : *first;
    if (bits != *first)
        printf(" BITS DIFFER"), is_wrong = true;
}

static void fill_packed(const struct tensor *w, int64_t n_matrices)
{
    const int64_t bytes = matrix_bytes(w);

    if (w->dtype == DTYPE_MXFP4)
        fill_mxfp4<<<1024, THREADS, 0, stream>>>((unsigned char *)w->data, n_matrices * bytes,
                                                 bytes, mxfp4_tops_offset(w));
    else
        fill_bf16<<<1024, THREADS, 0, stream>>>((uint16_t *)w->data, n_matrices * bytes / 2);
}

/* ---- one matrix ---- */

/* The largest error of a GEMM without bias, relative to 1 + |value|, over some tokens. */
static float error_of(struct gemm g, const struct tensor *w)
{
    const int n_looked_at = g.n_tokens < 256 ? g.n_tokens : 256;
    unsigned *largest, bits;
    float error;

    g.bias[0].data = NULL;
    g.w[0] = *w;
    launch_once(stream, [&](struct launch_list *list) { launch_gemm(list, &g); });
    CHECK(cudaMalloc(&largest, 4));
    CHECK(cudaMemsetAsync(largest, 0, 4, stream));
    find_error<<<n_looked_at, (unsigned)w->dim[0], 0, stream>>>(*w, x, out, largest);
    CHECK(cudaStreamSynchronize(stream));
    CHECK(cudaMemcpy(&bits, largest, 4, cudaMemcpyDeviceToHost));
    CHECK(cudaFree(largest));
    memcpy(&error, &bits, 4);
    return error;
}

static struct gemm gemm_of(const struct tensor *w, bool is_exact, int T)
{
    const enum rounding rounding = w->dtype == DTYPE_MXFP4 ? ROUNDS_TO_F16
                                   : is_exact              ? ROUNDS_TO_3_BF16
                                                           : ROUNDS_TO_BF16;
    const struct operand_source from = {x, w->dim[1], NULL, 0};
    struct gemm g = {};

    g.w[0] = *w;
    g.bias[0] = {DTYPE_F32, 1, {w->dim[0]}, bias, NULL, LAYOUT_ROWS};
    g.out[0] = out;
    g.out_width[0] = w->dim[0];
    g.n_jobs = 1;
    g.n_tokens = T;
    g.x = operand_for(operand_rows(T), w->dim[1], rounding);
    launch_once(stream,
                [&](struct launch_list *list) { launch_operand(list, &g.x, &from, T, NULL, 1); });
    return g;
}

/* Microseconds per launch with the tile of g; compares the bits. */
static float time_tile(struct gemm g, const struct tensor *w, int64_t n_copies,
                       unsigned long long *first)
{
    const int64_t n_sums = g.n_tokens * g.out_width[0], bytes = matrix_bytes(w);

    CHECK(cudaMemsetAsync(out, 0xFF, n_sums * 4, stream));
    launch_once(stream, [&](struct launch_list *list) { launch_gemm(list, &g); });
    compare(first, bits_of(out, n_sums));
    return time_of([&](struct launch_list *list) {
        for (int k = 0; k < (g.n_tokens > 1024 ? 8 : 32); k++) {
            g.w[0].data = pool + k % n_copies * bytes;
            launch_gemm(list, &g);
        }
    });
}

static void measure_matrix(const char *name, const struct tensor &w, bool is_exact, int T)
{
    const int64_t n_copies = (256 << 20) / matrix_bytes(&w) + 1;
    const int rows = (int)w.dim[0], columns = (int)w.dim[1];
    unsigned long long first = 0;
    struct gemm g;

    fill_packed(&w, n_copies);
    g = gemm_of(&w, is_exact, T);
    printf("%s %d x %d, %d tokens: us", name, rows, columns, T);
    for (int s = 0; s < N_GEMM_SHAPES; s++)
        for (int n = gemm_tokens_max((enum gemm_shape)s); n >= 16; n -= 16) {
            if (n > 128 || (n > T + 15 && n > 16))
                continue;
            g.shape = (enum gemm_shape)s;
            g.n_tile_tokens = n;
            printf(" %dx%d %.1f", gemm_rows(g.shape), n, time_tile(g, &w, n_copies, &first));
        }
    printf("; %.3f Tflop each, bits %016llx\n",
           2e-12 * rows * columns * T * rounding_terms(g.x.rounding), first);
    if (is_exact) {
        const float error = error_of(g, &w);

        printf("%s: largest error %.2g of 1 + |value|\n", name, error);
        is_wrong = is_wrong || !(error < 2e-5f);
    }
    CHECK(cudaFree(g.x.data));
    fflush(stdout);
}

/* ---- experts ---- */

struct experts {
    int32_t *ids; /* (T*A), uniformly distributed */
    float *gates;
    struct expert_lists lists;
    struct gemm up, down;
};

/* Device pointers: n ids and gates. */
static void choose_experts(struct experts *e, int n)
{
    int32_t *ids = (int32_t *)malloc(n * 4);
    float *gates = (float *)malloc(n * 4);

    for (int i = 0; i < n; i++) {
        ids[i] = (int32_t)((hash(i / A * 5) % (E / A) + i % A * (E / A)) % E);
        gates[i] = 0.25f;
    }
    CHECK(cudaMalloc(&e->ids, n * 4));
    CHECK(cudaMalloc(&e->gates, n * 4));
    CHECK(cudaMemcpy(e->ids, ids, n * 4, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(e->gates, gates, n * 4, cudaMemcpyHostToDevice));
    free(ids), free(gates);
}

static void allocate_lists(struct expert_lists *lists, int n)
{
    CHECK(cudaMalloc(&lists->experts, (E + 1) * sizeof(*lists->experts)));
    CHECK(cudaMalloc(&lists->uses, listed_rows(n, E) * sizeof(*lists->uses)));
    CHECK(cudaMalloc(&lists->n_active, 4));
    CHECK(cudaMalloc(&lists->place, n * 4));
    CHECK(cudaMalloc(&lists->n_read, 8));
    CHECK(cudaMemset(lists->n_read, 0, 8));
}

static struct experts experts_for(int n)
{
    struct experts e = {};
    struct tensor w_up = packed(DTYPE_MXFP4, E, 2 * F, C), w_down = packed(DTYPE_MXFP4, E, C, F);

    w_down.data = pool + E * matrix_bytes(&w_up);
    fill_packed(&w_up, E);
    fill_packed(&w_down, E);
    choose_experts(&e, n);
    allocate_lists(&e.lists, n);
    e.up.w[0] = w_up, e.up.bias[0] = {DTYPE_F32, 2, {E, 2 * F}, bias, NULL, LAYOUT_ROWS};
    e.down.w[0] = w_down, e.down.bias[0] = {DTYPE_F32, 2, {E, C}, bias, NULL, LAYOUT_ROWS};
    e.up.n_jobs = e.down.n_jobs = 1;
    e.up.experts = e.down.experts = e.lists.experts;
    e.up.n_active = e.down.n_active = e.lists.n_active;
    e.up.x = operand_for(listed_rows(n, E), C, ROUNDS_TO_F16);
    e.up.units = e.down.x = operand_for(listed_rows(n, E), F, ROUNDS_TO_F16);
    e.up.limit = 7, e.up.alpha = 1.702f;
    e.down.uses = e.lists.uses;
    e.down.out[0] = out;
    e.down.out_width[0] = C;
    return e;
}

static void free_experts(struct experts *e)
{
    for (void *p : {(void *)e->ids, (void *)e->gates, (void *)e->lists.experts,
                    (void *)e->lists.uses, (void *)e->lists.n_active, (void *)e->lists.place,
                    (void *)e->lists.n_read, e->up.x.data, e->down.x.data})
        CHECK(cudaFree(p));
}

/* Makes the lists and the operand for the tiles of e, and runs both products once. */
static void run_experts(struct experts *e, int T, int n_tokens_max)
{
    const struct operand_source from = {x, C, NULL, 0};

    launch_once(stream, [&](struct launch_list *list) {
        launch_expert_lists(list, &e->lists, e->ids, e->gates, T * A, E, n_tokens_max);
        launch_operand(list, &e->up.x, &from, T, e->lists.place, A);
    });
    CHECK(cudaMemsetAsync(out, 0xFF, (size_t)T * A * C * 4, stream));
    launch_once(stream, [&](struct launch_list *list) {
        launch_gemm(list, &e->up);
        launch_gemm(list, &e->down);
    });
}

static float time_gemm(const struct gemm *g)
{
    return time_of([&](struct launch_list *list) {
        for (int i = 0; i < 4; i++)
            launch_gemm(list, g);
    });
}

static void measure_experts(int T)
{
    const int n = T * A;
    struct experts e = experts_for(n);
    unsigned long long first = 0;

    printf("experts, %d tokens: us up + down", T);
    for (int s = 0; s < N_GEMM_SHAPES; s++) {
        const int n_tokens_max = gemm_tokens_max((enum gemm_shape)s);

        e.up.shape = e.down.shape = (enum gemm_shape)s;
        run_experts(&e, T, n_tokens_max);
        compare(&first, bits_of(out, (int64_t)n * C));
        const float us = time_gemm(&e.up), us_down = time_gemm(&e.down);
        printf(" %dx%d %.1f + %.1f (%.0f, %.0f Tflop/s)", gemm_rows(e.up.shape), n_tokens_max, us,
               us_down, 4e-6 * n * F * C / us, 2e-6 * n * F * C / us_down);
    }
    printf("; bits %016llx\n", first);
    fflush(stdout);
    free_experts(&e);
}

int main(int argc, char **argv)
{
    static const int usual[] = {32, 128, 512, 2048, 8192};
    const int n = argc > 1 ? argc - 1 : 5;

    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    if (!launch_gemm_available(&device_kernels()->gpu)) {
        printf("no Hopper GPU, or this build has no code for it\n");
        return 1;
    }
    CHECK(cudaMalloc(&pool, POOL_BYTES));
    CHECK(cudaMalloc(&x, (size_t)T_MAX * HEADS * 4));
    CHECK(cudaMalloc(&bias, (size_t)E * 2 * F * 4));
    CHECK(cudaMalloc(&out, (size_t)T_MAX * A * QKV * 4));
    fill_floats<<<1024, THREADS, 0, stream>>>(x, (int64_t)T_MAX * HEADS, 4);
    fill_floats<<<1024, THREADS, 0, stream>>>(bias, (int64_t)E * 2 * F, 1);
    for (int i = 0; i < n; i++) {
        const int T = argc > 1 ? atoi(argv[i + 1]) : usual[i];

        if (T < 1 || T > T_MAX)
            continue;
        measure_matrix("qkv", packed(DTYPE_MXFP4, 0, QKV, C), false, T);
        measure_matrix("out", packed(DTYPE_MXFP4, 0, C, HEADS), false, T);
        measure_matrix("router", packed(DTYPE_BF16, 0, E, C), true, T);
        measure_experts(T);
    }
    return is_wrong ? 1 : 0;
}
