/* Drafts never change an answer: mixed requests have the same tokens, text, calls, log-probabilities
 * and ends, to the byte, without drafts and with each drafter. The requests differ in sampling,
 * penalties, biases, masks, grammars, tools, stop strings and lengths, share prompts with other
 * seeds (as n > 1 does), and run several at a time. Prints for each drafter how many drafts were
 * verified and accepted; too few of either is a failure, too.
 *
 *     check_drafts [REQUESTS [DEVICE [MODEL [HEAD]]]]
 *
 * Default: 28 requests, cpu, osprey-nano and its Eagle3 head. DEVICE queued is the CPU as a device
 * that queues steps (queued_device.h). Another model needs a HEAD for the passes with a draft head.
 *
 * CHECK_QUICK in the environment, for builds with sanitizers: 7 requests, one of each
 * kind (kind_of), and four of the eleven ways to draft. */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/memory.h"
#include "base/rng.h"
#include "osprey.h"
#include "queued_device.h"

enum {
    REQUESTS_DEFAULT = 28,
    REQUESTS_QUICK = 7,
    AT_ONCE = 6,
    ANSWER_BYTES_MAX = 1 << 20,
    PROMPT_BYTES_MAX = 4096
};

/* How a pass drafts. */
enum way {
    WAY_NONE,     /* no drafts: what must come */
    WAY_NGRAM,    /* every draft of prompt lookup is verified */
    WAY_CONTROL,  /* those that pay */
    WAY_EAGLE3,   /* every guess of the draft head is verified */
    WAY_PAYING,   /* those that pay */
    WAY_ONE,      /* chains of one guess */
    WAY_LONG,     /* and of eight */
    WAY_TREE,     /* every guess of trees of 16 */
    WAY_BUSH,     /* trees of two guesses behind each token, those that pay */
    WAY_ANSWER,   /* the prediction is the answer */
    WAY_MISTAKEN, /* the same with tokens replaced, left out and added */
    WAY_WRONG,    /* every draft of the prediction is wrong */
    N_WAYS
};
static const char *const WAY_NAMES[N_WAYS] = {
    "without drafts",     "ngram, all",         "ngram, controlled",  "eagle3, k = 3, all",
    "eagle3, controlled", "eagle3, k = 1, all", "eagle3, k = 8, all", "eagle3, tree, all",
    "eagle3, bush",       "prediction, right",  "prediction, mixed",  "prediction, wrong"};

/* Ways whose code the others run, too. */
static bool is_left_out(enum way way)
{
    return way == WAY_CONTROL || way == WAY_PAYING || way == WAY_ONE || way == WAY_LONG ||
           way == WAY_ANSWER || way == WAY_BUSH || way == WAY_WRONG;
}

/* What a client gets; `tokens` has the ids of all events. */
struct answer {
    struct buf tokens, all;
};

static int32_t n_ids;

static void must(enum osp_status st)
{
    if (st == OSP_OK)
        return;
    fprintf(stderr, "check_drafts: %s\n", osp_error());
    exit(2);
}

static uint64_t pick(uint64_t seed, uint32_t what, uint64_t below)
{
    return rng_bits(seed, what, 0) % below;
}

/* ---- requests ---- */

static const char *const WORDS[] = {"the",   "cat",  "sees", "a",    "red",
                                    "house", "and",  "then", "goes", "slowly",
                                    "to",    "town", "one",  "two",  "three"};
enum { N_WORDS = sizeof WORDS / sizeof WORDS[0] };

/* A text with repetitions; four requests in a row have the same one. */
static void write_prompt(char out[PROMPT_BYTES_MAX], uint64_t i)
{
    const uint64_t seed = 1000 + i / 4;
    const int n = 5 + (int)pick(seed, 0, 60), period = 3 + (int)pick(seed, 1, 9);
    size_t at = 0;

    at += (size_t)snprintf(out, PROMPT_BYTES_MAX, "%s",
                           pick(seed, 2, 2) ? "Repeat this text: " : "Continue: ");
    for (int k = 0; k < n; k++)
        at += (size_t)snprintf(out + at, PROMPT_BYTES_MAX - at, "%s ",
                               WORDS[pick(seed, 10 + (uint32_t)(k % period), N_WORDS)]);
}

