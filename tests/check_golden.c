/* Compares the model with Hugging Face Transformers in float32: every checkpoint of
 * tests/golden/model and the bundled one, at the positions that their vectors have, and the argmax
 * at all positions. Prints one line a prompt. Fails if a logit differs by more than 2e-3, or if an
 * argmax differs. Positions are excluded, and counted, where the vectors mark the two best tokens,
 * or two experts of some layer, as closer than 1e-4.
 *
 *     check_golden [NAME ...]     only these configurations
 *
 * CHECK_QUICK in the environment omits prompts of more than 200 tokens, for builds with sanitizers.
 *
 * The format is documented in tools/golden/make_golden.py. */
#include "base/file.h"
#include "steps.h"
#include "worst.h"

enum {
    STEP_ROWS = 700, /* longest prompt in one step, and chunk of longer ones */
    GOLDEN_BYTES_MAX = 64 << 20,
    PROMPT_TOKENS_MAX = 5000,
    QUICK_TOKENS_MAX = 200
};

static const double DIFF_MAX = 2e-3;
static const float MARGIN_MIN = 1e-4f;

/* Name of the vectors and folder of the checkpoint. */
static const struct golden {
    const char *name, *folder;
} goldens[] = {
    {"one", "tests/golden/model/one"},   {"gqa8", "tests/golden/model/gqa8"},
    {"odd", "tests/golden/model/odd"},   {"deep", "tests/golden/model/deep"},
    {"wide", "tests/golden/model/wide"}, {"bf16", "tests/golden/model/bf16"},
    {"tf5", "tests/golden/model/tf5"},   {"many", "tests/golden/model/many"},
    {"full", "tests/golden/model/full"}, {"nano", "models/osprey-nano"},
};

struct prompt {
    int32_t n_tokens, n_rows;
    const int32_t *tokens, *rows, *argmax;
    const float *logits, *top_margin, *router_margin;
};

/* Read position in a file of vectors. */
struct reader {
    const char *name;
    const char *at, *end;
};

static const void *take(struct reader *r, int64_t n)
{
    const char *at = r->at;

    if (n < 0 || n > (r->end - r->at) / 4) {
        fprintf(stderr, "%s: the file of vectors is truncated\n", r->name);
        exit(2);
    }
    r->at += 4 * n;
    return at;
}

static int32_t take_count(struct reader *r)
{
    return *(const int32_t *)take(r, 1);
}

static struct prompt read_prompt(struct reader *r, int vocab)
{
    struct prompt p = {.n_tokens = take_count(r)};

    p.n_rows = take_count(r);
    p.tokens = take(r, p.n_tokens);
    p.rows = take(r, p.n_rows);
    p.logits = take(r, (int64_t)p.n_rows * vocab);
    p.argmax = take(r, p.n_tokens);
    p.top_margin = take(r, p.n_tokens);
    p.router_margin = take(r, p.n_tokens);
    return p;
}

struct result {
    double diff_max;
    int n_compared, n_agreed, n_excluded;
};

static bool is_excluded(const struct prompt *p, int position)
{
    return p->top_margin[position] < MARGIN_MIN || p->router_margin[position] < MARGIN_MIN;
}

static struct result compare(const struct prompt *p, int vocab, const struct steps_seq *s)
{
    struct result r = {0};

    for (int i = 0; i < p->n_tokens; i++) {
        r.n_excluded += is_excluded(p, i);
        r.n_compared += !is_excluded(p, i);
        r.n_agreed += !is_excluded(p, i) && s->sampled[i] == p->argmax[i];
    }
    for (int i = 0; i < p->n_rows; i++) {
        const float *want = p->logits + (int64_t)i * vocab;
        const float *have = s->logits + (int64_t)p->rows[i] * vocab;

        if (is_excluded(p, p->rows[i]))
            continue;
        for (int v = 0; v < vocab; v++)
            r.diff_max = worst_of(r.diff_max, fabs((double)have[v] - (double)want[v]));
    }
    return r;
}

/* Returns whether the prompt passes. */
static bool check_prompt(struct model *m, const char *name, const struct prompt *p)
{
    const int vocab = model_config(m)->vocab_size;
    struct steps_seq s = {.tokens = p->tokens, .n_tokens = p->n_tokens, .drop_pages = true};
    struct result r;
    bool passes;

    s.logits = mem_new((size_t)p->n_tokens * (size_t)vocab * sizeof(float));
    s.sampled = mem_new((size_t)p->n_tokens * sizeof(int32_t));
    steps_poison(m);
    steps_play(m, &s, STEP_ROWS, 1);
    r = compare(p, vocab, &s);
    passes = r.diff_max <= DIFF_MAX && r.n_agreed == r.n_compared && r.n_compared > 0;
    printf("%-6s %6d %12.2e %6d of %-6d %8d   %s\n", name, p->n_tokens, r.diff_max, r.n_agreed,
           r.n_compared, r.n_excluded, passes ? "ok" : "FAIL");
    free(s.logits);
    free(s.sampled);
    return passes;
}

/* Returns the number of prompts that fail. */
static int check_golden(const struct golden *g)
{
    char *path = mem_printf("tests/golden/model/%s.vectors", g->name), *data;
    struct reader r = {.name = path};
    size_t size_bytes;
    struct model *m;
    int n_failed = 0, n_prompts, vocab;

    must(file_read(&data, &size_bytes, path, GOLDEN_BYTES_MAX));
    r.at = data;
    r.end = data + size_bytes;
    if (memcmp(take(&r, 2), "OSPGOLD1", 8) != 0)
        must(fail(OSP_EFORMAT, "%s: not a file of golden vectors", path));
    vocab = take_count(&r);
    n_prompts = take_count(&r);
    m = steps_open(g->folder, 0, STEP_ROWS, 1, PROMPT_TOKENS_MAX);
    if (vocab != model_config(m)->vocab_size)
        must(fail(OSP_EFORMAT, "%s: vocabulary is %d, the model has %d", path, vocab,
                  model_config(m)->vocab_size));
    for (int i = 0; i < n_prompts; i++) {
        const struct prompt p = read_prompt(&r, vocab);

        if (p.n_tokens <= QUICK_TOKENS_MAX || getenv("CHECK_QUICK") == NULL)
            n_failed += !check_prompt(m, g->name, &p);
    }
    model_close(m);
    free(data);
    free(path);
    return n_failed;
}

static bool is_wanted(const char *name, char **names, int n_names)
{
    for (int i = 0; i < n_names; i++)
        if (strcmp(names[i], name) == 0)
            return true;
    return n_names == 0;
}

int main(int argc, char **argv)
{
    int n_failed = 0;

    setenv("OSPREY_CPU_FEATURES", "ref", 1); /* the oracle; see check_isas for the others */
    printf("%-6s %6s %12s %16s %8s\n", "config", "tokens", "max |diff|", "argmax agrees",
           "excluded");
    for (size_t i = 0; i < sizeof(goldens) / sizeof(goldens[0]); i++)
        if (is_wanted(goldens[i].name, argv + 1, argc - 1))
            n_failed += check_golden(&goldens[i]);
    printf("%d prompt%s failed; excluded: top-two or router margin under %g\n", n_failed,
           n_failed == 1 ? "" : "s", (double)MARGIN_MIN);
    return n_failed > 0;
}
