/* The conversation behind osp_chat. System and developer messages are gathered into one developer
 * message; all other messages are kept in order, as Harmony messages. All strings are in one arena,
 * whose capacity is the limit of a conversation's text. */
#include "engine/chat/chat.h"
#include "engine/chat/chat_effort.h"
#include "engine/chat/chat_cached.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"

enum { DATE_BYTES = 11 };

/* A call that a tool message may answer. */
struct call {
    const char *id, *recipient; /* "functions.get_weather" */
};

struct osp_chat {
    struct arena text;
    struct buf instructions;
    struct harmony_message *messages;
    size_t n_messages, capacity_messages;
    struct call *calls;
    size_t n_calls, capacity_calls;
    struct harmony_tool *functions;
    size_t n_functions, capacity_functions;
    const char **names; /* of the functions */
    bool *is_strict;    /* (n_functions) */
    size_t capacity_names, capacity_strict;
    struct buf response_format;
    enum harmony_effort effort;
    char date[DATE_BYTES]; /* "" = none */
    bool may_be_preamble;  /* the last message is final; a call after it makes it a preamble */
};

struct osp_chat *osp_chat_new(void)
{
    struct osp_chat *chat = mem_new(sizeof *chat);

    arena_init(&chat->text, CHAT_BYTES_MAX);
    buf_init(&chat->instructions, CHAT_BYTES_MAX);
    buf_init(&chat->response_format, CHAT_BYTES_MAX);
    chat->effort = EFFORT_MEDIUM;
    clock_date_utc(chat->date);
    return chat;
}

void osp_chat_free(struct osp_chat *chat)
{
    if (chat == NULL)
        return;
    arena_release(&chat->text);
    buf_release(&chat->instructions);
    buf_release(&chat->response_format);
    free(chat->messages);
    free(chat->calls);
    free(chat->functions);
    free(chat->names);
    free(chat->is_strict);
    free(chat);
}

/* Ensures capacity for one more item in *items, a `T **`. */
static enum osp_status reserve(void *items, size_t n, size_t *capacity, size_t item_bytes,
                               size_t most, const char *what)
{
    if (n >= most)
        return fail(OSP_ELIMIT, "the conversation has more than %zu %s", most, what);
    return mem_try_grow(items, n, capacity, item_bytes, what);
}

/* A copy that the chat owns, followed by a NUL. */
static enum osp_status copy_text(struct osp_chat *chat, const char *prefix,
                                 struct harmony_text text, struct harmony_text *out)
{
    size_t n_prefix = strlen(prefix);
    size_t n_bytes, n_terminated;
    char *copy = NULL;

    if (add_size(n_prefix, text.n_bytes, &n_bytes) && add_size(n_bytes, 1, &n_terminated))
        copy = arena_try(&chat->text, n_terminated);
    if (copy == NULL)
        return arena_failure(&chat->text, n_bytes, "the conversation's text");
    memcpy(copy, prefix, n_prefix);
    if (text.n_bytes > 0)
        memcpy(copy + n_prefix, text.data, text.n_bytes);
    *out = (struct harmony_text){copy, n_bytes};
    return OSP_OK;
}

static enum osp_status copy_string(struct osp_chat *chat, const char *prefix, const char *s,
                                   const char **out)
{
    struct harmony_text copy;
    enum osp_status st;

    TRY(copy_text(chat, prefix, (struct harmony_text){s, strlen(s)}, &copy));
    *out = copy.data;
out:
    return st;
}

/* Appends a message whose header strings the chat owns or are literals; copies the content. */
static enum osp_status add_message(struct osp_chat *chat, struct harmony_message m)
{
    enum osp_status st;

    TRY(reserve(&chat->messages, chat->n_messages, &chat->capacity_messages, sizeof m,
                CHAT_MESSAGES_MAX, "messages"));
    TRY(copy_text(chat, "", m.content, &m.content));
    chat->messages[chat->n_messages++] = m;
    chat->may_be_preamble = false;
out:
    return st;
}

