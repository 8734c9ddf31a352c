/* /v1/completions: a prompt's continuation, without Harmony. The prompt is a text, a list of
 * them, a list of token ids or a list of those; every prompt has n choices. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "serve/fields/field_schemas.h"
#include "serve/openai/job.h"
#include "serve/fields/json_types.h"
#include "serve/openai/openapi.h"
#include "serve/reply/reply_parts.h"
#include "serve/core/routes.h"
#include "serve/reply/text_reply.h"

enum {
    PROMPTS_MAX = 64,          /* of a request */
    ALL_CHOICES_MAX = 128,     /* of all its prompts */
    LOGPROBS_MAX = 5,          /* as OpenAI's */
    ANSWER_TOKENS_DEFAULT = 16 /* likewise, when neither request nor server say */
};

struct prompt {
    int32_t *ids; /* (n_ids) owned, from osp_tokenize() or not */
    size_t n_ids;
    char *text; /* (n_bytes) to osp_free(), with echo; else NULL */
    size_t n_bytes;
};

struct completions {
    struct prompt *prompts; /* (n_prompts) owned */
    int n_prompts;
    bool echo, show_special, plain_prompt;
    int best_of;  /* 0: not said */
    int truncate; /* prompts to so many tokens at their end; 0: not said; -1: to what fits */
    struct reply_head head;
    struct text_reply *replies; /* (n_replies), one a choice; owned */
    int n_replies;
};

/* ---- fields ---- */

static enum osp_status read_echo(struct request_params *p, const char *field, const json_t *v)
{
    (void)field;
    ((struct completions *)p->own)->echo = json_is_true(v);
    return OSP_OK;
}

static enum osp_status read_logprobs(struct request_params *p, const char *field, const json_t *v)
{
    (void)field;
    p->options.logprobs = true;
    p->options.top_logprobs = (int)json_number_value(v);
    return OSP_OK;
}

/* 0 leaves the prompt alone, for who wants to hear of that. */
static enum osp_status read_max_tokens(struct request_params *p, const char *field, const json_t *v)
{
    (void)field;
    p->options.tokens_max = (int)json_number_value(v);
    p->options.prompt_only = p->options.tokens_max == 0;
    return OSP_OK;
}

static enum osp_status read_truncate(struct request_params *p, const char *field, const json_t *v)
{
    json_int_t n = 0;
    enum osp_status st = json_int(&n, field, v, -1, INT_MAX);

    if (st == OSP_OK && n == 0)
        st = fail(OSP_EINVAL, "%s: must be 1 or more, or -1", field);
    ((struct completions *)p->own)->truncate = (int)n;
    return st;
}

static enum osp_status read_best_of(struct request_params *p, const char *field, const json_t *v)
{
    (void)field;
    ((struct completions *)p->own)->best_of = (int)json_number_value(v);
    return OSP_OK;
}

static enum osp_status read_suffix(struct request_params *p, const char *field, const json_t *v)
{
    (void)p;
    if (json_is_string(v) && json_string_length(v) == 0)
        return OSP_OK;
    return fail(OSP_EUNSUPPORTED, "%s: gpt-oss does not fill in the middle; leave it out", field);
}

static enum osp_status read_skip_specials(struct request_params *p, const char *field,
                                          const json_t *v)
{
    (void)field;
    ((struct completions *)p->own)->show_special = !json_is_true(v);
    return OSP_OK;
}

static enum osp_status read_parse_special(struct request_params *p, const char *field,
                                          const json_t *v)
{
    (void)field;
    ((struct completions *)p->own)->plain_prompt = !json_is_true(v);
    return OSP_OK;
}

