#include "serve/json_draws.h"

#include <limits.h>
#include <stdlib.h>

#include "base/memory.h"

static const double PENALTY_MAX = 2, REPETITION_MIN = 0.01, REPETITION_MAX = 100;

static enum osp_status read_float(float *out, const char *field, const json_t *v, double min,
                                  double max)
{
    double number = 0;
    enum osp_status st = json_number(&number, field, v, min, max);

    *out = (float)number;
    return st;
}

static enum osp_status read_small(int *out, const char *field, const json_t *v, int max)
{
    json_int_t number = 0;
    enum osp_status st = json_int(&number, field, v, 0, max);

    *out = (int)number;
    return st;
}

enum osp_status json_read_frequency(struct chat_params *p, const char *field, const json_t *v)
{
    return read_float(&p->options.sampling.frequency_penalty, field, v, -PENALTY_MAX, PENALTY_MAX);
}

enum osp_status json_read_presence(struct chat_params *p, const char *field, const json_t *v)
{
    return read_float(&p->options.sampling.presence_penalty, field, v, -PENALTY_MAX, PENALTY_MAX);
}

enum osp_status json_read_repetition(struct chat_params *p, const char *field, const json_t *v)
{
    return read_float(&p->options.sampling.repetition_penalty, field, v, REPETITION_MIN,
                      REPETITION_MAX);
}

enum osp_status json_read_tokens_min(struct chat_params *p, const char *field, const json_t *v)
{
    return read_small(&p->options.tokens_min, field, v, INT_MAX);
}

enum osp_status json_read_logprobs(struct chat_params *p, const char *field, const json_t *v)
{
    return json_bool(&p->options.logprobs, field, v);
}

enum osp_status json_read_top_logprobs(struct chat_params *p, const char *field, const json_t *v)
{
    return read_small(&p->options.top_logprobs, field, v, OSP_TOP_LOGPROBS_MAX);
}

enum osp_status json_read_token_ids(struct chat_params *p, const char *field, const json_t *v)
{
    return json_bool(&p->return_token_ids, field, v);
}

/* ---- lists of tokens; the vocabulary is checked by the engine ---- */

/* The name of a member is a token's id: digits alone. */
static enum osp_status read_token_name(int32_t *out, const char *field, const char *name)
{
    char *end = NULL;
    long id = name[0] >= '0' && name[0] <= '9' ? strtol(name, &end, 10) : -1;

    if (id < 0 || id > INT32_MAX || *end != '\0')
        return fail(OSP_EINVAL, "%s: \"%.40s\" is no token's id", field, name);
    *out = (int32_t)id;
    return OSP_OK;
}

enum osp_status json_read_biases(struct chat_params *p, const char *field, const json_t *v)
{
    const size_t n = json_object_size(v);
    const char *name;
    json_t *entry;
    enum osp_status st = OSP_OK;

    if (!json_is_object(v))
        return fail(OSP_EINVAL, "%s: must be an object of token ids and numbers", field);
    if (n > OSP_LOGIT_BIASES_MAX)
        return fail(OSP_EINVAL, "%s: %zu tokens, the limit is %d", field, n, OSP_LOGIT_BIASES_MAX);
    p->biases = mem_new((n + 1) * sizeof *p->biases);
    p->options.biases = p->biases;
    json_object_foreach((json_t *)v, name, entry)
    {
        struct osp_logit_bias *bias = &p->biases[p->options.n_biases];

        TRY(read_token_name(&bias->token, field, name));
        TRY(read_float(&bias->bias, field, entry, -OSP_LOGIT_BIAS_MAX, OSP_LOGIT_BIAS_MAX));
        p->options.n_biases++;
    }
out:
    return st;
}

static enum osp_status read_ids(int32_t *out, const char *field, const json_t *v)
{
    enum osp_status st = OSP_OK;

    for (size_t i = 0; i < json_array_size(v); i++) {
        json_int_t id = 0;

        TRY(json_int(&id, field, json_array_get(v, i), 0, INT32_MAX));
        out[i] = (int32_t)id;
    }
out:
    return st;
}

enum osp_status json_read_allowed(struct chat_params *p, const char *field, const json_t *v)
{
    const size_t n = json_array_size(v);
    enum osp_status st;

    if (!json_is_array(v) || n == 0)
        return fail(OSP_EINVAL, "%s: must be a list of token ids that is not empty", field);
    TRY(mem_try_array(&p->allowed, n, sizeof *p->allowed, "allowed tokens"));
    TRY(read_ids(p->allowed, field, v));
    p->options.allowed_tokens = p->allowed;
    p->options.n_allowed_tokens = (int)n;
out:
    return st;
}

enum osp_status json_read_stop_tokens(struct chat_params *p, const char *field, const json_t *v)
{
    const size_t n = json_array_size(v);

    if (!json_is_array(v) || n > OSP_STOP_TOKENS_MAX)
        return fail(OSP_EINVAL, "%s: must be a list of at most %d token ids", field,
                    OSP_STOP_TOKENS_MAX);
    p->options.n_stop_tokens = (int)n;
    return read_ids(p->options.stop_tokens, field, v);
}
