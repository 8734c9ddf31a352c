/* Non-finite numbers in one sequence among several, on the real CPU backend, at every ISA of this
 * machine and with every KV cache type. That sequence ends with an error that names the cause. All
 * others sample the same tokens as without it, and pages that are reused afterwards are clean. */
#define UNIT_LIMIT_S 120
#include "engine_fixture.h"

#include <math.h>

#include "base/log.h"
#include "engine/core/model_api.h"
#include "stage_hook.h"

enum {
    N_REQUESTS = 7,
    VICTIM = 2, /* neither the first nor the last of a step */
    VICTIM_SEED = 7777777,
    N_PROMPT = 75, /* more than a page */
    N_ANSWER = 24,
    N_DRAWN_BEFORE = 5, /* sampled tokens before a decode step is poisoned */
    N_WAVES = 2         /* the second one, without poison, reuses the pages of the first */
};

enum place {
    PLACE_NONE,
    PLACE_PROMPT,
    PLACE_DECODE,
    PLACE_ONE_LOGIT,
    PLACE_LOGITS,
    PLACE_NO_LOGIT
};

static struct {
    enum place place;
    float value;
    int n_poisoned;
} poison;

static char folder[32];

/* ---- the device, with poison ---- */

/* The sample of the victim in this step, once enough tokens are sampled; -1: not in this step. */
static int victim_sample(const struct batch *b)
{
    for (int i = 0; i < b->n_samples; i++) {
        const struct batch_sample *s = &BATCH_SAMPLES(b)[i];

        if (s->seed == VICTIM_SEED && s->position >= N_PROMPT + N_DRAWN_BEFORE)
            return i;
    }
    return -1;
}

static void spoil(const struct tensor *t, int row, int first, int n)
{
    float *at = (float *)t->data + (int64_t)row * t->dim[1] + first;

    for (int i = 0; i < n; i++)
        at[i] = poison.value;
    poison.n_poisoned++;
}

static void spoil_rows(const struct embed_rmsnorm_args *a, const struct batch *b)
{
    int sample = victim_sample(b), width = (int)a->x.dim[1];

    for (int row = 0; row < b->n_rows && poison.place == PLACE_PROMPT; row++)
        if (BATCH_TOKENS(b)[row] == 1000 + VICTIM && poison.n_poisoned < 2) {
            spoil(&a->x, row, 0, width);
            spoil(&a->y, row, 0, width);
        }
    if (poison.place == PLACE_DECODE && sample >= 0) {
        int row = BATCH_SAMPLES(b)[sample].row;

        spoil(&a->x, row, width / 2, 1); /* one number is enough */
        spoil(&a->y, row, width / 2, 1);
    }
}

static void spoil_logits(const struct logits_args *a, const struct batch *b)
{
    int sample = victim_sample(b), n = (int)a->logits.dim[1];

    if (sample >= 0 && poison.place == PLACE_ONE_LOGIT)
        spoil(&a->logits, sample, n / 2, 1);
    if (sample >= 0 && poison.place >= PLACE_LOGITS)
        spoil(&a->logits, sample, 0, n);
}

static void spoil_stage(enum stage stage, const union stage_args *a, const struct batch *b)
{
    if (stage == STAGE_embed_rmsnorm)
        spoil_rows(&a->embed_rmsnorm, b);
    if (stage == STAGE_logits)
        spoil_logits(&a->logits, b);
}

/* ---- waves of requests ---- */

static struct osp_request *submit(struct osp_engine *engine, int index)
{
    static const struct osp_sampling ways[N_REQUESTS] = {
        {.has_temperature = true}, /* greedy */
        {.temperature = 1},
        {.temperature = 0.8F, .top_p = 0.9F}, /* the victim's */
        {.temperature = 1.2F, .top_k = 20},
        {.temperature = 1, .min_p = 0.05F},
        {.temperature = 0.7F, .top_k = 50, .top_p = 0.95F, .min_p = 0.01F},
        {.has_temperature = true},
    };
    struct osp_request_options opt = {
        .tokens_max = N_ANSWER, .sampling = ways[index], .raw = true, .ignore_stop_tokens = true};
    struct osp_request *r;
    int32_t prompt[N_PROMPT];

    opt.sampling.has_seed = true;
    opt.sampling.seed = index == VICTIM ? VICTIM_SEED : (uint64_t)index;
    for (int i = 0; i < N_PROMPT; i++)
        prompt[i] = 100 + (i * 7 + index * 13) % 800;
    prompt[0] = 1000 + index;
    if (osp_submit_tokens(&r, engine, prompt, N_PROMPT, &opt) != OSP_OK)
        fail_msg("%s", osp_error());
    return r;
}

struct wave {
    struct heard heard[N_REQUESTS];
};

static void run_wave(struct wave *w, struct osp_engine *engine)
{
    struct osp_request *r[N_REQUESTS];

    for (int i = 0; i < N_REQUESTS; i++)
        r[i] = submit(engine, i);
    for (int i = 0; i < N_REQUESTS; i++)
        hear_all(&w->heard[i], r[i]);
}

static void wave_release(struct wave *w)
{
    for (int i = 0; i < N_REQUESTS; i++)
        heard_release(&w->heard[i]);
}

