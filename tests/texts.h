/* Texts to compare predictions over: the paragraphs of `osprey eval quality`, which are far from
 * what the bundled model was trained on, and conversations as it usually sees them: prompts of
 * its eval.jsonl, some of each ability, with answers that it draws at temperature 1. From a
 * model at level "ref" they are the same on every machine. */
#ifndef TEXTS_H
#define TEXTS_H

#include "base/file.h"
#include "base/rng.h"
#include "cli/eval/eval.h"
#include "cli/eval/quality.h"
#include "divergence.h"
#include "osprey.h"
#include "steps.h"

enum {
    TEXTS_EACH_MAX = 3, /* conversations of an ability */
    TEXTS_MAX = QUALITY_N_TEXTS + TEXTS_EACH_MAX * N_ABILITIES,
    PROMPT_TOKENS_MAX = 256, /* longer ones are cut, and not answered */
    ANSWER_TOKENS_MAX = 32,
    TEXT_TOKENS_MAX = PROMPT_TOKENS_MAX + ANSWER_TOKENS_MAX
};

struct text {
    int32_t tokens[TEXT_TOKENS_MAX];
    int n_tokens;
};

/* The first of each kind come first: a few of them are like all. */
struct texts {
    struct text texts[TEXTS_MAX];
    int starts[TEXTS_MAX + 1]; /* positions of the texts before it */
    int n;
};
enum { TEXTS_FEW = QUALITY_N_TEXTS + N_ABILITIES };

struct texts_options {
    const char *folder; /* of the model, with tokenizer.json and eval.jsonl */
    int n_each;         /* conversations of an ability */
    int prompt_tokens_max;
    struct model *model; /* answers, in steps of TEXT_TOKENS_MAX rows; NULL: no answers */
};

/* ---- answers ---- */

/* An index drawn from softmax(z). */
static inline int32_t text_draw(const float *z, int vocab, uint64_t seed, int position)
{
    const double uniform = rng_uniform(seed, (uint64_t)position, 0);
    double log_total, sum = 0;
    int top;

    log_total = divergence_log_sum(z, vocab, &top);
    for (int v = 0; v < vocab; v++) {
        sum += exp((double)z[v] - log_total);
        if (sum > uniform)
            return v;
    }
    return vocab - 1;
}

static inline bool text_is_over(const struct gptoss_config *config, int32_t token)
{
    for (int i = 0; i < config->n_stop_ids; i++)
        if (token == config->stop_ids[i])
            return true;
    return false;
}

static inline void text_answer(struct text *t, struct model *m, uint64_t seed)
{
    const struct gptoss_config *config = model_config(m);
    const size_t vocab = (size_t)config->vocab_size;
    float *logits = mem_new(TEXT_TOKENS_MAX * vocab * sizeof(float));
    struct steps_seq s = {.tokens = t->tokens, .logits = logits};

    for (int i = 0; i < ANSWER_TOKENS_MAX; i++) {
        const int last = t->n_tokens - 1;

        s.n_tokens = t->n_tokens;
        steps_play(m, &s, TEXT_TOKENS_MAX, 1);
        t->tokens[t->n_tokens++] =
            text_draw(logits + (size_t)last * vocab, config->vocab_size, seed, last);
        if (text_is_over(config, t->tokens[last + 1]))
            break;
    }
    free(logits);
}

/* ---- reading ---- */

/* Takes n ids; gives whether they are all there. */
static inline bool texts_add(struct texts *all, int32_t *ids, size_t n, int n_tokens_max)
{
    struct text *t = &all->texts[all->n];

    t->n_tokens = n < (size_t)n_tokens_max ? (int)n : n_tokens_max;
    memcpy(t->tokens, ids, (size_t)t->n_tokens * sizeof(*ids));
    osp_free(ids);
    return n <= (size_t)n_tokens_max;
}

static inline void texts_keep(struct texts *all)
{
    all->starts[all->n + 1] = all->starts[all->n] + all->texts[all->n].n_tokens;
    all->n++;
}

static inline void texts_paragraphs(struct texts *all, const struct osp_tokenizer *tokenizer,
                                    const struct texts_options *opt)
{
    for (int i = 0; i < QUALITY_N_TEXTS; i++) {
        int32_t *ids;
        size_t n;

        must(osp_tokenize(tokenizer, QUALITY_TEXTS[i], strlen(QUALITY_TEXTS[i]), false, &ids, &n));
        texts_add(all, ids, n, opt->prompt_tokens_max);
        texts_keep(all);
    }
}

static inline void texts_conversations(struct texts *all, const struct osp_tokenizer *tokenizer,
                                       const struct texts_options *opt)
{
    const struct eval_filter filter = {.n_max = opt->n_each};
    char *path = path_join(opt->folder, "eval.jsonl");
    struct eval_tasks tasks = {.n = 0};

    must(eval_tasks_read(&tasks, path, &filter));
    if (tasks.n != (size_t)(opt->n_each * N_ABILITIES))
        must(fail(OSP_EFORMAT, "%s: %zu prompts, wanted %d of each ability", path, tasks.n,
                  opt->n_each));
    for (int i = 0; i < (int)tasks.n; i++) { /* they come by ability */
        const int task = i % N_ABILITIES * opt->n_each + i / N_ABILITIES;
        int32_t *ids;
        size_t n;

        must(osp_chat_render(tasks.tasks[task].chat, tokenizer, &ids, &n));
        if (texts_add(all, ids, n, opt->prompt_tokens_max) && opt->model != NULL)
            text_answer(&all->texts[all->n], opt->model, (uint64_t)i);
        texts_keep(all);
    }
    eval_tasks_release(&tasks);
    free(path);
}

/* n_each and prompt_tokens_max are at most the limits above. */
static inline void texts_read(struct texts *all, const struct texts_options *opt)
{
    char *path = path_join(opt->folder, "tokenizer.json");
    struct osp_tokenizer *tokenizer;

    all->n = 0;
    all->starts[0] = 0;
    must(osp_tokenizer_open(&tokenizer, path));
    texts_paragraphs(all, tokenizer, opt);
    texts_conversations(all, tokenizer, opt);
    osp_tokenizer_close(tokenizer);
    free(path);
}

#endif
