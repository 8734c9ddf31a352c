#include "cli/options/draft_json.h"

#include <string.h>

#include <jansson.h>

#include "base/str.h"

#define OPTION  "--speculative-config"
#define EXAMPLE "{\"method\": \"ngram\", \"num_speculative_tokens\": 8}"

enum {
    SEQS_DEFAULT = 8, /* of osp_model_options */
    DRAFTS_DEFAULT = 8,
    DRAFT_ROWS_MAX = 128 /* 0.1 GB of logits of gpt-oss */
};

/* Methods of vLLM and SGLang that need weights or are not here. */
static const char OTHER_METHODS[] = "eagle,eagle3,draft_model,mtp,medusa,mlp_speculator,suffix,"
                                    "dflash,ngram_gpu,lookahead,nextn,standalone";

static enum osp_status read_method(struct osp_speculative *s, const char *method)
{
    if (method != NULL && strcmp(method, "ngram") == 0) {
        s->method = OSP_DRAFTS_NGRAM;
        return OSP_OK;
    }
    if (method != NULL && str_in_list(OTHER_METHODS, method))
        return fail(OSP_EUNSUPPORTED,
                    OPTION ": method %s is not supported yet; osprey has ngram, which needs no "
                           "draft model",
                    method);
    return fail(OSP_EINVAL, OPTION ": method must be \"ngram\", for example " EXAMPLE);
}

static enum osp_status read_int(int *out, const char *key, const json_t *value, int least, int most)
{
    const json_int_t n = json_integer_value(value);

    if (!json_is_integer(value) || n < least || n > most)
        return fail(OSP_EINVAL, OPTION ": %s must be an integer from %d to %d", key, least, most);
    *out = (int)n;
    return OSP_OK;
}

/* X(name, member, least, most) */
#define INT_LIST(X)                                                                                \
    X("num_speculative_tokens", tokens_max, 1, OSP_DRAFTS_MAX)                                     \
    X("min_speculative_tokens", tokens_min, 0, OSP_DRAFTS_MAX)                                     \
    X("prompt_lookup_min", lookup_min, 1, OSP_LOOKUP_MAX)                                          \
    X("prompt_lookup_max", lookup_max, 1, OSP_LOOKUP_MAX)

static enum osp_status read_member(struct osp_speculative *s, const char *key, const json_t *value)
{
    if (strcmp(key, "method") == 0)
        return read_method(s, json_string_value(value));
    if (strcmp(key, "model") == 0)
        return fail(OSP_EUNSUPPORTED, OPTION ": draft models are not supported yet; use " EXAMPLE);
    if (strcmp(key, "always") == 0) {
        s->always = json_is_true(value);
        return json_is_boolean(value) ? OSP_OK
                                      : fail(OSP_EINVAL, OPTION ": always must be true or false");
    }
#define READ_INT(name, member, least, most)                                                        \
    if (strcmp(key, name) == 0)                                                                    \
        return read_int(&s->member, key, value, least, most);
    INT_LIST(READ_INT)
#undef READ_INT
    return fail(OSP_EINVAL,
                OPTION ": unknown member %.64s; there are method, num_speculative_tokens, "
                       "min_speculative_tokens, prompt_lookup_min, prompt_lookup_max and always",
                key);
}

static enum osp_status read_members(struct osp_speculative *s, json_t *root)
{
    json_t *value;
    const char *key;
    enum osp_status st = OSP_OK;

    json_object_foreach(root, key, value) TRY(read_member(s, key, value));
    if (s->method == OSP_DRAFTS_OFF)
        return read_method(s, NULL);
out:
    return st;
}

static enum osp_status read_config(struct osp_speculative *s, const char *json)
{
    json_error_t error;
    json_t *root = json_loads(json, JSON_REJECT_DUPLICATES, &error);
    enum osp_status st;

    st = json_is_object(root)
             ? read_members(s, root)
             : fail(OSP_EINVAL, OPTION " %.80s: must be a JSON object, such as " EXAMPLE, json);
    json_decref(root);
    return st;
}

enum osp_status draft_args_read(struct osp_speculative *out, const struct draft_args *args)
{
    enum osp_status st = OSP_OK;

    *out = (struct osp_speculative){0};
    if (args->config != NULL)
        TRY(read_config(out, args->config));
    if (args->tokens_max > 0 || args->tokens_min > 0)
        out->method = OSP_DRAFTS_NGRAM;
    if (args->tokens_max > 0)
        out->tokens_max = args->tokens_max;
    if (args->tokens_min > 0)
        out->tokens_min = args->tokens_min;
out:
    return st;
}

int draft_args_rows(const struct osp_speculative *s, int n_seqs_max)
{
    const int n_tokens = s->tokens_max > 0 ? s->tokens_max : (int)DRAFTS_DEFAULT;
    const int n_seqs = n_seqs_max > 0 ? n_seqs_max : (int)SEQS_DEFAULT;

    if (s->method == OSP_DRAFTS_OFF)
        return 0; /* the default */
    return n_seqs < DRAFT_ROWS_MAX / n_tokens ? n_seqs * n_tokens : (int)DRAFT_ROWS_MAX;
}