static void choose_sampling(struct osp_sampling *s, uint64_t i)
{
    static const float temperatures[] = {0, 0, 0.3F, 0.7F, 1, 1.5F};

    *s = (struct osp_sampling){.has_temperature = true, .has_seed = true, .seed = i};
    s->temperature = temperatures[pick(i, 1, 6)];
    if (pick(i, 2, 4) == 0)
        s->top_k = 1 + (int)pick(i, 3, 40);
    if (pick(i, 4, 4) == 0)
        s->top_p = 0.5F + 0.1F * (float)pick(i, 5, 5);
    if (pick(i, 6, 6) == 0)
        s->min_p = 0.05F;
    if (pick(i, 7, 5) == 0)
        s->repetition_penalty = 1.2F;
    if (pick(i, 8, 5) == 0)
        s->presence_penalty = 0.7F;
    if (pick(i, 9, 5) == 0)
        s->frequency_penalty = 0.4F;
}

/* Lists that the options point to. */
struct lists {
    struct osp_logit_bias biases[8];
    int32_t *allowed; /* (n_ids) */
    int32_t *prediction;
};

static void choose_lists(struct osp_request_options *o, struct lists *l, uint64_t i)
{
    if (pick(i, 20, 5) == 0) {
        for (int k = 0; k < 8; k++)
            l->biases[k] = (struct osp_logit_bias){(int32_t)pick(i, 21, 100) * 8 + k,
                                                   (float)pick(i, 30 + (uint32_t)k, 11) - 5};
        o->biases = l->biases;
        o->n_biases = 8;
    }
    if (pick(i, 22, 9) == 0) {
        for (int32_t id = 0; id < n_ids; id++)
            if (pick(i, 100 + (uint32_t)id, 3) > 0)
                l->allowed[o->n_allowed_tokens++] = id;
        o->allowed_tokens = l->allowed;
    }
}

static const char SCHEMA[] =
    "{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\",\"maxLength\":12},"
    "\"n\":{\"type\":\"integer\",\"minimum\":0,\"maximum\":99},\"list\":{\"type\":\"array\","
    "\"items\":{\"enum\":[\"red\",\"green\",\"blue\"]},\"minItems\":2,\"maxItems\":6}},"
    "\"required\":[\"name\",\"n\",\"list\"],\"additionalProperties\":false}";

/* Raw text, a conversation, one with a schema, one with functions. */
enum kind { KIND_RAW, KIND_CHAT, KIND_SCHEMA, KIND_TOOLS, N_KINDS };

static enum kind kind_of(uint64_t i)
{
    return (enum kind)(i % 7 < 3 ? KIND_RAW : i % 7 < 5 ? KIND_CHAT : i % 7 - 3);
}

static void choose_options(struct osp_request_options *o, struct lists *l, uint64_t i)
{
    *o = (struct osp_request_options){.tokens_max = 20 + (int)pick(i, 40, 100)};
    choose_sampling(&o->sampling, i);
    if (kind_of(i) == KIND_RAW || kind_of(i) == KIND_CHAT)
        choose_lists(o, l, i);
    o->raw = kind_of(i) == KIND_RAW;
    o->logprobs = pick(i, 41, 3) == 0;
    o->top_logprobs = o->logprobs ? (int)pick(i, 42, 6) : 0;
    if (pick(i, 43, 6) == 0)
        o->tokens_min = (int)pick(i, 44, 20);
    if (pick(i, 45, 4) == 0) {
        o->stop[0] = pick(i, 46, 2) ? "cat" : ". ";
        o->n_stop = 1;
    }
    if (pick(i, 47, 6) == 0) {
        o->stop_tokens[0] = (int32_t)pick(i, 48, 400);
        o->n_stop_tokens = 1;
    }
    o->ignore_stop_tokens = o->raw && pick(i, 49, 3) == 0;
    o->prompt_logprobs = o->raw && pick(i, 50, 9) == 0;
    if (kind_of(i) == KIND_SCHEMA) {
        o->form = OSP_FORM_STRICT_SCHEMA;
        o->form_text = SCHEMA;
        o->tokens_max = 200;
    }
    if (kind_of(i) == KIND_TOOLS)
        o->tool_choice = pick(i, 51, 2) ? OSP_TOOLS_REQUIRED : OSP_TOOLS_AUTO;
}

