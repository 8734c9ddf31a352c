/* Checks stage sample: greedy tokens and log-probabilities, logits that are not finite; penalties,
 * biases, masks and likeliest tokens against float64; sampled tokens against the CPU's. */
#include "backend/logits_process.h"
#include "stages/harness.h"

/* Settings of every kind, from almost unrestricted to a few candidates. */
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

/* The tokens that the CPU samples with the same settings, seeds and logits. */
static void draw_on_cpu(int32_t *tokens, const struct sample_args *args, const struct batch *b)
{
    const struct backend_ops *cpu_ops = backend_find("cpu");
    const struct backend_options opt = {
        .n_threads = 2, .n_rows_max = ROWS_MAX, .n_samples_max = SAMPLES_MAX};
    struct sample_args a = *args;
    struct backend *cpu;
    struct program p = {0};
    struct compiled *c;
    uint64_t ticket;

    a.tokens.data = tokens;
    must(cpu_ops->open(&cpu, &opt));
    must(PROGRAM_ADD(&p, sample, NO_LAYER, a));
    program_tap_outputs(&p);
    program_end(&p);
    must(cpu_ops->compile(cpu, &p, &c));
    must(cpu_ops->run(cpu, c, b, &ticket));
    must(cpu_ops->step_wait(cpu, ticket));
    cpu_ops->release_program(cpu, c);
    program_free(&p);
    cpu_ops->close(cpu);
}

/* ---- rows with penalties, biases and masks ---- */

/* The lists of row r, in addition to some_sample(): every third row lacks one kind of list, and a
 * few have unusual ones. */
enum odd { NOTHING_ALLOWED, ONE_ALLOWED, ALL_BIASED_AWAY, LAST_IS_SEEN, PENALTIES_OFF, PLAIN };

static bool has_list(int row, int kind)
{
    return (row + kind) % 3 != 0;
}

/* Lists of a few ids, of many, of all. */
static bool is_listed(int row, int id, int kind)
{
    static const double shares[] = {0.002, 0.1, 0.6, 1};

    return (double)rng_uniform((uint64_t)(row * 8 + kind), (uint64_t)id, 1) < shares[row % 4];
}

static float some_number(int row, int id, double least, double most)
{
    return (float)(least + (most - least) * rng_uniform((uint64_t)row, (uint64_t)id, 2));
}

/* A batch under construction, with space for all ids in all rows. */
struct edits {
    struct batch_seen *seen;
    struct batch_bias *biases;
    uint32_t *masks;
    struct batch_counts n;
};

static void add_seen(struct edits *e, struct batch_sample *s, int row, int V)
{
    s->first_seen = e->n.n_seen;
    for (int id = 0; id < V; id++)
        if (row % 17 == LAST_IS_SEEN ? id == V - 1 : is_listed(row, id, 0))
            e->seen[e->n.n_seen++] = (struct batch_seen){id, (id + row) % 4 * (id % 5)};
    s->n_seen = e->n.n_seen - s->first_seen;
    if (row % 17 == PENALTIES_OFF)
        return;
    s->repetition = row % 2 == 0 ? some_number(row, 0, 0.5, 2) : 0;
    s->presence = some_number(row, 1, -2, 2);
    s->frequency = some_number(row, 2, -2, 2);
}

static void add_biased(struct edits *e, struct batch_sample *s, int row, int V)
{
    s->first_bias = e->n.n_biases;
    for (int id = 0; id < V; id++)
        if (row % 17 == ALL_BIASED_AWAY || is_listed(row, id, 1))
            e->biases[e->n.n_biases++] = (struct batch_bias){
                id, row % 17 == ALL_BIASED_AWAY || id % 7 == 0 ? -INFINITY
                                                               : some_number(row, id, -9, 9)};
    s->n_biases = e->n.n_biases - s->first_bias;
}

static void add_mask(struct edits *e, struct batch_sample *s, int row, int V)
{
    uint32_t *words = e->masks + e->n.n_mask_words;

    s->first_mask_word = e->n.n_mask_words;
    s->n_mask_words = (V + MASK_WORD_IDS - 1) / MASK_WORD_IDS;
    e->n.n_mask_words += s->n_mask_words;
    memset(words, 0, (size_t)s->n_mask_words * sizeof(*words));
    for (int id = 0; id < V; id++)
        if (row % 17 == ONE_ALLOWED ? id == V / 2
                                    : row % 17 != NOTHING_ALLOWED && is_listed(row, id, 2))
            words[id / MASK_WORD_IDS] |= 1u << (id % MASK_WORD_IDS);
}

