/* From a client's options to a request in the engine's inbox. */
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/str.h"
#include "base/rng.h"
#include "engine/chat/chat.h"
#include "engine/chat/chat_cached.h"
#include "engine/core/engine.h"
#include "engine/core/grammar_queue.h"
#include "engine/core/model_api.h"
#include "engine/core/request_grammar.h"

/* OpenAI's range; and a range in which no logit of a model becomes infinite. */
static const double PENALTY_MAX = 2, REPETITION_MIN = 0.01, REPETITION_MAX = 100;
static const int64_t TIMEOUT_MS_MAX =
    (int64_t)366 * 24 * 3600 * 1000; /* a year: far from overflow */

static enum osp_status check_range(const char *name, float value, double min, double max)
{
    if (!(value >= (float)min && value <= (float)max))
        return fail(OSP_EINVAL, "%s is %g, must be in %g to %g", name, (double)value, min, max);
    return OSP_OK;
}

static enum osp_status check_sampling(const struct osp_sampling *s)
{
    enum osp_status st;

    if (!(s->temperature >= 0.0F && isfinite(s->temperature)))
        return fail(OSP_EINVAL, "temperature is %g, must be 0 or more", (double)s->temperature);
    if (s->top_k < 0)
        return fail(OSP_EINVAL, "top_k is %d, must be 0 (off) or more", s->top_k);
    TRY(check_range("top_p", s->top_p, 0, 1));
    TRY(check_range("min_p", s->min_p, 0, 1));
    TRY(check_range("presence_penalty", s->presence_penalty, -PENALTY_MAX, PENALTY_MAX));
    TRY(check_range("frequency_penalty", s->frequency_penalty, -PENALTY_MAX, PENALTY_MAX));
    if (s->repetition_penalty != 0.0F)
        TRY(check_range("repetition_penalty", s->repetition_penalty, REPETITION_MIN,
                        REPETITION_MAX));
out:
    return st;
}

/* gpt-oss is meant to be sampled at temperature 1 and top_p 1: those are the defaults. */
static struct batch_sample sample_of(const struct osp_sampling *s)
{
    bool given = s->has_temperature || s->temperature > 0.0F;

    return (struct batch_sample){
        .temperature = given ? s->temperature : 1.0F,
        .top_p = s->top_p > 0.0F ? s->top_p : 1.0F,
        .top_k = s->top_k,
        .min_p = s->min_p,
        .seed = s->has_seed ? s->seed : rng_entropy(),
        .repetition = s->repetition_penalty != 1.0F ? s->repetition_penalty : 0.0F,
        .presence = s->presence_penalty,
        .frequency = s->frequency_penalty,
    };
}

static enum osp_status check_prompt(const struct osp_model *m, const int32_t *ids, size_t n)
{
    int n_ids = m->facts.vocab_size;
    int limit = m->plan.context_tokens_max;

    if (n == 0)
        return fail(OSP_EINVAL, "the prompt is empty");
    if (n >= (size_t)limit)
        return fail(OSP_ELIMIT,
                    "This model's maximum context length is %d tokens. However, you requested %zu "
                    "tokens (%zu in the prompt, at least 1 in the completion). Please reduce the "
                    "length of the prompt.",
                    limit, n + 1, n);
    for (size_t i = 0; i < n; i++)
        if (ids[i] < 0 || ids[i] >= n_ids)
            return fail(OSP_EINVAL, "token %zu of the prompt is %d, must be in 0 to %d", i,
                        (int)ids[i], n_ids - 1);
    return OSP_OK;
}

/* Prompt and answer together: an answer longer than the context ends with it. */
static int tokens_max_of(const struct osp_model *m, int n_prompt, int n_answer_max)
{
    int limit = m->plan.context_tokens_max;

    if (n_answer_max == 0 || n_answer_max > limit - n_prompt)
        return limit;
    return n_prompt + n_answer_max;
}

static enum osp_status check_count(const char *name, int value, int max)
{
    if (value < 0 || value > max)
        return fail(OSP_EINVAL, "%s is %d, must be in 0 to %d", name, value, max);
    return OSP_OK;
}

static enum osp_status check_text(const char *name, const char *text, size_t n_bytes_max)
{
    if (text != NULL && strlen(text) > n_bytes_max)
        return fail(OSP_EINVAL, "%s has %zu bytes, at most %zu are allowed", name, strlen(text),
                    n_bytes_max);
    return OSP_OK;
}

static enum osp_status check_stop_tokens(const struct osp_request_options *opt, int n_ids)
{
    enum osp_status st;

    TRY(check_count("n_stop_tokens", opt->n_stop_tokens, OSP_STOP_TOKENS_MAX));
    for (int i = 0; i < opt->n_stop_tokens; i++)
        if (opt->stop_tokens[i] < 0 || opt->stop_tokens[i] >= n_ids)
            return fail(
                OSP_EINVAL,
                "stop_token_ids: token %d (entry %d) is not in the vocabulary, ids are 0 to %d",
                (int)opt->stop_tokens[i], i, n_ids - 1);
out:
    return st;
}

