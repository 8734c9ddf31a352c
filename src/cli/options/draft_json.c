#include "cli/options/draft_json.h"

#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/memory.h"
#include "base/str.h"
#include "cli/options/draft_tree_json.h"

#define BUNDLED_HEAD "bundled" /* osp_model_options.draft_model */
#define EXAMPLE      "{\"method\": \"ngram\", \"num_speculative_tokens\": 8}"

enum {
    SEQS_DEFAULT = 8, /* of osp_model_options */
    DRAFTS_DEFAULT = 8,
    EAGLE3_DRAFTS_DEFAULT = 3,
    DRAFT_ROWS_MAX = 128 /* 0.1 GB of logits of gpt-oss */
};

/* Methods of vLLM and SGLang that are not here. */
static const char OTHER_METHODS[] = "eagle,draft_model,mtp,medusa,mlp_speculator,suffix,"
                                    "dflash,ngram_gpu,lookahead,nextn,standalone";

static const char LOOKUP_DRAFT_OPTIONS[] = "prompt_lookup_min,prompt_lookup_max";

static enum osp_status read_method(struct draft_options *o, const char *method)
{
    if (method != NULL && strcmp(method, "ngram") == 0)
        o->speculative.method = OSP_DRAFTS_NGRAM;
    else if (method != NULL && strcmp(method, "eagle3") == 0)
        o->speculative.method = OSP_DRAFTS_EAGLE3;
    else if (method != NULL && str_in_list(OTHER_METHODS, method))
        return fail(OSP_EUNSUPPORTED,
                    DRAFT_OPTION
                    ": method %s is not supported yet; osprey has eagle3, and ngram, which "
                    "needs no draft model",
                    method);
    else
        return fail(OSP_EINVAL,
                    DRAFT_OPTION ": method must be \"ngram\" or \"eagle3\", for example " EXAMPLE);
    return OSP_OK;
}

static enum osp_status read_model(struct draft_options *o, const json_t *value)
{
    const char *path = json_string_value(value);

    if (path == NULL || path[0] == '\0')
        return fail(OSP_EINVAL, DRAFT_OPTION ": model must be the folder of an Eagle3 draft head");
    free(o->model);
    o->model = mem_strdup(path);
    return OSP_OK;
}

/* vLLM's name; of the draft head. */
static enum osp_status read_quantization(struct draft_options *o, const char *text)
{
    static const char *const kinds[] = {"mxfp4", "none"};

    for (size_t i = 0; text != NULL && i < sizeof kinds / sizeof kinds[0]; i++)
        if (strcmp(text, kinds[i]) == 0) {
            o->quantization = kinds[i];
            return OSP_OK;
        }
    return fail(OSP_EINVAL,
                DRAFT_OPTION ": quantization must be \"mxfp4\" or \"none\", of the draft head");
}

static enum osp_status read_int(int *out, const char *key, const json_t *value, int least, int most)
{
    const json_int_t n = json_integer_value(value);

    if (!json_is_integer(value) || n < least || n > most)
        return fail(OSP_EINVAL, DRAFT_OPTION ": %s must be an integer from %d to %d", key, least,
                    most);
    *out = (int)n;
    return OSP_OK;
}

/* X(name, member, least, most) */
#define INT_LIST(X)                                                                                \
    X("num_speculative_tokens", tokens_max, 1, OSP_DRAFTS_MAX)                                     \
    X("min_speculative_tokens", tokens_min, 0, OSP_DRAFTS_MAX)                                     \
    X("prompt_lookup_min", lookup_min, 1, OSP_LOOKUP_MAX)                                          \
    X("prompt_lookup_max", lookup_max, 1, OSP_LOOKUP_MAX)

static enum osp_status read_member(struct draft_options *o, const char *key, json_t *value)
{
    struct osp_speculative *s = &o->speculative;

    if (strcmp(key, "method") == 0)
        return read_method(o, json_string_value(value));
    if (strcmp(key, "model") == 0)
        return read_model(o, value);
    if (strcmp(key, "quantization") == 0)
        return read_quantization(o, json_string_value(value));
    if (strcmp(key, DRAFT_TREE_MEMBER) == 0)
        return draft_tree_read(s, value);
    if (strcmp(key, "always") == 0) {
        s->always = json_is_true(value);
        return json_is_boolean(value)
                   ? OSP_OK
                   : fail(OSP_EINVAL, DRAFT_OPTION ": always must be true or false");
    }
#define READ_INT(name, member, least, most)                                                        \
    if (strcmp(key, name) == 0)                                                                    \
        return read_int(&s->member, key, value, least, most);
    INT_LIST(READ_INT)
#undef READ_INT
    return fail(OSP_EINVAL,
                DRAFT_OPTION ": unknown member %.64s; there are method, num_speculative_tokens, "
                             "min_speculative_tokens, model, quantization, prompt_lookup_min, "
                             "prompt_lookup_max, " DRAFT_TREE_MEMBER " and always",
                key);
}

/* A head is named by its method, by its path, or by both. */
static enum osp_status check_members(struct draft_options *o, const json_t *root)
{
    const bool has_head = o->speculative.method == OSP_DRAFTS_EAGLE3;