/* Sample r is some_sample(r), every other one greedy, with lists. */
static struct batch *edited_batch(int R, int V)
{
    struct batch *plain = rows_batch(R, R), *b;
    struct edits e = {.seen = alloc_poisoned((int64_t)R * V * (int64_t)sizeof(*e.seen)),
                      .biases = alloc_poisoned((int64_t)R * V * (int64_t)sizeof(*e.biases)),
                      .masks = alloc_poisoned((int64_t)R * (V + MASK_WORD_IDS) / 8),
                      .n = {.n_rows = R, .n_seqs = 1, .n_samples = R, .n_pages = plain->n_pages}};
    struct batch_sample *samples = alloc_poisoned(R * (int64_t)sizeof(*samples));

    for (int r = 0; r < R; r++) {
        samples[r] = some_sample(r);
        samples[r].temperature *= (float)(r % 2);
        samples[r].n_top = r % 5 * 5;
        if (r % 17 == PLAIN)
            continue;
        if (has_list(r, 0) || r % 17 == LAST_IS_SEEN)
            add_seen(&e, &samples[r], r, V);
        if (has_list(r, 1) || r % 17 == ALL_BIASED_AWAY)
            add_biased(&e, &samples[r], r, V);
        if (has_list(r, 2) || r % 17 <= ONE_ALLOWED)
            add_mask(&e, &samples[r], r, V);
    }
    b = batch_init(mem_new((size_t)batch_bytes(e.n)), e.n);
    memcpy((void *)(uintptr_t)BATCH_TOKENS(b), BATCH_TOKENS(plain),
           (size_t)(plain->offset_samples - plain->offset_tokens));
    memcpy((void *)(uintptr_t)BATCH_PAGES(b), BATCH_PAGES(plain),
           (size_t)plain->n_pages * sizeof(int32_t));
    memcpy((void *)(uintptr_t)BATCH_SAMPLES(b), samples, (size_t)R * sizeof(*samples));
    memcpy((void *)(uintptr_t)BATCH_SEEN(b), e.seen, (size_t)e.n.n_seen * sizeof(*e.seen));
    memcpy((void *)(uintptr_t)BATCH_BIASES(b), e.biases, (size_t)e.n.n_biases * sizeof(*e.biases));
    memcpy((void *)(uintptr_t)BATCH_MASKS(b), e.masks, (size_t)e.n.n_mask_words * sizeof(*e.masks));
    free(e.seen), free(e.biases), free(e.masks), free(samples), free(plain);
    return b;
}

/* The processed row, in float64. */
static void edit_slowly(double *out, const float *z, int V, const struct batch *b,
                        const struct batch_sample *s)
{
    for (int id = 0; id < V; id++)
        out[id] = (double)z[id];
    for (int i = 0; i < s->n_seen; i++) {
        const struct batch_seen *seen = &BATCH_SEEN(b)[s->first_seen + i];
        double *to = &out[seen->id];

        if (s->repetition > 0)
            *to = *to > 0 ? *to / (double)s->repetition : *to * (double)s->repetition;
        if (seen->n_generated > 0)
            *to -= (double)s->presence + seen->n_generated * (double)s->frequency;
    }
    for (int i = 0; i < s->n_biases; i++)
        out[BATCH_BIASES(b)[s->first_bias + i].id] +=
            (double)BATCH_BIASES(b)[s->first_bias + i].bias;
    for (int id = 0; id < V && s->n_mask_words > 0; id++)
        if (!mask_allows(BATCH_MASKS(b) + s->first_mask_word, id))
            out[id] = -INFINITY;
}

static int best_of(const double *z, int n)
{
    int best = 0;

    for (int id = 1; id < n; id++)
        if (z[id] > z[best])
            best = id;
    return best;
}

