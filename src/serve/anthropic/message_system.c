/* Reads system prompts, and system messages within a conversation: texts, tools that come and go,
 * and the effort from there on. */
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "serve/anthropic/message_fields.h"
#include "serve/anthropic/message_input_parts.h"
#include "serve/anthropic/message_tools.h"

/* Claude Code begins its system prompt with a line that differs in every request, which would
 * keep the prefix cache from finding anything. Moves *text behind that line. */
static void skip_billing_header(const char **text, size_t *n_bytes)
{
    static const char header[] = "x-anthropic-billing-header:";
    const char *end;

    if (*n_bytes < sizeof header - 1 || memcmp(*text, header, sizeof header - 1) != 0)
        return;
    end = memchr(*text, '\n', *n_bytes);
    end = end ? end + 1 : *text + *n_bytes;
    *n_bytes -= (size_t)(end - *text);
    *text = end;
}

enum osp_status message_add_system(struct message_input *in, const json_t *v)
{
    const char *text = json_string_value(v);
    size_t n_bytes = json_string_length(v);

    skip_billing_header(&text, &n_bytes);
    return n_bytes > 0 ? message_add_text(in, "system", text, n_bytes) : OSP_OK;
}

enum osp_status message_system_text(const struct message_input *in, const json_t *block,
                                    const json_t **text)
{
    *text = json_object_get(block, "text");
    if (strcmp(message_block_type(block), "text") != 0)
        return message_error(in, ".type", "must be \"text\"");
    return json_is_string(*text) ? OSP_OK : message_error(in, ".text", "must be a string");
}

/* ---- system messages ---- */

static enum osp_status add_reminder(struct message_input *in, const char *text, size_t n_bytes)
{
    struct buf marked;
    enum osp_status st;

    buf_init(&marked, INPUT_TEXT_BYTES_MAX);
    buf_puts(&marked, "<system-reminder>\n");
    buf_append(&marked, text, n_bytes);
    buf_puts(&marked, "\n</system-reminder>");
    st = message_flush(in, &marked);
    buf_release(&marked);
    return st;
}

/* The instructions are at the beginning of the prompt, so a text that was added there later would
 * make the whole cached prefix useless. A text that follows turns stays in its place, marked as
 * agents mark such texts. */
static enum osp_status add_text(struct message_input *in, const json_t *text)
{
    return in->has_turns ? add_reminder(in, json_string_value(text), json_string_length(text))
                         : message_add_system(in, text);
}

/* {"type": "tool_addition" or "tool_removal", "tool": {...}}: a reference by name, or a
 * definition. */
static enum osp_status add_tool_change(struct message_input *in, const json_t *block)
{
    const bool is_addition = strcmp(message_block_type(block), "tool_addition") == 0;
    const json_t *tool = json_object_get(block, "tool");
    const json_t *definition = json_object_get(tool, "definition");
    const char *name = json_string_value(json_object_get(definition ? definition : tool, "name"));
    struct buf text;
    enum osp_status st;

    if (!name || !str_in_list("tool_reference,tool_definition", message_block_type(tool)))
        return message_error(in, ".tool",
                             "must be a tool_reference or a tool_definition with the name of a "
                             "tool");
    buf_init(&text, INPUT_TEXT_BYTES_MAX);
    if (!is_addition)
        buf_printf(&text, "The tool %s is not available any more.", name);
    else
        buf_puts(&text, "This tool is available from here on:\n");
    if (is_addition && definition)
        message_definition_text(definition, &text);
    else if (is_addition)
        message_tool_text(in->tools, name, &text);
    st = text.overflow ? buf_failure(&text, "the definition of a tool")
                       : add_reminder(in, buf_text(&text), text.size_bytes);
    buf_release(&text);
    return st;
}

static enum osp_status read_block(struct message_input *in, const json_t *block, bool is_cleared)
{
    const json_t *text;
    enum osp_status st;

    if (str_in_list("tool_addition,tool_removal", message_block_type(block)))
        return add_tool_change(in, block);
    TRY(message_system_text(in, block, &text));
    if (!is_cleared)
        TRY(add_text(in, text));
out:
    return st;
}

static enum osp_status read_effort(struct message_input *in, const json_t *config)
{
    const json_t *effort = json_object_get(config, "effort");

    if (!effort || json_is_null(effort))
        return OSP_OK;
    if (!message_is_effort(effort))
        return fail(OSP_EINVAL,
                    "messages[%d].output_config.effort: must be low, medium, high, xhigh or max",
                    in->at.message);
    in->effort = json_string_value(effort);
    return OSP_OK;
}

static enum osp_status read_clear_at(const struct message_input *in, const json_t *v,
                                     bool *is_cleared)
{
    const char *when = json_string_value(v);

    *is_cleared = *is_cleared && when && strcmp(when, "next_user_message") == 0;
    if (!v || json_is_null(v) || (when && str_in_list("next_user_message,never", when)))
        return OSP_OK;
    return fail(OSP_EINVAL, "messages[%d].clear_at: must be \"next_user_message\" or \"never\"",
                in->at.message);
}

enum osp_status message_read_system(struct message_input *in, const json_t *message,
                                    bool is_before_user)
{
    const json_t *content = json_object_get(message, "content");
    bool is_cleared = is_before_user;
    enum osp_status st;

    TRY(read_effort(in, json_object_get(message, "output_config")));
    TRY(read_clear_at(in, json_object_get(message, "clear_at"), &is_cleared));
    if (!content || json_is_null(content) || (json_is_string(content) && is_cleared))
        return OSP_OK;
    if (json_is_string(content))
        return add_text(in, content);
    if (!json_is_array(content))
        return message_error(in, "", "must be a string or a list of blocks");
    for (in->at.block = 0; in->at.block < (int)json_array_size(content); in->at.block++)
        TRY(read_block(in, json_array_get(content, (size_t)in->at.block), is_cleared));
out:
    return st;
}
