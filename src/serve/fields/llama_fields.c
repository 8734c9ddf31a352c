#include "serve/fields/llama_fields.h"

#include <limits.h>
#include <string.h>

#include "serve/fields/json_types.h"

/* X(name, value that turns it off, what it is) */
#define OFF_LIST(X)                                                                                \
    X("typical_p", 1, "locally typical sampling")                                                  \
    X("typ_p", 1, "locally typical sampling")                                                      \
    X("tfs_z", 1, "tail-free sampling")                                                            \
    X("mirostat", 0, "Mirostat sampling")                                                          \
    X("dynatemp_range", 0, "a dynamic temperature")                                                \
    X("xtc_probability", 0, "XTC sampling")                                                        \
    X("dry_multiplier", 0, "the DRY penalty")                                                      \
    X("top_n_sigma", -1, "top-n-sigma sampling")                                                   \
    X("min_keep", 0, "a least number of candidates")                                               \
    X("n_indent", 0, "a least indentation")                                                        \
    X("t_max_predict_ms", 0, "a time limit of a request")

/* Numbers without effect. X(name, reason) */
#define NUMBER_LIST(X)                                                                             \
    X("mirostat_tau", "Has no effect: mirostat must be off.")                                      \
    X("mirostat_eta", "Has no effect: mirostat must be off.")                                      \
    X("dynatemp_exponent", "Has no effect: dynatemp_range must be off.")                           \
    X("xtc_threshold", "Has no effect: xtc_probability must be off.")                              \
    X("dry_base", "Has no effect: dry_multiplier must be off.")                                    \
    X("dry_allowed_length", "Has no effect: dry_multiplier must be off.")                          \
    X("dry_penalty_last_n", "Has no effect: dry_multiplier must be off.")                          \
    X("n_keep", "Has no effect: the context is never shifted.")                                    \
    X("n_discard", "Has no effect: the context is never shifted.")                                 \
    X("n_cache_reuse", "Has no effect: common prefixes are always reused.")                        \
    X("id_slot", "Has no effect: the prefix cache is shared by all requests.")                     \
    X("sse_ping_interval", "Has no effect: a silent stream gets a comment after 15 s.")

/* ---- readers ---- */

static enum osp_status read_off(struct request_params *p, const char *field, const json_t *v)
{
    static const struct {
        const char *name;
        int off;
        const char *what;
    } samplers[] = {
#define OFF_ROW(name, off, what) {name, off, what},
        OFF_LIST(OFF_ROW)
#undef OFF_ROW
    };
    size_t i = 0;

    (void)p;
    while (strcmp(samplers[i].name, field) != 0)
        i++; /* the table of fields is made from the same list */
    if (json_is_number(v) && json_number_value(v) == samplers[i].off)
        return OSP_OK;
    return fail(OSP_EUNSUPPORTED, "%s: must be %d (off): %s is not supported", field,
                samplers[i].off, samplers[i].what);
}

static enum osp_status check_number(struct request_params *p, const char *field, const json_t *v)
{
    (void)p;
    return json_is_number(v) ? OSP_OK : json_mismatch(field, v, "a number");
}

static enum osp_status read_repeat_last_n(struct request_params *p, const char *field,
                                          const json_t *v)
{
    (void)field;
    p->has_repeat_last_n = true;
    p->repeat_last_n = (int)json_number_value(v);
    return OSP_OK;
}

/* -1 means a seed of the server's choice, unlike in the OpenAI API, where it is a seed. */
static enum osp_status read_seed(struct request_params *p, const char *field, const json_t *v)
{
    json_int_t seed = 0;
    enum osp_status st = json_int(&seed, field, v, INT64_MIN, INT64_MAX);

    p->options.sampling.seed = (uint64_t)seed;
    p->options.sampling.has_seed = seed >= 0;
    return st;
}

/* A sampler that is not in the list does not run, and the list has their order. */
static enum osp_status read_samplers(struct request_params *p, const char *field, const json_t *v)
{
    static const char *const ours[] = {"penalties", "temperature", "top_k", "top_p", "min_p"};
    size_t n = 0;

    (void)p;
    if (!json_is_array(v))
        return json_mismatch(field, v, "a list of names");
    for (size_t i = 0; i < json_array_size(v); i++) {
        const char *name = json_string_value(json_array_get(v, i));

        if (name == NULL || n >= sizeof ours / sizeof ours[0] || strcmp(name, ours[n]) != 0)
            break;
        n++;
    }
    if (n == sizeof ours / sizeof ours[0] && json_array_size(v) == n)
        return OSP_OK;
    return fail(OSP_EUNSUPPORTED,
                "%s: must be " LLAMA_SAMPLERS " or absent: the samplers and their order are fixed",
                field);
}

static enum osp_status read_empty_list(struct request_params *p, const char *field, const json_t *v)
{
    (void)p;
    if (json_is_array(v) && json_array_size(v) == 0)
        return OSP_OK;
    return fail(OSP_EUNSUPPORTED, "%s: not supported: must be an empty list or absent", field);
}

static enum osp_status check_list(struct request_params *p, const char *field, const json_t *v)
{
    (void)p;
    return json_is_array(v) ? OSP_OK : json_mismatch(field, v, "a list of strings");
}

static enum osp_status read_reasoning_format(struct request_params *p, const char *field,
                                             const json_t *v)
{
    const char *name = json_string_value(v);

    (void)p;
    if (name != NULL && (strcmp(name, "auto") == 0 || strcmp(name, "deepseek") == 0))
        return OSP_OK;
    return fail(OSP_EUNSUPPORTED,
                "%s: must be \"auto\" or \"deepseek\": reasoning is always separate from the "
                "content",
                field);
}

