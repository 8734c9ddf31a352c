#include "serve/fields/json_fields.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "serve/fields/json_kwargs.h"
#include "serve/fields/field_schemas.h"
#include "serve/fields/json_sampling.h"
#include "serve/fields/json_response_format.h"
#include "serve/fields/json_tools.h"
#include "serve/fields/json_types.h"

enum {
    STOP_STRING_BYTES_MAX = 1024,
    METADATA_MEMBERS_MAX = 16,
    METADATA_NAME_BYTES_MAX = 64 * 4, /* 64 characters */
    METADATA_VALUE_BYTES_MAX = 512 * 4,
    MODEL_NAME_BYTES_MAX = 4096 /* what is longer is no name of a model, cut or not */
};

static enum osp_status unsupported(const char *field, const char *allowed)
{
    return fail(OSP_EUNSUPPORTED, "%s: not supported yet; %s", field, allowed);
}

/* ---- readers ---- */

static enum osp_status read_model(struct request_params *p, const char *field, const json_t *v)
{
    const char *name;

    if (!json_is_string(v))
        return fail(OSP_EINVAL, "%s: must be a string", field);
    name = json_string_value(v);
    p->model = mem_strndup(name, strnlen(name, MODEL_NAME_BYTES_MAX));
    return OSP_OK;
}

static enum osp_status read_option(bool *out, const char *name, const json_t *v)
{
    return v == NULL || json_is_null(v) ? OSP_OK : json_bool(out, name, v);
}

static enum osp_status read_stream_options(struct request_params *p, const char *field,
                                           const json_t *v)
{
    enum osp_status st;

    if (!json_is_object(v))
        return fail(OSP_EINVAL, "%s: must be an object", field);
    TRY(read_option(&p->extras.include_usage, "stream_options.include_usage",
                    json_object_get(v, "include_usage")));
    TRY(read_option(&p->extras.usage_now, "stream_options.continuous_usage_stats",
                    json_object_get(v, "continuous_usage_stats")));
out:
    return st;
}

static enum osp_status read_temperature(struct request_params *p, const char *field,
                                        const json_t *v)
{
    (void)field;
    p->options.sampling.temperature = (float)json_number_value(v);
    p->options.sampling.has_temperature = true;
    return OSP_OK;
}

/* 0 means "the most likely token only" to OpenAI and "off" to osprey.h. */
static enum osp_status read_top_p(struct request_params *p, const char *field, const json_t *v)
{
    static const double SMALLEST = 1e-6;
    const double number = json_number_value(v);

    (void)field;
    p->options.sampling.top_p = (float)(number < SMALLEST ? SMALLEST : number);
    return OSP_OK;
}

static enum osp_status read_top_k(struct request_params *p, const char *field, const json_t *v)
{
    const double k = json_number_value(v); /* whole, and in its range */

    (void)field;
    p->options.sampling.top_k = k > 0 ? (int)k : 0;
    return OSP_OK;
}

static enum osp_status read_seed(struct request_params *p, const char *field, const json_t *v)
{
    json_int_t seed = 0;
    enum osp_status st = json_int(&seed, field, v, INT64_MIN, INT64_MAX);

    p->options.sampling.seed = (uint64_t)seed;
    p->options.sampling.has_seed = true;
    return st;
}

static enum osp_status add_stop(struct request_params *p, const char *field, const json_t *v)
{
    size_t n_bytes = json_string_length(v);

    if (!json_is_string(v) || n_bytes == 0 || n_bytes > STOP_STRING_BYTES_MAX ||
        strlen(json_string_value(v)) != n_bytes)
        return fail(OSP_EINVAL, "%s: each must be a string of 1 to %d bytes without NUL", field,
                    STOP_STRING_BYTES_MAX);
    p->stops[p->options.n_stop] = mem_strdup(json_string_value(v));
    p->options.stop[p->options.n_stop] = p->stops[p->options.n_stop];
    p->options.n_stop++;
    return OSP_OK;
}

static enum osp_status read_stop(struct request_params *p, const char *field, const json_t *v)
{
    enum osp_status st = OSP_OK;

    if (!json_is_array(v))
        return add_stop(p, field, v);
    if (json_array_size(v) > OSP_STOP_STRINGS_MAX)
        return fail(OSP_EINVAL, "%s: %zu strings, the limit is %d", field, json_array_size(v),
                    OSP_STOP_STRINGS_MAX);
    for (size_t i = 0; i < json_array_size(v); i++)
        TRY(add_stop(p, field, json_array_get(v, i)));
out:
    return st;
}

