/* Batch invariance: the bits of a decode row do not depend on the number of rows beside it.
 * Sequences whose pages have the same random keys and values advance by one token, alone, and
 * then together in steps of many sizes: captured and replayed, with prefill rows behind them, where
 * the first step is launched kernel by kernel, and without. Every logit must be the same, and so must those of the last prefill row. In
 * steps whose number of rows changes at random, rows behind those of the batch must stay as they
 * are.
 * Several decode rows of one sequence, in which drafts are verified, have the bits of rows that come
 * one by one: in steps of one sequence and of several, with prefill rows behind them and without, also
 * where rejected drafts wrote to the same positions before.
 * Where the device takes steps ahead: sequences that sample step by step, with each token
 * published first, and then with steps that begin while the previous one runs and take its tokens
 * on the device; and then with another program that samples between the steps. Every token and
 * logprob must be the same.
 *
 *     check_batch_rows [DEVICE [SHAPE [LAYERS [CONTEXT]]]]
 *         default: the GPU if there is one, else the CPU; osprey-nano, all, 200 tokens
 *     check_batch_rows DEVICE SHAPE LAYERS CONTEXT rows ROWS
 *         steps of up to ROWS rows; 256 by default and at least
 *     check_batch_rows DEVICE SHAPE LAYERS CONTEXT uneven ROWS
 *         the same where one of 50 sequences has CONTEXT tokens, and the others a quarter
 *     check_batch_rows DEVICE SHAPE LAYERS CONTEXT again N ROWS...
 *         N steps of so many rows each: every token and its logprob must be as alone
 *     check_batch_rows DEVICE SHAPE LAYERS CONTEXT mixed ROWS...
 *         64+1984: the bits of 64 decode rows, and of the last of 1984 prefill rows of a sequence,
 *         in a step of both are those of a step of the row, or of the sequence, alone
 *     check_batch_rows DEVICE SHAPE LAYERS CONTEXT time ROWS...
 *         prints the time of a step of so many rows by stage, us, and its time when they are
 *         prefill rows, which may be added in any order; 256+512: 256 decode rows and 512
 *         prefill rows
 *     check_batch_rows DEVICE SHAPE LAYERS CONTEXT generated ROWS...
 *         the same without the steps that have only prefill rows
 *     check_batch_rows DEVICE SHAPE LAYERS CONTEXT drafts ROWS...
 *         the same for so many decode rows of one sequence, 17 at most
 *     check_batch_rows DEVICE SHAPE LAYERS CONTEXT trees ROWS...
 *         the same, and then for as many rows of a tree, two behind each row
 *
 * With CHECK_KV=f8 pages are of F8, else of BF16. With CHECK_EAGER=1 every step is launched kernel by
 * kernel. CHECK_QUICK, for builds with sanitizers: steps of up to 129 rows, fewer steps of random
 * sizes. */
#include <math.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/rng.h"
#include "model/stage_steps.h"
#include "steps.h"
#include "store/mxfp4_layers.h"

enum { SEQS_MAX = 1024, PREFILL_ROWS = 20, FILL_BYTES = 1 << 24, REPEATS = 4, STEPS_TIMED = 9 };

static const int row_counts[] = {2,  4,  5,   8,   9,   16,  17,  32,  33,  40,  48,
                                 64, 65, 128, 129, 256, 257, 400, 512, 768, 1024};
enum {
    N_ROW_COUNTS = sizeof(row_counts) / sizeof(row_counts[0]),
    ROWS_CHECKED = 256,
    ROWS_CHECKED_QUICK = 129
};

/* Rows of an argument. */
struct row_counts {
    int n, n_prompt; /* n_prompt: prefill rows after them */
};

static int context, n_seqs, prefill_rows = PREFILL_ROWS;
static bool is_uneven;
static uint64_t *expected;        /* (n_seqs): hash of a row's logits when it runs alone, */
static uint64_t expected_prefill; /* and of the last of the prefill rows */

static enum dtype kv_dtype(void)
{
    const char *name = getenv("CHECK_KV");

    return name != NULL && strcmp(name, "f8") == 0 ? DTYPE_F8 : DTYPE_BF16;
}

static int pages_each(void)
{
    return steps_pages(context + PREFILL_ROWS > prefill_rows ? context + PREFILL_ROWS
                                                             : prefill_rows);
}

/* ---- the model ---- */

/* Random BF16 numbers, or scales of F8, of magnitude 0.25 to 0.5 and either sign; as F8 codes they
 * have all magnitudes up to 1.875. */
