/* The MXFP8 kernels on a GPU, alone. Rows rounded to MXFP8 are compared with mxfp8_block(). Matmuls
 * by block-scaled instructions, emulated on a GPU without them, are compared with the same sums on
 * the host: bit for bit where they are emulated, else within float32's rounding of sums in double.
 * Both tiles, shapes at their edges, experts without tokens, buffers full of NaN.
 *
 *     check_mxfp8        prints each check; exit status 1 when one fails */
#include <cuda_runtime_api.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "cuda/launch/kernel_table.h"
#include "cuda/common/block_scaled.h"
#include "cuda/common/mxfp8.h"

enum { EXPERTS = 5, RANKS = 2, TOKENS_MAX = 300 };

static const double ROUNDING_MAX =
    1e-6; /* of the sum of sizes: float32 sums of up to 3,000 numbers */

static int n_failed;
static uint64_t seed;
static int is_native; /* the GPU has the instruction: its sums have their own order */

static void must(cudaError_t error)
{
    if (error == cudaSuccess)
        return;
    fprintf(stderr, "%s\n", cudaGetErrorString(error));
    exit(2);
}

/* What launchers append to, and what runs it. */
static struct kernel_table kernels;
static struct launch_list list;

static void run_list(void)
{
    const struct launch *refused = kernel_table_prepare(&kernels, &list);

    if (refused != NULL) {
        fprintf(stderr, "the device cannot run %s\n", refused->name);
        exit(2);
    }
    must(launch_list_run(&list, 0, list.n, NULL));
    launch_list_clear(&list);
}

/* Memory that host and device see, full of NaN. */
static void *room(size_t size_bytes)
{
    void *data;

    must(cudaMallocManaged(&data, size_bytes + 16, cudaMemAttachGlobal));
    memset(data, 0xFF, size_bytes + 16);
    return data;
}

static void report(const char *what, int is_right, double error)
{
    n_failed += !is_right;
    printf("%-60s %s %8.1e\n", what, is_right ? "ok  " : "FAIL", error);
}

static float *some_floats(int64_t n, double size)
{
    float *x = room((size_t)n * sizeof(*x));

    seed++;
    for (int64_t i = 0; i < n; i++)
        x[i] = (float)((rng_uniform(seed, (uint64_t)i, 0) - 0.5) * 2 * size *
                       pow(4, (double)(i / 64 % 7) - 3));
    return x;
}

/* ---- weights, packed on the host by the device's functions ---- */

static struct tensor raw_weights(int rows, int columns)
{
    struct tensor t = {.dtype = DTYPE_MXFP4, .n_dims = 2, .dim = {rows, columns}};
    const int64_t n = (int64_t)rows * columns;
    uint8_t *scales = room((size_t)n / MXFP4_BLOCK);

    seed++;
    t.data = room((size_t)n / 2);
    t.scales = scales;
    for (int64_t i = 0; i < n / 2; i++)
        ((uint8_t *)t.data)[i] = (uint8_t)rng_bits(seed, (uint64_t)i, 0);
    for (int64_t i = 0; i < n / MXFP4_BLOCK; i++)
        scales[i] = (uint8_t)(118 + rng_bits(seed, (uint64_t)i, 1) % 12);
    return t;
}

/* A stack of n matrices as the kernels want it. */
static struct tensor packed_stack(int n, int rows, int columns)
{
    struct tensor t = {
        .dtype = DTYPE_MXFP4, .n_dims = 3, .dim = {n, rows, columns}, .layout = LAYOUT_PACKED};

    t.data = room((size_t)(n * matrix_bytes(&t)));
    for (int e = 0; e < n; e++) {
        struct tensor raw = raw_weights(rows, columns);

        launch_pack(NULL, (char *)t.data + e * matrix_bytes(&t), &raw);
        run_list();
        must(cudaDeviceSynchronize());
        must(cudaFree(raw.data));
        must(cudaFree((void *)(uintptr_t)raw.scales));
    }
    return t;
}

/* ---- rows ---- */