static enum osp_status read_prompt_logprobs(struct request_params *p, const char *field,
                                            const json_t *v)
{
    (void)field;
    p->wants_prompt_logprobs = p->options.prompt_logprobs = true;
    p->n_prompt_logprobs = p->options.top_prompt_logprobs = (int)json_number_value(v);
    return OSP_OK;
}

static enum osp_status read_cache_prompt(struct request_params *p, const char *field,
                                         const json_t *v)
{
    (void)field;
    p->options.no_prefix_cache = !json_is_true(v);
    return OSP_OK;
}

/* No salt is cut: two that began alike would share what they must not. */
static enum osp_status read_cache_salt(struct request_params *p, const char *field, const json_t *v)
{
    const size_t n_bytes = json_string_length(v);

    if (!json_is_string(v) || n_bytes == 0 || n_bytes > OSP_CLIENT_BYTES_MAX ||
        strlen(json_string_value(v)) != n_bytes)
        return fail(OSP_EINVAL, "%s: must be a string of 1 to %d bytes without NUL", field,
                    OSP_CLIENT_BYTES_MAX);
    p->salt = mem_strdup(json_string_value(v));
    p->options.cache_salt = p->salt;
    return OSP_OK;
}

/* Whom a client's share of the engine is divided between; users whose names begin alike that far
 * are one. */
static enum osp_status read_user(struct request_params *p, const char *field, const json_t *v)
{
    if (!json_is_string(v))
        return fail(OSP_EINVAL, "%s: must be a string", field);
    if (p->user == NULL && json_string_length(v) > 0) {
        const char *user = json_string_value(v);

        p->user = mem_strndup(user, strnlen(user, OSP_CLIENT_BYTES_MAX));
        p->options.user = p->user;
    }
    return OSP_OK;
}

static enum osp_status only_false(struct request_params *p, const char *field, const json_t *v)
{
    (void)p;
    return json_is_true(v) ? unsupported(field, "only false") : OSP_OK;
}

static enum osp_status only_empty(struct request_params *p, const char *field, const json_t *v)
{
    (void)p;
    if ((json_is_object(v) && json_object_size(v) == 0) ||
        (json_is_array(v) && json_array_size(v) == 0))
        return OSP_OK;
    return unsupported(field, "leave it out");
}

static enum osp_status only_text(struct request_params *p, const char *field, const json_t *v)
{
    const char *first = json_string_value(json_array_get(v, 0));

    (void)p;
    if (json_array_size(v) == 1 && first && strcmp(first, "text") == 0)
        return OSP_OK;
    return unsupported(field, "only [\"text\"]");
}

/* OpenAI's limits. */
static enum osp_status check_metadata(struct request_params *p, const char *field, const json_t *v)
{
    const char *name;
    json_t *value;

    (void)p;
    if (!json_is_object(v) || json_object_size(v) > METADATA_MEMBERS_MAX)
        return fail(OSP_EINVAL, "%s: must be an object of at most %d strings", field,
                    METADATA_MEMBERS_MAX);
    json_object_foreach(
        (json_t *)v, name,
        value) if (strlen(name) > METADATA_NAME_BYTES_MAX || !json_is_string(value) ||
                   json_string_length(value) >
                       METADATA_VALUE_BYTES_MAX) return fail(OSP_EINVAL,
                                                             "%s: \"%.64s\" must be a string of at "
                                                             "most %d bytes, its name of %d",
                                                             field, name, METADATA_VALUE_BYTES_MAX,
                                                             METADATA_NAME_BYTES_MAX);
    return OSP_OK;
}

static enum osp_status check_string(struct request_params *p, const char *field, const json_t *v)
{
    (void)p;
    return json_is_string(v) ? OSP_OK : fail(OSP_EINVAL, "%s: must be a string", field);
}

enum osp_status field_ignored(struct request_params *p, const char *field, const json_t *v)
{
    (void)p, (void)field, (void)v;
    return OSP_OK;
}

/* ---- the list ---- */

enum { FOR_LISTS = FOR_CHAT | FOR_COMPLETIONS, FOR_ALL = FOR_LISTS | FOR_RESPONSES };

#define BOOL   FIELD_BOOL_ROW
#define INT    FIELD_INT_ROW
#define FLOAT  FIELD_FLOAT_ROW
#define READ   FIELD_READ_ROW
#define OTHER  FIELD_OTHER_ROW
#define EFFORT "{'enum':['none','minimal','low','medium','high','xhigh','max']}"
#define IDS    "{'type':'array','items':" FIELD_SCHEMA_TOKEN ",'maxItems':#}"

