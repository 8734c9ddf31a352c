/* The cost of each choice of MXFP4 layers on osprey-nano: prompts of the golden vectors are run
 * with the original weights and with some layers converted to MXFP4. Prints one line per choice and
 * fails when the logits differ by more than the format can explain, or not at all.
 *
 * CHECK_QUICK in the environment, for builds with sanitizers: short prompts, and two choices. */
#include "base/file.h"
#include "divergence.h"
#include "steps.h"
#include "store/mxfp4_layers.h"

enum {
    VECTORS_BYTES_MAX = 64 << 20,
    PROMPT_TOKENS_MAX = 700,
    QUICK_TOKENS_MAX = 130,
    PROMPTS_MAX = 8,
    STEP_ROWS = 700
};

#define MODEL   "models/osprey-nano"
#define VECTORS "tests/golden/model/nano.vectors"

/* Each layer alone, then useful combinations. */
static const char *const choices[] = {"embed", "lm_head",       "qkv", "o",
                                      "qkv,o", "qkv,o,lm_head", "all"};
enum { N_CHOICES = sizeof(choices) / sizeof(choices[0]) };

/* Far above the measured values, far below the effect of a wrong scale or nibble order. */
static const double SAME_TOP_MIN = 0.7, KL_MEAN_MAX = 0.4;

struct prompts {
    int n;
    const int32_t *tokens[PROMPTS_MAX];
    int n_tokens[PROMPTS_MAX];
};

/* The token lists of a file of golden vectors (check_golden.c reads the whole file). */
static struct prompts read_prompts(const char *data, size_t size_bytes, int vocab, int n_tokens_max)
{
    const int32_t *at = (const int32_t *)(const void *)(data + 8), *end = at + size_bytes / 4 - 2;
    struct prompts p = {.n = 0};
    const int n_prompts = at[1];

    at += 2;
    for (int i = 0; i < n_prompts && at + 2 < end; i++) {
        const int n_tokens = at[0], n_rows = at[1];

        if (n_tokens <= n_tokens_max && p.n < PROMPTS_MAX) {
            p.tokens[p.n] = at + 2;
            p.n_tokens[p.n++] = n_tokens;
        }
        at += 2 + 4 * (int64_t)n_tokens + (int64_t)n_rows * (1 + vocab);
    }
    return p;
}

static struct model *open_with(const char *words)
{
    struct model_options opt = {.path = MODEL,
                                .cpu_features = "ref", /* adds no rounding of its own */
                                .n_rows_max = STEP_ROWS,
                                .n_samples_max = STEP_ROWS,
                                .n_pages = {STEPS_PAGES_MAX, STEPS_PAGES_MAX}};
    struct model *m;

    must(mxfp4_layers_parse(&opt.mxfp4_layers, words));
    must(model_open(&m, &opt));
    return m;
}

/* All logits of all prompts, concatenated, (rows, V). */
static float *run_texts(struct model *m, const struct prompts *p, int64_t n_rows)
{
    const int64_t vocab = model_config(m)->vocab_size;
    float *logits = mem_new((size_t)(n_rows * vocab) * sizeof(float)), *end = logits;

    for (int i = 0; i < p->n; i++) {
        struct steps_seq s = {.tokens = p->tokens[i], .n_tokens = p->n_tokens[i], .logits = end};

        steps_play(m, &s, STEP_ROWS, 1);
        end += p->n_tokens[i] * vocab;
    }
    return logits;
}

static int64_t weight_bytes(const struct model *m)
{
    const struct weights_report *r = model_weights_report(m);

    return r->embed_bytes + r->head_bytes + r->attn_bytes + r->router_bytes + r->experts_bytes +
           r->norm_bytes;
}

static bool check_choice(const char *words, const struct prompts *p, const float *want,
                         int64_t n_rows)
{
    struct model *m = open_with(words);
    float *have = run_texts(m, p, n_rows);
    struct divergences d = divergences_of(want, have, (int)n_rows, model_config(m)->vocab_size);
    const bool passes = d.same_top >= SAME_TOP_MIN && d.mean <= KL_MEAN_MAX && d.difference_max > 0;
    char size[16];

    printf("%-16s %9s %11.3f %11.2e %10.2f %%   %s\n", words,
           format_bytes(size, (double)weight_bytes(m)), d.difference_max, d.mean, 100 * d.same_top,
           passes ? "ok" : "FAIL");
    divergences_release(&d);
    free(have);
    model_close(m);
    return passes;
}

int main(void)
{
    const bool is_quick = getenv("CHECK_QUICK") != NULL;
    const int step = is_quick ? N_CHOICES - 1 : 1; /* the first and the last */
    struct model *m = open_with("none");
    const int vocab = model_config(m)->vocab_size;
    struct prompts prompts;
    int64_t n_rows = 0;
    size_t size_bytes;
    int n_choices = 0, n_failed = 0;
    char *data;
    float *want;

    must(file_read(&data, &size_bytes, VECTORS, VECTORS_BYTES_MAX));
    prompts =
        read_prompts(data, size_bytes, vocab, is_quick ? QUICK_TOKENS_MAX : PROMPT_TOKENS_MAX);
    for (int i = 0; i < prompts.n; i++)
        n_rows += prompts.n_tokens[i];
    want = run_texts(m, &prompts, n_rows);
    model_close(m);
    printf("%s, %d prompts, %lld positions\n", MODEL, prompts.n, (long long)n_rows);
    printf("%-16s %9s %11s %11s %12s\n", "MXFP4 layers", "weights", "max |diff|", "mean KL",
           "same top");
    for (int i = 0; i < N_CHOICES; i += step, n_choices++)
        n_failed += !check_choice(choices[i], &prompts, want, n_rows);
    printf("%d passed, %d failed\n", n_choices - n_failed, n_failed);
    free(want);
    free(data);
    return n_failed > 0 || prompts.n == 0;
}