static struct osp_request *submit_chat(struct osp_engine *engine, const char *prompt, uint64_t i,
                                       const struct osp_request_options *o)
{
    struct osp_chat *chat = osp_chat_new();
    struct osp_request *r;

    must(osp_chat_set_date(chat, "none"));
    must(osp_chat_set_effort(chat, "low"));
    if (kind_of(i) == KIND_TOOLS) {
        must(osp_chat_add_function(chat, "note", "Keeps a note", SCHEMA));
        must(osp_chat_set_strict(chat, "note"));
    }
    must(osp_chat_add(chat, "user", prompt));
    must(osp_submit_chat(&r, engine, chat, o));
    osp_chat_free(chat);
    return r;
}

static struct osp_request *submit_raw(struct osp_engine *engine, const struct osp_tokenizer *t,
                                      const char *prompt, const struct osp_request_options *o)
{
    struct osp_request *r;
    int32_t *ids;
    size_t n;

    must(osp_tokenize(t, prompt, strlen(prompt), false, &ids, &n));
    must(osp_submit_tokens(&r, engine, ids, n, o));
    osp_free(ids);
    return r;
}

/* ---- predictions ---- */

/* The answer's tokens, as the way wants them. Returns their number. */
static int predict(int32_t *out, const struct answer *want, enum way way, uint64_t i)
{
    const int32_t *tokens = (const int32_t *)(const void *)want->tokens.data;
    const int n = (int)(want->tokens.size_bytes / sizeof *tokens);
    int n_out = 0;

    for (int k = 0; k < n; k++) {
        const int32_t other = (tokens[k] + 1 + (int32_t)pick(i, 60 + (uint32_t)k, 50)) % n_ids;
        const uint64_t what = way == WAY_MISTAKEN ? pick(i, 7000 + (uint32_t)k, 16) : 9;

        if (what == 0)
            continue; /* left out */
        if (what == 1)
            out[n_out++] = other; /* added */
        out[n_out++] = way == WAY_WRONG || what == 2 ? other : tokens[k];
    }
    return n_out;
}

/* ---- a pass ---- */

static bool is_eagle3(enum way way)
{
    return way >= WAY_EAGLE3 && way <= WAY_BUSH;
}

/* Trees, level by level. */
static void choose_tree(struct osp_speculative *s, enum way way)
{
    static const signed char tree[] = {-1, -1, -1, -1, 0, 0, 0, 1, 1, 2, 4, 4, 5, 7, 10, 14};
    static const signed char bush[] = {-1, -1, 0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5};

    s->n_tree = way == WAY_TREE ? (int)sizeof tree : way == WAY_BUSH ? (int)sizeof bush : 0;
    memcpy(s->tree_parents, way == WAY_TREE ? tree : bush, (size_t)s->n_tree);
}

static struct osp_speculative speculative_of(enum way way)
{
    static const int tokens_max[N_WAYS] = {[WAY_EAGLE3] = 3, [WAY_PAYING] = 3, [WAY_ONE] = 1};
    struct osp_speculative s = {.method = OSP_DRAFTS_OFF,
                                .tokens_max = tokens_max[way] > 0 ? tokens_max[way] : 8,
                                .always =
                                    way != WAY_CONTROL && way != WAY_PAYING && way != WAY_BUSH};

    if (is_eagle3(way)) {
        s.method = OSP_DRAFTS_EAGLE3;
        choose_tree(&s, way);
        s.tokens_max = s.n_tree > 0 ? 0 : s.tokens_max;
    } else {
        s.lookup_min = 2;
        if (way == WAY_NGRAM || way == WAY_CONTROL)
            s.method = OSP_DRAFTS_NGRAM;
    }
    return s;
}