static const struct field FIELDS[] = {
    FIELD_REQUIRED_ROW("messages", FOR_CHAT, 0, field_ignored, FIELD_SCHEMA_MESSAGES,
                       "The conversation."),
    OTHER("tools", FOR_CHAT, field_ignored, FIELD_SCHEMA_TOOLS,
          "Functions, and custom tools, that the model may call."),
    OTHER("reasoning", FOR_CHAT, field_ignored,
          "{'type':'object','properties':{'effort':{'anyOf':[" EFFORT ",{'type':'null'}]}}}",
          "reasoning.effort is another spelling of reasoning_effort."),
    OTHER("reasoning_effort", FOR_CHAT, field_ignored, EFFORT,
          "How much the model thinks before it answers."),
    OTHER("chat_template_kwargs", FOR_CHAT, json_read_template_kwargs,
          "{'type':'object','properties':{'reasoning_effort':" EFFORT
          ",'enable_thinking':{'type':'boolean'},'current_date':{'type':'string'}}}",
          "reasoning_effort, current_date (a date, today or none); enable_thinking false is low."),
    OTHER("think", FOR_CHAT, field_ignored, "{'anyOf':[{'type':'boolean'}," EFFORT "]}",
          "Ollama's name of reasoning_effort; false is low."),
    OTHER("model", FOR_ALL, read_model, "{'type':'string'}",
          "The name of the model; left out, the one that is served."),
    BOOL("stream", FOR_ALL, stream, "The answer comes as server-sent events."),
    OTHER("stream_options", FOR_LISTS, read_stream_options,
          "{'type':'object','properties':{'include_usage':{'type':'boolean'},"
          "'continuous_usage_stats':{'type':'boolean'}}}",
          "include_usage: the usage in a last chunk; continuous_usage_stats: so far, in every "
          "chunk."),
    BOOL("timings_per_token", FOR_LISTS, extras.timings_now,
         "Every chunk of a stream has timings, not only the last."),
    INT("max_tokens", FOR_CHAT, options.tokens_max, 1, INT_MAX,
        "Of the answer, its reasoning included."),
    INT("max_completion_tokens", FOR_CHAT, options.tokens_max, 1, INT_MAX,
        "The newer name of max_tokens."),
    READ("temperature", FOR_ALL, FIELD_FLOAT, 0, 2, read_temperature, NULL,
         "0 takes the likeliest token."),
    READ("top_p", FOR_ALL, FIELD_FLOAT, 0, 1, read_top_p, NULL,
         "Draws from the likeliest tokens that have this probability together."),
    READ("top_k", FOR_ALL, FIELD_INT, -1, INT_MAX, read_top_k, NULL,
         "Draws from so many of the likeliest tokens; -1 or 0: from all."),
    FLOAT("min_p", FOR_ALL, options.sampling.min_p, 0, 1,
          "Draws from tokens that have this share of the likeliest one's probability."),
    OTHER("seed", FOR_ALL, read_seed, "{'type':'integer'}",
          "The same seed and request, the same answer."),
    BOOL("include_stop_str_in_output", FOR_ALL, options.stop_in_text,
         "The text that ended the answer stays in it."),
    BOOL("ignore_eos", FOR_ALL, options.ignore_stop_tokens,
         "The answer goes on to max_tokens, whatever the model wants: for measuring."),
    INT("min_tokens", FOR_ALL, options.tokens_min, 0, INT_MAX,
        "Before so many tokens nothing ends the answer."),
    READ("cache_prompt", FOR_ALL, FIELD_BOOL, 0, 0, read_cache_prompt, NULL,
         "false: the prompt takes nothing from the prefix cache and leaves nothing there."),
    READ("cache_salt", FOR_ALL, FIELD_OTHER, 1, OSP_CLIENT_BYTES_MAX, read_cache_salt,
         "{'type':'string','minLength':1,'maxLength':#}",
         "Only prompts of the same API key and with the same salt share a prefix."),
    INT("priority", FOR_ALL, options.priority, INT_MIN, INT_MAX,
        "Lower goes first, among the requests of one API key, or of one address without keys."),
    READ("stop", FOR_LISTS, FIELD_OTHER, 0, OSP_STOP_STRINGS_MAX, read_stop,
         "{'anyOf':[{'type':'string','minLength':1},{'type':'array','items':{'type':'string',"
         "'minLength':1},'maxItems':#}]}",
         "Texts before which the answer ends."),
    INT("n", FOR_LISTS, n_choices, 1, CHOICES_MAX, "So many answers to one prompt."),
    OTHER("tool_choice", FOR_CHAT | FOR_RESPONSES, json_read_tool_choice,
          "{'anyOf':[{'enum':['none','auto','required']},{'type':'object',"
          "'properties':{'type':{'enum':['function','custom','allowed_tools']}},'required':['type']"
          "}]}",
          "Whether functions are called, and which."),
    OTHER("response_format", FOR_LISTS, json_read_response_format,
          "{'type':'object','properties':{'type':{'enum':['text','json_object','json_schema']},"
          "'json_schema':{'type':'object'}},'required':['type']}",
          "The form that the answer is held to."),
    OTHER("structured_outputs", FOR_ALL, json_read_structured_outputs, "{'type':'object'}",
          "The same as vLLM has it: one of json, json_object, regex and choice."),
    OTHER("regex", FOR_ALL, json_read_regex, "{'type':'string'}",
          "An expression that the answer matches as a whole."),
    OTHER("choice", FOR_ALL, json_read_choice, "{'type':'array','items':{'type':'string'}}",
          "Texts of which the answer is one."),
    BOOL("logprobs", FOR_CHAT, options.logprobs, "Log-probabilities of the content's tokens."),
    INT("top_logprobs", FOR_CHAT, options.top_logprobs, 0, OSP_TOP_LOGPROBS_MAX,
        "And of so many of the likeliest at each place; needs logprobs."),
    FLOAT("frequency_penalty", FOR_ALL, options.sampling.frequency_penalty, -2, 2,
          "Off a token's logit for every time that the answer has it."),
    FLOAT("presence_penalty", FOR_ALL, options.sampling.presence_penalty, -2, 2,
          "Off a token's logit once the answer has it."),
    READ("logit_bias", FOR_ALL, FIELD_OTHER, 0, OSP_LOGIT_BIASES_MAX, json_read_biases,
         "{'type':'object','additionalProperties':{'type':'number','minimum':-100,'maximum':100},"
         "'maxProperties':#}",
         "Added to the logits of the tokens whose ids are the names."),
    FLOAT("repetition_penalty", FOR_ALL, options.sampling.repetition_penalty, 0.01, 100,
          "Divides the positive logits of tokens of prompt and answer, times the others."),
    OTHER("allowed_token_ids", FOR_ALL, json_read_allowed,
          "{'type':'array','items':" FIELD_SCHEMA_TOKEN ",'minItems':1}", "Only these are drawn."),
    READ("stop_token_ids", FOR_ALL, FIELD_OTHER, 0, OSP_STOP_TOKENS_MAX, json_read_stop_tokens, IDS,
         "Each ends the answer, and its own text is left out."),
    READ("prompt_logprobs", FOR_LISTS, FIELD_INT, 0, OSP_TOP_LOGPROBS_MAX, read_prompt_logprobs,
         NULL, "Log-probabilities of the prompt's tokens, and of so many of the likeliest."),
    BOOL("return_token_ids", FOR_LISTS, return_token_ids,
         "The ids of the answer as token_ids, of the prompt as prompt_token_ids."),
    OTHER("functions", FOR_CHAT, only_empty, "{'type':'array','maxItems':0}",
          "Of an old form of tools: must be empty."),
    OTHER("modalities", FOR_CHAT, only_text, "{'type':'array','items':{'const':'text'}}",
          "Only text is supported."),
    READ("parallel_tool_calls", FOR_CHAT | FOR_RESPONSES, FIELD_BOOL, 0, 0,
         json_read_parallel_calls, NULL, "false: the first call ends the answer."),
    READ("store", FOR_CHAT, FIELD_BOOL, 0, 0, only_false, NULL, "Nothing is kept: only false."),
    READ("metadata", FOR_CHAT, FIELD_OTHER, 0, METADATA_MEMBERS_MAX, check_metadata,
         "{'type':'object','maxProperties':#,'propertyNames':{'maxLength':64},"
         "'additionalProperties':{'type':'string','maxLength':512}}",
         "Without effect."),
    OTHER("user", FOR_ALL, read_user, "{'type':'string'}",
          "Users of one API key, or of one address without keys, divide its share of the engine: "
          "those that wait are served alike."),
    OTHER("safety_identifier", FOR_ALL, read_user, "{'type':'string'}", "The newer name of user."),
    OTHER("prompt_cache_key", FOR_ALL, check_string, "{'type':'string'}",
          "Without effect: prompts share what they have in common anyway."),
    OTHER("service_tier", FOR_ALL, check_string, "{'type':'string'}", "Without effect."),
};
enum { N_FIELDS = sizeof FIELDS / sizeof FIELDS[0] };

const struct field *fields_at(const struct field_set *set, size_t i)
{
    if (i < set->n_own)
        return &set->own[i];
    i -= set->n_own;
    for (int k = 0; k < N_FIELDS; k++)
        if ((FIELDS[k].endpoints & set->endpoint) && i-- == 0)
            return &FIELDS[k];
    return NULL;
}
