#include "serve/json_fields.h"
#include "serve/json_form.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "serve/json_draws.h"

enum {
    STOP_STRING_BYTES_MAX = 1024,
    MODEL_NAME_BYTES_MAX = 4096 /* what is longer is no name of a model, cut or not */
};

static enum osp_status not_yet(const char *field, const char *allowed)
{
    return fail(OSP_EUNSUPPORTED, "%s: not supported yet; %s", field, allowed);
}

/* ---- one reader a field ---- */

static enum osp_status read_model(struct chat_params *p, const char *field, const json_t *v)
{
    const char *name;

    if (!json_is_string(v))
        return fail(OSP_EINVAL, "%s: must be a string", field);
    name = json_string_value(v);
    p->model = mem_strndup(name, strnlen(name, MODEL_NAME_BYTES_MAX));
    return OSP_OK;
}

static enum osp_status read_stream(struct chat_params *p, const char *field, const json_t *v)
{
    return json_bool(&p->stream, field, v);
}

static enum osp_status read_stream_options(struct chat_params *p, const char *field,
                                           const json_t *v)
{
    const json_t *usage = json_object_get(v, "include_usage");

    if (!json_is_object(v))
        return fail(OSP_EINVAL, "%s: must be an object", field);
    if (!usage || json_is_null(usage))
        return OSP_OK;
    return json_bool(&p->include_usage, "stream_options.include_usage", usage);
}

static enum osp_status read_tokens_max(struct chat_params *p, const char *field, const json_t *v)
{
    json_int_t tokens = 0;
    enum osp_status st = json_int(&tokens, field, v, 1, INT_MAX);

    p->options.tokens_max = (int)tokens;
    return st;
}

static enum osp_status read_temperature(struct chat_params *p, const char *field, const json_t *v)
{
    double number = 0;
    enum osp_status st = json_number(&number, field, v, 0, 2);

    p->options.sampling.temperature = (float)number;
    p->options.sampling.has_temperature = true;
    return st;
}

/* 0 means "the most likely token only" to OpenAI and "off" to osprey.h. */
static enum osp_status read_top_p(struct chat_params *p, const char *field, const json_t *v)
{
    static const double SMALLEST = 1e-6;
    double number = 0;
    enum osp_status st = json_number(&number, field, v, 0, 1);

    p->options.sampling.top_p = (float)(number < SMALLEST ? SMALLEST : number);
    return st;
}

static enum osp_status read_top_k(struct chat_params *p, const char *field, const json_t *v)
{
    json_int_t k = 0;
    enum osp_status st = json_int(&k, field, v, -1, INT_MAX);

    p->options.sampling.top_k = k > 0 ? (int)k : 0;
    return st;
}

static enum osp_status read_min_p(struct chat_params *p, const char *field, const json_t *v)
{
    double number = 0;
    enum osp_status st = json_number(&number, field, v, 0, 1);

    p->options.sampling.min_p = (float)number;
    return st;
}

static enum osp_status read_seed(struct chat_params *p, const char *field, const json_t *v)
{
    json_int_t seed = 0;
    enum osp_status st = json_int(&seed, field, v, INT64_MIN, INT64_MAX);

    p->options.sampling.seed = (uint64_t)seed;
    p->options.sampling.has_seed = true;
    return st;
}

static enum osp_status read_ignore_eos(struct chat_params *p, const char *field, const json_t *v)
{
    return json_bool(&p->options.ignore_stop_tokens, field, v);
}

static enum osp_status add_stop(struct chat_params *p, const char *field, const json_t *v)
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

static enum osp_status read_stop(struct chat_params *p, const char *field, const json_t *v)
{
    if (!json_is_array(v))
        return add_stop(p, field, v);
    if (json_array_size(v) > OSP_STOP_STRINGS_MAX)
        return fail(OSP_EINVAL, "%s: %zu strings, the limit is %d", field, json_array_size(v),
                    OSP_STOP_STRINGS_MAX);
    for (size_t i = 0; i < json_array_size(v); i++) {
        enum osp_status st = add_stop(p, field, json_array_get(v, i));

        if (st != OSP_OK)
            return st;
    }
    return OSP_OK;
}

static enum osp_status read_cache_prompt(struct chat_params *p, const char *field, const json_t *v)
{
    bool wanted = true;
    enum osp_status st = json_bool(&wanted, field, v);

    p->options.no_prefix_cache = !wanted;
    return st;
}

/* No salt is cut: two that began alike would share what they must not. */
static enum osp_status read_cache_salt(struct chat_params *p, const char *field, const json_t *v)
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

/* Whom the engine's time is shared between; users whose names begin alike that far share theirs. */
static enum osp_status read_user(struct chat_params *p, const char *field, const json_t *v)
{
    if (!json_is_string(v))
        return fail(OSP_EINVAL, "%s: must be a string", field);
    if (p->client == NULL && json_string_length(v) > 0) {
        const char *user = json_string_value(v);

        p->client = mem_strndup(user, strnlen(user, OSP_CLIENT_BYTES_MAX));
        p->options.client = p->client;
    }
    return OSP_OK;
}

