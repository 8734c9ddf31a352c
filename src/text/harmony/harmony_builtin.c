/* The two tools that gpt-oss was trained with and that belong in the system message: a browser and
 * python. The wording is defined by the format and must not be changed by a single byte. */
#include "text/harmony/harmony_tools.h"

static const struct harmony_tool browser_tools[] = {
    {
        .name = "search",
        .description = "Searches for information related to `query` and displays `topn` results.",
        .parameters_json = "{\"type\": \"object\", \"required\": [\"query\"], \"properties\": {"
                           "\"query\": {\"type\": \"string\"},"
                           "\"topn\": {\"type\": \"number\", \"default\": 10},"
                           "\"source\": {\"type\": \"string\"}}}",
    },
    {
        .name = "open",
        .description =
            "Opens the link `id` from the page indicated by `cursor` starting at line number "
            "`loc`, showing `num_lines` lines.\n"
            "Valid link ids are displayed with the formatting: `【{id}†.*】`.\n"
            "If `cursor` is not provided, the most recent page is implied.\n"
            "If `id` is a string, it is treated as a fully qualified URL associated with "
            "`source`.\n"
            "If `loc` is not provided, the viewport will be positioned at the beginning of the "
            "document or centered on the most relevant passage, if available.\n"
            "Use this function without `id` to scroll to a new location of an opened page.",
        .parameters_json = "{\"type\": \"object\", \"properties\": {"
                           "\"id\": {\"type\": [\"number\", \"string\"], \"default\": -1},"
                           "\"cursor\": {\"type\": \"number\", \"default\": -1},"
                           "\"loc\": {\"type\": \"number\", \"default\": -1},"
                           "\"num_lines\": {\"type\": \"number\", \"default\": -1},"
                           "\"view_source\": {\"type\": \"boolean\", \"default\": false},"
                           "\"source\": {\"type\": \"string\"}}}",
    },
    {
        .name = "find",
        .description = "Finds exact matches of `pattern` in the current page, or the page given by "
                       "`cursor`.",
        .parameters_json = "{\"type\": \"object\", \"required\": [\"pattern\"], \"properties\": {"
                           "\"pattern\": {\"type\": \"string\"},"
                           "\"cursor\": {\"type\": \"number\", \"default\": -1}}}",
    },
};

static const struct harmony_namespace browser = {
    .name = "browser",
    .description =
        "Tool for browsing.\n"
        "The `cursor` appears in brackets before each browsing display: `[{cursor}]`.\n"
        "Cite information from the tool using the following format:\n"
        "`【{cursor}†L{line_start}(-L{line_end})?】`, for example: `【6†L9-L11】` or `【8†L3】`.\n"
        "Do not quote more than 10 words directly from the tool output.\n"
        "sources=web (default: web)",
    .tools = browser_tools,
    .n_tools = sizeof browser_tools / sizeof browser_tools[0],
};

static const struct harmony_namespace python = {
    .name = "python",
    .description =
        "Use this tool to execute Python code in your chain of thought. The code will not be shown "
        "to the user. This tool should be used for internal reasoning, but not for code that is "
        "intended to be visible to the user (e.g. when creating plots, tables, or files).\n"
        "\n"
        "When you send a message containing Python code to python, it will be executed in a "
        "stateful Jupyter notebook environment. python will respond with the output of the "
        "execution or time out after 120.0 seconds. The drive at '/mnt/data' can be used to save "
        "and persist user files. Internet access for this session is UNKNOWN. Depends on the "
        "cluster.",
};

size_t harmony_builtin_tools(const struct harmony_system *system, struct harmony_namespace out[2])
{
    size_t n = 0;

    if (system->with_browser)
        out[n++] = browser;
    if (system->with_python)
        out[n++] = python;
    return n;
}
