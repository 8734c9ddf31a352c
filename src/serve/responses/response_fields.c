#include "serve/responses/response_fields.h"

#include <limits.h>
#include <string.h>

#include "base/str.h"
#include "serve/fields/json_response_format.h"
#include "serve/fields/json_types.h"
#include "serve/responses/response_input.h"

#define WITH_LOGPROBS "message.output_text.logprobs"

/* The values that OpenAI clients send. Only the first two have an effect; the others belong to
 * built-in tools, which this server does not have. */
static const char INCLUDES[] =
    WITH_LOGPROBS ",reasoning.encrypted_content,file_search_call.results,"
                  "web_search_call.results,web_search_call.action.sources,"
                  "message.input_image.image_url,computer_call_output.output.image_url,"
                  "code_interpreter_call.outputs";

/* ---- readers, one per field ---- */

static enum osp_status read_string(struct request_params *p, const char *name, const json_t *v)
{
    (void)p;
    return json_is_string(v) ? OSP_OK : json_mismatch(name, v, "a string");
}

static enum osp_status read_object(struct request_params *p, const char *name, const json_t *v)
{
    (void)p;
    return json_is_object(v) ? OSP_OK : json_mismatch(name, v, "an object");
}

static enum osp_status refuse(struct request_params *p, const char *name, const json_t *v)
{
    (void)p, (void)v;
    return fail(OSP_EUNSUPPORTED, "%s: not supported; remove the field", name);
}

static enum osp_status read_truncation(struct request_params *p, const char *name, const json_t *v)
{
    const char *how = json_string_value(v);

    (void)p;
    if (how && (strcmp(how, "disabled") == 0 || strcmp(how, "auto") == 0))
        return OSP_OK;
    return fail(OSP_EINVAL, "%s: must be \"disabled\" or \"auto\"", name);
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
        return json_mismatch(name, v, "a list of strings");
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

/* chat_read_document() checks the value of reasoning.effort. */
static enum osp_status read_reasoning(struct request_params *p, const char *name, const json_t *v)
{
    static const char summaries[] = "auto,concise,detailed";
    enum osp_status st;

    (void)p;
    if (!json_is_object(v))
        return json_mismatch(name, v, "an object");
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
        return json_mismatch(name, v, "an object");
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
    return json_is_array(v) ? OSP_OK : json_mismatch(name, v, "a list");
}

/* ---- the table ---- */

#define OTHER(name, reader, form, what) FIELD_OTHER_ROW(name, FOR_RESPONSES, reader, form, what)
#define BOOL(name, reader, what)                                                                   \
    FIELD_READ_ROW(name, FOR_RESPONSES, FIELD_BOOL, 0, 0, reader, NULL, what)
#define STRING "{'type':'string'}"

const struct field RESPONSE_FIELDS[N_RESPONSE_FIELDS] = {
    OTHER("input", field_ignored, "{'anyOf':[{'type':'string'},{'type':'array'}]}",
          "A string, or a list of items: message, reasoning, function_call, function_call_output, "
          "custom_tool_call, custom_tool_call_output, shell_call, local_shell_call, "
          "apply_patch_call, their _output items, and item_reference."),
    OTHER("instructions", read_string, STRING,
          "A developer message before the conversation, for this request only."),
    OTHER("previous_response_id", read_string, STRING,
          "The id of a stored response; its conversation precedes the input."),
    BOOL("store", field_ignored, "false: the response is not stored."),
    BOOL("background", field_ignored,
         "true: the response is returned at once with the status queued, and generated without the "
         "client, which polls, follows or cancels it by its id."),
    FIELD_INT_ROW("max_output_tokens", FOR_RESPONSES, options.tokens_max, 1, INT_MAX,
                  "The most tokens that may be generated, reasoning included; default: up to the "
                  "context length."),
    FIELD_READ_ROW("max_tool_calls", FOR_RESPONSES, FIELD_INT, 0, INT_MAX, field_ignored, NULL,
                   "Ignored: it limits built-in tools, and this server has none."),
    FIELD_READ_ROW("top_logprobs", FOR_RESPONSES, FIELD_INT, 0, OSP_TOP_LOGPROBS_MAX,
                   read_top_logprobs, NULL,
                   "Return the logprobs of the answer's tokens, and of this many of the most "
                   "likely tokens at each position."),
    OTHER("include", read_include, "{'type':'array','items':{'type':'string'}}",
          "Additional output: message.output_text.logprobs and reasoning.encrypted_content. Other "
          "values of the OpenAI API are ignored."),
    OTHER(
        "text", read_text,
        "{'type':'object','properties':{'format':{'type':'object','properties':{'type':{'enum':["
        "'text','json_object','json_schema']}},'required':['type']}}}",
        "format: the format that the answer is constrained to (text, json_object or json_schema)."),
    OTHER("reasoning", read_reasoning,
          "{'type':'object','properties':{'effort':{'type':'string'},'summary':{'enum':['auto',"
          "'concise','detailed',null]}}}",
          "effort: how much the model reasons before it answers. summary: the reasoning text is "
          "also returned as its summary."),
    OTHER("tools", read_tools, "{'type':'array'}",
          "Tools that the model may call: function, custom, namespace, shell, local_shell and "
          "apply_patch. web_search, image_generation, tool_search and unknown types are ignored; "
          "mcp, file_search, code_interpreter and computer are refused."),
    OTHER("metadata", field_metadata, "{'type':'object','additionalProperties':{'type':'string'}}",
          "Returned in the response."),
    OTHER("truncation", read_truncation, "{'enum':['disabled','auto']}",
          "auto: the oldest messages of a conversation that does not fit into the context are "
          "dropped; disabled (the default): it is refused."),
    OTHER("stream_options", read_object, "{'type':'object'}",
          "include_obfuscation is ignored: events are never padded."),
    OTHER("prompt", refuse, "{'type':'null'}", "Not supported: this server has no stored prompts."),
    OTHER("conversation", field_ignored,
          "{'anyOf':[{'type':'string'},{'type':'object','properties':{'id':{'type':'string'}},"
          "'required':['id']}]}",
          "The id of a conversation, or an object with its id: its items precede the input, and "
          "the items of the request and the answer are added to it."),
};

bool response_includes(const json_t *body, const char *name)
{
    const json_t *list = json_object_get(body, "include");

    for (size_t i = 0; i < json_array_size(list); i++)
        if (strcmp(json_string_value(json_array_get(list, i)), name) == 0)
            return true;
    return false;
}
