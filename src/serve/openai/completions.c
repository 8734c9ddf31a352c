/* /v1/completions: the continuation of a prompt, without the Harmony format. A prompt is a
 * string, a list of strings, a list of token ids, or a list of such lists. Each prompt gets n
 * choices. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "serve/fields/field_schemas.h"
#include "serve/job/job.h"
#include "serve/fields/json_types.h"
#include "serve/openai/completions.h"
#include "serve/openai/openapi.h"
#include "serve/reply/reply_parts.h"
#include "serve/core/routes.h"
#include "serve/reply/text_reply.h"

enum {
    PROMPTS_MAX = 64,      /* prompts of a request */
    ALL_CHOICES_MAX = 128, /* choices of all prompts together */
    LOGPROBS_MAX = 5,      /* the limit of the OpenAI API */
    /* the default of the OpenAI API, if neither the request nor the server sets one */
    ANSWER_TOKENS_DEFAULT = 16
};

struct prompt {
    int32_t *ids; /* (n_ids) owned, allocated by osp_tokenize() or malloc */
    size_t n_ids;
    char *text; /* (n_bytes) for osp_free(); NULL without echo */
    size_t n_bytes;
};

struct completions {
    struct prompt *prompts; /* (n_prompts) owned */
    int n_prompts;
    bool echo, show_special, plain_prompt;
    bool is_unlimited; /* n_predict is -1 */
    int best_of;       /* 0: not set */
    int truncate; /* tokens to keep at the end of each prompt; 0: not set; -1: as many as fit */
    struct reply_head head;
    struct text_reply *replies; /* (n_replies) one per choice; owned */
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

/* 0 generates nothing: the answer describes the prompt alone (echo, prompt_logprobs). */
static enum osp_status read_max_tokens(struct request_params *p, const char *field, const json_t *v)
{
    (void)field;
    p->options.tokens_max = (int)json_number_value(v);
    p->options.prompt_only = p->options.tokens_max == 0;
    ((struct completions *)p->own)->is_unlimited = false;
    return OSP_OK;
}

/* llama-server's name for max_tokens; -1: up to the context length. */
static enum osp_status read_n_predict(struct request_params *p, const char *field, const json_t *v)
{
    const int n = (int)json_number_value(v);

    (void)field;
    p->options.tokens_max = n > 0 ? n : 0;
    p->options.prompt_only = n == 0;
    ((struct completions *)p->own)->is_unlimited = n < 0;
    return OSP_OK;
}

static enum osp_status read_truncate(struct request_params *p, const char *field, const json_t *v)
{
    json_int_t n = 0;
    enum osp_status st = json_int(&n, field, v, -1, INT_MAX);