static const struct field FIELDS[] = {
    FIELD_REQUIRED_ROW(
        "prompt", FOR_COMPLETIONS, PROMPTS_MAX, field_ignored,
        "{'anyOf':[{'type':'string','minLength':1},"
        "{'type':'array','minItems':1,'maxItems':#,'items':{'type':'string',"
        "'minLength':1}},"
        "{'type':'array','minItems':1,'items':" FIELD_SCHEMA_TOKEN "},"
        "{'type':'array','minItems':1,'maxItems':#,'items':{'type':'array',"
        "'minItems':1,'items':" FIELD_SCHEMA_TOKEN "}}]}",
        "What is continued: a text, a list of them, token ids, or a list of such lists."),
    FIELD_READ_ROW("max_tokens", FOR_COMPLETIONS, FIELD_INT, 0, INT_MAX, read_max_tokens, NULL,
                   "Of the answer; 0, for the prompt alone, only with echo or prompt_logprobs."),
    FIELD_READ_ROW("truncate_prompt_tokens", FOR_COMPLETIONS, FIELD_OTHER, 0, 0, read_truncate,
                   "{'anyOf':[{'enum':[-1]},{'type':'integer','minimum':1,'maximum':2147483647}]}",
                   "Only so many tokens at a prompt's end are used; -1: as many as fit, at least "
                   "half of the context."),
    FIELD_READ_ROW("echo", FOR_COMPLETIONS, FIELD_BOOL, 0, 0, read_echo, NULL,
                   "The text begins with the prompt."),
    FIELD_READ_ROW("logprobs", FOR_COMPLETIONS, FIELD_INT, 0, LOGPROBS_MAX, read_logprobs, NULL,
                   "Log-probabilities of the tokens, and of so many of the likeliest."),
    FIELD_READ_ROW("best_of", FOR_COMPLETIONS, FIELD_INT, 1, CHOICES_MAX, read_best_of, NULL,
                   "The same as n, or left out: answers are not ranked."),
    FIELD_OTHER_ROW("suffix", FOR_COMPLETIONS, read_suffix, "{'type':'string','maxLength':0}",
                    "Must be empty: gpt-oss does not fill in the middle."),
    FIELD_READ_ROW("skip_special_tokens", FOR_COMPLETIONS, FIELD_BOOL, 0, 0, read_skip_specials,
                   NULL, "false: control tokens in the answer show as their text."),
    FIELD_READ_ROW("parse_special", FOR_COMPLETIONS, FIELD_BOOL, 0, 0, read_parse_special, NULL,
                   "false: the texts of control tokens in a prompt are ordinary text."),
};

/* ---- prompts, on the worker thread ---- */

static const struct osp_tokenizer *tokenizer_of(const struct job *job)
{
    return osp_model_tokenizer(job->server->loading.result.model);
}

static enum osp_status read_ids(struct prompt *p, const char *name, const json_t *list,
                                int vocab_size)
{
    const size_t n = json_array_size(list);
    enum osp_status st;

    TRY(mem_try_array(&p->ids, n, sizeof *p->ids, "a prompt's tokens"));
    for (size_t i = 0; i < n; i++) {
        json_int_t id = 0;

        TRY(json_int(&id, name, json_array_get(list, i), 0, vocab_size - 1));
        p->ids[p->n_ids++] = (int32_t)id;
    }
out:
    return st;
}

static enum osp_status tokenize(struct prompt *p, const struct job *job, const json_t *text)
{
    const struct completions *c = job->state;

    return osp_tokenize(tokenizer_of(job), json_string_value(text), json_string_length(text),
                        !c->plain_prompt, &p->ids, &p->n_ids);
}

/* Tokens of a prompt that fit: beside the answer, but at least half of the context. */
static int fitting_tokens(const struct job *job)
{
    const int context = job->server->info.context_tokens_max,
              given = job->params.options.tokens_max;
    const int answer = given > 0 ? given : ANSWER_TOKENS_DEFAULT;

    return answer < context / 2 ? context - answer : context - context / 2;
}

