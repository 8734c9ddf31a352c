/* The engine reads the conversation as a chat completion request, and its errors name fields of
 * that request. These functions convert them to errors about the items and tools that the client
 * sent. */
#include <stdio.h>
#include <string.h>

#include "serve/responses/response_input_parts.h"

static int item_of(const struct response_input *in, int message, int call)
{
    for (size_t i = in->n_origins; i-- > 0;)
        if (in->origins[i].message == message && in->origins[i].call == call)
            return in->origins[i].item;
    return INPUT_PREVIOUS;
}

static const char *without(const char *text, const char *begin)
{
    size_t n = strlen(begin);

    return strncmp(text, begin, n) == 0 ? text + n : text;
}

/* The ids of a call and of a tool message are both named call_id in items. */
static const char *id_path(const char **rest, bool is_call)
{
    const char *after = without(*rest, is_call ? ".id" : ".tool_call_id");

    if (after == *rest)
        return "";
    *rest = after;
    return ".call_id";
}

static enum osp_status explain_message(const struct response_input *in, const char *text,
                                       enum osp_status st)
{
    int message = 0, call = -1, n = 0, n_call = 0;
    char place[INPUT_PATH_BYTES];
    const char *rest, *id;

    if (sscanf(text, "messages[%d]%n", &message, &n) != 1 || n == 0)
        return st;
    if (sscanf(text + n, ".tool_calls[%d]%n", &call, &n_call) != 1 || n_call == 0)
        call = -1, n_call = 0;
    rest = without(without(text + n + n_call, ".function"), ".custom");
    id = id_path(&rest, call >= 0);
    return fail(st, "%s%s%s", input_path(item_of(in, message, call), place), id, rest);
}

static enum osp_status explain_tool(const int *tools, size_t n_tools, const char *text,
                                    enum osp_status st)
{
    int tool = 0, n = 0;

    if (sscanf(text, "tools[%d]%n", &tool, &n) != 1 || n == 0 || tool < 0 ||
        (size_t)tool >= n_tools)
        return st;
    return fail(st, "tools[%d]%s", tools[tool], without(without(text + n, ".function"), ".custom"));
}

/* Converts a place in response_format, or in text.format with the members of response_format. */
static enum osp_status explain_format(const char *text, enum osp_status st)
{
    const char *rest = without(without(text, "response_format"), "text.format");

    return rest == text ? st : fail(st, "text.format%s", without(rest, ".json_schema"));
}

enum osp_status response_format_explain(enum osp_status st)
{
    char text[FAIL_MESSAGE_BYTES_MAX];

    if (st == OSP_OK)
        return st;
    snprintf(text, sizeof text, "%s", fail_message());
    return explain_format(text, st);
}

enum osp_status response_input_explain(const struct response_input *in, const int *tools,
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
