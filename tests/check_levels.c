/* What the faster levels of the CPU's kernels cost in quality: the bundled model at each level that
 * this machine has, and on a CUDA card where there is one, against level "ref". The text is the ref level's own, drawn at temperature 1 after
 * a few questions, so that it is what the model usually sees. Prints the Kullback-Leibler divergence
 * of the next token's distribution (mean, 99th percentile and largest, in nats) and the share of positions
 * with the same most likely token. A few positions are left out of the mean and have a limit of their own:
 * where a router is at a tie, rounding of any size decides between two experts, and one such position in
 * a thousand can be more than all others together. Fails when the limits are passed, or when a level gives other bits on
 * other threads or in other chunks. Each level with each type of KV cache; the reference keeps keys and
 * values in f32.
 *
 *     check_levels [LEVEL ...]     default: all; "cuda" is the card */
#include "base/rng.h"
#include "cpu/kernels.h"
#include "divergence.h"
#include "osprey.h"
#include "steps.h"

enum { N_PROMPTS = 4, SEQ_TOKENS = 320, CHUNK_ROWS = 37 };
enum { N_TIES = 2 }; /* positions that are left out of the mean: 0.16 % */

/* What a type of KV cache may cost, the level's kernels included. */
static const struct kv_type {
    enum dtype dtype;
    double kl_mean_max, kl_max, same_top_min;
} kv_types[] = {{DTYPE_F32, 1e-4, 0.5, 0.99},
                {DTYPE_BF16, 1e-4, 0.5, 0.99},
                {DTYPE_F8, 3e-3, 2, 0.97},
                {DTYPE_I16, 1e-4, 0.5, 0.99}};
enum { N_KV_TYPES = sizeof(kv_types) / sizeof(kv_types[0]) };

static const char CUDA[] = "cuda"; /* as a level */

static const char *const MODEL = "models/osprey-nano";
static const char *const prompts[N_PROMPTS] = {
    "What is the capital of France?", "Tell me a story about a dog and a ship.",
    "Write a Python function that adds two numbers.", "What is 17 plus 25?"};

struct text {
    int32_t tokens[SEQ_TOKENS];
    int n_prompt;
};

static struct model *open_level(const char *level, enum dtype kv, int n_threads)
{
    const bool is_cuda = strcmp(level, CUDA) == 0;

    steps_device = is_cuda ? CUDA : "cpu";
    setenv("OSPREY_CPU_FEATURES", is_cuda ? "" : level, 1);
    return steps_open_kv(MODEL, n_threads, SEQ_TOKENS, 1, SEQ_TOKENS, kv);
}

static void render(struct text *t, const char *question)
{
    struct osp_tokenizer *tokenizer;
    char *path = mem_printf("%s/tokenizer.json", MODEL);
    char *text = mem_printf("<|start|>user<|message|>%s<|end|><|start|>assistant", question);
    int32_t *ids;
    size_t n;

    must(osp_tokenizer_open(&tokenizer, path));
    must(osp_tokenize(tokenizer, text, strlen(text), true, &ids, &n));
    if (n >= SEQ_TOKENS)
        abort();
    memcpy(t->tokens, ids, n * sizeof(*ids));
    t->n_prompt = (int)n;
    osp_free(ids);
    osp_tokenizer_close(tokenizer);
    free(text);
    free(path);
}

/* An index drawn from softmax(z). */
static int32_t draw(const float *z, int vocab, uint64_t seed, int position)
{
    const double uniform = rng_uniform(seed, (uint64_t)position, 0);
    double largest = (double)z[0], total = 0, sum = 0;

    for (int v = 1; v < vocab; v++)
        largest = fmax(largest, (double)z[v]);
    for (int v = 0; v < vocab; v++)
        total += exp((double)z[v] - largest);
    for (int v = 0; v < vocab; v++) {
        sum += exp((double)z[v] - largest);
        if (sum > uniform * total)
            return v;
    }
    return vocab - 1;
}

