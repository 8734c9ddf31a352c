/* Measures what the faster ISAs of the CPU backend, and a CUDA GPU if there is one, cost in
 * quality: the bundled model at each ISA that this machine has, against ISA "ref" with keys and
 * values in f32, with each type of KV cache, over paragraphs and conversations (texts.h). Every
 * position counts. Prints the Kullback-Leibler divergence of the next token's distribution (mean,
 * 99th percentile and largest, in nats) and the share of positions with the same most likely
 * token. Where a layer's router has a tie, rounding of any size decides between two experts:
 * prints the number of positions with other experts than the oracle's, how close to a tie the
 * oracle was there, and their part of the mean. Fails when a limit is exceeded, or when an ISA
 * gives other bits with other threads or other chunks.
 *
 *     check_isas [ISA ...]     default: all; "cuda" is the GPU
 *
 * CHECK_QUICK in the environment, for builds with sanitizers: the beginnings of two paragraphs.
 * One position there can exceed the limit of the mean, so the limit is ten times as wide. The
 * share of the same most likely token is not meaningful there either. */
#include "cpu/kernels/kernels.h"
#include "routers.h"
#include "texts.h"

enum {
    CHUNK_ROWS = 37,
    QUICK_TEXTS = 2,
    QUICK_TOKENS = 140, /* past the window's edge */
    QUICK_FACTOR = 10
};

static const double QUICK_SAME = 0.05;

/* Limits for a type of KV cache, including the ISA's kernels. A GPU's kernels round less than the
 * CPU's: 99.8 % were measured. */
static const struct kv_type {
    enum dtype dtype;
    double kl_mean_max, kl_max, same_top_min, gpu_same_top_min;
} kv_types[] = {{DTYPE_F32, 1e-4, 0.5, 0.98, 0.99},
                {DTYPE_BF16, 1e-4, 0.5, 0.98, 0.99},
                {DTYPE_F8, 3e-3, 2, 0.97, 0.97},
                {DTYPE_I16, 1e-4, 0.5, 0.98, 1 /* GPUs do not have it */}};
enum { N_KV_TYPES = sizeof(kv_types) / sizeof(kv_types[0]) };

static const char CUDA[] = "cuda"; /* used like an ISA */

static const char *const MODEL = "models/osprey-nano";

static struct texts texts;
static struct router_note notes[TEXTS_MAX * TEXT_TOKENS_MAX];       /* of the oracle, (positions) */
static struct router_note other_notes[TEXTS_MAX * TEXT_TOKENS_MAX]; /* of an ISA */
static int vocab;
static bool is_quick;

static struct model *open_isa(const char *isa, enum dtype kv, int n_threads, int n_seqs)
{
    const bool is_cuda = strcmp(isa, CUDA) == 0;

    steps_device = is_cuda ? CUDA : "cpu";
    setenv("OSPREY_CPU_FEATURES", is_cuda ? "" : isa, 1);
    return steps_open_kv(MODEL, n_threads, TEXT_TOKENS_MAX, n_seqs, TEXT_TOKENS_MAX, kv);
}

/* A few texts where more would add nothing. */
static int few(int n)
{
    return n < texts.n ? n : texts.n;
}

/* ---- logits ---- */

static size_t logits_bytes(int n)
{
    return (size_t)n * (size_t)vocab * sizeof(float);
}

/* The index of a text's logits among those of all texts. */
static size_t at(int text)
{
    return (size_t)texts.starts[text] * (size_t)vocab;
}

/* (positions, V): the logits of the first n texts, concatenated; the caller frees them. */
static float *run_texts(struct model *m, int n, int n_chunk, struct router_note *out)
{
    float *logits = mem_new(logits_bytes(texts.starts[n]));

    for (int i = 0; i < n; i++) {
        struct steps_seq s = {.tokens = texts.texts[i].tokens,
                              .n_tokens = texts.texts[i].n_tokens,
                              .logits = logits + at(i)};

        routers_into(out + texts.starts[i], s.n_tokens);
        steps_poison(m);
        steps_play(m, &s, n_chunk, 1);
    }
    return logits;
}

