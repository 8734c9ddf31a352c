#include "serve/fields/json_sampling.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

static enum osp_status read_float(float *out, const char *field, const json_t *v, double min,
                                  double max)
{
    double number = 0;
    enum osp_status st = json_number(&number, field, v, min, max);

    *out = (float)number;
    return st;
}

/* ---- lists of token ids; the engine checks them against the vocabulary ---- */

/* The name of a member is a token id in decimal digits. */
static enum osp_status read_token_name(int32_t *out, const char *field, const char *name)
{
    char *end = NULL;
    long id = name[0] >= '0' && name[0] <= '9' ? strtol(name, &end, 10) : -1;

    if (id < 0 || id > INT32_MAX || *end != '\0')
        return fail(OSP_EINVAL, "%s: \"%.40s\" is not a token id; names must be decimal numbers",
                    field, name);
    *out = (int32_t)id;
    return OSP_OK;
}

enum osp_status json_read_biases(struct request_params *p, const char *field, const json_t *v)
{
    const size_t n = json_object_size(v);
    const char *name;
    json_t *entry;
    enum osp_status st = OSP_OK;

    if (!json_is_object(v))
        return fail(OSP_EINVAL,
                    "%s: must be an object whose names are token ids and whose values are numbers",
                    field);
    if (n > OSP_LOGIT_BIASES_MAX)
        return fail(OSP_EINVAL, "%s: has %zu tokens, at most %d are allowed", field, n,
                    OSP_LOGIT_BIASES_MAX);
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

enum osp_status json_read_allowed(struct request_params *p, const char *field, const json_t *v)
{
    const size_t n = json_array_size(v);
    enum osp_status st;

    if (!json_is_array(v) || n == 0)
        return fail(OSP_EINVAL, "%s: must be a non-empty list of token ids", field);
    TRY(mem_try_array(&p->allowed, n, sizeof *p->allowed, "allowed tokens"));
    TRY(read_ids(p->allowed, field, v));
    p->options.allowed_tokens = p->allowed;
    p->options.n_allowed_tokens = (int)n;
out:
    return st;
}

enum osp_status json_read_stop_tokens(struct request_params *p, const char *field, const json_t *v)
{
    const size_t n = json_array_size(v);

    if (!json_is_array(v) || n > OSP_STOP_TOKENS_MAX)
        return fail(OSP_EINVAL, "%s: must be a list of at most %d token ids", field,
                    OSP_STOP_TOKENS_MAX);
    p->options.n_stop_tokens = (int)n;
    return read_ids(p->options.stop_tokens, field, v);
}

/* ---- words ---- */

/* The word without spaces before it, as in vLLM. */
const char *json_bad_word(const json_t *v)
{
    const char *word = json_string_value(v);

    return word + strspn(word, " \t\n\r\f\v");
}

enum osp_status json_read_bad_words(struct request_params *p, const char *field, const json_t *v)
{
    (void)p;
    if (!json_is_array(v) || json_array_size(v) > BAD_WORDS_MAX)
        return fail(OSP_EINVAL, "%s: must be a list of at most %d words", field, BAD_WORDS_MAX);
    for (size_t i = 0; i < json_array_size(v); i++) {
        const json_t *word = json_array_get(v, i);

        if (!json_is_string(word) || strlen(json_string_value(word)) != json_string_length(word) ||
            json_bad_word(word)[0] == '\0')
            return fail(OSP_EINVAL,
                        "%s[%zu]: must be a word, a string that is not empty and has no NUL "
                        "character",
                        field, i);
    }
    return OSP_OK;
}