/* One row's token, its logprob, and the most likely tokens. z: the unmodified row. */
static void check_edited_row(const struct sample_args *a, const float *z, const struct batch *b,
                             int row)
{
    const struct batch_sample *s = &BATCH_SAMPLES(b)[row];
    const int V = (int)a->logits.dim[1], token = ((const int32_t *)a->tokens.data)[row];
    const int32_t *top = (const int32_t *)a->top_tokens.data + row * TOP_LOGPROBS_MAX;
    double *edited = alloc_poisoned(V * (int64_t)sizeof(*edited)), total = 0, most;
    bool *taken = mem_new((size_t)V);

    edit_slowly(edited, z, V, b, s);
    most = edited[best_of(edited, a->n_valid)];
    for (int id = 0; id < V; id++)
        total += exp((double)z[id]);
    if (most == -INFINITY) {
        note_wrong("a token where no token is allowed", token, SAMPLE_NONE_ALLOWED);
        note_wrong("its log-probability is NaN", isnan(f32_at(&a->logprobs, row)), 1);
    } else if (token < 0 || token >= a->n_valid) {
        note_wrong("a token of a processed row", token, best_of(edited, a->n_valid));
    } else {
        note_wrong("a token that is not allowed", edited[token] == -INFINITY, 0);
        if (!(s->temperature > 0) || s->top_k == 1) /* rounding may decide between two ids */
            note_wrong("not the largest processed logit", edited[token] < most - 1e-4, 0);
        note(f32_at(&a->logprobs, row), (double)z[token] - log(total));
    }
    for (int k = 0; k < s->n_top; k++) {
        int best = -1;

        for (int id = 0; id < a->n_valid; id++)
            if (!taken[id] && (best < 0 || z[id] > z[best]))
                best = id;
        note_wrong("a top_logprobs token", top[k], best);
        if (best < 0)
            continue;
        taken[best] = true;
        note(f32_at(&a->top_logprobs, row * TOP_LOGPROBS_MAX + k), (double)z[best] - log(total));
    }
    free(edited);
    free(taken);
}

static struct sample_args edited_args(int R, int V, int n_valid)
{
    return (struct sample_args){.tokens = SHAPED(DTYPE_I32, R),
                                .logprobs = SHAPED(DTYPE_F32, R),
                                .top_tokens = SHAPED(DTYPE_I32, R, TOP_LOGPROBS_MAX),
                                .top_logprobs = SHAPED(DTYPE_F32, R, TOP_LOGPROBS_MAX),
                                .logits = FILLED(3, DTYPE_F32, R, V),
                                .n_valid = n_valid};
}

static void drop_args(struct sample_args *a)
{
    drop(&a->tokens), drop(&a->logprobs), drop(&a->top_tokens), drop(&a->top_logprobs);
    drop(&a->logits);
}

static void check_edits(int V, int R)
{
    struct batch *b = edited_batch(R, V);
    struct sample_args a = edited_args(R, V, V - V % 2);
    float *came = alloc_poisoned((int64_t)R * V * (int64_t)sizeof(*came));
    int32_t expected[SAMPLES_MAX];
    int n_other = 0;

    for (int r = 0; r < R; r += 4) /* ties, and zeros of both signs */
        for (int v = 0; v < V; v++) {
            float *z = (float *)a.logits.data + (int64_t)r * V + v;

            *z = (float)(int)*z * (v % 3 == 0 ? -1.0f : 1.0f);
        }
    memcpy(came, a.logits.data, (size_t)R * (size_t)V * sizeof(*came));
    if (under.is_in_worker)
        draw_on_cpu(expected, &a, b);
    RUN(sample, b, &a);
    for (int r = 0; r < R; r++) {
        check_edited_row(&a, came + (int64_t)r * V, b, r);
        n_other += under.is_in_worker && ((const int32_t *)a.tokens.data)[r] != expected[r];
    }
    if (n_other > 1)
        note_wrong("processed samples that differ from the CPU's", n_other, 0);
    free(came);
    free(b);
    drop_args(&a);
}

