/* POST /completion and /completions in the native form of llama-server: the continuation of one or
 * more prompts, without the Harmony format. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "serve/core/routes.h"
#include "serve/fields/field_schemas.h"
#include "serve/fields/json_sampling.h"
#include "serve/fields/json_types.h"
#include "serve/job/job.h"
#include "serve/llama/llama_prompt.h"
#include "serve/llama/llama_reply.h"
#include "serve/openai/completions.h"
#include "serve/openai/openapi.h"

enum { CHOICES_IN_ALL_MAX = 128, TOKEN_NAME_BYTES = 24 };

struct completion {
    struct llama_prompts prompts;
    bool return_tokens;
    struct llama_reply *replies; /* (n_replies) one per choice; owned */
    int n_replies;
};

/* ---- fields ---- */

/* -1: up to the context length; 0: only the prompt is computed. */
static enum osp_status read_n_predict(struct request_params *p, const char *field, const json_t *v)
{
    const int n = (int)json_number_value(v);

    (void)field;
    p->options.tokens_max = n > 0 ? n : 0;
    p->options.prompt_only = n == 0;
    return OSP_OK;
}

static enum osp_status read_n_probs(struct request_params *p, const char *field, const json_t *v)
{
    const int n = (int)json_number_value(v);

    (void)field;
    p->options.logprobs = n > 0;
    p->options.top_logprobs = n;
    return OSP_OK;
}

static enum osp_status read_return_tokens(struct request_params *p, const char *field,
                                          const json_t *v)
{
    (void)field;
    ((struct completion *)p->own)->return_tokens = json_is_true(v);
    return OSP_OK;
}

/* One [token id, bias] of the list; false in place of a bias bans the token. */
static enum osp_status add_bias(json_t *out, const char *field, const json_t *pair)
{
    json_t *token = json_array_get(pair, 0), *bias = json_array_get(pair, 1);
    char name[TOKEN_NAME_BYTES];

    if (json_array_size(pair) != 2 || !json_is_integer(token))
        return fail(OSP_EINVAL,
                    "%s: must be a list of pairs of a token id and a number, or an object; texts "
                    "are not supported: POST /tokenize gives their ids",
                    field);
    snprintf(name, sizeof name, "%lld", (long long)json_integer_value(token));
    bias = json_is_false(bias) ? json_integer(-OSP_LOGIT_BIAS_MAX) : json_incref(bias);
    if (json_object_set_new(out, name, bias) != 0)
        return fail(OSP_ENOMEM, "%s: out of memory", field);
    return OSP_OK;
}

static enum osp_status read_biases(struct request_params *p, const char *field, const json_t *v)
{
    json_t *object;
    enum osp_status st = OSP_OK;

    if (!json_is_array(v))
        return json_read_biases(p, field, v);
    object = json_object();
    for (size_t i = 0; i < json_array_size(v); i++)
        TRY(add_bias(object, field, json_array_get(v, i)));
    st = json_read_biases(p, field, object);
out:
    json_decref(object);
    return st;
}

#define PROMPT_ITEM                                                                                \
    "{'anyOf':[{'type':'string','minLength':1},{'type':'array','minItems':1},{'type':'object'}]}"

static const struct field FIELDS[] = {
    FIELD_REQUIRED_ROW("prompt", 0, LLAMA_PROMPTS_MAX, field_ignored,
                       "{'anyOf':[{'type':'string','minLength':1},{'type':'array','minItems':1,"
                       "'items':{'anyOf':[{'type':'integer'}," PROMPT_ITEM
                       "]}},{'type':'object'}]}",
                       "The prompt: a string, a list of token ids and strings, an object with "
                       "prompt_string, or a list of such prompts."),
    FIELD_READ_ROW("n_predict", 0, FIELD_INT, -1, INT_MAX, read_n_predict, NULL,
                   "The most tokens that may be generated; default, and -1: up to the context "
                   "length; 0: the prompt is computed, and cached, and nothing is generated."),
    FIELD_READ_ROW("max_tokens", 0, FIELD_INT, -1, INT_MAX, read_n_predict, NULL,
                   "Another name for n_predict."),
    FIELD_READ_ROW("n_probs", 0, FIELD_INT, 0, OSP_TOP_LOGPROBS_MAX, read_n_probs, NULL,
                   "Return the log-probabilities of the tokens, and of this many of the most "
                   "likely tokens at each position."),
    FIELD_READ_ROW("return_tokens", 0, FIELD_BOOL, 0, 0, read_return_tokens, NULL,
                   "Return the ids of the generated tokens; a stream always has them."),
    FIELD_INT_ROW("n_cmpl", 0, n_choices, 1, CHOICES_MAX,
                  "The number of completions of each prompt."),
    FIELD_OTHER_ROW("logit_bias", 0, read_biases, "{'anyOf':[{'type':'array'},{'type':'object'}]}",
                    "Pairs of a token id and a value, or false, that is added to its logit."),
};
const struct field_set llama_fields = {
    .endpoint = FOR_LLAMA, .own = FIELDS, .n_own = sizeof FIELDS / sizeof FIELDS[0]};