static struct mxfp8_rows room_for_rows(int64_t n_rows, int64_t n_columns)
{
    return mxfp8_rows_at(room((size_t)mxfp8_bytes(n_rows, n_columns)), n_rows, n_columns);
}

static double row_value(const struct mxfp8_rows *x, int64_t row, int64_t block, int i)
{
    const uint32_t scale = x->scales[row * mxfp8_scales_stride(x->n_columns) + block];

    return (double)e4m3_value(x->codes[row * x->n_columns + block * MXFP4_BLOCK + i]) *
           ldexp(1, (int)scale - 127);
}

static void check_batch_rows(int n_rows, int n_columns)
{
    float *x = some_floats((int64_t)n_rows * n_columns, 1);
    struct mxfp8_rows found = room_for_rows(n_rows, n_columns);
    int64_t n_wrong = 0;
    char what[80];

    for (int i = 0; i < 32; i++) /* rubbish, small numbers and ties somewhere */
        x[i] = i % 3 == 0 ? 0.0f : ldexpf(1.0625f, -i);
    x[n_columns - 1] = (float[]){NAN, INFINITY, 1e-42f, 3e38f}[n_columns / 32 % 4];
    launch_mxfp8_rows(&list, &found, x, n_rows);
    run_list();
    must(cudaDeviceSynchronize());
    for (int64_t b = 0; b < (int64_t)n_rows * n_columns / MXFP4_BLOCK; b++) {
        const int64_t row = b * MXFP4_BLOCK / n_columns;
        uint8_t codes[MXFP4_BLOCK];
        const uint32_t scale = mxfp8_block(codes, x + b * MXFP4_BLOCK);
        const int64_t at =
            row * mxfp8_scales_stride(n_columns) + b - row * (n_columns / MXFP4_BLOCK);

        n_wrong += found.scales[at] != scale ||
                   memcmp(found.codes + b * MXFP4_BLOCK, codes, MXFP4_BLOCK) != 0;
    }
    snprintf(what, sizeof(what), "rows: %d x %d", n_rows, n_columns);
    report(what, n_wrong == 0, (double)n_wrong);
    must(cudaFree(x));
    must(cudaFree(found.codes));
}

/* ---- products ---- */

/* What one output should be: by the emulated instruction's sums, and in double with the sum of
 * sizes. */
struct expected {
    float emulated;
    double exact, sizes;
};

static struct expected product_of(const struct tensor *w, int64_t e, int64_t r,
                                  const struct mxfp8_rows *x, int64_t row)
{
    struct expected out = {0};

    for (int64_t block = 0; block < x->n_columns / MXFP4_BLOCK; block++) {
        const struct packed_place p = place_of(w, r, block * MXFP4_BLOCK);
        const unsigned char *unit =
            (const unsigned char *)w->data + e * matrix_bytes(w) + p.unit * MXFP4_UNIT_BYTES;
        const double scale = ldexp(1, unit[mxfp4_scale_offset(&p)] - 127);
        const uint8_t *codes = x->codes + row * x->n_columns + block * MXFP4_BLOCK;
        float sum = 0;

        for (int t = 0; t < 4; t++) {
            uint32_t word, bytes[2];

            memcpy(&word, unit + mxfp4_word_offset(&p) + t * LANE_BYTES, sizeof(word));
            containers_of_word(bytes, word);
            for (int i = 0; i < 8; i++) {
                const double a = (double)container_value(bytes[i / 4] >> i % 4 * 8 & 255);

                sum += (float)a * e4m3_value(codes[t * 8 + i]);
                out.exact += a * scale * row_value(x, row, block, t * 8 + i);
                out.sizes += fabs(a * scale * row_value(x, row, block, t * 8 + i));
            }
        }
        out.emulated +=
            sum * (float)scale *
            block_scale_value(x->scales[row * mxfp8_scales_stride(x->n_columns) + block]);
    }
    return out;
}

/* The largest error of out against its formula, over the sum of sizes; infinite for other bits
 * than the emulated ones. */