static void fill_pages(struct model *m)
{
    const unsigned mask = kv_dtype() == DTYPE_F8 ? 0x803F : 0x807F; /* no code is NaN */
    uint16_t *random = mem_new(FILL_BYTES);
    size_t n;

    for (size_t i = 0; i < FILL_BYTES / sizeof(*random); i++)
        random[i] = (uint16_t)((rng_bits(1, i, 0) & mask) | 0x3E80);
    for (int g = 0; g < N_PAGE_GROUPS; g++)
        for (size_t i = 0; i < m->pages[g].size_bytes; i += n) {
            n = m->pages[g].size_bytes - i;
            n = n < FILL_BYTES ? n : FILL_BYTES;
            must(m->ops->write(m->be, (char *)m->pages[g].data + i, random, n));
        }
    free(random);
}

static struct model *open_shape(const char *device, const char *shape, int n_layers)
{
    struct model_options opt = {.dummy_shape = shape,
                                .dummy_layers = n_layers,
                                .device = device,
                                .n_rows_max = n_seqs + prefill_rows,
                                .n_samples_max = n_seqs + 1,
                                .kv_dtype = kv_dtype(), /* as fill_pages() writes them */
                                .is_eager = getenv("CHECK_EAGER") != NULL,
                                .mxfp4_layers = MXFP4_ALL};
    struct model *m;

    for (int g = 0; g < N_PAGE_GROUPS; g++)
        opt.n_pages[g] = (n_seqs + 1) * pages_each();
    must(model_open(&m, &opt));
    fill_pages(m);
    return m;
}

/* ---- steps ---- */

/* The first n rows have this phase. */
static void set_phases(struct batch *b, int n, enum phase phase)
{
    for (int row = 0; row < n; row++)
        ((int32_t *)BATCH_PHASES(b))[row] = (int32_t)phase;
}

/* Tokens of a sequence before its decode row. */
static int context_of(int seq)
{
    enum { LONG_EVERY = 50, LONG_AT = 3, SHORT_PART = 4 };

    return is_uneven && seq % LONG_EVERY != LONG_AT ? context / SHORT_PART : context;
}

/* Decode rows of n sequences from `first` on, and optionally the prefill rows of one more. */
static struct batch *batch_of(int first, int n, int n_prompt, int vocab)
{
    const int n_parts = n + (n_prompt > 0), n_rows = n + n_prompt, n_pages = pages_each();
    const struct batch_counts counts = {.n_rows = n_rows,
                                        .n_seqs = n_parts,
                                        .n_samples = n_parts,
                                        .n_pages = N_PAGE_GROUPS * n_parts * n_pages};
    struct batch *b = batch_init(mem_new((size_t)batch_bytes(counts)), counts);

    for (int s = 0; s < n_parts; s++) {
        struct batch_seq *seq = (struct batch_seq *)BATCH_SEQS(b) + s;
        const int slot = s < n ? first + s : n_seqs;

        *seq = (struct batch_seq){.first_row = s, .n_rows = s < n ? 1 : n_prompt};
        ((struct batch_sample *)BATCH_SAMPLES(b))[s] =
            (struct batch_sample){.row = s < n ? s : n_rows - 1, .top_p = 1};
        for (int g = 0; g < N_PAGE_GROUPS; g++) {
            seq->table[g] = (g * n_parts + s) * n_pages;
            seq->n_pages[g] = n_pages;
            for (int p = 0; p < n_pages; p++)
                ((int32_t *)BATCH_PAGES(b))[seq->table[g] + p] = p * (n_seqs + 1) + slot;
        }
    }
    for (int row = 0; row < n_rows; row++) {
        const bool is_prefill = row >= n;

        ((int32_t *)BATCH_PHASES(b))[row] = is_prefill ? PHASE_PREFILL : PHASE_DECODE;
        ((int32_t *)BATCH_POSITIONS(b))[row] = is_prefill ? row - n : context_of(first + row);
        ((int32_t *)BATCH_ROW_SEQ(b))[row] = is_prefill ? n : row;
        ((int32_t *)BATCH_TOKENS(b))[row] =
            (int32_t)(rng_bits(2, (uint64_t)(is_prefill ? SEQS_MAX + row - n : first + row), 0) %
                      (uint64_t)vocab);
    }
    return b;
}

static void run(struct model *m, const struct batch *b)
{
    uint64_t ticket;

    must(model_step(m, b, &ticket));
    must(model_wait(m, ticket));
}

static uint64_t hash_of(const float *logits, int vocab)
{
    return hash_bytes(HASH_INIT, logits, (size_t)vocab * sizeof(*logits));
}

static bool are_finite(const float *logits, int vocab)
{
    for (int v = 0; v < vocab; v++)
        if (!isfinite(logits[v]))
            return false;
    return true;
}

/* ---- the check ---- */

/* Runs the batch; out gets a hash of each sample's logits. Returns how many samples have logits
 * that are not finite. */
