#include "serve/responses/response_fields.h"

#include <limits.h>
#include <string.h>

#include "base/str.h"
#include "serve/fields/json_response_format.h"
#include "serve/responses/response_input.h"

enum {
    METADATA_MAX = 16, /* OpenAI's limits */
    METADATA_NAME_BYTES_MAX = 64 * 4,
    METADATA_VALUE_BYTES_MAX = 512 * 4
};

#define WITH_LOGPROBS "message.output_text.logprobs"

/* Of these only the first two are anything here; the others are of tools that are not. */
static const char INCLUDES[] =
    WITH_LOGPROBS ",reasoning.encrypted_content,file_search_call.results,"
                  "web_search_call.results,web_search_call.action.sources,"
                  "message.input_image.image_url,computer_call_output.output.image_url,"
                  "code_interpreter_call.outputs";

/* ---- one reader a field ---- */

static enum osp_status read_string(struct request_params *p, const char *name, const json_t *v)
{
    (void)p;
    return json_is_string(v) ? OSP_OK : fail(OSP_EINVAL, "%s: must be a string", name);
}

static enum osp_status read_object(struct request_params *p, const char *name, const json_t *v)
{
    (void)p;
    return json_is_object(v) ? OSP_OK : fail(OSP_EINVAL, "%s: must be an object", name);
}

static enum osp_status refuse(struct request_params *p, const char *name, const json_t *v)
{
    (void)p, (void)v;
    return fail(OSP_EUNSUPPORTED, "%s: not supported; leave it out", name);
}

static enum osp_status read_background(struct request_params *p, const char *name, const json_t *v)
{
    (void)p;
    return json_is_true(v) ? fail(OSP_EUNSUPPORTED,
                                  "%s: not supported: a response is answered while its client "
                                  "waits; use stream",
                                  name)
                           : OSP_OK;
}

static enum osp_status read_truncation(struct request_params *p, const char *name, const json_t *v)
{
    const char *how = json_string_value(v);

    (void)p;
    if (how && strcmp(how, "disabled") == 0)
        return OSP_OK;
    if (how && strcmp(how, "auto") == 0)
        return fail(OSP_EUNSUPPORTED,
                    "%s: \"auto\" is not supported: nothing of a conversation is left out; too "
                    "long a one is an error",
                    name);
    return fail(OSP_EINVAL, "%s: must be \"disabled\"", name);
}

static enum osp_status read_metadata(struct request_params *p, const char *name, const json_t *v)
{
    const char *key;
    json_t *value;

    (void)p;
    if (!json_is_object(v) || json_object_size(v) > METADATA_MAX)
        return fail(OSP_EINVAL, "%s: must be an object of at most %d strings", name, METADATA_MAX);
    json_object_foreach((json_t *)v, key, value)
    {
        if (!json_is_string(value) || strlen(key) > METADATA_NAME_BYTES_MAX ||
            json_string_length(value) > METADATA_VALUE_BYTES_MAX)
            return fail(OSP_EINVAL, "%s.%.40s: must be a string of at most %d bytes", name, key,
                        METADATA_VALUE_BYTES_MAX);
    }
    return OSP_OK;
}

static enum osp_status read_top_logprobs(struct request_params *p, const char *name,
                                         const json_t *v)
{
    (void)name;
    p->options.top_logprobs = (int)json_integer_value(v);
    p->options.logprobs = p->options.logprobs || p->options.top_logprobs > 0;
    return OSP_OK;
}

static enum osp_status read_include(struct request_params *p, const char *name, const json_t *v)
{
    if (!json_is_array(v))
        return fail(OSP_EINVAL, "%s: must be a list of strings", name);
    for (size_t i = 0; i < json_array_size(v); i++) {
        const char *what = json_string_value(json_array_get(v, i));

        if (!what || !str_in_list(INCLUDES, what))
            return fail(OSP_EINVAL, "%s[%zu]: must be one of %s", name, i, INCLUDES);
        p->options.logprobs = p->options.logprobs || strcmp(what, WITH_LOGPROBS) == 0;
    }
    return OSP_OK;
}

static enum osp_status check_word(const char *name, const json_t *in, const char *member,
                                  const char *words)
{
    const json_t *v = json_object_get(in, member);
    const char *word = json_string_value(v);

    if (!v || json_is_null(v) || (word && (!words || str_in_list(words, word))))
        return OSP_OK;
    return fail(OSP_EINVAL, "%s.%s: must be %s%s", name, member, words ? "one of " : "a string",
                words ? words : "");
}

/* The effort's word is checked where the conversation is read. */
static enum osp_status read_reasoning(struct request_params *p, const char *name, const json_t *v)
{
    static const char summaries[] = "auto,concise,detailed";
    enum osp_status st;