/* Returns false if this machine or this ISA does not support it. */
static bool run_world(struct wave waves[N_WAVES], const char *isa, const char *kv_type,
                      enum place place)
{
    struct osp_model_options opt = {.path = folder,
                                    .tokenizer = TINY_TOKENIZER,
                                    .device = "cpu",
                                    .context_tokens_max = 256,
                                    .n_seqs_max = N_REQUESTS,
                                    .n_batch_tokens_max = 64, /* prompts are prefilled in chunks */
                                    .n_threads = 2,
                                    .cpu_features = isa,
                                    .kv_cache_dtype = kv_type};
    struct osp_model *model;
    struct osp_engine *engine;
    enum osp_status st = osp_model_open(&model, &opt);

    if (st == OSP_EUNSUPPORTED || st == OSP_ENOTFOUND || st == OSP_EINVAL)
        return false;
    assert_int_equal(st, OSP_OK);
    poison.place = place;
    poison.n_poisoned = 0;
    poison.value = place == PLACE_LOGITS ? INFINITY : place == PLACE_NO_LOGIT ? -INFINITY : NAN;
    stage_hook_set(model->model, spoil_stage);
    engine = fixture_engine(model);
    for (int i = 0; i < N_WAVES; i++) {
        run_wave(&waves[i], engine);
        poison.place = PLACE_NONE;
    }
    assert_true(osp_engine_alive(engine));
    osp_engine_close(engine);
    osp_model_close(model);
    return true;
}

static void expect_same(const struct heard *a, const struct heard *b)
{
    assert_int_equal(a->last.kind, OSP_EVENT_DONE);
    assert_int_equal(a->last.usage.n_generated_tokens, N_ANSWER);
    assert_int_equal(a->text.size_bytes, b->text.size_bytes);
    assert_memory_equal(buf_text(&a->text), buf_text(&b->text), a->text.size_bytes);
}

/* Tokens sampled before the poison are published, too; an incomplete character becomes U+FFFD. */
static void expect_failed(const struct heard *a, const struct heard *clean, enum place place)
{
    size_t n = 0;

    assert_int_equal(a->last.kind, OSP_EVENT_ERROR);
    assert_int_equal(a->last.status, OSP_EDEVICE);
    assert_non_null(strstr(a->error, "its logits were not finite"));
    while (n < a->text.size_bytes && n < clean->text.size_bytes &&
           a->text.data[n] == clean->text.data[n])
        n++;
    assert_true(n + 3 >= a->text.size_bytes);
    if (place == PLACE_PROMPT)
        assert_int_equal(a->text.size_bytes, 0);
    else
        assert_true(a->text.size_bytes > 0);
}

static void check(const char *isa, const char *kv_type, const struct wave clean[N_WAVES],
                  enum place place)
{
    struct wave spoiled[N_WAVES];

    assert_true(run_world(spoiled, isa, kv_type, place));
    assert_true(poison.n_poisoned > 0);
    for (int i = 0; i < N_REQUESTS; i++) {
        if (i == VICTIM)
            expect_failed(&spoiled[0].heard[i], &clean[0].heard[i], place);
        else
            expect_same(&spoiled[0].heard[i], &clean[0].heard[i]);
        expect_same(&spoiled[1].heard[i], &clean[1].heard[i]);
    }
    for (int i = 0; i < N_WAVES; i++)
        wave_release(&spoiled[i]);
}

/* Checks the first n_types KV cache types; returns how many were available. */
static int check_isa(const char *isa, int n_types)
{
    static const char *const kv_types[] = {NULL, "bf16", "fp8", "int16", "f32"};
    static const enum place places[] = {PLACE_PROMPT, PLACE_DECODE, PLACE_ONE_LOGIT, PLACE_LOGITS,
                                        PLACE_NO_LOGIT};
    int n = 0;

    log_set_level(LOG_ERROR);
    strcpy(folder, "/tmp/osprey-poison-XXXXXX");
    tiny_checkpoint_write(folder);
    for (int i = 0; i < n_types; i++) {
        struct wave clean[N_WAVES];

        if (!run_world(clean, isa, kv_types[i], PLACE_NONE))
            continue;
        for (size_t k = 0; k < sizeof places / sizeof places[0]; k++)
            check(isa, kv_types[i], clean, places[k]);
        for (int k = 0; k < N_WAVES; k++)
            wave_release(&clean[k]);
        n++;
    }
    tiny_checkpoint_remove(folder);
    return n;
}

static void test_at_ref(void **state)
{
    (void)state;
    assert_int_equal(check_isa("ref", 1), 1);
}

static void test_at_the_best_level(void **state)
{
    (void)state;
    assert_true(check_isa(NULL, 5) >= 4);
}

static void test_at_other_isas(void **state)
{
    static const char *const isas[] = {"avx2", "avx-vnni", "avx512", "amx", "neon", "neon-i8mm"};

    (void)state;
    for (size_t i = 0; i < sizeof isas / sizeof isas[0]; i++)
        print_message("%s: %s\n", isas[i], check_isa(isas[i], 1) ? "checked" : "not here");
}

UNIT_MAIN(cmocka_unit_test(test_at_ref), cmocka_unit_test(test_at_the_best_level),
          cmocka_unit_test(test_at_other_isas))