    if (st == OSP_OK && n == 0)
        st = fail(OSP_EINVAL, "%s: must be 1 or more, or -1 (as many as fit), is 0", field);
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
    return fail(OSP_EUNSUPPORTED,
                "%s: must be empty: gpt-oss cannot fill in the middle; remove the field", field);
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
        "The prompt: a string, a list of strings, a list of token ids, or a list of such lists."),
    FIELD_READ_ROW("max_tokens", FOR_COMPLETIONS, FIELD_INT, 0, INT_MAX, read_max_tokens, NULL,
                   "The most tokens that may be generated; default: 16. 0 generates nothing and "
                   "requires echo or prompt_logprobs."),
    FIELD_READ_ROW("n_predict", FOR_COMPLETIONS, FIELD_INT, -1, INT_MAX, read_n_predict, NULL,
                   "llama-server's name for max_tokens; -1: up to the context length."),
    FIELD_READ_ROW("truncate_prompt_tokens", FOR_COMPLETIONS, FIELD_OTHER, 0, 0, read_truncate,
                   "{'anyOf':[{'enum':[-1]},{'type':'integer','minimum':1,'maximum':2147483647}]}",
                   "The number of tokens to keep at the end of each prompt; -1: as many as fit "
                   "beside the answer, at least half of the context."),
    FIELD_READ_ROW("echo", FOR_COMPLETIONS, FIELD_BOOL, 0, 0, read_echo, NULL,
                   "The answer's text begins with the prompt."),
    FIELD_READ_ROW("logprobs", FOR_COMPLETIONS, FIELD_INT, 0, LOGPROBS_MAX, read_logprobs, NULL,
                   "Return the logprobs of the tokens, and of this many of the most likely tokens "
                   "at each position."),
    FIELD_READ_ROW("best_of", FOR_COMPLETIONS, FIELD_INT, 1, CHOICES_MAX, read_best_of, NULL,
                   "Must be equal to n or absent: choices are not ranked."),
    FIELD_OTHER_ROW("suffix", FOR_COMPLETIONS, read_suffix, "{'type':'string','maxLength':0}",
                    "Must be empty: gpt-oss cannot fill in the middle."),
    FIELD_READ_ROW("skip_special_tokens", FOR_COMPLETIONS, FIELD_BOOL, 0, 0, read_skip_specials,
                   NULL, "false: control tokens of the answer appear as text."),
    FIELD_READ_ROW("parse_special", FOR_COMPLETIONS, FIELD_BOOL, 0, 0, read_parse_special, NULL,
                   "false: names of control tokens in a prompt are encoded as ordinary text."),
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

/* The number of prompt tokens that fit beside the answer, at least half of the context. */
static int fitting_tokens(const struct job *job)
{
    const int context = job->server->info.context_tokens_max,
              given = job->params.options.tokens_max;
    const int answer = given > 0 ? given : ANSWER_TOKENS_DEFAULT;

    return answer < context / 2 ? context - answer : context - context / 2;
}

/* Keeps the last tokens, as vLLM does. */
static void truncate_prompt(struct prompt *p, const struct job *job)
{
    const struct completions *c = job->state;
    const int n = c->truncate > 0 ? c->truncate : fitting_tokens(job);

    if (c->truncate == 0 || p->n_ids <= (size_t)n)
        return;
    memmove(p->ids, p->ids + p->n_ids - (size_t)n, (size_t)n * sizeof *p->ids);
    p->n_ids = (size_t)n;
}

/* Reads one prompt: a string or a list of token ids. */
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
        return fail(OSP_EINVAL, "%s: must be a string or a list of token ids", name);
    if (p->n_ids == 0)
        return fail(OSP_EINVAL, "%s: is empty; must have at least one token", name);
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
        return fail(OSP_EINVAL, "prompt: has %zu prompts, at most %d are allowed", n, PROMPTS_MAX);
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

/* Checks fields that depend on each other. */
static enum osp_status check_combination(const struct job *job)
{
    const struct completions *c = job->state;
    const int n = job->params.n_choices > 0 ? job->params.n_choices : 1;

    if (c->best_of > 0 && c->best_of != n)
        return fail(OSP_EUNSUPPORTED,
                    "best_of: must be equal to n, which is %d: choices are not ranked", n);
    if (c->n_prompts * n > ALL_CHOICES_MAX)
        return fail(OSP_EINVAL,
                    "n: %d choices for each of %d prompts exceed the limit of %d choices in a "
                    "request (%d for "
                    "each prompt)",
                    n, c->n_prompts, ALL_CHOICES_MAX, CHOICES_MAX);
    if (job->params.options.prompt_only && !c->echo && !job->params.wants_prompt_logprobs)
        return fail(
            OSP_EINVAL,
            "max_tokens: is 0; must be from 1 to %d, or 0 together with echo or prompt_logprobs",
            INT_MAX);
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
    if (opt->tokens_max == 0 && !c->is_unlimited)
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

    (void)out; /* a stream begins with the first event of the answer */
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

const struct job_kind completions_kind = {
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
    job_start(s, x, &completions_kind);
}