static double error_of(const struct expected *e, float found, float bias)
{
    const double error = fabs((double)found - (double)bias - e->exact) / (e->sizes + 1e-30);

    if (!is_native && found != e->emulated + bias)
        return INFINITY;
    return found == found &&
                   error <= ROUNDING_MAX + 1.2e-7 * fabs((double)bias) / (e->sizes + 1e-30)
               ? error
               : INFINITY;
}

static double worst(double a, double b)
{
    return b > a || b != b ? b : a;
}

static void check_dense(int n_tokens, const int rows[2], int columns, int tile)
{
    float *x = some_floats((int64_t)n_tokens * columns, 1);
    float *bias = some_floats(rows[0], 1);
    struct mxfp8_rows to = room_for_rows(n_tokens, columns);
    struct matmul m = {.n_jobs = 2, .n_tokens = n_tokens};
    double error = 0;
    char what[80];

    for (int job = 0; job < 2; job++) {
        m.w[job] = packed_stack(1, rows[job], columns);
        m.out_width[job] = rows[job] + 3;
        m.out[job] = room((size_t)n_tokens * (size_t)m.out_width[job] * sizeof(float));
    }
    m.bias[0] = (struct tensor){.dtype = DTYPE_F32, .n_dims = 1, .dim = {rows[0]}, .data = bias};
    launch_mxfp8_rows(&list, &to, x, n_tokens);
    launch_mxfp8_matmul(&list, &m, &to, NULL, tile);
    run_list();
    must(cudaDeviceSynchronize());
    for (int job = 0; job < 2; job++)
        for (int t = 0; t < n_tokens; t++) {
            const float *out = m.out[job] + t * m.out_width[job];

            for (int r = 0; r < rows[job]; r++) {
                const struct expected e = product_of(&m.w[job], 0, r, &to, t);

                error = worst(error, error_of(&e, out[r], job == 0 ? bias[r] : 0.0f));
            }
            if (out[rows[job]] == out[rows[job]]) /* what lies behind is still NaN */
                error = INFINITY;
        }
    snprintf(what, sizeof(what), "%d tokens, %d and %d rows of %d, tile %d", n_tokens, rows[0],
             rows[1], columns, tile);
    report(what, error < 1, error);
    for (int job = 0; job < 2; job++) {
        must(cudaFree(m.w[job].data));
        must(cudaFree(m.out[job]));
    }
    must(cudaFree(x));
    must(cudaFree(bias));
    must(cudaFree(to.codes));
}

/* Lists as launch_group() makes them. */
struct lists {
    int32_t first[EXPERTS + 1], active[EXPERTS], n_active, tokens[TOKENS_MAX * RANKS];
};

/* Experts 0 and 3 have nobody; expert 1 has all but a few, or each its share. */
static struct lists *some_lists(int n_tokens, int is_even)
{
    struct lists *l = room(sizeof(*l));
    int n = 0;

    l->n_active = 0;
    for (int e = 0; e < EXPERTS; e++) {
        l->first[e] = n;
        for (int i = 0; i < n_tokens * RANKS && e % 3 != 0; i++) {
            const int wanted = is_even ? (int[]){1, 2, 4}[i % 3] : i < 3 ? 4 : 1;

            if (wanted == e)
                l->tokens[n++] = i / RANKS;
        }
        if (n > l->first[e])
            l->active[l->n_active++] = e;
    }
    l->first[EXPERTS] = n;
    return l;
}

static struct matmul over_lists(const struct lists *l, int n_tokens)
{
    return (struct matmul){.n_tokens = n_tokens,
                           .first = l->first,
                           .active = l->active,
                           .n_active = &l->n_active,
                           .n_active_max = EXPERTS};
}

static double gated(double gate, double up, double limit, double alpha)
{
    const double g = fmin(gate, limit), u = fmax(fmin(up, limit), -limit);

    return g / (1 + exp(-alpha * g)) * (u + 1);
}

/* A unit as it is stored against its exact value: half a step of its block's scale, and the
 * scale the smallest that will do; at its edge either. */