static int hash_samples(struct model *m, const struct batch *b, float *logits, uint64_t *out)
{
    const int vocab = model_config(m)->vocab_size;
    int n_bad = 0;

    run(m, b);
    must(model_logits(m, b->n_samples, logits));
    for (int s = 0; s < b->n_samples; s++) {
        out[s] = hash_of(logits + (size_t)s * (size_t)vocab, vocab);
        n_bad += !are_finite(logits + (size_t)s * (size_t)vocab, vocab);
    }
    return n_bad;
}

static int alone(struct model *m, float *logits, int n, int n_prompt)
{
    const int vocab = model_config(m)->vocab_size;
    struct batch *b = batch_of(0, 0, n_prompt, vocab);
    int n_bad = hash_samples(m, b, logits, &expected_prefill);

    free(b);
    for (int s = 0; s < n; s++) {
        b = batch_of(s, 1, 0, vocab);
        n_bad += hash_samples(m, b, logits, &expected[s]);
        free(b);
    }
    if (n_bad > 0)
        printf("%d of %d rows alone are not finite\n", n_bad, n + 1);
    return n_bad;
}

/* A step is launched, captured and replayed. The CPU, which does not record steps, computes the
 * same each time. */
static int n_repeats(const struct model *m)
{
    struct device_info info;

    m->ops->info(m->be, &info);
    return info.runs_async ? REPEATS : 1;
}

static int together(struct model *m, float *logits, int n, int n_prompt)
{
    struct batch *b = batch_of(0, n, n_prompt, model_config(m)->vocab_size);
    uint64_t have[SEQS_MAX + 1];
    const int n_times = n_repeats(m);
    int n_bad = 0;

    for (int repeat = 0; repeat < n_times; repeat++) {
        n_bad += hash_samples(m, b, logits, have);
        for (int s = 0; s < n; s++)
            n_bad += have[s] != expected[s];
        n_bad += n_prompt > 0 && have[n] != expected_prefill;
    }
    free(b);
    if (n_bad > 0)
        printf("%d rows, %d of them prefill: %d of %d rows have different bits than alone\n", n,
               n_prompt, n_bad, (n + (n_prompt > 0)) * n_times);
    return n_bad;
}

static int check(struct model *m, int n_rows_max)
{
    const int vocab = model_config(m)->vocab_size;
    float *logits = mem_new((size_t)(n_rows_max + 1) * (size_t)vocab * sizeof(float));
    int n_bad = alone(m, logits, n_rows_max, PREFILL_ROWS);

    for (int i = 0; i < N_ROW_COUNTS; i++) {
        if (row_counts[i] > n_rows_max)
            continue;
        n_bad += together(m, logits, row_counts[i], 0);
        n_bad += together(m, logits, row_counts[i], PREFILL_ROWS);
    }
    free(logits);
    printf("rows alone and in steps of up to %d, and the last prefill row beside them: %s\n",
           n_rows_max, n_bad == 0 ? "the same bits" : "FAILED");
    return n_bad;
}

/* Steps of decode rows and so many prefill rows that kernels for both phases are used. */
static int check_mixed(struct model *m, struct row_counts r)
{
    float *logits =
        mem_new((size_t)(r.n + 1) * (size_t)model_config(m)->vocab_size * sizeof(float));
    const int n_bad = alone(m, logits, r.n, r.n_prompt) + together(m, logits, r.n, r.n_prompt);

    free(logits);
    printf("%d decode rows and the last of %d prefill rows in one step: %s\n", r.n, r.n_prompt,
           n_bad == 0 ? "the same bits" : "FAILED");
    return n_bad;
}

/* ---- the same step again and again ---- */

/* Tokens and logprobs of the samples of a step. */
static void sample_rows(struct model *m, const struct batch *b, int32_t *tokens, float *logprobs)
{
    struct sampled d;

    run(m, b);
    must(model_sampled(m, &d));
    memcpy(tokens, d.tokens, (size_t)b->n_samples * sizeof(*tokens));
    memcpy(logprobs, d.logprobs, (size_t)b->n_samples * sizeof(*logprobs));
}

static int check_again(struct model *m, int n_steps, int n)
{
    const int vocab = model_config(m)->vocab_size;
    static int32_t tokens[SEQS_MAX], have_tokens[SEQS_MAX];
    static float logprobs[SEQS_MAX], have_logprobs[SEQS_MAX];
    struct batch *b;
    int n_bad = 0, n_bad_steps = 0;

    for (int s = 0; s < n; s++) {
        b = batch_of(s, 1, 0, vocab);
        sample_rows(m, b, &tokens[s], &logprobs[s]);
        free(b);
    }
    b = batch_of(0, n, 0, vocab);
    for (int i = 0; i < n_steps; i++) {
        const int n_before = n_bad;

        sample_rows(m, b, have_tokens, have_logprobs);
        for (int s = 0; s < n; s++)
            n_bad += have_tokens[s] != tokens[s] ||
                     memcmp(&have_logprobs[s], &logprobs[s], sizeof(float)) != 0;
        n_bad_steps += n_bad > n_before;
    }
    free(b);
    printf("%d steps of %d rows: %d rows in %d steps have another token or logprob than alone: "
           "%s\n",
           n_steps, n, n_bad, n_bad_steps, n_bad == 0 ? "the same bits" : "FAILED");
    return n_bad;
}

