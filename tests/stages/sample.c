/* The stage sample: greedy tokens and log-probabilities, logits that are no numbers, and draws against the CPU's. */
#include "stages/harness.h"

/* Settings of every kind, from hardly any to one of few candidates left. */
static struct batch_sample some_sample(int row)
{
    static const float shares[] = {1, 0.9f, 0.5f, 0.05f}, mins[] = {0, 0.1f};
    static const int counts[] = {0, 40, 3, 1000000};

    return (struct batch_sample){.row = row,
                                 .temperature = 0.5f + 0.25f * (float)(row % 5),
                                 .top_k = counts[row / 4 % 4],
                                 .top_p = shares[row % 4],
                                 .min_p = mins[row / 16 % 2],
                                 .position = (uint32_t)row,
                                 .seed = fill_id()};
}

/* The tokens that the CPU draws with the same settings, seeds and logits. */
static void draw_on_cpu(int32_t *tokens, const struct sample_args *args, const struct batch *b)
{
    const struct backend_ops *cpu_ops = backend_find("cpu");
    const struct backend_options opt = {
        .n_threads = 2, .n_rows_max = ROWS_MAX, .n_samples_max = SAMPLES_MAX};
    struct sample_args a = *args;
    struct backend *cpu;
    enum step step;
    uint64_t ticket;

    a.tokens.data = tokens;
    must(cpu_ops->open(&cpu, &opt));
    must(cpu_ops->step_begin(cpu, b, &step));
    must(cpu_ops->sample(cpu, &a));
    must(cpu_ops->step_end(cpu, &ticket));
    must(cpu_ops->step_wait(cpu, ticket));
    cpu_ops->close(cpu);
}

/* The same tokens as the CPU's, but for a draw in a thousand that falls between two candidates: its
 * exponentials have other last bits. */
static void check_draws(int V)
{
    enum { R = SAMPLES_MAX, N_BATCHES = 8 };
    int32_t expected[R];
    int n_other = 0;

    for (int i = 0; i < (under.is_quick ? 1 : N_BATCHES); i++) {
        struct batch *b = rows_batch(R, R);
        struct sample_args a = {.tokens = SHAPED(DTYPE_I32, R),
                                .logprobs = SHAPED(DTYPE_F32, R),
                                .logits = FILLED(3, DTYPE_F32, R, V),
                                .n_valid = V - i % 2};

        for (int r = 0; r < R; r++)
            ((struct batch_sample *)BATCH_SAMPLES(b))[r] = some_sample(r);
        draw_on_cpu(expected, &a, b);
        RUN(sample, b, &a);
        for (int r = 0; r < R; r++)
            n_other += ((const int32_t *)a.tokens.data)[r] != expected[r];
        drop(&a.tokens), drop(&a.logprobs), drop(&a.logits);
        free(b);
    }
    if (n_other > 1)
        note_wrong("draws that differ from the CPU's", n_other, 0);
}

/* Logits that are no numbers draw nothing. */
static void check_broken_logits(void)
{
    enum { V = 70, R = 4 };
    struct batch *b = rows_batch(R, R);
    struct sample_args a = {.tokens = SHAPED(DTYPE_I32, R),
                            .logprobs = SHAPED(DTYPE_F32, R),
                            .logits = FILLED(3, DTYPE_F32, R, V),
                            .n_valid = V - 1};

    ((float *)a.logits.data)[V - 1] = NAN; /* beyond the valid ids, and yet */
    ((float *)a.logits.data)[V + 3] = INFINITY;
    for (int v = 0; v < V; v++)
        ((float *)a.logits.data)[2 * V + v] = -INFINITY;
    for (int r = 0; r < R; r++)
        ((struct batch_sample *)BATCH_SAMPLES(b))[r] = some_sample(r);
    RUN(sample, b, &a);
    for (int r = 0; r < R; r++)
        note_wrong("a token of broken logits", ((const int32_t *)a.tokens.data)[r] < 0, r < 3);
    drop(&a.tokens), drop(&a.logprobs), drop(&a.logits);
    free(b);
}

/* Greedy, with the largest logit twice; how the draw itself works is tests/unit/test_sample.c's, and a
 * device elsewhere is held against the CPU. */
void check_sample(void)
{
    static const int vocabs[] = {2, 3, 5, 257, 201088};

    for (int i = 0; i < (under.is_quick ? 4 : 5); i++) {
        const int V = vocabs[i], R = 3;
        struct batch *b = rows_batch(R, R);
        struct sample_args a = {.tokens = SHAPED(DTYPE_I32, R),
                                .logprobs = SHAPED(DTYPE_F32, R),
                                .logits = FILLED(5, DTYPE_F32, R, V),
                                .n_valid = V};

        for (int r = 0; r < R; r++) {
            float *z = (float *)a.logits.data + (int64_t)r * V;
            const int first = (V - 1) * r / R;

            z[first] = z[V - 1] = 10;
            ((struct batch_sample *)BATCH_SAMPLES(b))[r] = (struct batch_sample){.row = r};
        }
        RUN(sample, b, &a);
        for (int r = 0; r < R; r++) {
            double total = 0;

            for (int v = 0; v < V; v++)
                total += exp((double)f32_at(&a.logits, (int64_t)r * V + v) - 10);
            note_wrong("token", ((const int32_t *)a.tokens.data)[r], (V - 1) * r / R);
            note(f32_at(&a.logprobs, r), -log(total));
        }
        drop(&a.tokens), drop(&a.logprobs), drop(&a.logits);
        free(b);
    }
    check_broken_logits();
    if (under.is_elsewhere) {
        check_draws(300);
        check_draws(5003);
    }
}