static enum osp_status add_instructions(struct osp_chat *chat, struct harmony_text text)
{
    if (text.n_bytes == 0)
        return OSP_OK;
    if (chat->instructions.size_bytes > 0)
        buf_puts(&chat->instructions, "\n\n");
    if (!buf_append(&chat->instructions, text.data, text.n_bytes))
        return buf_failure(&chat->instructions, "the instructions");
    return OSP_OK;
}

static enum osp_status add_user(struct osp_chat *chat, const char *name, struct harmony_text text)
{
    struct harmony_message m = {.role = ROLE_USER, .content = text};
    enum osp_status st;

    if (name != NULL) {
        TRY(harmony_name_check(name));
        TRY(copy_string(chat, "", name, &m.name));
    }
    TRY(add_message(chat, m));
out:
    return st;
}

static enum osp_status add_final(struct osp_chat *chat, struct harmony_text text)
{
    return add_message(chat, (struct harmony_message){
                                 .role = ROLE_ASSISTANT, .channel = "final", .content = text});
}

enum osp_status chat_add_text(struct osp_chat *chat, const char *role, const char *name,
                              struct harmony_text content)
{
    if (strcmp(role, "system") == 0 || strcmp(role, "developer") == 0)
        return add_instructions(chat, content);
    if (strcmp(role, "user") == 0)
        return add_user(chat, name, content);
    if (strcmp(role, "assistant") == 0)
        return add_final(chat, content);
    return fail(OSP_EINVAL, "role \"%.32s\" is not one of system, developer, user, assistant",
                role);
}

enum osp_status chat_add_assistant_text(struct osp_chat *chat, struct harmony_text reasoning,
                                        struct harmony_text content)
{
    struct harmony_message analysis = {
        .role = ROLE_ASSISTANT, .channel = "analysis", .content = reasoning};
    enum osp_status st = OSP_OK;

    chat->may_be_preamble = false;
    if (reasoning.n_bytes > 0)
        TRY(add_message(chat, analysis));
    if (content.data != NULL) {
        TRY(add_final(chat, content));
        chat->may_be_preamble = true;
    }
out:
    return st;
}

void chat_make_preamble(struct osp_chat *chat)
{
    struct harmony_message *last;

    if (!chat->may_be_preamble)
        return;
    last = &chat->messages[chat->n_messages - 1]; /* there is one: it may be a preamble */
    if (last->content.n_bytes == 0)
        chat->n_messages--;
    else
        last->channel = "commentary";
    chat->may_be_preamble = false;
}

static enum osp_status check_call_id(const char *id)
{
    size_t n_bytes = strlen(id);

    if (n_bytes == 0 || n_bytes > CHAT_CALL_ID_BYTES_MAX)
        return fail(OSP_EINVAL, "a call's id has %zu bytes, allowed are 1 to %d", n_bytes,
                    CHAT_CALL_ID_BYTES_MAX);
    return OSP_OK;
}

enum osp_status chat_add_call_text(struct osp_chat *chat, const char *id, const char *name,
                                   struct harmony_text arguments)
{
    struct harmony_message m = {.role = ROLE_ASSISTANT,
                                .channel = "commentary",
                                .content_type = "<|constrain|>json",
                                .content = arguments};
    struct call call;
    enum osp_status st;

    TRY(check_call_id(id));
    TRY(harmony_name_check(name));
    TRY(reserve(&chat->calls, chat->n_calls, &chat->capacity_calls, sizeof call, CHAT_MESSAGES_MAX,
                "calls"));
    TRY(copy_string(chat, "", id, &call.id));
    TRY(copy_string(chat, "functions.", name, &call.recipient));
    chat_make_preamble(chat); /* text before a call is a preamble */
    m.recipient = call.recipient;
    TRY(add_message(chat, m));
    chat->calls[chat->n_calls++] = call;
out:
    return st;
}

/* The latest call with that id, since some clients number calls anew in every turn; NULL if there
 * is no such call. */
