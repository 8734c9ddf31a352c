/* The stage harness: runs every stage of a device alone, over shapes at the edges of tiles, pages
 * and windows, and compares it with tests/naive.h. Then times the same stages at the shapes of
 * gpt-oss-20b. Prints the largest error of each stage, and its GB/s and Gflop/s by the device's
 * own counts, with the share of the read bandwidth in the same run. Fails when an error exceeds
 * the limit. The CPU backend is tested at all ISAs of this machine, or at one. For a device with
 * memory of its own, the tensors of a stage are uploaded, poison included, and downloaded; its
 * samples are compared with the CPU's.
 *
 *     check_backend [DEVICE [N_THREADS [ISA [STAGE]]]]     default: cpu, 2, all, all
 *
 * STAGE is a name of backend/args.h. On cuda, ISA may be mxfp8: prefill rows are rounded to MXFP8
 * in matmuls with MXFP4 weights.
 *
 * CHECK_UNTIMED in the environment omits the timing. CHECK_QUICK also omits most numbers of rows;
 * it is for builds with sanitizers, including those of a GPU. */
#include <stdio.h>
#include <string.h>

#include "stages/harness.h"
#include "base/pool.h"
#include "cpu/kernels/kernels.h"

static const char *only_stage; /* NULL: all */
static const char *const kv_dtype_names[N_MIXTURES] = {"prefill rows", "both phases",
                                                       "decode rows"};

enum { TIMED_RUNS = 3 };

/* X(stage): stages that are timed too also have a time_ function; sample's prints by itself */
static const struct {
    enum stage stage;
    void (*check)(void);
    void (*time)(int n_rows); /* NULL: its time does not matter */
} stages[] = {
    {STAGE_embed_rmsnorm, check_embed_rmsnorm, NULL},
    {STAGE_attn_qkv, check_attn_qkv, time_attn_qkv},
    {STAGE_attn, check_attn, time_attn},
    {STAGE_attn_out, check_attn_out, time_attn_out},
    {STAGE_residual_rmsnorm, check_residual_rmsnorm, time_residual_rmsnorm},
    {STAGE_router, check_router, time_router},
    {STAGE_experts, check_experts, time_experts},
    {STAGE_logits, check_logits, time_logits},
    {STAGE_sample, check_sample, NULL},
    {STAGE_tap, check_tap, NULL},
    {STAGE_draft_fc, check_draft_fc, NULL},
    {STAGE_draft_input, check_draft_input, NULL},
    {STAGE_mlp, check_mlp, NULL},
    {STAGE_gather, check_gather, NULL},
};
static_assert(sizeof(stages) / sizeof(stages[0]) == N_STAGES, "every stage is checked");

static struct stage_cost cost_of(enum stage stage)
{
    struct stage_cost costs[32];
    const int n = under.ops->costs(under.device, costs, 32);

    for (int i = 0; i < n; i++)
        if (strcmp(costs[i].stage, stage_names[stage]) == 0)
            return costs[i];
    fprintf(stderr, "the device has no costs of %s\n", stage_names[stage]);
    exit(2);
}

