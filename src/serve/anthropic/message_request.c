#include "serve/anthropic/message_request.h"

#include "serve/anthropic/message_input.h"
#include "serve/anthropic/message_tools.h"
#include "serve/fields/json_response_format.h"
#include "serve/job/conversation.h"

/* Gives a chat completion request to json_decref(); NULL: out of memory. */
static json_t *chat_body(const struct message_input *in, const struct message_tools *tools,
                         const struct message_style *style)
{
    json_t *body = json_pack("{s:O}", "messages", in->chat);
    const char *effort = in->effort ? in->effort : message_effort(style);

    if (body && tools->n > 0)
        json_object_set(body, "tools", tools->chat);
    if (body && effort)
        json_object_set_new(body, "reasoning_effort", json_string(effort));
    if (body && style->schema)
        json_object_set_new(body, "response_format",
                            json_pack("{s:s,s:{s:O}}", "type", "json_schema", "json_schema",
                                      "schema", style->schema));
    return body;
}

static enum osp_status read_chat(struct osp_chat **out, const struct server *s,
                                 const struct message_input *in, const struct message_tools *tools,
                                 const struct message_style *style)
{
    json_t *body = chat_body(in, tools, style);
    enum osp_status st;

    if (!body)
        return fail(OSP_ENOMEM, "out of memory for the conversation of a request");
    st = message_input_explain(in, tools->source_index, tools->n,
                               json_form_explain(in->params, conversation_read(out, s, body)));
    json_decref(body);
    return st;
}

enum osp_status message_chat(struct osp_chat **out, const struct server *s,
                             struct request_params *params, const struct message_style *style,
                             const json_t *body)
{
    struct message_tools tools = {0};
    struct message_input in;
    enum osp_status st;

    *out = NULL;
    message_input_init(&in, params, s->calls);
    in.tools = json_object_get(body, "tools");
    TRY(message_tools_read(&tools, params, json_object_get(body, "tools")));
    TRY(message_input_system(&in, json_object_get(body, "system")));
    TRY(message_input_messages(&in, json_object_get(body, "messages")));
    TRY(read_chat(out, s, &in, &tools, style));
out:
    message_tools_release(&tools);
    message_input_release(&in);
    return st;
}