/* A row with NaN fails even if a mask hides the NaN. */
static void check_broken_edits(void)
{
    enum { V = 500, R = 4, HIDDEN = 100 };
    struct batch *plain = rows_batch(R, R), *b;
    struct batch_counts n = {
        .n_rows = R, .n_seqs = 1, .n_samples = R, .n_pages = plain->n_pages, .n_mask_words = 16};
    struct sample_args a = edited_args(R, V, V);
    float *z = a.logits.data;

    b = batch_init(mem_new((size_t)batch_bytes(n)), n);
    memcpy((void *)(uintptr_t)BATCH_TOKENS(b), BATCH_TOKENS(plain),
           (size_t)(plain->offset_seen - plain->offset_tokens));
    for (int id = 0; id < V; id++)
        if (id != HIDDEN)
            ((uint32_t *)(uintptr_t)BATCH_MASKS(b))[id / MASK_WORD_IDS] |= 1u << id % MASK_WORD_IDS;
    for (int r = 0; r < R; r++)
        ((struct batch_sample *)(uintptr_t)BATCH_SAMPLES(b))[r] = (struct batch_sample){
            .row = r, .top_p = 1, .temperature = (float)(r % 2), .n_mask_words = 16};
    z[HIDDEN] = NAN;
    z[V + HIDDEN] = INFINITY;
    for (int v = 0; v < V; v++)
        z[2 * V + v] = -INFINITY;
    z[3 * V + HIDDEN] = 1500; /* its log-probability must be right, too */
    RUN(sample, b, &a);
    for (int r = 0; r < 3; r++)
        note_wrong("NaN behind a mask", ((const int32_t *)a.tokens.data)[r], SAMPLE_NOT_FINITE);
    note_wrong("a token beside a masked one", ((const int32_t *)a.tokens.data)[3] >= 0, 1);
    note_wrong("its log-probability",
               f32_at(&a.logprobs, 3) < -1400 && isfinite(f32_at(&a.logprobs, 3)), 1);
    free(plain);
    free(b);
    drop_args(&a);
}

/* The same tokens as the CPU's, except for one in a thousand: scores have the same bits, but
 * exponentials differ in the last ones, so that a candidate at the border of top_k, top_p or min_p
 * may be left out, or replaced by one of almost equal weight. With a deviation of 0 all weights are
 * equal, and ids decide. */
static void check_draws(int V, int R, double deviation)
{
    enum { N_BATCHES = 8 };
    int32_t expected[SAMPLES_MAX];
    int n_other = 0;

    for (int i = 0; i < (under.is_quick ? 1 : N_BATCHES); i++) {
        struct batch *b = rows_batch(R, R);
        struct sample_args a = {.tokens = SHAPED(DTYPE_I32, R),
                                .logprobs = SHAPED(DTYPE_F32, R),
                                .logits = FILLED(deviation, DTYPE_F32, R, V),
                                .n_valid = V - i % 2};

        for (int r = 0; r < R; r++)
            ((struct batch_sample *)BATCH_SAMPLES(b))[r] = some_sample(r);
        draw_on_cpu(expected, &a, b);
        RUN(sample, b, &a);
        for (int r = 0; r < R; r++) {
            const float *z = row_of(&a.logits, r);
            const int token = ((const int32_t *)a.tokens.data)[r];

            n_other += token != expected[r] &&
                       (token < 0 || deviation == 0 || fabsf(z[token] - z[expected[r]]) > 1e-5f);
        }
        drop(&a.tokens), drop(&a.logprobs), drop(&a.logits);
        free(b);
    }
    if (n_other > 1)
        note_wrong("samples that differ from the CPU's", n_other, 0);
}

/* ---- candidates of a draft head ---- */

enum { CANDIDATES = DRAFT_CANDIDATES_MAX };

/* Every third row is greedy, every third has ties. */
static struct batch *candidates_batch(const struct sample_args *a, int R, int n)
{
    const int V = (int)a->logits.dim[1];
    struct batch *b = rows_batch(R, R);

    for (int r = 0; r < R; r++) {
        struct batch_sample *s = (struct batch_sample *)(uintptr_t)&BATCH_SAMPLES(b)[r];
        float *z = (float *)a->logits.data + (int64_t)r * V;

        *s = some_sample(r);
        s->temperature *= (float)(r % 3 != 0);
        for (int v = 0; v < V && r % 3 == 1; v++)
            z[v] = (float)(int)z[v];
        for (int v = 0; v < V && r % 7 == 6; v++) /* fewer than n can be sampled */
            z[v] = v % (V / 3 + 1) == 0 ? z[v] : -INFINITY;
        z[0] = r % 11 == 10 ? NAN : z[0]; /* no token, and so no candidates */
    }
    b->n_candidates = n;
    return b;
}

/* Rows of the list that are others than the CPU's, or that do not begin with the token. At the
 * border of top_k, top_p and min_p a candidate may be another one, as in check_draws(). */