/* ---- numbers of rows that change from step to step ---- */

enum { CHURN_STEPS = 60, CHURN_STEPS_QUICK = 15, CHURN_ROWS_MAX = 96, POISON = 0xFF };

/* The rows from n on that steps of up to CHURN_ROWS_MAX rows have, in (*n_bytes) bytes. */
static char *rows_behind(const struct tensor *t, int n, size_t *n_bytes)
{
    const size_t row_bytes = (size_t)t->dim[1] * sizeof(float);

    *n_bytes = (size_t)(CHURN_ROWS_MAX - n) * row_bytes;
    return (char *)t->data + (size_t)n * row_bytes;
}

/* Every float of the rows behind becomes NaN. */
static void poison_behind(struct model *m, const struct tensor *t, int n, char *poison)
{
    size_t n_bytes;
    char *at = rows_behind(t, n, &n_bytes);

    memset(poison, POISON, n_bytes);
    must(m->ops->write(m->be, at, poison, n_bytes));
}

static int count_changed(struct model *m, const struct tensor *t, int n, char *have)
{
    size_t n_bytes, n_changed = 0;
    const char *at = rows_behind(t, n, &n_bytes);

    must(m->ops->read(m->be, have, at, n_bytes));
    for (size_t i = 0; i < n_bytes; i++)
        n_changed += (unsigned char)have[i] != POISON;
    return n_changed > 0;
}

/* A device may use one recording for several numbers of rows. Rows behind those of the batch are
 * not used, and are left as they are. */
static int check_churn(struct model *m)
{
    const int vocab = model_config(m)->vocab_size;
    const int n_steps = getenv("CHECK_QUICK") != NULL ? CHURN_STEPS_QUICK : CHURN_STEPS;
    float *logits = mem_new((size_t)CHURN_ROWS_MAX * (size_t)vocab * sizeof(float));
    const struct tensor x = m->embed_rmsnorm.x, y = m->embed_rmsnorm.y, z = m->logits.logits;
    const struct tensor *all[] = {&x, &y, &z};
    size_t most_bytes = 0, n_bytes;
    uint64_t have[CHURN_ROWS_MAX];
    int n_bad = 0, n_written = 0;
    char *rows;

    for (int i = 0; i < 3; i++) {
        (void)rows_behind(all[i], 0, &n_bytes);
        most_bytes = n_bytes > most_bytes ? n_bytes : most_bytes;
    }
    rows = mem_new(most_bytes);
    for (int step = 0; step < n_steps; step++) {
        const int n = 1 + (int)(rng_bits(3, (uint64_t)step, 0) % CHURN_ROWS_MAX);
        struct batch *b = batch_of(0, n, 0, vocab);

        for (int i = 0; i < 3; i++)
            poison_behind(m, all[i], n, rows);
        n_bad += hash_samples(m, b, logits, have);
        for (int s = 0; s < n; s++)
            n_bad += have[s] != expected[s];
        for (int i = 0; i < 3; i++)
            n_written += count_changed(m, all[i], n, rows);
        free(b);
    }
    free(rows);
    free(logits);
    printf("%d steps of 1 to %d rows at random, NaN in the rows behind: %s, %d tensors written "
           "there\n",
           n_steps, CHURN_ROWS_MAX, n_bad == 0 ? "the same bits" : "FAILED", n_written);
    return n_bad + n_written;
}

/* ---- several rows of a sequence ---- */

enum { VERIFIED_SEQS = 9, VERIFIED_ROWS_MAX = 17 }; /* a row and 16 drafts */

/* Rows of each sequence in a step; 0: it has none. */
static const int row_patterns[][VERIFIED_SEQS] = {{2},          {3},
                                                  {4},          {5},
                                                  {6},          {8},
                                                  {9},          {17},
                                                  {1, 2},       {4, 1},
                                                  {3, 3, 3},    {1, 1, 1, 1, 2},
                                                  {9, 9, 9, 9}, {17, 1, 5, 2, 9, 3, 1, 4, 8}};
enum { N_PATTERNS = sizeof(row_patterns) / sizeof(row_patterns[0]) };

static int32_t verified_token(int s, int i, uint64_t seed, int vocab)
{
    return (int32_t)(rng_bits(seed, (uint64_t)(s * VERIFIED_ROWS_MAX + i), 0) % (uint64_t)vocab);
}

/* n_rows[s] decode rows of sequence s from position context + first on, all sampled, and optionally
 * the prefill rows of one more sequence; `seed` makes the tokens. */
