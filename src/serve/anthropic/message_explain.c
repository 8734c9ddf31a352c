/* The engine reads the conversation as a chat completion request, and its errors name fields of
 * that request. These functions convert them to errors about the fields that the client sent. */
#include <stdio.h>
#include <string.h>

#include "serve/anthropic/message_input_parts.h"

/* Members of a chat completion request, and what they were made from. */
static const struct {
    const char *chat, *own;
} MEMBERS[] = {
    {".tool_calls[0].function.arguments", ".input"},
    {".tool_calls[0].function", ""},
    {".tool_calls[0]", ""},
    {".tool_call_id", ".tool_use_id"},
    {".reasoning", ".thinking"},
    {".content", ""},
    {".function.parameters", ".input_schema"},
    {".function", ""},
    {".json_schema", ""},
};

/* Writes `text` to `out` with the member at its beginning converted. */
static void convert(const char *text, char out[FAIL_MESSAGE_BYTES_MAX])
{
    for (size_t i = 0; i < sizeof MEMBERS / sizeof MEMBERS[0]; i++) {
        const size_t n = strlen(MEMBERS[i].chat);

        if (strncmp(text, MEMBERS[i].chat, n) != 0)
            continue;
        snprintf(out, FAIL_MESSAGE_BYTES_MAX, "%s%s", MEMBERS[i].own, text + n);
        return;
    }
    snprintf(out, FAIL_MESSAGE_BYTES_MAX, "%s", text);
}

static enum osp_status explain_message(const struct message_input *in, const char *text,
                                       enum osp_status st)
{
    char place[INPUT_PLACE_BYTES], rest[FAIL_MESSAGE_BYTES_MAX];
    int message = 0, n = 0;

    if (sscanf(text, "messages[%d]%n", &message, &n) != 1 || n == 0 || message < 0 ||
        (size_t)message >= in->n_origins)
        return st;
    message_place(in->origins[message], place);
    convert(text + n, rest);
    return fail(st, "%s%s", place, rest);
}

static enum osp_status explain_tool(const int *tools, size_t n_tools, const char *text,
                                    enum osp_status st)
{
    char rest[FAIL_MESSAGE_BYTES_MAX];
    int tool = 0, n = 0;

    if (sscanf(text, "tools[%d]%n", &tool, &n) != 1 || n == 0 || tool < 0 ||
        (size_t)tool >= n_tools)
        return st;
    convert(text + n, rest);
    return fail(st, "tools[%d]%s", tools[tool], rest);
}

static enum osp_status explain_format(const char *text, enum osp_status st)
{
    static const char name[] = "response_format";
    char rest[FAIL_MESSAGE_BYTES_MAX];

    if (strncmp(text, name, sizeof name - 1) != 0)
        return st;
    convert(text + sizeof name - 1, rest);
    return fail(st, "output_config.format%s", rest);
}

enum osp_status message_format_explain(enum osp_status st)
{
    char text[FAIL_MESSAGE_BYTES_MAX];

    if (st == OSP_OK)
        return st;
    snprintf(text, sizeof text, "%s", fail_message());
    return explain_format(text, st);
}

enum osp_status message_input_explain(const struct message_input *in, const int *tools,
                                      size_t n_tools, enum osp_status st)
{
    char text[FAIL_MESSAGE_BYTES_MAX];

    if (st == OSP_OK)
        return st;
    snprintf(text, sizeof text, "%s", fail_message());
    if (strncmp(text, "messages[", 9) == 0)
        return explain_message(in, text, st);
    if (strncmp(text, "tools[", 6) == 0)
        return explain_tool(tools, n_tools, text, st);
    return explain_format(text, st);
}
