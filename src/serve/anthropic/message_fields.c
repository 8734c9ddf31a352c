#include "serve/anthropic/message_fields.h"

#include <limits.h>
#include <string.h>

#include "base/memory.h"
#include "base/str.h"
#include "serve/fields/json_response_format.h"
#include "serve/fields/json_types.h"

/* Budgets in tokens of thinking up to which the effort is low or medium; clients send 1,024 at
 * least, and 31,999 for the most. */
enum { BUDGET_LOW_MAX = 2048, BUDGET_MEDIUM_MAX = 8192 };

bool message_is_effort(const json_t *v)
{
    const char *name = json_string_value(v);

    return name && str_in_list("none,minimal,low,medium,high,xhigh,max", name);
}

const char *message_effort(const struct message_style *s)
{
    if (s->effort)
        return s->effort;
    if (s->thinking == THINKING_DISABLED)
        return "low";
    if (s->budget_tokens == 0)
        return NULL;
    if (s->budget_tokens <= BUDGET_LOW_MAX)
        return "low";
    return s->budget_tokens <= BUDGET_MEDIUM_MAX ? "medium" : "high";
}

/* ---- readers, one per field ---- */

static enum osp_status read_list(struct request_params *p, const char *name, const json_t *v)
{
    (void)p;
    return json_is_array(v) ? OSP_OK : json_mismatch(name, v, "a list");
}

static enum osp_status read_object(struct request_params *p, const char *name, const json_t *v)
{
    (void)p;
    return json_is_object(v) ? OSP_OK : json_mismatch(name, v, "an object");
}

static enum osp_status read_string(struct request_params *p, const char *name, const json_t *v)
{
    (void)p;
    return json_is_string(v) ? OSP_OK : json_mismatch(name, v, "a string");
}

static enum osp_status refuse(struct request_params *p, const char *name, const json_t *v)
{
    (void)p, (void)v;
    return fail(OSP_EUNSUPPORTED, "%s: not supported; remove the field", name);
}

static enum osp_status read_system(struct request_params *p, const char *name, const json_t *v)
{
    (void)p; /* read by message_input_system() */
    return json_is_string(v) || json_is_array(v)
               ? OSP_OK
               : json_mismatch(name, v, "a string or a list of text blocks");
}

static enum osp_status read_stops(struct request_params *p, const char *name, const json_t *v)
{
    return json_is_array(v) ? field_stop(p, name, v) : json_mismatch(name, v, "a list of strings");
}

static enum osp_status read_metadata(struct request_params *p, const char *name, const json_t *v)
{
    const json_t *id = json_object_get(v, "user_id");

    if (!json_is_object(v))
        return json_mismatch(name, v, "an object");
    return id && !json_is_null(id) ? field_user(p, "metadata.user_id", id) : OSP_OK;
}

static enum osp_status read_context(struct request_params *p, const char *name, const json_t *v)
{
    if (!json_is_object(v))
        return json_mismatch(name, v, "an object");
    fields_warn(p, name,
                "ignored: nothing is removed from a conversation but the thinking of "
                "completed turns");
    return OSP_OK;
}

static enum osp_status read_servers(struct request_params *p, const char *name, const json_t *v)
{
    (void)p;
    if (!json_is_array(v))
        return json_mismatch(name, v, "a list");
    return json_array_size(v) == 0
               ? OSP_OK
               : fail(OSP_EUNSUPPORTED,
                      "%s: not supported: this server calls no other servers; offer their tools "
                      "as tools of the client",
                      name);
}

static enum osp_status read_speed(struct request_params *p, const char *name, const json_t *v)
{
    const char *word = json_string_value(v);

    if (!word || !str_in_list("standard,fast", word))
        return fail(OSP_EINVAL, "%s: must be \"standard\" or \"fast\"", name);
    if (strcmp(word, "fast") == 0)
        fields_warn_ignored(p, name);
    return OSP_OK;
}

static enum osp_status read_choice_flag(struct request_params *p, const json_t *v)
{
    static const char name[] = "tool_choice.disable_parallel_tool_use";
    const json_t *flag = json_object_get(v, "disable_parallel_tool_use");

    return flag && !json_is_null(flag) ? json_bool(&p->options.one_tool_call, name, flag) : OSP_OK;
}

static enum osp_status read_chosen_tool(struct request_params *p, const json_t *v)
{
    const char *tool = json_string_value(json_object_get(v, "name"));
    enum osp_status st;