static struct batch *verified_batch(const int n_rows[VERIFIED_SEQS], int first, int n_prompt,
                                    uint64_t seed, int vocab)
{
    const int n_pages = pages_each();
    struct batch_counts counts = {.n_rows = n_prompt, .n_seqs = n_prompt > 0};
    struct batch *b;
    int row = 0, part = 0;

    for (int s = 0; s < VERIFIED_SEQS; s++) {
        counts.n_rows += n_rows[s];
        counts.n_seqs += n_rows[s] > 0;
    }
    counts.n_samples = counts.n_rows - n_prompt;
    counts.n_pages = N_PAGE_GROUPS * counts.n_seqs * n_pages;
    b = batch_init(mem_new((size_t)batch_bytes(counts)), counts);
    for (int s = 0; s <= VERIFIED_SEQS; s++) {
        const bool is_prefill = s == VERIFIED_SEQS;
        const int n = is_prefill ? n_prompt : n_rows[s];
        struct batch_seq *seq = (struct batch_seq *)BATCH_SEQS(b) + part;

        if (n == 0)
            continue;
        *seq = (struct batch_seq){.first_row = row, .n_rows = n};
        for (int g = 0; g < N_PAGE_GROUPS; g++) {
            seq->table[g] = (g * counts.n_seqs + part) * n_pages;
            seq->n_pages[g] = n_pages;
            for (int p = 0; p < n_pages; p++)
                ((int32_t *)BATCH_PAGES(b))[seq->table[g] + p] =
                    p * (n_seqs + 1) + (is_prefill ? n_seqs : s);
        }
        for (int i = 0; i < n; i++, row++) {
            ((int32_t *)BATCH_PHASES(b))[row] = is_prefill ? PHASE_PREFILL : PHASE_DECODE;
            ((int32_t *)BATCH_POSITIONS(b))[row] = is_prefill ? i : context + first + i;
            ((int32_t *)BATCH_ROW_SEQ(b))[row] = part;
            ((int32_t *)BATCH_TOKENS(b))[row] = verified_token(s, first + i, seed, vocab);
            if (!is_prefill)
                ((struct batch_sample *)BATCH_SAMPLES(b))[row] =
                    (struct batch_sample){.row = row, .top_p = 1};
        }
        part++;
    }
    return b;
}

/* Hashes of rows that come one by one: [s][i]. */
static int one_by_one(struct model *m, float *logits,
                      uint64_t out[VERIFIED_SEQS][VERIFIED_ROWS_MAX])
{
    int n_bad = 0;

    for (int s = 0; s < VERIFIED_SEQS; s++)
        for (int i = 0; i < VERIFIED_ROWS_MAX; i++) {
            int n_rows[VERIFIED_SEQS] = {0};
            struct batch *b;

            n_rows[s] = 1;
            b = verified_batch(n_rows, i, 0, 5, model_config(m)->vocab_size);
            n_bad += hash_samples(m, b, logits, &out[s][i]);
            free(b);
        }
    return n_bad;
}

/* Rejected drafts first, then the rows in one step, REPEATS times. */
static int verify(struct model *m, float *logits, const int n_rows[VERIFIED_SEQS], int n_prompt,
                  uint64_t expect[VERIFIED_SEQS][VERIFIED_ROWS_MAX])
{
    const int vocab = model_config(m)->vocab_size;
    struct batch *rejected = verified_batch(n_rows, 0, n_prompt, 6, vocab);
    struct batch *b = verified_batch(n_rows, 0, n_prompt, 5, vocab);
    uint64_t have[VERIFIED_SEQS * VERIFIED_ROWS_MAX];
    int n_bad = 0;

    for (int turn = 0; turn < REPEATS; turn++) {
        int row = 0;

        run(m, rejected);
        n_bad += hash_samples(m, b, logits, have);
        for (int s = 0; s < VERIFIED_SEQS; s++)
            for (int i = 0; i < n_rows[s]; i++)
                n_bad += have[row++] != expect[s][i];
    }
    free(rejected);
    free(b);
    return n_bad;
}

static int check_verified(struct model *m)
{
    static uint64_t expect[VERIFIED_SEQS][VERIFIED_ROWS_MAX];
    float *logits = mem_new((size_t)VERIFIED_SEQS * VERIFIED_ROWS_MAX *
                            (size_t)model_config(m)->vocab_size * sizeof(*logits));
    int n_bad = one_by_one(m, logits, expect);

    for (int i = 0; i < N_PATTERNS; i++)
        for (int n_prompt = 0; n_prompt <= PREFILL_ROWS; n_prompt += PREFILL_ROWS) {
            const int n = verify(m, logits, row_patterns[i], n_prompt, expect);

            if (n > 0)
                printf("pattern %d, %d prefill rows: %d rows have other bits\n", i, n_prompt, n);
            n_bad += n;
        }
    free(logits);
    printf("%d patterns of several decode rows of a sequence: %s\n", (int)N_PATTERNS,
           n_bad == 0 ? "the bits of single rows" : "FAILED");
    return n_bad;
}