static enum osp_status check_prediction(const struct osp_request_options *opt, int n_ids)
{
    enum osp_status st;

    TRY(check_count("n_prediction", opt->n_prediction, INT_MAX));
    for (int i = 0; i < opt->n_prediction; i++)
        if (opt->prediction[i] < 0 || opt->prediction[i] >= n_ids)
            return fail(OSP_EINVAL, "prediction: token %d is %d, must be in 0 to %d", i,
                        (int)opt->prediction[i], n_ids - 1);
out:
    return st;
}

static enum osp_status check_options(const struct osp_request_options *opt, int n_ids)
{
    enum osp_status st;

    TRY(check_count("tokens_max", opt->tokens_max, INT_MAX));
    TRY(check_count("tokens_min", opt->tokens_min,
                    opt->tokens_max > 0 ? opt->tokens_max : INT_MAX));
    TRY(check_count("top_logprobs", opt->top_logprobs, OSP_TOP_LOGPROBS_MAX));
    TRY(check_count("top_prompt_logprobs", opt->top_prompt_logprobs, OSP_TOP_LOGPROBS_MAX));
    TRY(check_stop_tokens(opt, n_ids));
    TRY(check_prediction(opt, n_ids));
    if (opt->timeout_ms < 0 || opt->timeout_ms > TIMEOUT_MS_MAX)
        return fail(OSP_EINVAL, "timeout_ms is %lld, must be in 0 (none) to %lld",
                    (long long)opt->timeout_ms, (long long)TIMEOUT_MS_MAX);
    TRY(check_text("client", opt->client, OSP_CLIENT_BYTES_MAX));
    TRY(check_text("user", opt->user, OSP_CLIENT_BYTES_MAX));
    TRY(check_text("cache_salt", opt->cache_salt, OSP_SALT_BYTES_MAX));
    TRY(check_sampling(&opt->sampling));
out:
    return st;
}

static enum osp_status init_lists(struct seq *q, const struct sched_limits *l,
                                  const struct osp_request_options *opt, int n_ids)
{
    int32_t stop_ids[OSP_STOP_TOKENS_MAX + SCHED_STOP_IDS_MAX];
    struct sampling_state_config config = {.n_ids = n_ids,
                                           .options = opt,
                                           .prompt = q->tokens,
                                           .n_prompt = q->n_prompt,
                                           .n_tokens_max = q->n_tokens_max,
                                           .stop_ids = stop_ids};

    for (int i = 0; i < q->n_stop_ids; i++)
        stop_ids[config.n_stop_ids++] = q->stop_ids[i];
    for (int i = 0; i < l->n_stop_ids && !q->ignore_stop; i++)
        stop_ids[config.n_stop_ids++] = l->stop_ids[i];
    return sampling_state_init(&q->lists, &config);
}

static enum osp_status set_options(struct osp_request *r, const struct sched_limits *l,
                                   const struct osp_request_options *opt, int n_ids)
{
    struct seq *q = &r->seq;
    enum osp_status st;

    q->sampling_params = sample_of(&opt->sampling);
    q->sampling_params.n_top = opt->logprobs ? opt->top_logprobs : 0;
    q->ignore_stop = opt->ignore_stop_tokens;
    q->n_stop_ids = opt->n_stop_tokens;
    memcpy(q->stop_ids, opt->stop_tokens, sizeof q->stop_ids);
    q->priority = opt->priority;
    if (opt->client != NULL)
        TRY(str_copy(&r->client, opt->client, "the client's key"));
    if (opt->user != NULL)
        TRY(str_copy(&r->user, opt->user, "the user's key"));
    if (opt->cache_salt != NULL)
        TRY(str_copy(&r->salt, opt->cache_salt, "the cache's salt"));
    q->client_key = r->client;
    q->user_key = r->user;
    q->salt = r->salt;
    q->is_uncached = opt->no_prefix_cache;
    q->is_exact = opt->sampling.has_seed && !opt->reuse_generated;
    if (opt->timeout_ms > 0)
        q->deadline_ns = q->times.submit_ns + (uint64_t)opt->timeout_ms * 1000000u;
    TRY(init_lists(q, l, opt, n_ids));
    if (opt->logprobs)
        TRY(token_logprobs_init(&r->token_logprobs, q->n_tokens_max - q->n_prompt,
                                opt->top_logprobs));
    q->is_prompt_only = opt->prompt_only;
    q->has_prompt_logprobs = opt->prompt_logprobs;
    q->n_top_prompt_logprobs = opt->prompt_logprobs ? opt->top_prompt_logprobs : 0;
    if (opt->prompt_logprobs)
        TRY(token_logprobs_init(&r->prompt_token_logprobs, q->n_prompt, opt->top_prompt_logprobs));
out:
    return st;
}

/* ---- submit ---- */

/* Grammars are compiled where the engine is: in the worker, if there is one. */
static enum osp_status submit_to(struct osp_request *r, struct osp_engine *engine,
                                 const struct osp_request_options *opt)
{
    const struct grammar_source source = grammar_source_of(opt);
    enum osp_status st;

    r->outbox.is_accepted = grammar_source_is_empty(&source);
    if (r->outbox.is_accepted || engine->grammars == NULL)
        st = engine_submit(engine, r, opt);
    else
        st = grammar_queue_submit(engine->grammars, r, &source);
    if (st == OSP_OK && !opt->no_wait)
        st = request_wait_accepted(r, UINT64_MAX);
    return st;
}