/* The last of them stay, as with vLLM. */
static void truncate_prompt(struct prompt *p, const struct job *job)
{
    const struct completions *c = job->state;
    const int n = c->truncate > 0 ? c->truncate : fitting_tokens(job);

    if (c->truncate == 0 || p->n_ids <= (size_t)n)
        return;
    memmove(p->ids, p->ids + p->n_ids - (size_t)n, (size_t)n * sizeof *p->ids);
    p->n_ids = (size_t)n;
}

/* A text, or a list of ids. */
static enum osp_status read_prompt(struct prompt *p, const struct job *job, const char *name,
                                   const json_t *v)
{
    const struct completions *c = job->state;
    enum osp_status st;

    if (json_is_string(v))
        TRY(tokenize(p, job, v));
    else if (json_is_array(v))
        TRY(read_ids(p, name, v, job->server->info.vocab_size));
    else
        return fail(OSP_EINVAL, "%s: must be a text or a list of token ids", name);
    if (p->n_ids == 0)
        return fail(OSP_EINVAL, "%s: is empty", name);
    truncate_prompt(p, job);
    if (c->echo)
        TRY(osp_detokenize(tokenizer_of(job), p->ids, p->n_ids, &p->text, &p->n_bytes));
out:
    return st;
}

static enum osp_status read_list(struct job *job, const json_t *list)
{
    struct completions *c = job->state;
    const size_t n = json_array_size(list);
    enum osp_status st = OSP_OK;

    if (n > PROMPTS_MAX)
        return fail(OSP_EINVAL, "prompt: %zu prompts, the limit is %d", n, PROMPTS_MAX);
    c->prompts = mem_new(n * sizeof *c->prompts);
    c->n_prompts = (int)n;
    for (size_t i = 0; i < n; i++) {
        char name[32];

        snprintf(name, sizeof name, "prompt[%zu]", i);
        TRY(read_prompt(&c->prompts[i], job, name, json_array_get(list, i)));
    }
out:
    return st;
}

static enum osp_status read_prompts(struct job *job, const json_t *v)
{
    struct completions *c = job->state;
    const json_t *first = json_array_get(v, 0);

    if (v == NULL || json_is_null(v))
        return fail(OSP_EINVAL, "prompt: is missing");
    if (first != NULL && !json_is_number(first))
        return read_list(job, v);
    c->prompts = mem_new(sizeof *c->prompts);
    c->n_prompts = 1;
    return read_prompt(c->prompts, job, "prompt", v);
}

/* What one field alone does not show. */
static enum osp_status check_combination(const struct job *job)
{
    const struct completions *c = job->state;
    const int n = job->params.n_choices > 0 ? job->params.n_choices : 1;

    if (c->best_of > 0 && c->best_of != n)
        return fail(OSP_EUNSUPPORTED, "best_of: must be n, which is %d: answers are not ranked", n);
    if (c->n_prompts * n > ALL_CHOICES_MAX)
        return fail(OSP_EINVAL, "n: %d answers to each of %d prompts, the limit is %d in all", n,
                    c->n_prompts, ALL_CHOICES_MAX);
    if (job->params.options.prompt_only && !c->echo && !job->params.wants_prompt_logprobs)
        return fail(OSP_EINVAL, "max_tokens: must be from 1 to %d, or 0 with echo", INT_MAX);
    if (job->params.options.prompt_only && job->params.options.tokens_min > 0)
        return fail(OSP_EINVAL, "min_tokens: %d is more than max_tokens, 0",
                    job->params.options.tokens_min);
    return OSP_OK;
}

static enum osp_status submit(struct job *job)
{
    struct completions *c = job->state;
    struct osp_request_options *opt = &job->params.options;
    enum osp_status st;

