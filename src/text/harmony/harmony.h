/* Conversation -> tokens, byte-exact as openai/harmony renders (reference gpt-oss.md E). */
#ifndef TEXT_HARMONY_HARMONY_H
#define TEXT_HARMONY_HARMONY_H

#include "text/token/tokenizer.h"

enum harmony_role { ROLE_SYSTEM, ROLE_DEVELOPER, ROLE_USER, ROLE_ASSISTANT, ROLE_TOOL };
enum harmony_effort { EFFORT_NONE, EFFORT_LOW, EFFORT_MEDIUM, EFFORT_HIGH };

enum { HARMONY_NAME_BYTES_MAX = 64 }; /* of a function or a participant, as in the OpenAI API */

/* OSP_EINVAL, with the name in the message, unless it is 1 to HARMONY_NAME_BYTES_MAX of A-Z a-z 0-9
 * _ . - */
CHECKED enum osp_status harmony_name_check(const char *name);
/* Replaces each byte that a name must not contain with '_'. */
void harmony_name_sanitize(char *name);

/* Strings are borrowed for the call; NULL = absent. The length is explicit, so NUL bytes are
 * content. */
struct harmony_text {
    const char *data;
    size_t n_bytes;
};

/* A function offered in a namespace. `parameters_json` is its JSON schema; properties keep their
 * order; absent = no parameters. */
struct harmony_tool {
    const char *name;
    const char *description;
    const char *parameters_json;
};
struct harmony_namespace {
    const char *name, *description;
    const struct harmony_tool *tools;
    size_t n_tools;
};

struct harmony_system {
    const char *identity; /* NULL: "You are ChatGPT, a large language model trained by OpenAI." */
    const char *knowledge_cutoff;   /* NULL: "2024-06" */
    const char *date;               /* "2025-06-28"; NULL: no line */
    enum harmony_effort effort;     /* EFFORT_NONE: no line */
    bool with_browser, with_python; /* built-in tools */
    bool no_commentary;             /* the line is then "Valid channels: analysis, final" */
};

struct harmony_message {
    enum harmony_role role;
    const char *name;         /* tool: "functions.get_weather" (mandatory); others: optional */
    const char *recipient;    /* "functions.x", "assistant"; NULL or "all" = none */
    const char *channel;      /* "analysis", "commentary", "final" */
    const char *content_type; /* "<|constrain|>json", "code" */
    struct harmony_text content;
};

/* The token ids of earlier answers, used in place of rendering their messages. */
struct harmony_cache {
    void *ctx;
    /* Appends the ids of an answer, which is n consecutive messages of the assistant: from
     * <|start|> to the token that ends the last one. `out` contains the ids of everything before
     * it. False: not found, the answer is rendered from its text. */
    bool (*answer)(void *ctx, const struct harmony_message *messages, size_t n,
                   bool without_analysis, struct ids *out);
};

struct harmony_conversation {
    const struct harmony_system *system; /* NULL: no system message */
    struct harmony_text instructions;    /* developer message; data NULL = none */
    /* At the end of the developer message: "## name" and its content; NULL = none */
    struct harmony_text response_format;
    bool has_developer; /* render the developer message if it has any content */
    const struct harmony_namespace *namespaces; /* offered to the model, in the developer message */
    size_t n_namespaces;
    const struct harmony_message *messages;
    size_t n_messages;
    const struct harmony_cache *replay; /* NULL: none */
};

/* Which analysis messages of the history are omitted. */
enum harmony_history {
    HISTORY_KEEP, /* none */
    /* As openai/harmony 0.0.8: all before the first final, if the last assistant message is a
     * final */
    HISTORY_LIBRARY,
    /* Those of each turn before the last user message that contains a final answer */
    HISTORY_COMPLETED
};

/* Appends the ids. With `add_generation_prompt` the prompt ends in <|start|>assistant. */
CHECKED enum osp_status harmony_render(const struct harmony_conversation *c,
                                       enum harmony_history history, bool add_generation_prompt,
                                       const struct tokenizer *t, struct ids *out);

/* Appends every line of text (NULL: none) on its own line, after `prefix`. A trailing line break
 * ends the last line; \r\n counts as one line break. */
void harmony_append_lines(struct buf *out, const char *text, const char *prefix);

/* Text of the tools section ("# Tools ..."), for tests and for docs. */
CHECKED enum osp_status harmony_render_tools(const struct harmony_namespace *namespaces,
                                             size_t n_namespaces, struct buf *out);
#endif