static const struct call *find_call(const struct osp_chat *chat, const char *id)
{
    for (size_t i = chat->n_calls; i > 0; i--)
        if (strcmp(chat->calls[i - 1].id, id) == 0)
            return &chat->calls[i - 1];
    return NULL;
}

enum osp_status chat_add_result_text(struct osp_chat *chat, const char *call_id,
                                     struct harmony_text content)
{
    const struct call *call = find_call(chat, call_id);

    if (call == NULL)
        return fail(OSP_EINVAL, "no tool call before this has the id \"%.80s\"", call_id);
    return add_message(chat, (struct harmony_message){.role = ROLE_TOOL,
                                                      .name = call->recipient,
                                                      .recipient = "assistant",
                                                      .channel = "commentary",
                                                      .content = content});
}

/* Renders the function once, so that an invalid schema is reported where it is offered. */
static enum osp_status check_function(const struct osp_chat *chat, const struct harmony_tool *tool)
{
    struct harmony_namespace functions = {.name = "functions", .tools = tool, .n_tools = 1};
    struct buf text;
    enum osp_status st;

    buf_init(&text, CHAT_BYTES_MAX);
    TRY(harmony_name_check(tool->name));
    for (size_t i = 0; i < chat->n_functions; i++)
        if (strcmp(chat->names[i], tool->name) == 0)
            TRY(fail(OSP_EINVAL, "the function \"%s\" is offered twice", tool->name));
    TRY(harmony_render_tools(&functions, 1, &text));
out:
    buf_release(&text);
    return st;
}

enum osp_status osp_chat_add_function(struct osp_chat *chat, const char *name,
                                      const char *description, const char *parameters_json)
{
    struct harmony_tool tool = {name, description, parameters_json};
    enum osp_status st;

    if (name == NULL)
        return fail(OSP_EINVAL, "a function needs a name");
    TRY(check_function(chat, &tool));
    TRY(reserve(&chat->functions, chat->n_functions, &chat->capacity_functions, sizeof tool,
                CHAT_FUNCTIONS_MAX, "functions"));
    TRY(reserve(&chat->names, chat->n_functions, &chat->capacity_names, sizeof *chat->names,
                CHAT_FUNCTIONS_MAX, "functions"));
    TRY(reserve(&chat->is_strict, chat->n_functions, &chat->capacity_strict,
                sizeof *chat->is_strict, CHAT_FUNCTIONS_MAX, "functions"));
    TRY(copy_string(chat, "", name, &tool.name));
    if (description != NULL)
        TRY(copy_string(chat, "", description, &tool.description));
    if (parameters_json != NULL)
        TRY(copy_string(chat, "", parameters_json, &tool.parameters_json));
    chat->names[chat->n_functions] = tool.name;
    chat->is_strict[chat->n_functions] = false;
    chat->functions[chat->n_functions++] = tool;
out:
    return st;
}

const char *const *chat_function_names(const struct osp_chat *chat, size_t *n)
{
    *n = chat->n_functions;
    return chat->names;
}

enum osp_status osp_chat_set_strict(struct osp_chat *chat, const char *name)
{
    for (size_t i = 0; name != NULL && i < chat->n_functions; i++)
        if (strcmp(chat->names[i], name) == 0) {
            chat->is_strict[i] = true;
            return OSP_OK;
        }
    return fail(OSP_EINVAL, "there is no function \"%.80s\"", name != NULL ? name : "");
}

struct chat_functions chat_get_functions(const struct osp_chat *chat)
{
    return (struct chat_functions){chat->functions, chat->is_strict, chat->n_functions};
}

/* ## name
 *
 * // description
 * schema */
enum osp_status osp_chat_set_response_format(struct osp_chat *chat, const char *name,
                                             const char *description, const char *schema_json)
{
    struct buf *out = &chat->response_format;
    enum osp_status st;

    if (name == NULL || schema_json == NULL)
        return fail(OSP_EINVAL, "a response format needs a name and a schema");
    TRY(harmony_name_check(name));
    buf_clear(out);
    buf_printf(out, "## %s\n", name);
    harmony_append_lines(out, description, "// ");
    buf_printf(out, "\n%s", schema_json);
    if (out->overflow)
        st = buf_failure(out, "the response format");
out:
    return st;
}