    TRY(job_refuse(job, read_prompts(job, json_object_get(job->json, "prompt"))));
    TRY(check_combination(job));
    opt->raw = true;
    opt->no_control_text = !c->show_special;
    if (c->echo && opt->logprobs) {
        opt->prompt_logprobs = true;
        if (opt->top_prompt_logprobs < opt->top_logprobs)
            opt->top_prompt_logprobs = opt->top_logprobs;
    }
    if (opt->tokens_max == 0)
        opt->tokens_max =
            opt->tokens_min > ANSWER_TOKENS_DEFAULT ? opt->tokens_min : ANSWER_TOKENS_DEFAULT;
    for (int i = 0; i < c->n_prompts; i++)
        TRY(job_add_tokens(job, c->prompts[i].ids, c->prompts[i].n_ids));
out:
    return st;
}

/* ---- on the loop ---- */

static void begin_choice(struct job *job, int i)
{
    const struct completions *c = job->state;
    const struct prompt *prompt = &c->prompts[i / (job->n_choices / c->n_prompts)];
    struct text_reply *r = &c->replies[i];

    text_reply_init(r, i);
    r->streams = job->params.stream;
    r->extras = job->params.extras;
    r->options = &job->params.options;
    r->request = job->choices[i].request;
    r->budget = job->params.stream ? NULL : &job->budget;
    r->tokens = tokenizer_of(job);
    r->n_prompt_logprobs = job->params.wants_prompt_logprobs ? job->params.n_prompt_logprobs : -1;
    r->has_prompt_logprob = c->echo && job->params.options.logprobs;
    if (job->params.options.logprobs)
        r->tokenizer = r->tokens;
    r->return_ids = job->params.return_token_ids;
    r->prompt = prompt->ids;
    r->n_prompt = prompt->n_ids;
    if (c->echo)
        text_reply_echo(r, prompt->text, prompt->n_bytes);
    reply_reserve_prompt(r->budget, c->echo ? prompt->text : "", c->echo ? prompt->n_bytes : 0,
                         r->return_ids ? prompt->n_ids : 0);
}

static void begin(struct job *job, struct buf *out)
{
    struct completions *c = job->state;

    (void)out; /* nothing before the first piece of the answer */
    reply_head_init(&c->head, "cmpl-", "text_completion", job_model(job));
    c->n_replies = job->n_choices;
    c->replies = mem_new((size_t)c->n_replies * sizeof *c->replies);
    for (int i = 0; i < c->n_replies; i++)
        begin_choice(job, i);
}

static bool on_event(struct job *job, int i, const struct osp_event *event, struct buf *out)
{
    struct completions *c = job->state;
    struct text_reply *r = &c->replies[i];

    if (!text_reply_append(r, event))
        return false;
    if (!job->params.stream)
        return true;
    r->extras.usage = job_usage(job);
    text_reply_chunk(r, &c->head, event, out);
    return true;
}

static void end(struct job *job, struct buf *out)
{
    const struct completions *c = job->state;
    const struct osp_usage usage = job_usage(job);

    if (job->params.stream)
        reply_stream_end(&c->head, &job->params.extras, &usage, out);
    else
        text_reply_full(c->replies, c->n_replies, &c->head, &usage, out);
}

static void put_error(struct job *job, struct buf *out, const char *error_json)
{
    (void)job;
    reply_stream_error(out, error_json);
}

static void release(struct job *job)
{
    struct completions *c = job->state;

    for (int i = 0; i < c->n_replies; i++)
        text_reply_release(&c->replies[i]);
    for (int i = 0; i < c->n_prompts; i++) {
        osp_free(c->prompts[i].ids);
        osp_free(c->prompts[i].text);
    }
    free(c->replies);
    free(c->prompts);
}

const struct field_set completions_fields = {
    .endpoint = FOR_COMPLETIONS, .own = FIELDS, .n_own = sizeof FIELDS / sizeof FIELDS[0]};

static const struct job_kind COMPLETIONS = {
    .fields = &completions_fields,
    .state_bytes = sizeof(struct completions),
    .submit = submit,
    .begin = begin,
    .on_event = on_event,
    .end = end,
    .put_error = put_error,
    .release = release,
};

void route_completions(struct server *s, struct http_exchange *x, const char *name)
{
    (void)name;
    job_start(s, x, &COMPLETIONS);
}