    (void)p;
    if (!json_is_object(v))
        return fail(OSP_EINVAL, "%s: must be an object", name);
    TRY(check_word(name, v, "effort", NULL));
    TRY(check_word(name, v, "summary", summaries));
    TRY(check_word(name, v, "generate_summary", summaries));
out:
    return st;
}

json_t *response_chat_format(const json_t *format)
{
    const char *type = json_string_value(json_object_get(format, "type"));

    if (!type || strcmp(type, "json_schema") != 0)
        return json_incref((json_t *)format);
    return json_pack("{s:s,s:O}", "type", type, "json_schema", format);
}

static enum osp_status read_text(struct request_params *p, const char *name, const json_t *v)
{
    const json_t *format = json_object_get(v, "format");
    json_t *same = NULL;
    enum osp_status st;

    if (!json_is_object(v))
        return fail(OSP_EINVAL, "%s: must be an object", name);
    TRY(check_word(name, v, "verbosity", "low,medium,high"));
    if (!format || json_is_null(format))
        return OSP_OK;
    same = response_chat_format(format);
    TRY(response_format_explain(json_read_response_format(p, "text.format", same)));
out:
    json_decref(same);
    return st;
}

static enum osp_status read_tools(struct request_params *p, const char *name, const json_t *v)
{
    (void)p;
    return json_is_array(v) ? OSP_OK : fail(OSP_EINVAL, "%s: must be a list", name);
}

/* ---- the list ---- */

#define OTHER(name, reader, form, what) FIELD_OTHER_ROW(name, FOR_RESPONSES, reader, form, what)
#define BOOL(name, reader, what)                                                                   \
    FIELD_READ_ROW(name, FOR_RESPONSES, FIELD_BOOL, 0, 0, reader, NULL, what)
#define STRING "{'type':'string'}"

const struct field RESPONSE_FIELDS[N_RESPONSE_FIELDS] = {
    OTHER("input", field_ignored, "{'anyOf':[{'type':'string'},{'type':'array'}]}",
          "A text, or a list of items: messages, reasoning, function_call, function_call_output, "
          "item_reference."),
    OTHER("instructions", read_string, STRING, "Stand before the conversation, for this time."),
    OTHER("previous_response_id", read_string, STRING,
          "A kept response that this one goes on from."),
    BOOL("store", field_ignored, "false: the response is not kept."),
    BOOL("background", read_background, "Only false."),
    FIELD_INT_ROW("max_output_tokens", FOR_RESPONSES, options.tokens_max, 1, INT_MAX,
                  "Of the answer, its reasoning included."),
    FIELD_READ_ROW("max_tool_calls", FOR_RESPONSES, FIELD_INT, 0, INT_MAX, field_ignored, NULL,
                   "Of built-in tools, of which there are none."),
    FIELD_READ_ROW("top_logprobs", FOR_RESPONSES, FIELD_INT, 0, OSP_TOP_LOGPROBS_MAX,
                   read_top_logprobs, NULL,
                   "Log-probabilities of the answer's tokens, and of so many of the likeliest."),
    OTHER("include", read_include, "{'type':'array','items':{'type':'string'}}",
          "What is told besides: log-probabilities, reasoning as encrypted_content."),
    OTHER("text", read_text,
          "{'type':'object','properties':{'format':{'type':'object','properties':{'type':{'enum':["
          "'text','json_object','json_schema']}},'required':['type']}}}",
          "text.format: the form that the answer is held to."),
    OTHER("reasoning", read_reasoning,
          "{'type':'object','properties':{'effort':{'type':'string'},'summary':{'enum':['auto',"
          "'concise','detailed',null]}}}",
          "effort: how much the model thinks. summary: the reasoning comes as its summary, too."),
    OTHER("tools", read_tools, "{'type':'array'}",
          "Functions and custom tools that the model may call; other kinds are ignored."),
    OTHER("metadata", read_metadata, "{'type':'object','additionalProperties':{'type':'string'}}",
          "Comes back in the response."),
    OTHER("truncation", read_truncation, "{'enum':['disabled']}", "Nothing is left out."),
    OTHER("stream_options", read_object, "{'type':'object'}",
          "include_obfuscation: nothing is added to events either way."),
    OTHER("prompt", refuse, "{'type':'null'}", "Kept prompts: there are none."),
    OTHER("conversation", refuse, "{'type':'null'}",
          "Kept conversations: there are none; see previous_response_id."),
};

bool response_includes(const json_t *body, const char *name)
{
    const json_t *list = json_object_get(body, "include");

    for (size_t i = 0; i < json_array_size(list); i++)
        if (strcmp(json_string_value(json_array_get(list, i)), name) == 0)
            return true;
    return false;
}
