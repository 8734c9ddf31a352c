/* How near the CPU's kernels come to the memory: one thread goes over 150 MB of weights in
 * slices of 390 KB, each time one slice that is only read, one of packed MXFP4 times one token,
 * one of it fetched ahead, one of bf16 times one token, all far apart. On a busy machine most
 * slices are disturbed, so the times printed are those that 1, 10 and 50 per cent of the slices
 * stay below. Then the products of many tokens with weights in the cache. It is built with the
 * tests and run by hand.
 *
 *     measure_streams    all levels that this machine has */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/tensor.h"
#include "base/clock.h"
#include "base/memory.h"
#include "cpu/kernels/kernels.h"

enum {
    COLUMNS = 2880,
    BLOCKS = COLUMNS / MXFP4_BLOCK,
    GROUP_BYTES = 24512, /* of 16 rows, rounded up to cache lines */
    SLICE_GROUPS = 16,
    SLICE_BYTES = SLICE_GROUPS * GROUP_BYTES,
    BF16_ROWS = SLICE_BYTES / (2 * COLUMNS),
    N_SLICES = 400,
    N_ROUNDS = 3,
    N_TIMES = N_SLICES * N_ROUNDS,
    MANY_TOKENS = 64
};

enum way { WAY_READ, WAY_MXFP4, WAY_AHEAD, WAY_BF16, N_WAYS };

struct bench {
    const struct kernels *k;
    char *weights;
    int8_t codes[MANY_TOKENS][COLUMNS];
    struct int8_block blocks[MANY_TOKENS][BLOCKS];
    struct int8_row rows[MANY_TOKENS];
    uint16_t rounded[COLUMNS], permuted[PERMUTED_TOKENS_MAX][COLUMNS];
    float x[COLUMNS], out[MANY_TOKENS * 64];
    bool has_prefetch;
    uint64_t sum; /* keeps what is read alive */
    double times_ns[N_WAYS][N_TIMES];
};

typedef uint64_t words __attribute__((vector_size(16)));

static void read_slice(struct bench *b, const char *data)
{
    const words *at = (const void *)data;
    words s0 = {0}, s1 = {0}, s2 = {0}, s3 = {0};

    for (size_t i = 0; i < SLICE_BYTES / sizeof(words); i += 4) {
        s0 += at[i];
        s1 += at[i + 1];
        s2 += at[i + 2];
        s3 += at[i + 3];
    }
    s0 += s1 + s2 + s3;
    b->sum += s0[0] + s0[1];
}

/* As cpu/matmul/mxfp4_bf16.c: some tokens after the others, four groups at once where these are
 * few. */
static void permuted_groups(struct bench *b, const char *group, int n_groups, int n_x)
{
    const int n_most = n_x <= 4 ? 4 : 1;

    for (int g = 0; g < n_groups; g += n_most)
        for (int x = 0; x < n_x; x += PERMUTED_TOKENS_MAX)
            b->k->gemm_permuted(&(struct permuted_gemm){
                .out = b->out,
                .groups = (const uint8_t *)group + g * GROUP_BYTES,
                .group_bytes = GROUP_BYTES,
                .x = b->permuted[0],
                .x_stride = COLUMNS,
                .n_groups = n_groups - g < n_most ? n_groups - g : n_most,
                .n_blocks = BLOCKS,
                .n_x = n_x - x < PERMUTED_TOKENS_MAX ? n_x - x : PERMUTED_TOKENS_MAX});
}

/* As cpu/matmul/int8_tiles.c: one token with groups far apart, several with one after the other. */
static void mxfp4_groups(struct bench *b, const char *group, int n_groups, int n_x)
{
    const int n_at_once = n_x == 1 && n_groups >= GROUPS_AT_ONCE ? GROUPS_AT_ONCE : 1;
    const int n_each = n_groups / n_at_once;

    if (b->k->gemm_permuted != NULL) {
        permuted_groups(b, group, n_groups, n_x);
        return;
    }
    for (int i = 0; i < n_each; i++) {
        struct int8_gemm p = {.out = b->out,
                              .x = b->rows,
                              .n_blocks = BLOCKS,
                              .n_x = n_x,
                              .n_groups = n_at_once,
                              .has_prefetch = b->has_prefetch};

        for (int g = 0; g < n_at_once; g++)
            p.groups[g] = (const uint8_t *)group + (ptrdiff_t)(g * n_each + i) * GROUP_BYTES;
        p.next = p.groups[0] + GROUP_BYTES;
        b->k->gemm_int8(&p);
    }
}

static void bf16_rows(struct bench *b, const char *data)
{
    const uint16_t *rounded = b->rounded;
    const float *x = b->x;

    if (b->k->gemm_bf16_act == NULL) {
        b->k->gemm_bf16(&(struct gemm){b->out, 64, data, &x, BF16_ROWS, COLUMNS, 1, {0}});
        return;
    }
    for (int row = 0; row < BF16_ROWS; row += GROUP_ROWS)
        b->k->gemm_bf16_act(&(struct bf16_act_gemm){
            .out = b->out,
            .out_stride = 64,
            .w = data + row * COLUMNS * 2,
            .x = &rounded,
            .n_rows = BF16_ROWS - row < GROUP_ROWS ? BF16_ROWS - row : GROUP_ROWS,
            .n = COLUMNS,
            .n_x = 1});
}