/* The ref level goes on from each prompt. */
static void write_texts(struct text *texts)
{
    struct model *m = open_level("ref", DTYPE_F32, 0);
    const int vocab = model_config(m)->vocab_size;
    float *logits = mem_new((size_t)SEQ_TOKENS * (size_t)vocab * sizeof(float));

    for (int i = 0; i < N_PROMPTS; i++) {
        struct text *t = &texts[i];
        struct steps_seq s = {.tokens = t->tokens, .logits = logits};

        render(t, prompts[i]);
        for (int n = t->n_prompt; n < SEQ_TOKENS; n++) {
            s.n_tokens = n;
            steps_play(m, &s, SEQ_TOKENS, 1);
            t->tokens[n] = draw(logits + (size_t)(n - 1) * (size_t)vocab, vocab, (uint64_t)i, n);
        }
    }
    free(logits);
    model_close(m);
}

/* (N_PROMPTS, SEQ_TOKENS, V): the logits of all texts; free() them. */
static float *play(const char *level, enum dtype kv, const struct text *texts, int n_threads,
                   int n_chunk, int *vocab)
{
    struct model *m = open_level(level, kv, n_threads);
    const size_t n = (size_t)SEQ_TOKENS * (size_t)model_config(m)->vocab_size;
    float *logits = mem_new(N_PROMPTS * n * sizeof(float));

    *vocab = model_config(m)->vocab_size;
    for (size_t i = 0; i < N_PROMPTS; i++) {
        struct steps_seq s = {
            .tokens = texts[i].tokens, .n_tokens = SEQ_TOKENS, .logits = logits + i * n};

        steps_poison(m);
        steps_play(m, &s, n_chunk, 1);
    }
    model_close(m);
    return logits;
}

/* Gives whether the level is close enough. */
static bool compare(const char *level, const struct kv_type *kv, const float *want,
                    const float *have, int vocab)
{
    enum { N = N_PROMPTS * SEQ_TOKENS };
    static double kl[N];
    double mean = 0, all = 0, same = 0;
    bool passes;

    for (size_t i = 0; i < N; i++) {
        bool is_same_top;

        kl[i] =
            divergence_at(want + i * (size_t)vocab, have + i * (size_t)vocab, vocab, &is_same_top);
        all += kl[i] / N;
        same += (double)is_same_top / N;
    }
    qsort(kl, N, sizeof(kl[0]), divergence_order);
    for (int i = 0; i < N - N_TIES; i++)
        mean += kl[i] / (N - N_TIES);
    passes = mean <= kv->kl_mean_max && kl[N - 1] <= kv->kl_max && same >= kv->same_top_min;
    printf("%-9s KV %-7s KL mean %.2e, of all %.2e, p99 %.2e, max %.2g, same top %6.2f %% of %d "
           "positions; limits %g, max %g, %g %%   %s\n",
           level, dtype_name(kv->dtype), mean, all, kl[N * 99 / 100], kl[N - 1], 100 * same, N,
           kv->kl_mean_max, kv->kl_max, 100 * kv->same_top_min, passes ? "ok" : "FAIL");
    return passes;
}

/* The same bits on one thread, row by row. */
static bool repeats(const char *level, enum dtype kv, const struct text *texts, const float *want)
{
    int vocab;
    float *have = play(level, kv, texts, 1, 1, &vocab);
    const size_t n_bytes = (size_t)N_PROMPTS * SEQ_TOKENS * (size_t)vocab * sizeof(float);
    const bool same = memcmp(have, want, n_bytes) == 0;

    if (!same)
        printf("%-9s other bits row by row on one thread   FAIL\n", level);
    free(have);
    return same;
}

/* The same bits with all texts in the same steps, in chunks of different lengths: CUDA alone, the
 * CPU's levels are tests/unit/test_forward.c's. */