static enum osp_status only_true(struct request_params *p, const char *field, const json_t *v)
{
    (void)p;
    return json_is_true(v) ? OSP_OK : fail(OSP_EUNSUPPORTED, "%s: must be true or absent", field);
}

static enum osp_status only_false(struct request_params *p, const char *field, const json_t *v)
{
    (void)p;
    return json_is_false(v) ? OSP_OK : fail(OSP_EUNSUPPORTED, "%s: must be false or absent", field);
}

/* ---- the table ---- */

enum {
    TEXTS = FOR_CHAT | FOR_COMPLETIONS | FOR_LLAMA,
    ALL = TEXTS | FOR_OLLAMA_OPTIONS,
    NATIVE = FOR_LLAMA | FOR_OLLAMA_OPTIONS
};

#define OFF_FIELD(name, off, what)                                                                 \
    FIELD_OTHER_ROW(name, ALL, read_off, "{'enum':[" #off "]}", "Must be " #off ", which is off."),
#define NUMBER_FIELD(name, reason)                                                                 \
    FIELD_OTHER_ROW(name, ALL, check_number, "{'type':'number'}", reason),
#define BOOL(name, of, reader, what) FIELD_READ_ROW(name, of, FIELD_BOOL, 0, 0, reader, NULL, what)

static const struct field FIELDS[] = {
    OFF_LIST(OFF_FIELD) NUMBER_LIST(NUMBER_FIELD)
        FIELD_FLOAT_ROW("repeat_penalty", ALL, options.sampling.repetition_penalty, 0.01, 100,
                        "llama.cpp's name for repetition_penalty."),
    FIELD_READ_ROW("repeat_last_n", ALL, FIELD_INT, -1, INT_MAX, read_repeat_last_n, NULL,
                   "The tokens that penalties look at: -1 (all); 0 turns the penalties off; any "
                   "other value requires that they are off."),
    FIELD_OTHER_ROW("seed", NATIVE, read_seed, "{'type':'integer'}",
                    "A request with the same seed and the same fields gets the same answer; a "
                    "negative value: no seed."),
    FIELD_OTHER_ROW("penalize_newline", FOR_OLLAMA_OPTIONS, only_true, "{'enum':[true]}",
                    "Must be true: penalties apply to every token."),
    FIELD_OTHER_ROW("samplers", TEXTS, read_samplers, "{'type':'array','items':{'type':'string'}}",
                    "Must be the fixed list of samplers: penalties, temperature, top_k, top_p, "
                    "min_p."),
    FIELD_OTHER_ROW("dry_sequence_breakers", TEXTS, check_list,
                    "{'type':'array','items':{'type':'string'}}",
                    "Has no effect: dry_multiplier must be off."),
    BOOL("backend_sampling", TEXTS, field_ignored,
         "Has no effect: the server chooses where tokens are sampled."),
    FIELD_BOOL_ROW("return_progress", TEXTS, extras.progress,
                   "The first chunk of a stream has prompt_progress: the tokens of the prompt, "
                   "those from the cache, and the time."),
    FIELD_OTHER_ROW("lora", TEXTS, read_empty_list, "{'type':'array','maxItems':0}",
                    "Must be empty: LoRA adapters are not supported."),
    FIELD_OTHER_ROW("reasoning_format", FOR_CHAT, read_reasoning_format,
                    "{'enum':['auto','deepseek']}",
                    "Must be auto or deepseek: reasoning is separate from the content."),
    BOOL("reasoning_control", FOR_CHAT, field_ignored,
         "Has no effect: there is no route that ends the reasoning early."),
    FIELD_OTHER_ROW("add_generation_prompt", FOR_CHAT, only_true, "{'enum':[true]}",
                    "Must be true: the answer is always a new message."),
    FIELD_READ_ROW("thinking_budget_tokens", FOR_CHAT, FIELD_INT, -1, INT_MAX, field_ignored, NULL,
                   "Sets the reasoning effort if no other field does: below 1,024 low, below 4,096 "
                   "medium, else high; -1: not set."),
    FIELD_OTHER_ROW("response_fields", FOR_LLAMA, read_empty_list, "{'type':'array','maxItems':0}",
                    "Must be empty: an answer has all its fields."),
    FIELD_OTHER_ROW("post_sampling_probs", FOR_LLAMA, only_false, "{'enum':[false]}",
                    "Must be false: n_probs are probabilities of the model."),
};

const struct field *llama_field_at(size_t i)
{
    return i < sizeof FIELDS / sizeof FIELDS[0] ? &FIELDS[i] : NULL;
}

enum osp_status llama_fields_finish(struct request_params *p)
{
    struct osp_sampling *s = &p->options.sampling;
    const bool penalizes = (s->repetition_penalty != 0 && s->repetition_penalty != 1) ||
                           s->presence_penalty != 0 || s->frequency_penalty != 0;

    if (!p->has_repeat_last_n || p->repeat_last_n < 0 || !penalizes)
        return OSP_OK;
    if (p->repeat_last_n > 0)
        return fail(OSP_EUNSUPPORTED,
                    "repeat_last_n: is %d; must be -1 (penalties look at all tokens) or 0 "
                    "(penalties are off)",
                    p->repeat_last_n);
    s->repetition_penalty = s->presence_penalty = s->frequency_penalty = 0;
    return OSP_OK;
}