/* ---- on the worker thread ---- */

static const struct osp_tokenizer *tokenizer_of(const struct job *job)
{
    return osp_model_tokenizer(job->server->loading.result.model);
}

static enum osp_status submit(struct job *job)
{
    struct completion *c = job->state;
    const int n = job->params.n_choices > 0 ? job->params.n_choices : 1;
    enum osp_status st;

    TRY(job_refuse(job,
                   llama_prompts_read(&c->prompts, tokenizer_of(job), job->server->info.vocab_size,
                                      json_object_get(job->json, "prompt"))));
    if (c->prompts.n * n > CHOICES_IN_ALL_MAX)
        TRY(fail(OSP_EINVAL, "n_cmpl: %d completions of each of %d prompts exceed the limit of %d",
                 n, c->prompts.n, CHOICES_IN_ALL_MAX));
    job->params.options.raw = true;
    job->params.options.no_control_text = true;
    for (int i = 0; i < c->prompts.n; i++)
        TRY(job_add_tokens(job, c->prompts.list[i].data, c->prompts.list[i].n));
out:
    return st;
}

/* ---- on the loop ---- */

static void begin(struct job *job, struct buf *out)
{
    struct completion *c = job->state;

    (void)out; /* a stream begins with the first event of the answer */
    c->n_replies = job->n_choices;
    c->replies = mem_new((size_t)c->n_replies * sizeof *c->replies);
    for (int i = 0; i < c->n_replies; i++) {
        const struct ids *prompt = &c->prompts.list[i / (job->n_choices / c->prompts.n)];
        struct llama_reply *r = &c->replies[i];

        llama_reply_init(r, i, job_model(job));
        r->options = &job->params.options;
        r->streams = job->params.stream;
        r->return_tokens = c->return_tokens || job->params.stream;
        r->extras = job->params.extras;
        r->tokenizer = tokenizer_of(job);
        r->budget = job->params.stream ? NULL : &job->budget;
        r->prompt = prompt->data;
        r->n_prompt = prompt->n;
    }
}

static struct osp_usage usage_of(const struct job_choice *choice)
{
    struct osp_usage usage = choice->usage;

    if (!choice->is_finished)
        osp_request_usage(choice->request, &usage);
    return usage;
}

static bool on_event(struct job *job, int i, const struct osp_event *event, struct buf *out)
{
    struct llama_reply *r = &((struct completion *)job->state)->replies[i];
    const struct osp_usage usage = usage_of(&job->choices[i]);

    if (!llama_reply_append(r, event))
        return false;
    if (job->params.stream)
        llama_reply_event(r, event, &usage, out);
    return true;
}

static void end(struct job *job, struct buf *out)
{
    const struct completion *c = job->state;
    const bool is_list = c->n_replies > 1;

    if (job->params.stream)
        return; /* the last event of a choice has "stop": true, and nothing follows it */
    buf_puts(out, is_list ? "[" : "");
    for (int i = 0; i < c->n_replies; i++) {
        buf_puts(out, i > 0 ? "," : "");
        llama_reply_whole(&c->replies[i], &job->choices[i].usage, out);
    }
    buf_puts(out, is_list ? "]\n" : "\n");
}

static void put_error(struct job *job, struct buf *out, const char *error_json)
{
    (void)job;
    buf_printf(out, "data: %s\n\n", error_json);
}

static void release(struct job *job)
{
    struct completion *c = job->state;

    for (int i = 0; i < c->n_replies; i++)
        llama_reply_release(&c->replies[i]);
    free(c->replies);
    llama_prompts_release(&c->prompts);
}

/* ---- routes ---- */

static const struct job_kind NATIVE = {
    .fields = &llama_fields,
    .state_bytes = sizeof(struct completion),
    .takes_any_type = true,
    .submit = submit,
    .begin = begin,
    .on_event = on_event,
    .end = end,
    .put_error = put_error,
    .release = release,
};

/* At /completions, which is native in llama-server, clients of the OpenAI API whose base URL lacks
 * /v1 arrive too. They always send `model`, and not n_predict. */
static const struct job_kind *choose(const json_t *body)
{
    return json_object_get(body, "model") != NULL && json_object_get(body, "n_predict") == NULL
               ? &completions_kind
               : &NATIVE;
}

static void release_nothing(struct job *job)
{
    (void)job;
}

static const struct job_kind EITHER = {
    .takes_any_type = true, .choose = choose, .release = release_nothing};

void route_llama_completion(struct server *s, struct http_exchange *x, const char *name)
{
    (void)name;
    job_start(s, x, &NATIVE);
}

void route_llama_completions(struct server *s, struct http_exchange *x, const char *name)
{
    (void)name;
    job_start(s, x, &EITHER);
}