static bool mixes(const struct text *texts, enum dtype kv, const float *want)
{
    enum { N_SEQS = N_PROMPTS };
    struct steps_seq seqs[N_SEQS];
    struct steps_chunk chunks[N_SEQS];
    struct model *m;
    float *logits;
    size_t n;
    bool same;

    steps_device = CUDA;
    m = steps_open_kv(MODEL, 0, SEQ_TOKENS, N_SEQS, SEQ_TOKENS, kv);
    n = (size_t)SEQ_TOKENS * (size_t)model_config(m)->vocab_size;
    logits = mem_new(N_SEQS * n * sizeof(float));
    for (int i = 0; i < N_SEQS; i++)
        seqs[i] = (struct steps_seq){.tokens = texts[i].tokens,
                                     .n_tokens = SEQ_TOKENS,
                                     .slot = i,
                                     .logits = logits + (size_t)i * n};
    steps_poison(m);
    for (int n_chunks = 1; n_chunks > 0;) {
        n_chunks = 0;
        for (int i = 0; i < N_SEQS; i++) {
            const int n_left = SEQ_TOKENS - seqs[i].n_done, n_wish = 1 + 13 * i;

            if (n_left > 0)
                chunks[n_chunks++] =
                    (struct steps_chunk){&seqs[i], n_left < n_wish ? n_left : n_wish};
        }
        if (n_chunks > 0)
            steps_run(m, chunks, n_chunks, N_SEQS);
    }
    same = memcmp(logits, want, N_SEQS * n * sizeof(float)) == 0;
    printf("%-9s %s bits with %d sequences in a step   %s\n", CUDA, same ? "the same" : "other",
           N_SEQS, same ? "ok" : "FAIL");
    model_close(m);
    free(logits);
    return same;
}

/* Gives the number of failures. */
static int check_level(const char *level, const struct text *texts, const float *want)
{
    int vocab, n_failed = 0;

    for (int i = 0; i < N_KV_TYPES; i++) {
        const struct kv_type *kv = &kv_types[i];
        float *have;

        if (kv->dtype == DTYPE_I16 && strcmp(level, CUDA) == 0)
            continue; /* it has not that type */
        have = play(level, kv->dtype, texts, 0, CHUNK_ROWS, &vocab);

        n_failed += !compare(level, kv, want, have, vocab);
        if (strcmp(level, "ref") != 0) /* test_forward.c does it for that one */
            n_failed += !repeats(level, kv->dtype, texts, have);
        if (strcmp(level, CUDA) == 0)
            n_failed += !mixes(texts, kv->dtype, have);
        free(have);
    }
    return n_failed;
}

/* Names of the levels, "ref" first; gives their number. */
static int levels_here(const char *out[KERNEL_LEVELS_MAX + 1])
{
    const struct kernels *levels[KERNEL_LEVELS_MAX];
    int n = kernels_here(levels);

    for (int i = 0; i < n; i++)
        out[i] = levels[i]->name;
    if (backend_find(CUDA) != NULL)
        out[n++] = CUDA;
    else
        printf("%-9s not here: %s\n", CUDA, fail_message());
    return n;
}

static bool is_wanted(const char *level, char **names, int n_names)
{
    for (int i = 0; i < n_names; i++)
        if (strcmp(level, names[i]) == 0)
            return true;
    return n_names == 0;
}

int main(int argc, char **argv)
{
    const char *levels[KERNEL_LEVELS_MAX + 1];
    const int n = levels_here(levels);
    static struct text texts[N_PROMPTS];
    int vocab, n_failed = 0;
    float *want;

    write_texts(texts);
    want = play("ref", DTYPE_F32, texts, 0, SEQ_TOKENS, &vocab);
    for (int i = 0; i < n; i++)
        if (is_wanted(levels[i], argv + 1, argc - 1))
            n_failed += check_level(levels[i], texts, want);
    free(want);
    printf("%d failures; %d levels are here\n", n_failed, n);
    return n_failed > 0;
}
