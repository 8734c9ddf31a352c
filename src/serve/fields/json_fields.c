#include "serve/fields/json_fields.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "serve/fields/json_kwargs.h"
#include "serve/fields/field_schemas.h"
#include "serve/fields/json_sampling.h"
#include "serve/fields/json_prediction.h"
#include "serve/fields/json_response_format.h"
#include "serve/fields/json_tools.h"
#include "serve/fields/json_types.h"
#include "serve/fields/llama_fields.h"

enum {
    STOP_STRING_BYTES_MAX = 1024,
    METADATA_NAME_BYTES_MAX = 64 * 4,   /* 64 characters of up to 4 bytes */
    METADATA_VALUE_BYTES_MAX = 512 * 4, /* 512 characters */
    /* a longer name cannot be the name of a model, so it may be truncated */
    MODEL_NAME_BYTES_MAX = 4096
};

static enum osp_status unsupported(const char *field, const char *allowed)
{
    return fail(OSP_EUNSUPPORTED, "%s: not supported: %s", field, allowed);
}

/* ---- readers ---- */

static enum osp_status read_model(struct request_params *p, const char *field, const json_t *v)
{
    const char *name;

    if (!json_is_string(v))
        return json_mismatch(field, v, "a string");
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
        return json_mismatch(field, v, "an object");
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

/* 0 selects the most likely token in the OpenAI API, but turns top_p off in osprey.h. */
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
    /* check_and_store() has checked that it is an integer in range */
    const double k = json_number_value(v);

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
        return fail(OSP_EINVAL, "%s: each stop string must have 1 to %d bytes and no NUL character",
                    field, STOP_STRING_BYTES_MAX);
    p->stops[p->options.n_stop] = mem_strdup(json_string_value(v));
    p->options.stop[p->options.n_stop] = p->stops[p->options.n_stop];
    p->options.n_stop++;
    return OSP_OK;
}

enum osp_status field_stop(struct request_params *p, const char *field, const json_t *v)
{
    enum osp_status st = OSP_OK;

    if (!json_is_array(v))
        return add_stop(p, field, v);
    if (json_array_size(v) > OSP_STOP_STRINGS_MAX)
        return fail(OSP_EINVAL, "%s: has %zu strings, at most %d are allowed", field,
                    json_array_size(v), OSP_STOP_STRINGS_MAX);
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

/* A salt that is too long is refused, not truncated: two salts with a common beginning would
 * share a cache. */
static enum osp_status read_cache_salt(struct request_params *p, const char *field, const json_t *v)
{
    const size_t n_bytes = json_string_length(v);

    if (!json_is_string(v) || n_bytes == 0 || n_bytes > OSP_CLIENT_BYTES_MAX ||
        strlen(json_string_value(v)) != n_bytes)
        return fail(OSP_EINVAL, "%s: must be a string of 1 to %d bytes without a NUL character",
                    field, OSP_CLIENT_BYTES_MAX);
    p->salt = mem_strdup(json_string_value(v));
    p->options.cache_salt = p->salt;
    return OSP_OK;
}

/* The share of a client is divided equally between its users. A longer name is truncated: users
 * whose names agree up to OSP_CLIENT_BYTES_MAX bytes count as one. */
enum osp_status field_user(struct request_params *p, const char *field, const json_t *v)
{
    if (!json_is_string(v))
        return json_mismatch(field, v, "a string");
    if (p->user == NULL && json_string_length(v) > 0) {
        const char *user = json_string_value(v);

        p->user = mem_strndup(user, strnlen(user, OSP_CLIENT_BYTES_MAX));
        p->options.user = p->user;
    }
    return OSP_OK;
}

/* -1: no limit, as in llama-server. */
static enum osp_status read_max_tokens(struct request_params *p, const char *field, const json_t *v)
{
    json_int_t n = 0;
    enum osp_status st = json_int(&n, field, v, -1, INT_MAX);

    if (st == OSP_OK && n == 0)
        st = fail(OSP_EINVAL, "%s: must be 1 or more, or -1 (no limit), is 0", field);
    p->options.tokens_max = n > 0 ? (int)n : 0;
    p->options.prompt_only = false;
    return st;
}

/* llama-server's name; 0: only the prompt is computed, for a request that continues it. */
static enum osp_status read_n_predict(struct request_params *p, const char *field, const json_t *v)
{
    const int n = (int)json_number_value(v);