static double unit_error(const struct mxfp8_rows *units, int64_t row, int64_t block,
                         const double exact[MXFP4_BLOCK])
{
    const int scale = units->scales[row * mxfp8_scales_stride(units->n_columns) + block];
    double largest = 0, error = 0;

    for (int i = 0; i < MXFP4_BLOCK; i++)
        largest = fmax(largest, fabs(exact[i]));
    if (largest > ldexp(448, scale - 127) * 1.00001 || largest < ldexp(448, scale - 128) * 0.99999)
        return INFINITY;
    for (int i = 0; i < MXFP4_BLOCK; i++) {
        const double value = exact[i / 8 * 8 + mxfp8_order(i % 8)];
        const double step = fmax(fabs(value) / 16, ldexp(1, scale - 127 - 10));

        error = fmax(error, fabs(row_value(units, row, block, i) - value) / step);
    }
    return error;
}

static double units_error(const struct matmul *m, const struct mxfp8_rows *x,
                          const struct mxfp8_rows *units, const struct lists *l)
{
    double error = 0, exact[MXFP4_BLOCK];

    for (int e = 0; e < EXPERTS; e++)
        for (int entry = l->first[e]; entry < l->first[e + 1]; entry++)
            for (int64_t b = 0; b < units->n_columns / MXFP4_BLOCK; b++) {
                for (int i = 0; i < MXFP4_BLOCK; i++) {
                    const int64_t r = 2 * (b * MXFP4_BLOCK + i);
                    const struct expected gate = product_of(&m->w[0], e, r, x, l->tokens[entry]);
                    const struct expected up = product_of(&m->w[0], e, r + 1, x, l->tokens[entry]);

                    exact[i] = gated(gate.exact + (double)weight_at(&m->bias[0], 0, e, r),
                                     up.exact + (double)weight_at(&m->bias[0], 0, e, r + 1),
                                     (double)m->limit, (double)m->alpha);
                }
                error = worst(error, unit_error(units, entry, b, exact));
            }
    return error;
}

static void check_experts(int n_tokens, int width, int n_units, int is_even, int tile)
{
    struct lists *l = some_lists(n_tokens, is_even);
    float *y = some_floats((int64_t)n_tokens * width, 0.02);
    struct mxfp8_rows x = room_for_rows(n_tokens, width);
    struct mxfp8_rows units = room_for_rows(n_tokens * RANKS, n_units);
    struct matmul up = over_lists(l, n_tokens), down = over_lists(l, n_tokens);
    float *bias = some_floats((int64_t)EXPERTS * 2 * n_units, 0.1);
    double error = 0;
    char what[100];

    up.n_jobs = down.n_jobs = 1;
    up.gather = l->tokens;
    up.gather_stride = 1;
    up.is_swiglu = 1;
    up.limit = 7;
    up.alpha = 1.702f;
    up.w[0] = packed_stack(EXPERTS, 2 * n_units, width);
    up.bias[0] = (struct tensor){
        .dtype = DTYPE_F32, .n_dims = 2, .dim = {EXPERTS, 2 * n_units}, .data = bias};
    down.w[0] = packed_stack(EXPERTS, width, n_units);
    down.out_width[0] = width;
    down.out[0] = room((size_t)n_tokens * RANKS * (size_t)width * sizeof(float));
    launch_mxfp8_rows(&list, &x, y, n_tokens);
    launch_mxfp8_matmul(&list, &up, &x, &units, tile);
    launch_mxfp8_matmul(&list, &down, &units, NULL, tile);
    run_list();
    must(cudaDeviceSynchronize());
    snprintf(what, sizeof(what), "experts %s: %d tokens, %d to %d units, tile %d",
             is_even ? "evenly" : "one for all", n_tokens, width, n_units, tile);
    error = units_error(&up, &x, &units, l);
    report(what, error <= 1.01, error);
    error = 0;
    for (int e = 0; e < EXPERTS; e++)
        for (int entry = l->first[e]; entry < l->first[e + 1]; entry++)
            for (int r = 0; r < width; r++) {
                const struct expected p = product_of(&down.w[0], e, r, &units, entry);

                error = worst(error, error_of(&p, down.out[0][(int64_t)entry * width + r], 0));
            }
    report("    and back", error < 1, error);
    must(cudaFree(up.w[0].data)), must(cudaFree(down.w[0].data)), must(cudaFree(down.out[0]));
    must(cudaFree(x.codes)), must(cudaFree(units.codes)), must(cudaFree(bias));
    must(cudaFree(y)), must(cudaFree(l));
}