static void receive(struct answer *a, struct osp_request *r, bool has_prompt_logprobs)
{
    struct osp_event e;
    struct osp_logprob l;

    do {
        must(osp_next_event(r, -1, &e));
        if (e.n_tokens > 0)
            buf_append(&a->tokens, e.tokens, (size_t)e.n_tokens * sizeof *e.tokens);
        if (e.n_bytes > 0)
            buf_append(&a->all, e.text, e.n_bytes);
        if (e.kind == OSP_EVENT_TOOL_CALL)
            buf_puts(&a->all, e.name);
        for (int i = 0; i < e.n_logprobs; i++) {
            buf_append(&a->all, &e.logprobs[i].token, sizeof(int32_t));
            buf_append(&a->all, &e.logprobs[i].logprob, sizeof(float));
            buf_append(&a->all, e.logprobs[i].top_tokens,
                       (size_t)e.logprobs[i].n_top * sizeof(int32_t));
            buf_append(&a->all, e.logprobs[i].top_logprobs,
                       (size_t)e.logprobs[i].n_top * sizeof(float));
        }
    } while (e.kind != OSP_EVENT_DONE && e.kind != OSP_EVENT_ERROR);
    for (size_t i = 1; has_prompt_logprobs && osp_request_prompt_logprob(r, i, &l); i++)
        buf_append(&a->all, &l.logprob, sizeof l.logprob);
    if (e.kind == OSP_EVENT_DONE)
        buf_printf(&a->all, "\n%s %d %d", osp_finish_text(e.finish), e.usage.n_generated_tokens,
                   e.usage.n_reasoning_tokens);
    osp_request_close(r);
}

static struct osp_request *submit(struct osp_engine *engine, const struct osp_tokenizer *t,
                                  struct lists *l, uint64_t i, enum way way,
                                  const struct answer *want)
{
    struct osp_request_options o;
    char prompt[PROMPT_BYTES_MAX];

    choose_options(&o, l, i);
    if (way >= WAY_ANSWER) {
        o.prediction = l->prediction;
        o.n_prediction = predict(l->prediction, want, way, i);
    }
    write_prompt(prompt, i);
    return o.raw ? submit_raw(engine, t, prompt, &o) : submit_chat(engine, prompt, i, &o);
}

static void run(struct osp_model *model, enum way way, struct answer *out,
                const struct answer *want, int n, struct osp_draft_stats *stats)
{
    const struct osp_engine_options options = {.speculative = speculative_of(way)};
    const struct osp_tokenizer *t = osp_model_tokenizer(model);
    struct osp_request *open[AT_ONCE] = {NULL};
    struct lists lists;
    struct osp_engine_stats all;
    struct osp_engine *engine;

    must(osp_engine_open(&engine, model, &options));
    lists.allowed = mem_new((size_t)n_ids * sizeof *lists.allowed);
    lists.prediction = mem_new(4096 * sizeof *lists.prediction);
    for (int i = 0; i < n + AT_ONCE; i++) {
        if (i >= AT_ONCE && i - AT_ONCE < n)
            receive(&out[i - AT_ONCE], open[i % AT_ONCE], true);
        if (i < n)
            open[i % AT_ONCE] =
                submit(engine, t, &lists, (uint64_t)i, way, want != NULL ? &want[i] : NULL);
    }
    osp_engine_get_stats(engine, &all);
    *stats = all.drafts;
    free(lists.allowed);
    free(lists.prediction);
    osp_engine_close(engine);
}

static struct answer *new_answers(int n)
{
    struct answer *a = mem_new((size_t)n * sizeof *a);

    for (int i = 0; i < n; i++) {
        buf_init(&a[i].tokens, ANSWER_BYTES_MAX);
        buf_init(&a[i].all, ANSWER_BYTES_MAX);
    }
    return a;
}

static void free_answers(struct answer *a, int n)
{
    for (int i = 0; i < n; i++) {
        buf_release(&a[i].tokens);
        buf_release(&a[i].all);
    }
    free(a);
}

static bool is_same(const struct buf *a, const struct buf *b)
{
    return a->size_bytes == b->size_bytes &&
           (a->size_bytes == 0 || memcmp(a->data, b->data, a->size_bytes) == 0);
}