/* ---- steps that begin while another one runs ---- */

enum { AHEAD_STEPS = 40 };
static const int ahead_counts[] = {1, 3, 5, 17, 64};
enum { N_AHEAD_COUNTS = sizeof(ahead_counts) / sizeof(ahead_counts[0]) };

struct sampled_rows {
    int32_t tokens[AHEAD_STEPS][SEQS_MAX];
    float logprobs[AHEAD_STEPS][SEQS_MAX];
};

/* The row of sequence s among n in step k: in every second step the order is reversed. */
static int row_of(int s, int n, int k)
{
    return k % 2 == 0 ? s : n - 1 - s;
}

/* Step k of n sequences, with the tokens of `last`, or with those that the previous step samples.
 * Positions repeat after PREFILL_ROWS steps, which the pages have space for. */
static struct batch *batch_at_step(int n, int k, int vocab, const int32_t *last)
{
    struct batch *b = batch_of(0, n, 0, vocab);
    const int n_pages = pages_each();

    for (int s = 0; s < n; s++) {
        const int row = row_of(s, n, k), position = context + k % PREFILL_ROWS;
        struct batch_sample *sample = (struct batch_sample *)BATCH_SAMPLES(b) + row;

        for (int g = 0; g < N_PAGE_GROUPS; g++)
            for (int p = 0; p < n_pages; p++)
                ((int32_t *)BATCH_PAGES(b))[BATCH_SEQS(b)[row].table[g] + p] = p * (n_seqs + 1) + s;
        ((int32_t *)BATCH_POSITIONS(b))[row] = position;
        if (k > 0)
            ((int32_t *)BATCH_TOKENS(b))[row] =
                last != NULL ? last[s] : batch_token_sampled(row_of(s, n, k - 1));
        sample->temperature = 1;
        sample->seed = (uint64_t)s;
        sample->position = (uint32_t)(k + 1);
    }
    return b;
}

static void keep_sampled(struct model *m, struct sampled_rows *out, int n, int k)
{
    struct sampled d;

    must(model_sampled(m, &d));
    for (int s = 0; s < n; s++) {
        out->tokens[k][s] = d.tokens[row_of(s, n, k)];
        out->logprobs[k][s] = d.logprobs[row_of(s, n, k)];
    }
}

static void sample_sync(struct model *m, struct sampled_rows *out, int n)
{
    for (int k = 0; k < AHEAD_STEPS; k++) {
        struct batch *b =
            batch_at_step(n, k, model_config(m)->vocab_size, k > 0 ? out->tokens[k - 1] : NULL);

        run(m, b);
        keep_sampled(m, out, n, k);
        free(b);
    }
}

/* The same with a program that samples other tokens between the steps. */
static void sample_between(struct model *m, struct sampled_rows *out, int n)
{
    const int vocab = model_config(m)->vocab_size;
    struct batch *greedy = batch_of(0, n, 0, vocab);
    uint64_t ticket = 0;

    for (int k = 0; k < AHEAD_STEPS; k++) {
        struct batch *b = batch_at_step(n, k, vocab, NULL);

        b->tokens_ticket = ticket;
        must(model_step(m, b, &ticket));
        must(model_wait(m, ticket));
        keep_sampled(m, out, n, k);
        must(stage_step_run(m, stage_count(m) - 1, greedy));
        free(b);
    }
    free(greedy);
}

static void sample_ahead(struct model *m, struct sampled_rows *out, int n)
{
    uint64_t ticket = 0, before;

    for (int k = 0; k <= AHEAD_STEPS; k++) {
        before = ticket;
        if (k < AHEAD_STEPS) {
            struct batch *b = batch_at_step(n, k, model_config(m)->vocab_size, NULL);

            b->tokens_ticket = before;
            must(model_step(m, b, &ticket));
            free(b);
        }
        if (k == 0)
            continue;
        must(model_wait(m, before));
        keep_sampled(m, out, n, k - 1);
    }
}

static int count_different(const struct sampled_rows *a, const struct sampled_rows *b, int n)
{
    int n_bad = 0;

    for (int k = 0; k < AHEAD_STEPS; k++)
        n_bad += memcmp(a->tokens[k], b->tokens[k], (size_t)n * sizeof(int32_t)) != 0 ||
                 memcmp(a->logprobs[k], b->logprobs[k], (size_t)n * sizeof(float)) != 0;
    return n_bad;
}