/* Reads the texts; returns the oracle's logits. */
static float *run_oracle(void)
{
    struct model *m = open_isa("ref", DTYPE_F32, 0, 1);
    const struct texts_options opt = {.folder = MODEL,
                                      .n_each = is_quick ? 1 : TEXTS_EACH_MAX,
                                      .prompt_tokens_max =
                                          is_quick ? QUICK_TOKENS : PROMPT_TOKENS_MAX,
                                      .model = is_quick ? NULL : m};
    float *logits;

    vocab = model_config(m)->vocab_size;
    texts_read(&texts, &opt);
    texts.n = is_quick ? QUICK_TEXTS : texts.n;
    routers_watch(m);
    logits = run_texts(m, texts.n, TEXT_TOKENS_MAX, notes);
    model_close(m);
    return logits;
}

static float *run_isa(const char *isa, enum dtype kv, int n_threads, int n, int n_chunk)
{
    struct model *m = open_isa(isa, kv, n_threads, 1);
    float *logits;

    if (strcmp(isa, CUDA) != 0)
        routers_watch(m);
    logits = run_texts(m, n, n_chunk, other_notes);
    model_close(m);
    return logits;
}

/* ---- comparisons ---- */

/* Positions at which a router selected other experts than the oracle's. */
struct others {
    int n;
    double share; /* of the mean divergence */
    float margin; /* the oracle's largest there */
};

static struct others others_of(const struct divergences *d)
{
    struct others o = {0};
    double sum = 0;

    for (int i = 0; i < d->n; i++)
        if (notes[i].chosen != other_notes[i].chosen) {
            o.n++;
            o.margin = fmaxf(o.margin, notes[i].margin);
            sum += d->kl[i] / d->n;
        }
    o.share = sum > 0 ? sum / d->mean : 0;
    return o;
}

/* Returns whether the ISA is close enough over the first n texts. */
static bool compare(const char *isa, const struct kv_type *kv, const float *want, const float *have,
                    int n)
{
    const double mean_max = kv->kl_mean_max * (is_quick ? QUICK_FACTOR : 1);
    struct divergences d = divergences_of(want, have, texts.starts[n], vocab);
    const struct others o = others_of(&d);
    const bool is_gpu = strcmp(isa, CUDA) == 0;
    const double same_min =
        (is_gpu ? kv->gpu_same_top_min : kv->same_top_min) - (is_quick ? QUICK_SAME : 0);
    const bool passes = d.mean <= mean_max && d.max <= kv->kl_max && d.same_top >= same_min;

    printf("%-9s KV %-7s KL mean %.2e, p99 %.2e, max %.2g, same top %6.2f %% of %d positions; "
           "limits %g, max %g, %g %%   %s\n",
           isa, dtype_name(kv->dtype), d.mean, d.p99, d.max, 100 * d.same_top, d.n, mean_max,
           kv->kl_max, 100 * same_min, passes ? "ok" : "FAIL");
    if (!is_gpu)
        printf(
            "%-9s other experts at %d positions, %.0f %% of the mean, where the oracle's routers "
            "were at most %.2g from a tie\n",
            "", o.n, 100 * o.share, (double)o.margin);
    divergences_release(&d);
    return passes;
}

static bool is_same(const float *have, const float *want, int text)
{
    return memcmp(have + at(text), want + at(text), logits_bytes(texts.texts[text].n_tokens)) == 0;
}

/* The same bits on one thread, row by row. */
static bool repeats(const char *isa, enum dtype kv, const float *want)
{
    float *have = run_isa(isa, kv, 1, few(TEXTS_FEW), 1);
    bool same = true;

    for (int i = 0; i < few(TEXTS_FEW); i++)
        same &= is_same(have, want, i);
    if (!same)
        printf("%-9s different bits row by row on one thread   FAIL\n", isa);
    free(have);
    return same;
}