static int count_other_lists(const struct sample_args *a, const int32_t *want, int R, int n)
{
    int n_other = 0;

    for (int r = 0; r < R; r++) {
        const int32_t *list = (const int32_t *)a->candidates.data + r * CANDIDATES;
        const int token = ((const int32_t *)a->tokens.data)[r];

        n_other += memcmp(list, want + r * CANDIDATES, CANDIDATES * sizeof(*list)) != 0;
        note_wrong("the first candidate", list[0], token < 0 ? -1 : token);
        for (int i = n; i < CANDIDATES; i++)
            note_wrong("a candidate more than was asked for", list[i], -1);
    }
    return n_other;
}

/* The same ids as the CPU's, in the same order; with ids of another vocabulary, too. */
static void check_candidates(int V, int R, int n, bool has_ids)
{
    struct sample_args a = {.tokens = SHAPED(DTYPE_I32, R),
                            .logprobs = SHAPED(DTYPE_F32, R),
                            .logits = FILLED(3, DTYPE_F32, R, V),
                            .candidates = SHAPED(DTYPE_I32, R, CANDIDATES),
                            .n_valid = V - 1};
    struct batch *b = candidates_batch(&a, R, n);
    int32_t *want = alloc_poisoned((int64_t)R * CANDIDATES * (int64_t)sizeof(*want));
    int32_t tokens[SAMPLES_MAX];
    struct sample_args on_cpu;

    if (has_ids) {
        a.ids = SHAPED(DTYPE_I32, V);
        for (int v = 0; v < V; v++)
            ((int32_t *)a.ids.data)[v] = 3 * v + 1;
    }
    on_cpu = a;
    on_cpu.candidates.data = want;
    draw_on_cpu(tokens, &on_cpu, b);
    RUN(sample, b, &a);
    if (count_other_lists(&a, want, R, n) > (V > 1000 ? 1 : 0))
        note_wrong("lists of candidates that differ from the CPU's",
                   count_other_lists(&a, want, R, n), 0);
    free(want);
    free(b);
    drop(&a.tokens), drop(&a.logprobs), drop(&a.logits), drop(&a.candidates), drop(&a.ids);
}

static void check_all_candidates(void)
{
    static const int vocabs[] = {5, 300, 5003, 201088};

    for (int i = 0; i < (under.is_quick ? 2 : 4); i++)
        for (int n = 1; n <= CANDIDATES; n += 5)
            check_candidates(vocabs[i], vocabs[i] > 10000 ? 12 : 40, n, i % 2 == 1);
}

/* Logits that are not finite give no token. */
static void check_broken_logits(void)
{
    enum { V = 70, R = 4 };
    struct batch *b = rows_batch(R, R);
    struct sample_args a = {.tokens = SHAPED(DTYPE_I32, R),
                            .logprobs = SHAPED(DTYPE_F32, R),
                            .logits = FILLED(3, DTYPE_F32, R, V),
                            .n_valid = V - 1};

    ((float *)a.logits.data)[V - 1] = NAN; /* not valid, but in the softmax */
    ((float *)a.logits.data)[V + 3] = INFINITY;
    for (int v = 0; v < V; v++)
        ((float *)a.logits.data)[2 * V + v] = -INFINITY;
    for (int r = 0; r < R; r++)
        ((struct batch_sample *)BATCH_SAMPLES(b))[r] = some_sample(r);
    RUN(sample, b, &a);
    for (int r = 0; r < R; r++)
        note_wrong("a token of logits that are not finite", ((const int32_t *)a.tokens.data)[r] < 0,
                   r < 3);
    drop(&a.tokens), drop(&a.logprobs), drop(&a.logits);
    free(b);
}

/* Greedy, with the largest logit twice. tests/unit/test_sample.c checks the sampling itself, and a
 * GPU is compared with the CPU. */
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
    check_broken_edits();
    for (int i = 0; i < (under.is_quick ? 4 : 5); i++)
        check_edits(vocabs[i] + 13, under.is_quick || vocabs[i] > 1000 ? 18 : SAMPLES_MAX);
    check_edits(3000, under.is_quick ? 18 : SAMPLES_MAX);
    check_all_candidates();
    if (under.is_in_worker) {
        static const double deviations[] = {3, 0, 1e-3, 0.3, 30};

        check_draws(300, under.is_quick ? 32 : SAMPLES_MAX, 3);
        for (int i = 0; i < (under.is_quick ? 2 : 5); i++)
            check_draws(5003, under.is_quick ? 32 : SAMPLES_MAX, deviations[i]);
        for (int i = 0; i < (under.is_quick ? 0 : 5); i++)
            check_draws(201088, 16, deviations[i]);
    }
}