    if (o->speculative.method == OSP_DRAFTS_OFF && o->model == NULL)
        return read_method(o, NULL);
    if (o->speculative.method == OSP_DRAFTS_NGRAM && o->model != NULL)
        return fail(OSP_EINVAL, DRAFT_OPTION ": method ngram has no model; leave one of them out");
    if (o->speculative.method == OSP_DRAFTS_NGRAM && o->quantization != NULL)
        return fail(OSP_EINVAL,
                    DRAFT_OPTION ": quantization is of a draft head, method ngram has none");
    if (o->speculative.n_tree > 0 && !has_head && o->model == NULL)
        return fail(OSP_EINVAL,
                    DRAFT_OPTION ": " DRAFT_TREE_MEMBER " is of method eagle3, not of ngram");
    if (o->speculative.n_tree > 0 && o->speculative.tokens_max > 0 &&
        o->speculative.tokens_max != o->speculative.n_tree)
        return fail(OSP_EINVAL,
                    DRAFT_OPTION ": num_speculative_tokens is %d, but " DRAFT_TREE_MEMBER
                                 " has %d nodes; leave "
                                 "num_speculative_tokens out",
                    o->speculative.tokens_max, o->speculative.n_tree);
    if ((has_head || o->model != NULL) && (json_object_get(root, "prompt_lookup_min") != NULL ||
                                           json_object_get(root, "prompt_lookup_max") != NULL))
        return fail(OSP_EINVAL, DRAFT_OPTION ": %s are of method ngram, not of eagle3",
                    LOOKUP_DRAFT_OPTIONS);
    return OSP_OK;
}

static enum osp_status read_members(struct draft_options *o, json_t *root)
{
    json_t *value;
    const char *key;
    enum osp_status st = OSP_OK;

    json_object_foreach(root, key, value) TRY(read_member(o, key, value));
    TRY(check_members(o, root));
out:
    return st;
}

static enum osp_status read_config(struct draft_options *o, const char *json)
{
    json_error_t error;
    json_t *root = json_loads(json, JSON_REJECT_DUPLICATES, &error);
    enum osp_status st;

    st = json_is_object(root)
             ? read_members(o, root)
             : fail(OSP_EINVAL, DRAFT_OPTION " %.80s: must be a JSON object, such as " EXAMPLE,
                    json);
    json_decref(root);
    return st;
}

/* -md names a head; without a path it is the bundled one. */
static enum osp_status choose_model(struct draft_options *o, const struct draft_args *args)
{
    if (args->model != NULL && o->model != NULL && strcmp(args->model, o->model) != 0)
        return fail(OSP_EINVAL, "--model-draft %s: " DRAFT_OPTION " names another draft head, %s",
                    args->model, o->model);
    if (args->model != NULL && o->speculative.method == OSP_DRAFTS_NGRAM)
        return fail(OSP_EINVAL, "--model-draft %s: " DRAFT_OPTION " has method ngram; use eagle3",
                    args->model);
    if (args->model != NULL && o->model == NULL)
        o->model = mem_strdup(args->model);
    if (o->speculative.method == OSP_DRAFTS_EAGLE3 && o->model == NULL)
        o->model = mem_strdup(BUNDLED_HEAD);
    if (o->model != NULL)
        o->speculative.method = OSP_DRAFTS_EAGLE3;
    return OSP_OK;
}

enum osp_status draft_args_read(struct draft_options *out, const struct draft_args *args)
{
    struct osp_speculative *s = &out->speculative;
    enum osp_status st = OSP_OK;

    *out = (struct draft_options){.model = NULL};
    if (args->config != NULL)
        TRY(read_config(out, args->config));
    TRY(choose_model(out, args));
    if ((args->tokens_max > 0 || args->tokens_min > 0) && s->method == OSP_DRAFTS_OFF)
        s->method = OSP_DRAFTS_NGRAM;
    if (args->tokens_max > 0)
        s->tokens_max = args->tokens_max;
    if (args->tokens_min > 0)
        s->tokens_min = args->tokens_min;
out:
    if (st != OSP_OK)
        draft_options_release(out);
    return st;
}

void draft_options_release(struct draft_options *o)
{
    free(o->model);
    *o = (struct draft_options){.model = NULL};
}

/* Draft tokens of a sequence in a step. */
static int n_drafts_of(const struct osp_speculative *s)
{
    const int n_default =
        s->method == OSP_DRAFTS_EAGLE3 ? (int)EAGLE3_DRAFTS_DEFAULT : (int)DRAFTS_DEFAULT;

    if (s->n_tree > 0)
        return s->n_tree;
    return s->tokens_max > 0 ? s->tokens_max : n_default;
}

int draft_args_positions(const struct osp_speculative *s)
{
    int n = 0;

    if (s->n_tree == 0)
        return n_drafts_of(s);
    for (int i = s->n_tree - 1; i >= 0; i = s->tree_parents[i]) /* the last one is the deepest */
        n++;
    return n;
}

int draft_args_rows(const struct osp_speculative *s, int n_seqs_max)
{
    const int n_tokens = n_drafts_of(s);
    const int n_seqs = n_seqs_max > 0 ? n_seqs_max : (int)SEQS_DEFAULT;

    if (s->method == OSP_DRAFTS_OFF)
        return 0; /* the default */
    return n_seqs < DRAFT_ROWS_MAX / n_tokens ? n_seqs * n_tokens : (int)DRAFT_ROWS_MAX;
}