    if (!tool)
        return fail(OSP_EINVAL, "tool_choice.name: must be the name of a tool");
    TRY(mem_try_array(&p->tools, 1, sizeof *p->tools, "functions"));
    p->tools[p->options.n_tools++] = mem_strdup(tool);
    p->options.tools = (const char *const *)p->tools;
out:
    return st;
}

static enum osp_status read_tool_choice(struct request_params *p, const char *name, const json_t *v)
{
    static const struct {
        const char *type;
        enum osp_tool_choice choice;
    } CHOICES[] = {{"auto", OSP_TOOLS_AUTO},
                   {"none", OSP_TOOLS_NONE},
                   {"any", OSP_TOOLS_REQUIRED},
                   {"tool", OSP_TOOLS_REQUIRED}};
    const char *type = json_string_value(json_object_get(v, "type"));
    bool is_known = false;
    enum osp_status st;

    if (!json_is_object(v))
        return json_mismatch(name, v, "an object");
    for (size_t i = 0; type && i < sizeof CHOICES / sizeof CHOICES[0]; i++) {
        if (strcmp(CHOICES[i].type, type) != 0)
            continue;
        p->options.tool_choice = CHOICES[i].choice;
        is_known = true;
    }
    if (!is_known)
        return fail(OSP_EINVAL, "%s.type: must be auto, any, tool or none", name);
    TRY(read_choice_flag(p, v));
    if (strcmp(type, "tool") == 0)
        TRY(read_chosen_tool(p, v));
out:
    return st;
}

/* ---- thinking and output_config ---- */

static enum osp_status read_budget(struct message_style *s, const json_t *v)
{
    json_int_t n = 0;
    enum osp_status st = json_int(&n, "thinking.budget_tokens", v, 1, INT_MAX);

    s->budget_tokens = (int)n;
    return st;
}

static enum osp_status read_display(struct message_style *s, const json_t *v)
{
    const char *display = json_string_value(v);

    if (!v || json_is_null(v))
        return OSP_OK;
    if (!display || !str_in_list("summarized,omitted", display))
        return fail(OSP_EINVAL, "thinking.display: must be \"summarized\" or \"omitted\"");
    s->omits_thinking = strcmp(display, "omitted") == 0;
    return OSP_OK;
}

static enum osp_status read_thinking(struct request_params *p, const char *name, const json_t *v)
{
    struct message_style *s = p->own;
    const char *type = json_string_value(json_object_get(v, "type"));
    enum osp_status st;

    if (!json_is_object(v))
        return json_mismatch(name, v, "an object");
    if (!type || !str_in_list("enabled,disabled,adaptive,between_tools", type))
        return fail(OSP_EINVAL, "%s.type: must be enabled, disabled, adaptive or between_tools",
                    name);
    s->thinking = strcmp(type, "disabled") == 0 ? THINKING_DISABLED : THINKING_ENABLED;
    if (strcmp(type, "enabled") == 0)
        TRY(read_budget(s, json_object_get(v, "budget_tokens")));
    TRY(read_display(s, json_object_get(v, "display")));
out:
    return st;
}

/* {"type": "json_schema", "schema": {...}} */
static enum osp_status read_format(struct request_params *p, const char *name, const json_t *v)
{
    struct message_style *s = p->own;
    const char *type = json_string_value(json_object_get(v, "type"));
    const json_t *schema = json_object_get(v, "schema");
    json_t *same;
    enum osp_status st;

    if (!type || strcmp(type, "json_schema") != 0)
        return fail(OSP_EINVAL, "%s.type: must be \"json_schema\"", name);
    if (!json_is_object(schema))
        return fail(OSP_EINVAL, "%s.schema: must be an object, a JSON schema", name);
    same = json_pack("{s:s,s:{s:O}}", "type", type, "json_schema", "schema", schema);
    if (!same)
        return fail(OSP_ENOMEM, "%s: out of memory for the schema", name);
    st = json_read_response_format(p, name, same);
    json_decref(same);
    s->schema = schema;
    return st;
}

static enum osp_status read_output_config(struct request_params *p, const char *name,
                                          const json_t *v)
{
    struct message_style *s = p->own;
    const json_t *effort = json_object_get(v, "effort"), *format = json_object_get(v, "format");

    if (!json_is_object(v))
        return json_mismatch(name, v, "an object");
    if (effort && !json_is_null(effort)) {
        s->effort = json_string_value(effort);
        if (!message_is_effort(effort))
            return fail(OSP_EINVAL, "%s.effort: must be low, medium, high, xhigh or max", name);
    }
    return format && !json_is_null(format) ? read_format(p, "output_config.format", format)
                                           : OSP_OK;
}

