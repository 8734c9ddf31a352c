/* The fields of /api/chat and /api/generate. */
#include "serve/ollama/ollama.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "serve/fields/field_schemas.h"
#include "serve/fields/json_response_format.h"
#include "serve/fields/json_types.h"

enum { MODEL_NAME_BYTES_MAX = 4096 /* a longer name cannot be the name of a model */ };

/* ---- options ---- */

/* 0 and less: up to the context length. */
static enum osp_status read_num_predict(struct request_params *p, const char *field,
                                        const json_t *v)
{
    const int n = (int)json_number_value(v);

    (void)field;
    p->options.tokens_max = n > 0 ? n : 0;
    return OSP_OK;
}

/* What concerns the memory and speed of a model that is loaded already. */
static enum osp_status check_resource(struct request_params *p, const char *field, const json_t *v)
{
    (void)p;
    return json_is_number(v) || json_is_boolean(v)
               ? OSP_OK
               : json_mismatch(field, v, "a number, true or false");
}

#define RESOURCE(name)                                                                             \
    FIELD_OTHER_ROW(name, 0, check_resource, "{'type':['number','boolean']}",                      \
                    "Has no effect: set when the server is started.")

static const struct field OPTIONS[] = {
    FIELD_READ_ROW("num_predict", 0, FIELD_INT, INT_MIN, INT_MAX, read_num_predict, NULL,
                   "The most tokens that may be generated; 0 and less: up to the context length."),
    RESOURCE("num_ctx"),
    RESOURCE("num_keep"),
    RESOURCE("num_batch"),
    RESOURCE("num_gpu"),
    RESOURCE("main_gpu"),
    RESOURCE("num_thread"),
    RESOURCE("numa"),
    RESOURCE("low_vram"),
    RESOURCE("f16_kv"),
    RESOURCE("logits_all"),
    RESOURCE("vocab_only"),
    RESOURCE("embedding_only"),
    RESOURCE("use_mmap"),
    RESOURCE("use_mlock"),
    RESOURCE("draft_num_predict"),
};
static const struct field_set OPTION_SET = {
    .endpoint = FOR_OLLAMA_OPTIONS, .own = OPTIONS, .n_own = sizeof OPTIONS / sizeof OPTIONS[0]};

static enum osp_status read_options(struct request_params *p, const char *field, const json_t *v)
{
    return fields_read_within(p, &OPTION_SET, field, v);
}

/* ---- readers of both routes ---- */

static enum osp_status read_model(struct request_params *p, const char *field, const json_t *v)
{
    struct ollama_request *request = p->own;
    const char *name = json_string_value(v);

    if (name == NULL)
        return json_mismatch(field, v, "a string");
    request->model = mem_strndup(name, strnlen(name, MODEL_NAME_BYTES_MAX));
    return OSP_OK;
}

/* Checked here, because a request without messages has no conversation that is read with it. */
static enum osp_status check_level(const char *field, const json_t *v)
{
    struct osp_chat *chat;
    enum osp_status st;

    if (strlen(json_string_value(v)) != json_string_length(v))
        return fail(OSP_EINVAL, "%s: must have no NUL character", field);
    chat = osp_chat_new();
    st = osp_chat_set_effort(chat, json_string_value(v));
    osp_chat_free(chat);
    return st == OSP_OK ? OSP_OK : fail_prefix(st, "%s", field);
}

/* The model always reasons, so that false means the lowest effort, and an answer without the
 * reasoning. */
static enum osp_status read_think(struct request_params *p, const char *field, const json_t *v)
{
    if (json_is_string(v))
        return check_level(field, v);
    if (!json_is_boolean(v))
        return json_mismatch(field, v, "true, false, \"low\", \"medium\" or \"high\"");
    p->hides_reasoning = json_is_false(v);
    return OSP_OK;
}

static enum osp_status read_format(struct request_params *p, const char *field, const json_t *v)
{
    const char *name = json_string_value(v);
    json_t *as_openai;
    enum osp_status st;

    if (name != NULL && *name == '\0')
        return OSP_OK;
    if (json_is_object(v))
        return json_read_json_schema(p, field, v);
    if (name == NULL || strcmp(name, "json") != 0)
        return fail(OSP_EINVAL, "%s: must be \"json\" or a JSON schema, as an object", field);
    as_openai = json_pack("{s:s}", "type", "json_object");
    st = as_openai != NULL ? json_read_response_format(p, field, as_openai)
                           : fail(OSP_ENOMEM, "%s: out of memory", field);
    json_decref(as_openai);
    return st;
}

/* A number of seconds, or a text such as "5m"; only whether it is 0 matters. */
static enum osp_status read_keep_alive(struct request_params *p, const char *field, const json_t *v)
{
    const char *text = json_string_value(v);

    if (text == NULL && !json_is_number(v))
        return json_mismatch(field, v, "a number of seconds, or a duration such as \"5m\"");
    ((struct ollama_request *)p->own)->is_unload =
        (text != NULL ? strtod(text, NULL) : json_number_value(v)) == 0;
    return OSP_OK;
}

static enum osp_status read_debug(struct request_params *p, const char *field, const json_t *v)
{
    (void)p;
    if (!json_is_true(v))
        return OSP_OK;
    return fail(OSP_EUNSUPPORTED, "%s: not supported; POST /apply-template renders a conversation",
                field);
}

/* ---- readers of one route ---- */