/* One product of gpt-oss's size, timed: what the emulation costs, or what the instruction
 * brings. */
static void print_time(int n_tokens, int tile)
{
    enum { ROWS = 5760, COLUMNS = 2880, RUNS = 3 };
    float *x = some_floats((int64_t)n_tokens * COLUMNS, 1);
    struct mxfp8_rows to = room_for_rows(n_tokens, COLUMNS);
    struct matmul m = {.n_jobs = 1, .n_tokens = n_tokens, .w = {packed_stack(1, ROWS, COLUMNS)}};
    cudaEvent_t from, until;
    float best_ms = 1e30f, ms;

    must(cudaEventCreate(&from)), must(cudaEventCreate(&until));
    m.out_width[0] = ROWS;
    m.out[0] = room((size_t)n_tokens * ROWS * sizeof(float));
    launch_mxfp8_rows(&list, &to, x, n_tokens);
    run_list();
    for (int i = 0; i < RUNS; i++) {
        launch_mxfp8_matmul(&list, &m, &to, NULL, tile);
        must(cudaEventRecord(from, NULL));
        run_list();
        must(cudaEventRecord(until, NULL));
        must(cudaEventSynchronize(until));
        must(cudaEventElapsedTime(&ms, from, until));
        best_ms = ms < best_ms ? ms : best_ms;
    }
    printf("%d x %d times %d tokens, tile %d: %.3f ms, %.2f Tflop/s\n", ROWS, COLUMNS, n_tokens,
           tile, (double)best_ms, 2e-9 * ROWS * COLUMNS * n_tokens / (double)best_ms);
    must(cudaFree(m.w[0].data)), must(cudaFree(m.out[0])), must(cudaFree(to.codes));
    must(cudaFree(x));
}

int main(void)
{
    static const int tokens[] = {1, 8, 31, 33, 64, 127, 128, 129, 257};
    static const int rows[][2] = {{64, 2}, {17, 96}, {128, 1}, {129, 65}, {192, 160}};
    static const int columns[] = {32, 64, 96, 128, 160, 416};
    const int is_quick = getenv("CHECK_QUICK") != NULL;
    struct cudaDeviceProp properties;

    must(cudaGetDeviceProperties(&properties, 0));
    kernel_table_init(&kernels, &properties);
    launch_list_init(&list, &kernels.gpu);
    is_native = properties.major == 12;
    printf("%s, block-scaled instructions %s\n", properties.name,
           is_native ? "its own" : "emulated");
    for (int i = 0; i < 6; i++)
        check_batch_rows(1 + i * 7, columns[i]);
    check_batch_rows(3, 2880);
    for (int i = 0; i < (is_quick ? 3 : 9); i++)
        for (int tile = 64; tile <= 128; tile += 64)
            check_dense(tokens[i * (is_quick ? 3 : 1)], rows[i % 5], columns[i % 6], tile);
    for (int tile = 64; tile <= 128; tile += 64) {
        check_experts(9, 64, 32, 0, tile);
        check_experts(is_quick ? 20 : 140, 96, 96, 1, tile);
        check_experts(is_quick ? 20 : 70, 160, 64, 0, tile);
    }
    if (!is_quick) {
        check_dense(5, (const int[2]){70, 3}, 2880, 128);
        for (int tile = 64; tile <= 128; tile += 64)
            print_time(512, tile);
    }
    printf("%d checks failed\n", n_failed);
    return n_failed > 0;
}