static enum osp_status read_priority(struct chat_params *p, const char *field, const json_t *v)
{
    json_int_t priority = 0;
    enum osp_status st = json_int(&priority, field, v, INT_MIN, INT_MAX);

    p->options.priority = (int)priority;
    return st;
}

static enum osp_status read_n(struct chat_params *p, const char *field, const json_t *v)
{
    json_int_t n = 0;
    enum osp_status st = json_int(&n, field, v, 1, CHOICES_MAX);

    p->n_choices = (int)n;
    return st;
}

static enum osp_status read_tool_choice(struct chat_params *p, const char *field, const json_t *v)
{
    const char *choice = json_string_value(v);

    p->no_tools = choice && strcmp(choice, "none") == 0;
    if (p->no_tools || (choice && strcmp(choice, "auto") == 0))
        return OSP_OK;
    return not_yet(field, "only \"auto\" and \"none\"");
}

static enum osp_status only_false(struct chat_params *p, const char *field, const json_t *v)
{
    bool wanted = false;
    enum osp_status st = json_bool(&wanted, field, v);

    (void)p;
    if (st != OSP_OK)
        return st;
    return wanted ? not_yet(field, "only false") : OSP_OK;
}

static enum osp_status only_empty(struct chat_params *p, const char *field, const json_t *v)
{
    (void)p;
    if ((json_is_object(v) && json_object_size(v) == 0) ||
        (json_is_array(v) && json_array_size(v) == 0))
        return OSP_OK;
    return not_yet(field, "leave it out");
}

static enum osp_status only_text(struct chat_params *p, const char *field, const json_t *v)
{
    const char *first = json_string_value(json_array_get(v, 0));

    (void)p;
    if (json_array_size(v) == 1 && first && strcmp(first, "text") == 0)
        return OSP_OK;
    return not_yet(field, "only [\"text\"]");
}

/* Read elsewhere, or with no effect on the answer. */
static enum osp_status no_matter(struct chat_params *p, const char *field, const json_t *v)
{
    (void)p, (void)field, (void)v;
    return OSP_OK;
}

/* Every field that is understood. */
static const struct {
    const char *name;
    enum osp_status (*read)(struct chat_params *p, const char *field, const json_t *v);
} FIELDS[] = {
    {"messages", no_matter},
    {"tools", no_matter},
    {"reasoning", no_matter},
    {"reasoning_effort", no_matter},
    {"model", read_model},
    {"stream", read_stream},
    {"stream_options", read_stream_options},
    {"max_tokens", read_tokens_max},
    {"max_completion_tokens", read_tokens_max},
    {"temperature", read_temperature},
    {"top_p", read_top_p},
    {"top_k", read_top_k},
    {"min_p", read_min_p},
    {"seed", read_seed},
    {"ignore_eos", read_ignore_eos},
    {"min_tokens", json_read_tokens_min},
    {"cache_prompt", read_cache_prompt},
    {"cache_salt", read_cache_salt},
    {"priority", read_priority},
    {"stop", read_stop},
    {"n", read_n},
    {"tool_choice", read_tool_choice},
    {"response_format", json_read_response_format},
    {"structured_outputs", json_read_structured_outputs},
    {"regex", json_read_regex},
    {"choice", json_read_choice},
    {"logprobs", json_read_logprobs},
    {"top_logprobs", json_read_top_logprobs},
    {"frequency_penalty", json_read_frequency},
    {"presence_penalty", json_read_presence},
    {"logit_bias", json_read_biases},
    {"repetition_penalty", json_read_repetition},
    {"allowed_token_ids", json_read_allowed},
    {"stop_token_ids", json_read_stop_tokens},
    {"return_token_ids", json_read_token_ids},
    {"functions", only_empty},
    {"modalities", only_text},
    {"parallel_tool_calls", no_matter},
    {"store", only_false},
    {"metadata", no_matter},
    {"user", read_user},
    {"safety_identifier", read_user},
    {"prompt_cache_key", no_matter},
    {"service_tier", no_matter},
};

enum osp_status chat_field_read(bool *known, struct chat_params *p, const char *name,
                                const json_t *v)
{
    for (size_t i = 0; i < sizeof FIELDS / sizeof FIELDS[0]; i++)
        if (strcmp(name, FIELDS[i].name) == 0) {
            *known = true;
            return json_is_null(v) ? OSP_OK : FIELDS[i].read(p, name, v);
        }
    *known = false;
    return OSP_OK;
}

enum osp_status chat_fields_agree(const struct chat_params *p)
{
    const struct osp_request_options *o = &p->options;

    if (o->tokens_max > 0 && o->tokens_min > o->tokens_max)
        return fail(OSP_EINVAL, "min_tokens: %d is more than max_tokens, %d", o->tokens_min,
                    o->tokens_max);
    if (o->top_logprobs > 0 && !o->logprobs)
        return fail(OSP_EINVAL, "top_logprobs: needs \"logprobs\": true beside it");
    return OSP_OK;
}