enum osp_status chat_check_effort(const char *effort)
{
    enum harmony_effort unused;

    if (effort_find(effort, &unused))
        return OSP_OK;
    return fail(OSP_EINVAL,
                "effort \"%.32s\" is not one of low, medium, high (or none, minimal, xhigh, max)",
                effort != NULL ? effort : "");
}

enum osp_status osp_chat_set_effort(struct osp_chat *chat, const char *effort)
{
    enum osp_status st = chat_check_effort(effort);

    if (st == OSP_OK)
        effort_find(effort, &chat->effort);
    return st;
}

const char *osp_chat_effort(const struct osp_chat *chat)
{
    return effort_name(chat->effort);
}

void chat_take_effort_of_instructions(struct osp_chat *chat)
{
    effort_find_in_text(buf_text(&chat->instructions), chat->instructions.size_bytes,
                        &chat->effort);
}

/* "2026-01-31", with a month and a day that exist in some year. */
static bool is_date(const char *s)
{
    static const char form[] = "dddd-dd-dd";
    int month, day;

    if (strlen(s) != sizeof form - 1)
        return false;
    for (size_t i = 0; i < sizeof form - 1; i++)
        if (form[i] == '-' ? s[i] != '-' : s[i] < '0' || s[i] > '9')
            return false;
    month = (s[5] - '0') * 10 + s[6] - '0';
    day = (s[8] - '0') * 10 + s[9] - '0';
    return month >= 1 && month <= 12 && day >= 1 && day <= 31;
}

enum osp_status osp_chat_set_date(struct osp_chat *chat, const char *date)
{
    if (date != NULL && strcmp(date, "today") == 0) {
        clock_date_utc(chat->date);
        return OSP_OK;
    }
    if (date != NULL && strcmp(date, "none") == 0)
        date = NULL;
    if (date != NULL && !is_date(date))
        return fail(OSP_EINVAL, "\"%.32s\" is not a date like 2026-01-31, nor today or none", date);
    memset(chat->date, 0, sizeof chat->date);
    if (date != NULL)
        memcpy(chat->date, date, sizeof chat->date - 1);
    return OSP_OK;
}

static enum osp_status render(const struct osp_chat *chat, const struct tokenizer *t,
                              const struct harmony_cache *replay, struct ids *out)
{
    struct harmony_system system = {.date = chat->date[0] != '\0' ? chat->date : NULL,
                                    .effort = chat->effort};
    struct harmony_namespace functions = {
        .name = "functions", .tools = chat->functions, .n_tools = chat->n_functions};
    struct harmony_conversation c = {
        .system = &system,
        .instructions = {chat->instructions.data, chat->instructions.size_bytes},
        .response_format = {chat->response_format.data, chat->response_format.size_bytes},
        .has_developer = true,
        .namespaces = &functions,
        .n_namespaces = chat->n_functions > 0 ? 1 : 0,
        .messages = chat->messages,
        .n_messages = chat->n_messages,
        .replay = replay,
    };

    if (chat->n_messages == 0 && chat->instructions.size_bytes == 0)
        return fail(OSP_EINVAL, "the conversation has no message");
    return harmony_render(&c, HISTORY_COMPLETED, true, t, out);
}

enum osp_status chat_render_ids(const struct osp_chat *chat, const struct tokenizer *t,
                                struct ids *out)
{
    return render(chat, t, NULL, out);
}

enum osp_status chat_render_cached(const struct osp_chat *chat, const struct tokenizer *t,
                                   struct chat_cached *replay, struct ids *out)
{
    const struct harmony_cache hook = chat_cached_hook(replay);

    replay->tokenizer = t;
    replay->functions = chat_function_names(chat, &replay->n_functions);
    return render(chat, t, &hook, out);
}