static int check_ahead(struct model *m)
{
    struct sampled_rows *copied = mem_new(sizeof(*copied)), *have = mem_new(sizeof(*have));
    struct device_info info;
    int n_bad = 0, n_sampled = 0;

    model_device_info(m, &info);
    for (int i = 0; i < N_AHEAD_COUNTS && info.runs_pipelined; i++) {
        const int n = ahead_counts[i];

        sample_sync(m, copied, n);
        sample_ahead(m, have, n);
        n_bad += count_different(copied, have, n);
        sample_between(m, have, n);
        n_bad += count_different(copied, have, n);
        n_sampled += 2 * n * AHEAD_STEPS;
    }
    free(copied);
    free(have);
    if (info.runs_pipelined)
        printf("%d samples of steps that begin while another one runs, or that take the tokens of "
               "the step before the last: %s\n",
               n_sampled, n_bad == 0 ? "the same" : "FAILED");
    return n_bad;
}

/* ---- times ---- */

static int compare_times(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

static void print_stages(const struct stage_cost *before, const struct stage_cost *after, int n)
{
    for (int i = 0; i < n; i++) {
        const double time_ns = (double)(after[i].time_ns - before[i].time_ns);

        printf("  %s %.0f", after[i].stage, time_ns / STEPS_TIMED * 1e-3);
        if (strcmp(after[i].stage, "experts") == 0)
            printf(" (%.0f GB/s)", (after[i].bytes - before[i].bytes) / time_ns);
    }
    printf("\n");
}

/* Takes b over. */
static void time_batch(struct model *m, struct row_counts r, struct batch *b, const char *what)
{
    enum { STAGES_MAX = 32 };
    struct stage_cost before[STAGES_MAX], after[STAGES_MAX];
    uint64_t times[STEPS_TIMED];
    int n_stages;

    for (int i = 0; i < REPEATS; i++)
        run(m, b);
    (void)model_costs(m, before, STAGES_MAX);
    for (int i = 0; i < STEPS_TIMED; i++) {
        const uint64_t start = clock_ns();

        run(m, b);
        times[i] = clock_ns() - start;
    }
    n_stages = model_costs(m, after, STAGES_MAX);
    free(b);
    qsort(times, STEPS_TIMED, sizeof(times[0]), compare_times);
    printf("%4d", r.n);
    if (r.n_prompt > 0)
        printf("+%d", r.n_prompt);
    printf(" %s: %8.1f us, %7.0f tok/s:", what, (double)times[STEPS_TIMED / 2] * 1e-3,
           r.n * 1e9 / (double)times[STEPS_TIMED / 2]);
    print_stages(before, after, n_stages);
}

static void time_rows(struct model *m, struct row_counts r, enum phase phase)
{
    struct batch *b = batch_of(0, r.n, r.n_prompt, model_config(m)->vocab_size);

    set_phases(b, r.n, phase);
    time_batch(m, r, b, phase == PHASE_PREFILL ? "prefill rows" : "rows");
}

static bool read_rows(struct row_counts *out, const char *words)
{
    char *end;

    out->n = (int)strtol(words, &end, 10);
    out->n_prompt = *end == '+' ? (int)strtol(end + 1, &end, 10) : 0;
    return *end == '\0' && out->n >= 1 && out->n <= SEQS_MAX && out->n_prompt >= 0;
}

/* A copy of a batch of one sequence's decode rows, as those of a tree: row i > 0 is a draft behind
 * row (i - 1) / 2. */
static struct batch *as_tree(const struct batch *chain)
{
    const struct batch_counts counts = {.n_rows = chain->n_rows,
                                        .n_seqs = 1,
                                        .n_samples = chain->n_samples,
                                        .n_pages = chain->n_pages,
                                        .has_trees = true};
    struct batch *b = batch_init(mem_new((size_t)batch_bytes(counts)), counts);
    uint32_t *masks = (uint32_t *)(uintptr_t)BATCH_TREE_MASKS(b);

    memcpy((void *)(uintptr_t)BATCH_TOKENS(b), BATCH_TOKENS(chain),
           (size_t)(chain->offset_seen - chain->offset_tokens));
    for (int row = 0; row < b->n_rows; row++) {
        masks[row] = (row > 0 ? masks[(row - 1) / 2] : 0) | 1u << row;
        ((int32_t *)BATCH_POSITIONS(b))[row] = context + __builtin_popcount(masks[row]) - 1;
    }
    return b;
}

/* Steps that verify drafts of one sequence: chains and, if wanted, trees. */
static void time_drafts(struct model *m, int n, char **words, bool has_trees)
{
    struct row_counts r;

    for (int i = 0; i < n && read_rows(&r, words[i]); i++) {
        const int n_rows[VERIFIED_SEQS] = {r.n < VERIFIED_ROWS_MAX ? r.n : VERIFIED_ROWS_MAX};
        struct batch *chain = verified_batch(n_rows, 0, 0, 5, model_config(m)->vocab_size);
        struct batch *tree = has_trees ? as_tree(chain) : NULL;

        r = (struct row_counts){.n = n_rows[0]};
        time_batch(m, r, chain, "rows of a sequence");
        if (tree != NULL)
            time_batch(m, r, tree, "rows of a tree    ");
    }
}

/* Computes the rows that the model needs for the arguments after "time" or "generated"; false if
 * they are invalid. */
static bool need_rows(int n, char **words)
{
    struct row_counts r;

    n_seqs = 1;
    for (int i = 0; i < n; i++) {
        if (!read_rows(&r, words[i]))
            return false;
        n_seqs = r.n > n_seqs ? r.n : n_seqs;
        prefill_rows = r.n_prompt > prefill_rows ? r.n_prompt : prefill_rows;
    }
    return true;
}

static void time_all(struct model *m, int n, char **words, bool is_decode_alone)
{
    struct row_counts r;

    for (int i = 0; i < n && read_rows(&r, words[i]); i++) {
        if (!is_decode_alone && r.n_prompt == 0)
            time_rows(m, r, PHASE_PREFILL);
        time_rows(m, r, PHASE_DECODE);
    }
}

static int mixed_all(struct model *m, int n, char **words)
{
    struct row_counts r;
    int n_bad = 0;

    for (int i = 0; i < n && read_rows(&r, words[i]); i++) {
        if (r.n_prompt > 0) {
            n_bad += check_mixed(m, r);
        } else {
            fprintf(stderr, "%s: expected decode rows and prefill rows, such as 64+1984\n",
                    words[i]);
            n_bad++;
        }
    }
    return n_bad;
}

/* Arguments behind "again": N ROWS... */
static int again_all(struct model *m, int n, char **words)
{
    struct row_counts r;
    int n_bad = 0;

    for (int i = 1; i < n && read_rows(&r, words[i]); i++)
        n_bad += check_again(m, atoi(words[0]), r.n);
    return n_bad;
}

int main(int argc, char **argv)
{
    const char *device = argc > 1 ? argv[1] : "auto", *shape = argc > 2 ? argv[2] : "osprey-nano";
    const int n_layers = argc > 3 ? atoi(argv[3]) : 0;
    const bool is_decode_alone = argc > 5 && strcmp(argv[5], "generated") == 0;
    const bool is_again = argc > 7 && strcmp(argv[5], "again") == 0;
    const bool has_rows =
        argc == 7 && (strcmp(argv[5], "rows") == 0 || strcmp(argv[5], "uneven") == 0);
    const bool has_trees = argc > 5 && strcmp(argv[5], "trees") == 0;
    const bool is_drafts = has_trees || (argc > 5 && strcmp(argv[5], "drafts") == 0);
    const bool is_mixed = argc > 6 && strcmp(argv[5], "mixed") == 0;
    const bool is_timed =
        is_decode_alone || is_drafts || (argc > 5 && strcmp(argv[5], "time") == 0);
    struct model *m;
    int n_bad = 0;

    context = argc > 4 ? atoi(argv[4]) : 200;
    n_seqs = getenv("CHECK_QUICK") != NULL ? ROWS_CHECKED_QUICK : ROWS_CHECKED;
    is_uneven = has_rows && strcmp(argv[5], "uneven") == 0;
    if (context < PREFILL_ROWS || (argc > 5 && !is_timed && !is_again && !is_mixed && !has_rows) ||
        ((is_timed || is_mixed || has_rows) && !need_rows(argc - 6, argv + 6)) ||
        (is_again && !need_rows(argc - 7, argv + 7))) {
        fprintf(stderr,
                "check_batch_rows [DEVICE [SHAPE [LAYERS [CONTEXT [rows|uneven ROWS|again N "
                "ROWS...|mixed|time|generated|drafts|trees ROWS...]]]]]: at most %d rows, and a "
                "context "
                "of at "
                "least "
                "%d tokens\n",
                SEQS_MAX, PREFILL_ROWS);
        return 2;
    }
    if (has_rows && n_seqs < ROWS_CHECKED)
        n_seqs = ROWS_CHECKED;
    expected = mem_new((size_t)n_seqs * sizeof(*expected));
    m = open_shape(device, shape, n_layers);
    if (is_drafts)
        time_drafts(m, argc - 6, argv + 6, has_trees);
    else if (is_timed)
        time_all(m, argc - 6, argv + 6, is_decode_alone);
    else if (is_mixed)
        n_bad = mixed_all(m, argc - 6, argv + 6);
    else if (is_again)
        n_bad = again_all(m, argc - 6, argv + 6);
    else
        n_bad = check(m, n_seqs) + check_verified(m) + check_churn(m) + check_ahead(m);
    model_close(m);
    free(expected);
    return n_bad > 0;
}