    (void)field;
    p->options.tokens_max = n > 0 ? n : 0;
    p->options.prompt_only = n == 0;
    return OSP_OK;
}

static enum osp_status read_include_reasoning(struct request_params *p, const char *field,
                                              const json_t *v)
{
    (void)field;
    p->hides_reasoning = !json_is_true(v);
    return OSP_OK;
}

static enum osp_status refuse_truncation(struct request_params *p, const char *field,
                                         const json_t *v)
{
    (void)p, (void)v;
    return unsupported(field, "a conversation is never truncated, as its frame would be cut; leave "
                              "out its oldest messages, or use /v1/completions");
}

static enum osp_status refuse_continuation(struct request_params *p, const char *field,
                                           const json_t *v)
{
    (void)p;
    return json_is_true(v)
               ? unsupported(field, "must be false: the answer is always a new message; use "
                                    "/v1/completions with the text so far to continue it")
               : OSP_OK;
}

/* Nothing that a request asks for depends on stored completions: no endpoint reads them. */
static enum osp_status read_store(struct request_params *p, const char *field, const json_t *v)
{
    if (json_is_true(v))
        fields_warn(p, field, "nothing is stored; only /v1/responses stores its answers");
    return OSP_OK;
}

static enum osp_status only_empty(struct request_params *p, const char *field, const json_t *v)
{
    (void)p;
    if ((json_is_object(v) && json_object_size(v) == 0) ||
        (json_is_array(v) && json_array_size(v) == 0))
        return OSP_OK;
    return unsupported(field, "must be empty or absent");
}

static enum osp_status only_text(struct request_params *p, const char *field, const json_t *v)
{
    const char *first = json_string_value(json_array_get(v, 0));

    (void)p;
    if (json_array_size(v) == 1 && first && strcmp(first, "text") == 0)
        return OSP_OK;
    return unsupported(field, "must be [\"text\"]");
}

static enum osp_status check_metadata_member(const char *field, const char *name, const json_t *v)
{
    if (strlen(name) > METADATA_NAME_BYTES_MAX)
        return fail(OSP_EINVAL, "%s: the name \"%.64s...\" has %zu bytes, at most %d are allowed",
                    field, name, strlen(name), METADATA_NAME_BYTES_MAX);
    if (!json_is_string(v) || json_string_length(v) > METADATA_VALUE_BYTES_MAX)
        return fail(OSP_EINVAL, "%s.%.64s: must be a string of at most %d bytes", field, name,
                    METADATA_VALUE_BYTES_MAX);
    return OSP_OK;
}

enum osp_status field_metadata(struct request_params *p, const char *field, const json_t *v)
{
    const char *name;
    json_t *value;
    enum osp_status st = OSP_OK;