static enum osp_status submit(struct osp_request **out, struct osp_engine *engine,
                              const struct osp_request_options *opt,
                              struct event_stream_options *stream)
{
    const struct osp_model *m = engine->model;
    struct osp_request *r = NULL;
    enum osp_status st;

    TRY(check_options(opt, m->facts.vocab_size));
    TRY(check_prompt(m, stream->prompt, stream->n_prompt));
    TRY(request_grammar_check(opt));
    stream->tokenizer = m->tokenizer;
    stream->raw = opt->raw;
    stream->stop = opt->stop;
    stream->n_stop = opt->n_stop;
    stream->tokens_min = opt->tokens_min;
    stream->no_control_text = opt->no_control_text;
    stream->stop_in_text = opt->stop_in_text;
    TRY(request_new(
        &r, &engine->limits, stream,
        tokens_max_of(m, (int)stream->n_prompt, opt->prompt_only ? 1 : opt->tokens_max)));
    TRY(set_options(r, &engine->limits, opt, m->facts.vocab_size));
    if (engine->grammars != NULL) /* else the worker makes them */
        TRY(request_drafts_init(r, engine, opt));
    TRY(submit_to(r, engine, opt));
    *out = r;
out:
    if (st != OSP_OK)
        osp_request_close(r);
    return st;
}

static const struct osp_request_options defaults;

enum osp_status osp_submit_tokens(struct osp_request **out, struct osp_engine *engine,
                                  const int32_t *ids, size_t n,
                                  const struct osp_request_options *opt)
{
    struct event_stream_options stream = {.prompt = ids, .n_prompt = n};

    *out = NULL;
    return submit(out, engine, opt != NULL ? opt : &defaults, &stream);
}

/* True when the request's answer is added to the completion cache: as for the prefix cache. */
static bool adds_to_cache(const struct osp_engine *engine, const struct osp_request_options *opt)
{
    return !opt->raw && !opt->no_prefix_cache && !engine->options.no_prefix_cache;
}

/* A request whose answer must not depend on other requests is rendered from its text alone. */
static bool reads_cache(const struct osp_request_options *opt)
{
    return !opt->sampling.has_seed || opt->reuse_generated;
}

/* The final message that the client expects, with its header and end, as tokens. Reasoning that
 * comes before it is not predicted: the drafter finds its place at the header. */
static enum osp_status render_prediction(const struct osp_model *m, const char *text,
                                         struct ids *out)
{
    static const char header[] = "<|channel|>final<|message|>", end[] = "<|return|>";
    enum osp_status st = OSP_OK;

    if (text == NULL || text[0] == '\0')
        return OSP_OK;
    TRY(tokenizer_encode_with_specials(m->tokenizer, header, sizeof header - 1, out));
    TRY(tokenizer_encode(m->tokenizer, text, strlen(text), out));
    TRY(tokenizer_encode_with_specials(m->tokenizer, end, sizeof end - 1, out));
out:
    return st == OSP_OK ? st : fail_prefix(st, "prediction");
}

enum osp_status osp_submit_chat(struct osp_request **out, struct osp_engine *engine,
                                const struct osp_chat *chat, const struct osp_request_options *opt)
{
    struct osp_request_options resolved = opt != NULL ? *opt : defaults;
    struct osp_model *m = engine->model;
    struct event_stream_options stream = {.functions = NULL, .one_call = resolved.one_tool_call};
    struct chat_cached completion_cache = {.store = NULL};
    char *calls = NULL;
    struct ids prompt, prediction;
    enum osp_status st;

    *out = NULL;
    ids_init(&prompt, CHAT_TOKENS_MAX);
    ids_init(&prediction, CHAT_TOKENS_MAX);
    completion_cache.prompt = prompt_hash_begin(resolved.cache_salt);
    if (adds_to_cache(engine, &resolved) && reads_cache(&resolved))
        completion_cache.store = m->completion_cache;
    TRY(calls_text(&calls, chat, &resolved));
    resolved.calls = calls;
    TRY(chat_render_cached(chat, m->tokenizer, &completion_cache, &prompt));
    if (resolved.prediction_text != NULL) {
        TRY(render_prediction(m, resolved.prediction_text, &prediction));
        resolved.prediction = prediction.data;
        resolved.n_prediction = (int)prediction.n;
    }
    stream.prompt = prompt.data;
    stream.n_prompt = prompt.n;
    stream.functions = chat_function_names(chat, &stream.n_functions);
    TRY(submit(out, engine, &resolved, &stream));
    if (adds_to_cache(engine, &resolved))
        (*out)->completion_cache = m->completion_cache;
    (*out)->prompt_key = chat_cached_prompt(&completion_cache, &prompt);
out:
    free(calls);
    ids_release(&prediction);
    ids_release(&prompt);
    return st;
}