/* What the objects have is read with the conversation. */
static enum osp_status check_list(struct request_params *p, const char *field, const json_t *v)
{
    (void)p;
    if (!json_is_array(v))
        return json_mismatch(field, v, "a list of objects");
    for (size_t i = 0; i < json_array_size(v); i++)
        if (!json_is_object(json_array_get(v, i)))
            return fail(OSP_EINVAL, "%s[%zu]: must be an object", field, i);
    return OSP_OK;
}

static enum osp_status check_text(struct request_params *p, const char *field, const json_t *v)
{
    (void)p;
    return json_is_string(v) ? OSP_OK : json_mismatch(field, v, "a string");
}

static bool is_empty(const json_t *v)
{
    return (json_is_string(v) && json_string_length(v) == 0) ||
           (json_is_array(v) && json_array_size(v) == 0);
}

static enum osp_status refuse_template(struct request_params *p, const char *field, const json_t *v)
{
    (void)p;
    return is_empty(v) ? OSP_OK
                       : fail(OSP_EUNSUPPORTED,
                              "%s: not supported: gpt-oss models need the Harmony format; send "
                              "\"raw\": true with a prompt in a format of your own",
                              field);
}

static enum osp_status refuse_suffix(struct request_params *p, const char *field, const json_t *v)
{
    (void)p;
    return is_empty(v) ? OSP_OK
                       : fail(OSP_EUNSUPPORTED,
                              "%s: must be empty: gpt-oss cannot fill in the middle", field);
}

static enum osp_status refuse_images(struct request_params *p, const char *field, const json_t *v)
{
    (void)p;
    return is_empty(v)
               ? OSP_OK
               : fail(OSP_EUNSUPPORTED, "%s: must be empty: the model reads text only", field);
}

/* Answers have no `context`, so that one could only come from another server. */
static enum osp_status refuse_context(struct request_params *p, const char *field, const json_t *v)
{
    (void)p;
    return is_empty(v) ? OSP_OK
                       : fail(OSP_EUNSUPPORTED,
                              "%s: not supported, and deprecated in Ollama; send the conversation "
                              "to /api/chat",
                              field);
}

static enum osp_status read_raw(struct request_params *p, const char *field, const json_t *v)
{
    (void)field;
    ((struct ollama_request *)p->own)->is_raw = json_is_true(v);
    return OSP_OK;
}

static enum osp_status read_system(struct request_params *p, const char *field, const json_t *v)
{
    if (!json_is_string(v))
        return json_mismatch(field, v, "a string");
    ((struct ollama_request *)p->own)->has_template = json_string_length(v) > 0;
    return OSP_OK;
}

/* ---- the tables ---- */

#define OTHER(name, reader, form, text) FIELD_OTHER_ROW(name, 0, reader, form, text)
#define FLAG(name, reader, t)           FIELD_READ_ROW(name, 0, FIELD_BOOL, 0, 0, reader, NULL, t)
#define TEXT                            "{'type':'string'}"
#define COMMON_ROWS                                                                                \
    OTHER("model", read_model, TEXT,                                                               \
          "The name of the model, with or without :latest; default: the served model."),           \
        OTHER("think", read_think,                                                                 \
              "{'enum':[true,false,'none','minimal','low','medium','high','xhigh','max']}",        \
              "The reasoning effort; false: low, and the answer does not include the reasoning."), \
        OTHER("format", read_format, "{'anyOf':[{'enum':['','json']},{'type':'object'}]}",         \
              "json, or a JSON schema that the answer is constrained to."),                        \
        OTHER("options", read_options, "{'type':'object'}",                                        \
              "Sampling: num_predict, temperature, top_k, top_p, min_p, seed, stop and others."),  \
        OTHER("keep_alive", read_keep_alive, "{'type':['number','string']}",                       \
              "Has no effect: the model stays loaded."),                                           \
        FLAG("truncate", field_ignored, "Has no effect: a prompt that is too long is refused."),   \
        FLAG("shift", field_ignored, "Has no effect: the context is never shifted."),              \
        FLAG("_debug_render_only", read_debug, "Must be false."),                                  \
        OTHER("template", refuse_template, "{'enum':['']}",                                        \
              "Must be empty: the model's own format is used.")

static const struct field CHAT[] = {
    COMMON_ROWS,
    OTHER("messages", check_list, "{'type':'array','items':{'type':'object'}}",
          "The messages of the conversation; none: nothing is generated."),
    OTHER("tools", check_list, "{'type':'array','items':{'type':'object'}}",
          "Functions that the model may call, as in a chat completion request."),
};
const struct field_set ollama_chat_fields = {
    .endpoint = FOR_OLLAMA, .own = CHAT, .n_own = sizeof CHAT / sizeof CHAT[0]};

static const struct field GENERATE[] = {
    COMMON_ROWS,
    OTHER("prompt", check_text, TEXT, "The user's message; empty: nothing is generated."),
    OTHER("system", read_system, TEXT, "The system message."),
    FLAG("raw", read_raw, "true: the prompt is continued as it is, without the Harmony format."),
    OTHER("suffix", refuse_suffix, "{'enum':['']}", "Must be empty."),
    OTHER("images", refuse_images, "{'type':'array','maxItems':0}", "Must be empty."),
    OTHER("context", refuse_context, "{'type':'array','maxItems':0}", "Must be empty."),
};
const struct field_set ollama_generate_fields = {
    .endpoint = FOR_OLLAMA, .own = GENERATE, .n_own = sizeof GENERATE / sizeof GENERATE[0]};