    (void)p;
    if (!json_is_object(v) || json_object_size(v) > FIELD_METADATA_MAX)
        return fail(OSP_EINVAL, "%s: must be an object of at most %d members", field,
                    FIELD_METADATA_MAX);
    json_object_foreach((json_t *)v, name, value)
    {
        TRY(check_metadata_member(field, name, value));
    }
out:
    return st;
}

static enum osp_status check_string(struct request_params *p, const char *field, const json_t *v)
{
    (void)p;
    return json_is_string(v) ? OSP_OK : json_mismatch(field, v, "a string");
}

enum osp_status field_ignored(struct request_params *p, const char *field, const json_t *v)
{
    (void)p, (void)field, (void)v;
    return OSP_OK;
}

/* ---- the table ---- */

enum {
    FOR_LISTS = FOR_CHAT | FOR_COMPLETIONS,
    FOR_ALL = FOR_LISTS | FOR_RESPONSES | FOR_MESSAGES,
    FOR_SAMPLING = FOR_ALL | FOR_OLLAMA_OPTIONS | FOR_LLAMA,
    FOR_ANY = FOR_ALL | FOR_OLLAMA | FOR_LLAMA
};

#define BOOL   FIELD_BOOL_ROW
#define INT    FIELD_INT_ROW
#define FLOAT  FIELD_FLOAT_ROW
#define READ   FIELD_READ_ROW
#define OTHER  FIELD_OTHER_ROW
#define EFFORT "{'enum':['none','minimal','low','medium','high','xhigh','max']}"
#define SCHEMA "{'anyOf':[{'type':'object'},{'type':'string'}]}"
#define IDS    "{'type':'array','items':" FIELD_SCHEMA_TOKEN ",'maxItems':#}"

static const struct field FIELDS[] = {
    FIELD_REQUIRED_ROW("messages", FOR_CHAT, 0, field_ignored, FIELD_SCHEMA_MESSAGES,
                       "The messages of the conversation."),
    OTHER("tools", FOR_CHAT, field_ignored, FIELD_SCHEMA_TOOLS,
          "Functions and custom tools that the model may call."),
    OTHER("reasoning", FOR_CHAT, field_ignored,
          "{'type':'object','properties':{'effort':{'anyOf':[" EFFORT ",{'type':'null'}]}}}",
          "reasoning.effort is an alias of reasoning_effort."),
    OTHER("reasoning_effort", FOR_CHAT, field_ignored, EFFORT,
          "How much the model reasons before it answers; none and minimal mean low, xhigh and max "
          "mean high."),
    OTHER("chat_template_kwargs", FOR_CHAT, json_read_template_kwargs,
          "{'type':'object','properties':{'reasoning_effort':" EFFORT
          ",'enable_thinking':{'type':'boolean'},'current_date':{'type':'string'}}}",
          "reasoning_effort; current_date: YYYY-MM-DD, today or none; enable_thinking: false means "
          "reasoning_effort low. Other keys are ignored."),
    OTHER("think", FOR_CHAT, field_ignored, "{'anyOf':[{'type':'boolean'}," EFFORT "]}",
          "Ollama's name for reasoning_effort; false means low."),
    OTHER("model", FOR_ALL | FOR_LLAMA, read_model, "{'type':'string'}",
          "The name of the model; default: the model that this server serves."),
    BOOL("stream", FOR_ALL | FOR_OLLAMA | FOR_LLAMA, stream,
         "Send the answer as server-sent events."),
    OTHER("stream_options", FOR_LISTS, read_stream_options,
          "{'type':'object','properties':{'include_usage':{'type':'boolean'},"
          "'continuous_usage_stats':{'type':'boolean'}}}",
          "include_usage: a last chunk has the usage; continuous_usage_stats: every chunk has the "
          "usage so far."),
    BOOL("timings_per_token", FOR_LISTS | FOR_LLAMA, extras.timings_now,
         "Every chunk of a stream has timings, not only the last one."),
    OTHER("max_tokens", FOR_CHAT, read_max_tokens,
          "{'anyOf':[{'enum':[-1]},{'type':'integer','minimum':1,'maximum':2147483647}]}",
          "The most tokens that may be generated, reasoning included; default, and -1 "
          "(llama-server): up to the context length."),
    INT("max_completion_tokens", FOR_CHAT, options.tokens_max, 1, INT_MAX,
        "The newer name of max_tokens."),
    READ("temperature", FOR_SAMPLING, FIELD_FLOAT, 0, 2, read_temperature, NULL,
         "The sampling temperature; 0 always selects the most likely token."),
    READ("top_p", FOR_SAMPLING, FIELD_FLOAT, 0, 1, read_top_p, NULL,
         "Sample only from the most likely tokens whose probabilities add up to this value."),
    READ("top_k", FOR_SAMPLING, FIELD_INT, -1, INT_MAX, read_top_k, NULL,
         "Sample only from this many of the most likely tokens; -1 or 0: from all tokens."),
    FLOAT("min_p", FOR_SAMPLING, options.sampling.min_p, 0, 1,
          "Sample only from tokens with at least this fraction of the probability of the most "
          "likely token."),
    OTHER("seed", FOR_ALL, read_seed, "{'type':'integer'}",
          "A request with the same seed and the same fields gets the same answer."),
    BOOL("include_stop_str_in_output", FOR_ALL | FOR_LLAMA, options.stop_in_text,
         "The answer includes the stop string that ended it."),
    BOOL("ignore_eos", FOR_ALL | FOR_LLAMA, options.ignore_stop_tokens,
         "The end-of-answer token does not end the answer, which goes on to max_tokens; for "
         "benchmarks."),
    INT("min_tokens", FOR_ALL | FOR_LLAMA, options.tokens_min, 0, INT_MAX,
        "The fewest tokens to generate before the answer can end."),
    READ("cache_prompt", FOR_ALL | FOR_LLAMA, FIELD_BOOL, 0, 0, read_cache_prompt, NULL,
         "false: the request neither reads nor fills the prefix cache."),
    READ("cache_salt", FOR_ANY, FIELD_OTHER, 1, OSP_CLIENT_BYTES_MAX, read_cache_salt,
         "{'type':'string','minLength':1,'maxLength':#}",
         "Requests share cached prefixes only if they have the same API key and the same salt."),
    INT("priority", FOR_ANY, options.priority, INT_MIN, INT_MAX,
        "Requests with a lower value run first, among the requests of one API key, or of one "
        "network address if the server has no keys."),
    READ("stop", FOR_LISTS | FOR_OLLAMA_OPTIONS | FOR_LLAMA, FIELD_OTHER, 0, OSP_STOP_STRINGS_MAX,
         field_stop,
         "{'anyOf':[{'type':'string','minLength':1},{'type':'array','items':{'type':'string',"
         "'minLength':1},'maxItems':#}]}",
         "Strings that end the answer; the answer does not include them."),
    INT("n", FOR_LISTS, n_choices, 1, CHOICES_MAX,
        "The number of choices to generate for each prompt."),
    OTHER("tool_choice", FOR_CHAT | FOR_RESPONSES | FOR_OLLAMA, json_read_tool_choice,
          "{'anyOf':[{'enum':['none','auto','required']},{'type':'object',"
          "'properties':{'type':{'enum':['function','custom','allowed_tools']}},'required':['type']"
          "}]}",
          "Whether the model may or must call tools, and which tools."),
    OTHER("response_format", FOR_LISTS | FOR_LLAMA, json_read_response_format,
          "{'type':'object','properties':{'type':{'enum':['text','json_object','json_schema']},"
          "'json_schema':{'type':'object'}},'required':['type']}",
          "The format that the answer is constrained to: text, json_object or json_schema."),
    OTHER("structured_outputs", FOR_ALL, json_read_structured_outputs, "{'type':'object'}",
          "vLLM's field for constrained decoding: one of json (a schema), json_object, regex and "
          "choice."),
    OTHER("regex", FOR_ALL | FOR_LLAMA, json_read_regex, "{'type':'string'}",
          "A regular expression that the whole answer must match."),
    OTHER("choice", FOR_ALL | FOR_LLAMA, json_read_choice,
          "{'type':'array','items':{'type':'string'}}",
          "A list of strings; the answer is one of them."),
    OTHER("guided_json", FOR_ALL, json_read_json_schema, SCHEMA,
          "vLLM's older name for structured_outputs.json."),
    OTHER("guided_regex", FOR_ALL, json_read_regex, "{'type':'string'}",
          "vLLM's older name for regex."),
    OTHER("guided_choice", FOR_ALL, json_read_choice, "{'type':'array','items':{'type':'string'}}",
          "vLLM's older name for choice."),
    OTHER("json_schema", FOR_ALL | FOR_LLAMA, json_read_json_schema, SCHEMA,
          "llama-server's field: a JSON schema that the answer is constrained to."),
    OTHER("guided_grammar", FOR_ALL, json_refuse_grammar, "{'type':'string','maxLength':0}",
          "Must be empty: grammars in EBNF are not supported."),
    OTHER("grammar", FOR_ALL | FOR_LLAMA, json_refuse_grammar, "{'type':'string','maxLength':0}",
          "Must be empty: grammars in GBNF are not supported."),
    READ("n_predict", FOR_CHAT, FIELD_INT, -1, INT_MAX, read_n_predict, NULL,
         "llama-server's name for max_tokens; -1: up to the context length; 0: the prompt is "
         "computed, and cached, and nothing is generated."),
    READ("include_reasoning", FOR_CHAT, FIELD_BOOL, 0, 0, read_include_reasoning, NULL,
         "false: the answer does not include the reasoning."),
    OTHER("truncate_prompt_tokens", FOR_CHAT | FOR_RESPONSES, refuse_truncation, "{'type':'null'}",
          "Not supported: conversations are never truncated."),
    READ("continue_final_message", FOR_CHAT, FIELD_BOOL, 0, 0, refuse_continuation, NULL,
         "Must be false: the answer is always a new message."),
    READ("bad_words", FOR_ALL, FIELD_OTHER, 0, BAD_WORDS_MAX, json_read_bad_words,
         "{'type':'array','items':{'type':'string','minLength':1},'maxItems':#}",
         "Words that are not generated; each must be a single token, with and without a space "
         "before it."),
    OTHER("prediction", FOR_CHAT, json_read_prediction,
          "{'type':'object','properties':{'type':{'const':'content'},'content':{'anyOf':["
          "{'type':'string'},{'type':'array','items':{'type':'object'}}]}},"
          "'required':['type','content']}",
          "Predicted output: text that the answer probably repeats, such as a file to be edited. "
          "It can make the answer faster, and never changes it."),
    BOOL("logprobs", FOR_CHAT | FOR_OLLAMA, options.logprobs,
         "Return the logprobs of the tokens of the content."),
    INT("top_logprobs", FOR_CHAT | FOR_OLLAMA, options.top_logprobs, 0, OSP_TOP_LOGPROBS_MAX,
        "At each position, also return the logprobs of this many of the most likely tokens; "
        "requires logprobs."),
    FLOAT("frequency_penalty", FOR_SAMPLING, options.sampling.frequency_penalty, -2, 2,
          "Subtracted from the logit of a token for each time that the answer contains it."),
    FLOAT("presence_penalty", FOR_SAMPLING, options.sampling.presence_penalty, -2, 2,
          "Subtracted once from the logit of each token that the answer contains."),
    READ("logit_bias", FOR_ALL, FIELD_OTHER, 0, OSP_LOGIT_BIASES_MAX, json_read_biases,
         "{'type':'object','additionalProperties':{'type':'number','minimum':-100,'maximum':100},"
         "'maxProperties':#}",
         "An object of token ids and values; each value is added to the logit of its token."),
    FLOAT("repetition_penalty", FOR_ALL | FOR_LLAMA, options.sampling.repetition_penalty, 0.01, 100,
          "For each token of the prompt and the answer, a positive logit is divided by this value "
          "and a negative logit is multiplied by it."),
    OTHER("allowed_token_ids", FOR_ALL, json_read_allowed,
          "{'type':'array','items':" FIELD_SCHEMA_TOKEN ",'minItems':1}",
          "Only these token ids can be sampled."),
    READ("stop_token_ids", FOR_ALL, FIELD_OTHER, 0, OSP_STOP_TOKENS_MAX, json_read_stop_tokens, IDS,
         "Token ids that end the answer; the answer does not include their text."),
    READ("prompt_logprobs", FOR_LISTS, FIELD_INT, 0, OSP_TOP_LOGPROBS_MAX, read_prompt_logprobs,
         NULL,
         "Return the logprobs of the prompt tokens and of this many of the most likely tokens at "
         "each position."),
    BOOL("return_token_ids", FOR_LISTS, return_token_ids,
         "Return the token ids of the answer as token_ids and of the prompt as prompt_token_ids."),
    OTHER("functions", FOR_CHAT, only_empty, "{'type':'array','maxItems':0}",
          "The predecessor of tools; must be empty."),
    OTHER("modalities", FOR_CHAT, only_text, "{'type':'array','items':{'const':'text'}}",
          "Must be [\"text\"]: the model generates text only."),
    READ("parallel_tool_calls", FOR_CHAT | FOR_RESPONSES | FOR_OLLAMA, FIELD_BOOL, 0, 0,
         json_read_parallel_calls, NULL, "false: the answer ends after its first tool call."),
    READ("store", FOR_CHAT, FIELD_BOOL, 0, 0, read_store, NULL,
         "true has no effect but a warning header: chat completions are not stored."),
    READ("metadata", FOR_CHAT, FIELD_OTHER, 0, FIELD_METADATA_MAX, field_metadata,
         "{'type':'object','maxProperties':#,'propertyNames':{'maxLength':64},"
         "'additionalProperties':{'type':'string','maxLength':512}}",
         "Checked, and otherwise ignored."),
    OTHER("user", FOR_ANY, field_user, "{'type':'string'}",
          "The end user. The share of an API key, or of a network address if the server has no "
          "keys, is divided equally between its users."),
    OTHER("safety_identifier", FOR_ALL, field_user, "{'type':'string'}", "The newer name of user."),
    OTHER("prompt_cache_key", FOR_ALL, check_string, "{'type':'string'}",
          "Ignored: the prefix cache finds common prefixes without a key."),
    OTHER("service_tier", FOR_ALL, check_string, "{'type':'string'}",
          "Ignored: all requests are served alike."),
};
enum { N_FIELDS = sizeof FIELDS / sizeof FIELDS[0] };

const struct field *fields_at(const struct field_set *set, size_t i)
{
    const struct field *f;

    if (i < set->n_own)
        return &set->own[i];
    i -= set->n_own;
    for (int k = 0; k < N_FIELDS; k++)
        if ((FIELDS[k].endpoints & set->endpoint) && i-- == 0)
            return &FIELDS[k];
    for (size_t k = 0; (f = llama_field_at(k)) != NULL; k++)
        if ((f->endpoints & set->endpoint) && i-- == 0)
            return f;
    return NULL;
}