/* Runs all sequences to their ends, step by step, in chunks of different lengths. */
static void run_batched(struct model *m, struct steps_seq *seqs, int n)
{
    struct steps_chunk chunks[STEPS_SEQS_MAX];

    for (int n_chunks = 1; n_chunks > 0;) {
        n_chunks = 0;
        for (int i = 0; i < n; i++) {
            const int n_left = seqs[i].n_tokens - seqs[i].n_done, n_wanted = 1 + 7 * i;

            if (n_left > 0)
                chunks[n_chunks++] =
                    (struct steps_chunk){&seqs[i], n_left < n_wanted ? n_left : n_wanted};
        }
        if (n_chunks > 0)
            steps_run(m, chunks, n_chunks, n);
    }
}

/* The same bits with several texts in the same steps. Only CUDA: tests/unit/test_forward.c checks
 * the ISAs of the CPU. */
static bool mixes(enum dtype kv, const float *want)
{
    const int n = few(STEPS_SEQS_MAX);
    struct model *m = open_isa(CUDA, kv, 0, n);
    float *have = mem_new(logits_bytes(texts.starts[n]));
    struct steps_seq seqs[STEPS_SEQS_MAX];
    bool same = true;

    for (int i = 0; i < n; i++)
        seqs[i] = (struct steps_seq){.tokens = texts.texts[i].tokens,
                                     .n_tokens = texts.texts[i].n_tokens,
                                     .slot = i,
                                     .logits = have + at(i)};
    steps_poison(m);
    run_batched(m, seqs, n);
    for (int i = 0; i < n; i++)
        same &= is_same(have, want, i);
    printf("%-9s %s bits with %d sequences in a step   %s\n", CUDA, same ? "the same" : "other", n,
           same ? "ok" : "FAIL");
    model_close(m);
    free(have);
    return same;
}

/* ---- ISAs ---- */

/* The oracle is not compared with itself, and a GPU does not have I16 pages. */
static bool has_type(const char *isa, enum dtype kv)
{
    return !(kv == DTYPE_F32 && strcmp(isa, "ref") == 0) &&
           !(kv == DTYPE_I16 && strcmp(isa, CUDA) == 0);
}

/* Returns the number of failures. For the oracle, only the cache's rounding remains, so a few texts
 * suffice. */
static int check_isa(const char *isa, const float *want)
{
    const bool is_ref = strcmp(isa, "ref") == 0;
    const int n = is_ref ? few(TEXTS_FEW) : texts.n;
    int n_failed = 0;

    for (int i = 0; i < N_KV_TYPES; i++) {
        const struct kv_type *kv = &kv_types[i];
        float *have;

        if (!has_type(isa, kv->dtype))
            continue;
        have = run_isa(isa, kv->dtype, 0, n, is_ref ? TEXT_TOKENS_MAX : CHUNK_ROWS);
        n_failed += !compare(isa, kv, want, have, n);
        if (!is_ref) /* test_forward.c checks that for the oracle */
            n_failed += !repeats(isa, kv->dtype, have);
        if (strcmp(isa, CUDA) == 0)
            n_failed += !mixes(kv->dtype, have);
        free(have);
    }
    return n_failed;
}

/* Names of the ISAs, "ref" first; returns their number. */
static int isas_available(const char *out[KERNEL_ISAS_MAX + 1])
{
    const struct kernels *isas[KERNEL_ISAS_MAX];
    int n = kernels_available(isas);

    for (int i = 0; i < n; i++)
        out[i] = isas[i]->name;
    if (backend_find(CUDA) != NULL)
        out[n++] = CUDA;
    else
        printf("%-9s not available: %s\n", CUDA, fail_message());
    return n;
}

static bool is_wanted(const char *isa, char **names, int n_names)
{
    for (int i = 0; i < n_names; i++)
        if (strcmp(isa, names[i]) == 0)
            return true;
    return n_names == 0;
}

int main(int argc, char **argv)
{
    const char *isas[KERNEL_ISAS_MAX + 1];
    const int n = isas_available(isas);
    int n_failed = 0;
    float *want;

    is_quick = getenv("CHECK_QUICK") != NULL;
    want = run_oracle();
    for (int i = 0; i < n; i++)
        if (is_wanted(isas[i], argv + 1, argc - 1))
            n_failed += check_isa(isas[i], want);
    free(want);
    printf("%d failures; %d ISAs available\n", n_failed, n);
    return n_failed > 0;
}
