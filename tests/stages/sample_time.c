/* The time of stage sample over the ids of gpt-oss, by kinds of requests. A step has one such
 * stage of a few microseconds, less than the host's clock resolves: so a program of many of them is
 * timed, as a graph where the device has graphs. */
#include "stages/harness.h"

enum {
    V_ALL = 201088,
    TIMED_ROWS_MAX = 256,
    STAGES_GPU = 32,
    WARM_RUNS = 3, /* the first ones build a graph, and time stages */
    RUNS = 9
};

static const struct kind {
    const char *name;
    float temperature;
    int top_k;
    float top_p;
} kinds[] = {{"greedy", 0, 0, 1},
             {"temperature 1", 1, 0, 1},
             {"top_p 0.9", 1, 0, 0.9f},
             {"top_k 50", 1, 50, 1}};
enum { N_KINDS = sizeof(kinds) / sizeof(kinds[0]) };

/* Normal, with a deviation of 3; every row has the same logits at other ids. */
static struct tensor normal_logits(int R)
{
    enum { N_SUMMED = 6, STRIDE = 7919 };
    struct tensor t = SHAPED(DTYPE_F32, R, V_ALL);
    float *z = t.data;

    begin_fill();
    for (int64_t i = 0; i < V_ALL; i++) {
        z[i] = 0;
        for (int k = 0; k < N_SUMMED; k++)
            z[i] += random_at(i * N_SUMMED + k, 3 / sqrt(N_SUMMED));
    }
    for (int64_t r = 1; r < R; r++)
        for (int64_t i = 0; i < V_ALL; i++)
            z[r * V_ALL + i] = z[(i + r * STRIDE) % V_ALL];
    return t;
}

static struct batch *decode_batch(const struct kind *kind, int R)
{
    struct batch *b = rows_batch(R, R);

    for (int r = 0; r < R; r++) {
        ((int32_t *)(uintptr_t)BATCH_PHASES(b))[r] = PHASE_DECODE;
        ((struct batch_sample *)(uintptr_t)BATCH_SAMPLES(b))[r] =
            (struct batch_sample){.row = r,
                                  .temperature = kind->temperature,
                                  .top_k = kind->top_k,
                                  .top_p = kind->top_p,
                                  .position = (uint32_t)r + 1,
                                  .seed = (uint64_t)r};
    }
    return b;
}

/* The fastest run of the program over the batch. */
static uint64_t best_ns_of(struct compiled *c, const struct batch *b)
{
    const int n_warm = under.is_in_worker ? (int)WARM_RUNS : 0;
    uint64_t best_ns = UINT64_MAX;

    for (int i = 0; i < n_warm + RUNS; i++) {
        const uint64_t start_ns = clock_ns();
        uint64_t ticket, ns;

        must(under.ops->run(under.device, c, b, &ticket));
        must(under.ops->step_wait(under.device, ticket));
        ns = clock_ns() - start_ns;
        if (i >= n_warm && ns < best_ns)
            best_ns = ns;
    }
    return best_ns;
}

static void time_kinds(struct compiled *c, int n_stages, int R)
{
    printf("\n    %3d rows of %d ids:", R, V_ALL);
    for (int i = 0; i < N_KINDS; i++) {
        struct batch *b = decode_batch(&kinds[i], R);

        printf("%s %s %.2f us", i == 0 ? "" : ",", kinds[i].name,
               (double)best_ns_of(c, b) * 1e-3 / n_stages);
        free(b);
    }
}

static void time_rows(int R)
{
    const int n_stages = under.is_in_worker ? (int)STAGES_GPU : 1;
    struct sample_args a = {.tokens = SHAPED(DTYPE_I32, R),
                            .logprobs = SHAPED(DTYPE_F32, R),
                            .logits = normal_logits(R),
                            .n_valid = V_ALL};
    struct mirror mirror = {STAGE_sample, {{0}}};
    union stage_args there = {.sample = a};
    struct program p = {0};
    struct compiled *c;

    move_there(&mirror, &there);
    for (int i = 0; i < n_stages; i++)
        must(program_add(&p, STAGE_sample, NO_LAYER, &there));
    program_tap_outputs(&p);
    program_end(&p);
    must(under.ops->compile(under.device, &p, &c));
    time_kinds(c, n_stages, R);
    under.ops->release_program(under.device, c);
    program_free(&p);
    move_back(&mirror, &a, &there);
    drop(&a.tokens), drop(&a.logprobs), drop(&a.logits);
}

void time_sample(int n_threads)
{
    static const int counts[] = {1, 8, 64, TIMED_ROWS_MAX};
    const struct backend_options opt = {
        .n_threads = n_threads, .n_rows_max = TIMED_ROWS_MAX, .n_samples_max = TIMED_ROWS_MAX};
    struct backend *checked = under.device; /* launches every kernel by itself */

    must(under.ops->open(&under.device, &opt));
    for (int i = 0; i < (under.is_in_worker ? 4 : 2); i++)
        time_rows(counts[i]);
    under.ops->close(under.device);
    under.device = checked;
}