/* The best of a few runs, since other processes may use the machine. */
static void print_rate(int i, int n_rows, double read_gbs)
{
    const struct stage_cost before = cost_of(stages[i].stage);
    struct stage_cost after;
    double n_calls, ns, gbs;

    under.n_repeats = TIMED_RUNS;
    stages[i].time(n_rows);
    under.n_repeats = 1;
    after = cost_of(stages[i].stage);
    n_calls = (double)(after.n_calls - before.n_calls);
    ns = (double)under.best_ns;
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

/* Read bandwidth of threads that only read, in bytes/ns: the best of a few rounds. */
static double read_speed(int n_threads)
{
    struct reading p = {.n_words = 16 << 20, .n_parts = 64};
    struct pool *pool;
    uint64_t *words = alloc_poisoned(p.n_words * 8), least_ns = UINT64_MAX;

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

static void print_times(int i, double read_gbs, int n_threads)
{
    if (stages[i].stage == STAGE_sample)
        time_sample(n_threads);
    for (int n_rows = 1; n_rows <= 64 && stages[i].time != NULL; n_rows += 63)
        print_rate(i, n_rows, read_gbs);
}

/* Devices may lack only the last type. */
static int count_kv_types(const struct backend_options *opt)
{
    enum { N = sizeof(kv_types) / sizeof(kv_types[0]) };
    enum dtype last = kv_types[N - 1];

    return under.ops->kv_dtype(opt, &last) == OSP_OK ? N : N - 1;
}

/* Returns the number of stages that fail. */
static int check_stages(double read_gbs, int n_threads)
{
    const bool is_timed = read_gbs > 0 && under.mixture == ALL_PROMPT;
    int n_failed = 0;

    for (int i = 0; i < N_STAGES; i++) {
        if (only_stage != NULL && strcmp(only_stage, stage_names[stages[i].stage]) != 0)
            continue;
        worst.stage = 0;
        stages[i].check();
        printf("%-16s error %8.1e %s", stage_names[stages[i].stage], worst.stage,
               worst.stage <= ERROR_MAX ? "ok  " : "FAIL");
        n_failed += !(worst.stage <= ERROR_MAX);
        if (is_timed)
            print_times(i, read_gbs, n_threads);
        printf("\n");
    }
    return n_failed;
}

/* The same for an ISA. */
static int check_isa(const struct backend_options *opt, const struct kernels *isa)
{
    const bool is_untimed = under.is_quick || getenv("CHECK_UNTIMED") != NULL;
    const double read_gbs = is_untimed ? 0 : read_speed(opt->n_threads);
    struct device_info info;
    int n_failed = 0;

    under.is_in_worker = isa == NULL;
    under.has_int8 = isa == NULL || isa->gemm_int8 != NULL;
    under.has_rounding = isa == NULL || isa->gemm_bf16_act != NULL;
    under.has_codes = isa != NULL && isa->attend_i16 != NULL;
    choose_row_counts();
    worst.int8 = worst.mxfp8 = worst.codes = 0;
    worst.weights = 0;
    under.kv_timed = DTYPE_NONE;
    must(under.ops->kv_dtype(opt, &under.kv_timed));
    under.n_kv_types = count_kv_types(opt);
    must(under.ops->open(&under.device, opt));
    under.ops->info(under.device, &info);
    printf("%s, KV cache %s", info.name, dtype_name(under.kv_timed));
    if (!is_untimed)
        printf("; reading memory alone: %.1f GB/s", read_gbs);
    printf("\n");
    for (under.mixture = ALL_PROMPT; under.mixture < (under.is_in_worker ? N_MIXTURES : 1);
         under.mixture++) {
        if (under.is_in_worker)
            printf("%s\n", kv_dtype_names[under.mixture]);
        n_failed += check_stages(read_gbs, opt->n_threads);
    }
    if (under.has_int8)
        printf("experts with rounded inputs: relative error %.2g, limit %g\n", worst.int8,
               RELATIVE_ERROR_MAX);
    if (under.is_mxfp8)
        printf("experts with MXFP8 rows: relative error %.2g, limit %g\n", worst.mxfp8,
               MXFP8_ERROR_MAX);
    if (under.has_codes)
        printf("integer attention: error %.2g, limit %g\n", worst.codes, CODES_ERROR_MAX);
    under.ops->close(under.device);
    return n_failed;
}

static int check_isas(struct backend_options *opt, const char *only)
{
    const struct kernels *isas[KERNEL_ISAS_MAX];
    const int n = kernels_available(isas);
    int n_failed = 0;

    for (int i = 0; i < n; i++)
        if (only == NULL || strcmp(only, "all") == 0 || strcmp(only, isas[i]->name) == 0) {
            opt->cpu_features = isas[i]->name;
            n_failed += check_isa(opt, isas[i]);
        }
    return n_failed;
}

int main(int argc, char **argv)
{
    struct backend_options opt = {.n_threads = argc > 2 ? atoi(argv[2]) : 2,
                                  .n_rows_max = ROWS_MAX,
                                  .n_samples_max = SAMPLES_MAX,
                                  .is_eager = true};
    const struct device_option mxfp8 = {"mxfp4-activation", "mxfp8"};
    const char *name = argc > 1 ? argv[1] : "cpu";
    int n_failed;

    only_stage = argc > 4 ? argv[4] : NULL;
    under.is_quick = getenv("CHECK_QUICK") != NULL;
    under.ops = backend_find(name);
    if (under.ops == NULL)
        must(OSP_ENOTFOUND);
    under.is_mxfp8 = strcmp(name, "cpu") != 0 && argc > 3 && strcmp(argv[3], "mxfp8") == 0;
    opt.device_options = (struct device_options){.n = under.is_mxfp8, .list = &mxfp8};
    n_failed = strcmp(name, "cpu") == 0 ? check_isas(&opt, argc > 3 ? argv[3] : NULL)
                                        : check_isa(&opt, NULL);
    printf("%d stages failed; error limit %g of 1 + |value|\n", n_failed, ERROR_MAX);
    return n_failed > 0;
}