/* Whether the way drafted as it should, so that equality means something. */
static bool has_drafted(enum way way, const struct osp_draft_stats *s)
{
    if (way == WAY_CONTROL || way == WAY_PAYING || way == WAY_BUSH)
        return true; /* what pays depends on the machine */
    if (way == WAY_WRONG)
        return s->n_draft_tokens > 0 && s->n_accepted_tokens * 20 < s->n_draft_tokens;
    if (way == WAY_ANSWER)
        return s->n_accepted_tokens * 10 > s->n_draft_tokens * 9;
    return s->n_accepted_tokens > 0 && s->n_accepted_tokens < s->n_draft_tokens;
}

static int compare(const struct answer *have, const struct answer *want, int n, enum way way,
                   const struct osp_draft_stats *stats)
{
    int n_other = 0;

    for (int i = 0; i < n; i++) {
        const bool same =
            is_same(&have[i].tokens, &want[i].tokens) && is_same(&have[i].all, &want[i].all);

        n_other += !same;
        if (!same && n_other <= 5)
            printf("  request %d has another answer\n", i);
    }
    printf("%-18s %d of %d answers differ; %" PRId64 " drafts verified, %" PRId64
           " accepted, %.2f tokens a step\n",
           WAY_NAMES[way], n_other, n, stats->n_draft_tokens, stats->n_accepted_tokens,
           stats->n_proposals == 0
               ? 1
               : 1 + (double)stats->n_accepted_tokens / (double)stats->n_proposals);
    if (!has_drafted(way, stats)) {
        printf("  that is not what these drafts should give\n");
        n_other++;
    }
    return n_other;
}

/* The draft head; NULL: none. */
static const char *head_of(int argc, char **argv)
{
    if (argc > 4)
        return argv[4];
    return argc > 3 ? NULL : "bundled";
}

int main(int argc, char **argv)
{
    const bool is_quick = getenv("CHECK_QUICK") != NULL;
    const int n = argc > 1 ? atoi(argv[1]) : is_quick ? REQUESTS_QUICK : REQUESTS_DEFAULT;
    const bool is_queued = argc > 2 && strcmp(argv[2], "queued") == 0;
    const struct osp_model_options options = {.device = argc > 2 && !is_queued ? argv[2] : "cpu",
                                              .path = argc > 3 ? argv[3] : NULL,
                                              .context_tokens_max = 2048,
                                              .draft_model = head_of(argc, argv),
                                              .n_seqs_max = AT_ONCE,
                                              .n_draft_rows_max = 8 * AT_ONCE};
    struct osp_draft_stats stats;
    struct osp_model_info info;
    struct osp_model *model;
    struct answer *want;
    int n_failed = 0;

    if (n < 1) {
        fprintf(stderr, "check_drafts [REQUESTS [DEVICE [MODEL [HEAD]]]]\n");
        return 2;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    must(osp_model_open(&model, &options));
    if (is_queued)
        queued_device_use(model);
    osp_model_get_info(model, &info);
    n_ids = info.vocab_size;
    want = new_answers(n);
    run(model, WAY_NONE, want, NULL, n, &stats);
    n_failed += stats.n_draft_tokens != 0;
    for (int way = WAY_NGRAM; way < N_WAYS; way++) {
        struct answer *have;

        if ((is_eagle3((enum way)way) && options.draft_model == NULL) ||
            (is_quick && is_left_out((enum way)way)))
            continue;
        have = new_answers(n);
        run(model, (enum way)way, have, want, n, &stats);
        n_failed += compare(have, want, n, (enum way)way, &stats);
        free_answers(have, n);
    }
    free_answers(want, n);
    osp_model_close(model);
    if (is_queued)
        printf("%" PRId64 " steps run behind another one, %" PRId64 " tokens filled in, %" PRId64
               " passes of the head behind a step whose drafts were not counted\n",
               queued.n_ahead, queued.n_unknown, queued.n_behind);
    printf("check_drafts: %s\n", n_failed == 0 ? "0 differences" : "FAILED");
    return n_failed > 0;
}