static enum osp_status read_output_format(struct request_params *p, const char *name,
                                          const json_t *v)
{
    return json_is_object(v) ? read_format(p, name, v) : json_mismatch(name, v, "an object");
}

/* ---- the tables ---- */

#define OTHER(name, reader, form, what) FIELD_OTHER_ROW(name, 0, reader, form, what)
#define OBJECT                          "{'type':'object'}"
#define STRING                          "{'type':'string'}"
#define LIST                            "{'type':'array'}"

/* The fields of both endpoints: those that change the prompt. */
#define PROMPT_ROWS                                                                                \
    FIELD_REQUIRED_ROW("messages", 0, 0, field_ignored, "{'type':'array','minItems':1}",           \
                       "The messages of the conversation: of user and assistant, with text, "      \
                       "thinking, tool_use and tool_result blocks."),                              \
        OTHER("system", read_system, "{'anyOf':[{'type':'string'},{'type':'array'}]}",             \
              "The system prompt, a string or a list of text blocks."),                            \
        OTHER("tools", read_list, LIST,                                                            \
              "Tools that the model may call; server tools such as web_search are ignored."),      \
        OTHER("tool_choice", read_tool_choice,                                                     \
              "{'type':'object','properties':{'type':{'enum':['auto','any','tool','none']}},"      \
              "'required':['type']}",                                                              \
              "Whether the model may or must call tools, and how many."),                          \
        OTHER("thinking", read_thinking,                                                           \
              "{'type':'object','properties':{'type':{'enum':['enabled','disabled','adaptive',"    \
              "'between_tools']}},'required':['type']}",                                           \
              "Whether the answer has thinking blocks; budget_tokens and disabled set the "        \
              "effort."),                                                                          \
        OTHER("output_config", read_output_config, OBJECT,                                         \
              "effort: how much the model reasons; format: a JSON schema that the answer is "      \
              "constrained to."),                                                                  \
        OTHER("output_format", read_output_format,                                                 \
              "{'type':'object','properties':{'type':{'const':'json_schema'},'schema':"            \
              "{'type':'object'}},'required':['type','schema']}",                                  \
              "The older name of output_config.format."),                                          \
        OTHER("cache_control", read_object, OBJECT,                                                \
              "No effect, here and in blocks and tools: every prefix is cached."),                 \
        OTHER("context_management", read_context, OBJECT,                                          \
              "Ignored with a warning: nothing is removed from a conversation."),                  \
        OTHER("mcp_servers", read_servers, "{'type':'array','maxItems':0}",                        \
              "Must be empty: this server calls no other servers."),                               \
        OTHER("container", refuse, "{'type':'null'}", "Not supported: there are no containers."),  \
        OTHER("betas", read_list, LIST, "No effect."),                                             \
        OTHER("speed", read_speed, "{'enum':['standard','fast']}", "fast has no effect.")

static const struct field MESSAGE_FIELDS[] = {
    PROMPT_ROWS,
    {.name = "max_tokens",
     .type = FIELD_INT,
     .min = 1,
     .max = INT_MAX,
     .offset = offsetof(struct request_params, options.tokens_max),
     .text = "The most tokens that may be generated, thinking included.",
     .is_required = true},
    FIELD_READ_ROW("stop_sequences", 0, FIELD_OTHER, 0, OSP_STOP_STRINGS_MAX, read_stops,
                   "{'type':'array','items':{'type':'string','minLength':1},'maxItems':#}",
                   "Strings that end the answer; the answer does not include them."),
    OTHER("metadata", read_metadata,
          "{'type':'object','properties':{'user_id':{'type':['string',"
          "'null']}}}",
          "user_id: the end user, as the field user."),
    OTHER("inference_geo", read_string, STRING, "No effect."),
    OTHER("diagnostics", read_object, OBJECT, "No effect."),
};
enum { N_MESSAGE_FIELDS = sizeof MESSAGE_FIELDS / sizeof MESSAGE_FIELDS[0] };

static const struct field COUNT_FIELDS[] = {
    PROMPT_ROWS,
    OTHER("model", field_ignored, STRING,
          "The name of the model; default: the model that this server serves."),
};
enum { N_COUNT_FIELDS = sizeof COUNT_FIELDS / sizeof COUNT_FIELDS[0] };

const struct field_set messages_fields = {
    .endpoint = FOR_MESSAGES, .own = MESSAGE_FIELDS, .n_own = N_MESSAGE_FIELDS};
const struct field_set count_tokens_fields = {.own = COUNT_FIELDS, .n_own = N_COUNT_FIELDS};