static void run_slice(struct bench *b, enum way way, const char *data)
{
    b->has_prefetch = way == WAY_AHEAD;
    if (way == WAY_READ)
        read_slice(b, data);
    else if (way == WAY_MXFP4 || way == WAY_AHEAD)
        mxfp4_groups(b, data, SLICE_GROUPS, 1);
    else
        bf16_rows(b, data);
}

static int compare_doubles(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static void run_streams(struct bench *b)
{
    for (int i = 0; i < N_TIMES; i++)
        for (int way = 0; way < N_WAYS; way++) {
            const int slice = (i + way * N_SLICES / N_WAYS) % N_SLICES;
            const uint64_t start_ns = clock_ns();

            run_slice(b, (enum way)way, b->weights + (size_t)slice * SLICE_BYTES);
            b->times_ns[way][i] = (double)(clock_ns() - start_ns);
        }
    for (int way = 0; way < N_WAYS; way++)
        qsort(b->times_ns[way], N_TIMES, sizeof(double), compare_doubles);
}

static void print_streams(const struct bench *b)
{
    static const double bytes[N_WAYS] = {SLICE_BYTES, SLICE_BYTES, SLICE_BYTES,
                                         BF16_ROWS * COLUMNS * 2.0};
    static const int percents[] = {1, 10, 50};

    for (int i = 0; i < 3; i++) {
        double gbs[N_WAYS];

        for (int way = 0; way < N_WAYS; way++)
            gbs[way] = bytes[way] / b->times_ns[way][N_TIMES * percents[i] / 100];
        printf("%-9s %2d %% of slices: reading %.1f GB/s, MXFP4 %.1f (%.0f %%), fetched ahead %.1f "
               "(%.0f %%), bf16 %.1f (%.0f %%)\n",
               b->k->name, percents[i], gbs[WAY_READ], gbs[WAY_MXFP4],
               100 * gbs[WAY_MXFP4] / gbs[WAY_READ], gbs[WAY_AHEAD],
               100 * gbs[WAY_AHEAD] / gbs[WAY_READ], gbs[WAY_BF16],
               100 * gbs[WAY_BF16] / gbs[WAY_READ]);
    }
}

static void print_cached(struct bench *b)
{
    for (int n_x = 1; n_x <= MANY_TOKENS; n_x *= 4) {
        double least_ns = 1e18;

        for (int i = 0; i < 300; i++) {
            const uint64_t start_ns = clock_ns();
            double ns;

            mxfp4_groups(b, b->weights, GROUPS_AT_ONCE, n_x);
            ns = (double)(clock_ns() - start_ns) / GROUPS_AT_ONCE;
            least_ns = ns < least_ns ? ns : least_ns;
        }
        printf("%-9s in the cache, %2d tokens: %.1f GB/s of weights, %.1f G multiply-adds/s\n",
               b->k->name, n_x, GROUP_BYTES / least_ns, 16.0 * COLUMNS * n_x / least_ns);
    }
}

static void fill(struct bench *b)
{
    for (size_t i = 0; i < (size_t)N_SLICES * SLICE_BYTES; i++)
        b->weights[i] = (char)(i * 2654435761u >> 13);
    for (size_t g = 0; g < (size_t)N_SLICES * SLICE_GROUPS; g++) /* scales that occur */
        for (int block = 0; block < BLOCKS; block++)
            memset(b->weights + g * GROUP_BYTES + group_scales_at(block), 120, GROUP_ROWS);
    for (int i = 0; i < COLUMNS; i++)
        b->x[i] = (float)(i % 97 - 48);
    for (int t = 0; t < MANY_TOKENS; t++) {
        b->k->quantise(b->codes[t], b->blocks[t], b->x, BLOCKS);
        b->rows[t] = (struct int8_row){.codes = b->codes[t], .blocks = b->blocks[t]};
    }
    if (b->k->gemm_bf16_act != NULL)
        b->k->round_bf16(b->rounded, b->x, COLUMNS);
    for (int t = 0; t < PERMUTED_TOKENS_MAX && b->k->gemm_permuted != NULL; t++)
        b->k->round_permuted(b->permuted[t], b->x, COLUMNS);
}

int main(void)
{
    const struct kernels *isas[KERNEL_ISAS_MAX];
    const int n = kernels_available(isas);
    static struct bench b;
    int n_measured = 0;

    if (mem_try_hugepages(&b.weights, N_SLICES, SLICE_BYTES, "weights") != OSP_OK) {
        fprintf(stderr, "%s\n", fail_message());
        return 2;
    }
    for (int i = 0; i < n; i++) {
        b.k = isas[i];
        if (b.k->gemm_int8 == NULL)
            continue;
        fill(&b);
        run_streams(&b);
        print_streams(&b);
        print_cached(&b);
        n_measured++;
    }
    free(b.weights);
    printf("%d levels measured\n", n_measured);
    return 0;
}
