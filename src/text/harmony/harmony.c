/* Conversation -> token ids. A message is a header between <|start|> and <|message|>, its content
 * and a closing token. Control tokens are appended by id, and every text between them is encoded as
 * ordinary text, so that text from a client never becomes a control token. Names, recipients,
 * channels and content types are checked, because header fields are separated by spaces only. */
#include "text/harmony/harmony.h"

#include <string.h>

#include "text/harmony/harmony_tools.h"

enum {
    HEADER_FIELD_BYTES_MAX = 128,
    HEADER_TEXT_BYTES_MAX = 512, /* role, name and recipient together */
};

#define CONSTRAIN "<|constrain|>"

static const char name_chars[] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-";

static const char *const role_names[] = {
    [ROLE_SYSTEM] = "system",       [ROLE_DEVELOPER] = "developer", [ROLE_USER] = "user",
    [ROLE_ASSISTANT] = "assistant", [ROLE_TOOL] = "tool",
};

static const char *const effort_names[] = {
    [EFFORT_LOW] = "low",
    [EFFORT_MEDIUM] = "medium",
    [EFFORT_HIGH] = "high",
};

enum osp_status harmony_name_check(const char *name)
{
    size_t n_bytes = strlen(name);

    if (n_bytes == 0 || n_bytes > HARMONY_NAME_BYTES_MAX || strspn(name, name_chars) != n_bytes)
        return fail(OSP_EINVAL,
                    "\"%.80s\" is not a valid name: expected 1 to %d of A-Z a-z 0-9 _ . -", name,
                    HARMONY_NAME_BYTES_MAX);
    return OSP_OK;
}

void harmony_name_sanitize(char *name)
{
    for (char *c = name; *c != '\0'; c++)
        if (strchr(name_chars, *c) == NULL)
            *c = '_';
}

static enum osp_status check_field(const char *what, const char *field)
{
    size_t n_bytes = strlen(field);

    if (n_bytes == 0 || n_bytes > HEADER_FIELD_BYTES_MAX || strspn(field, name_chars) != n_bytes)
        return fail(OSP_EINVAL, "%s is \"%.80s\", expected 1 to %d of A-Z a-z 0-9 _ . -", what,
                    field, HEADER_FIELD_BYTES_MAX);
    return OSP_OK;
}

static enum osp_status append_text(const struct tokenizer *t, const struct buf *text,
                                   struct ids *out)
{
    if (text->overflow)
        return buf_failure(text, "a message's text");
    return tokenizer_encode(t, buf_text(text), text->size_bytes, out);
}

static enum osp_status append_control(int32_t id, struct ids *out)
{
    if (!ids_push(out, id))
        return ids_failure(out, "the prompt");
    return OSP_OK;
}

/* The recipient of a message, or NULL if it is absent or "all". */
static const char *recipient_of(const struct harmony_message *m)
{
    return m->recipient != NULL && strcmp(m->recipient, "all") != 0 ? m->recipient : NULL;
}

/* Role, name and recipient: "assistant to=functions.x", "functions.x to=assistant", "user:ann". */
static enum osp_status append_author(const struct harmony_message *m, const struct tokenizer *t,
                                     struct ids *out)
{
    const char *recipient = recipient_of(m);
    struct buf text;
    enum osp_status st = OSP_OK;

    buf_init(&text, HEADER_TEXT_BYTES_MAX);
    if (m->role == ROLE_TOOL && m->name == NULL)
        TRY(fail(OSP_EINVAL, "a message with role tool has no tool name"));
    if (m->name != NULL)
        TRY(check_field("name", m->name));
    if (recipient != NULL)
        TRY(check_field("recipient", recipient));
    buf_puts(&text, m->role == ROLE_TOOL ? m->name : role_names[m->role]);
    if (m->role != ROLE_TOOL && m->name != NULL)
        buf_printf(&text, ":%s", m->name);
    if (recipient != NULL)
        buf_printf(&text, " to=%s", recipient);
    TRY(append_text(t, &text, out));
out:
    buf_release(&text);
    return st;
}

/* Channel and content type: "commentary <|constrain|>json", where the marker is a control token. */
static enum osp_status append_format(const struct harmony_message *m, const struct tokenizer *t,
                                     struct ids *out)
{
    const char *type = m->content_type;
    bool constrained = type != NULL && strncmp(type, CONSTRAIN, strlen(CONSTRAIN)) == 0;
    const char *header_word = constrained ? type + strlen(CONSTRAIN) : type;
    struct buf text;
    enum osp_status st = OSP_OK;

    buf_init(&text, HEADER_TEXT_BYTES_MAX);
    if (m->channel != NULL) {
        TRY(check_field("channel", m->channel));
        TRY(append_control(tokenizer_specials(t)->channel, out));
        buf_puts(&text, m->channel);
    }
    if (header_word != NULL && (*header_word != '\0' || !constrained))
        TRY(check_field("content type", header_word));
    if (type != NULL)
        buf_printf(&text, " %s", constrained ? "" : header_word);
    TRY(append_text(t, &text, out));
    if (constrained) {
        TRY(append_control(tokenizer_specials(t)->constrain, out));
        TRY(tokenizer_encode(t, header_word, strlen(header_word), out));
    }
out:
    buf_release(&text);
    return st;
}

static enum osp_status append_message(const struct harmony_message *m, const struct tokenizer *t,
                                      struct ids *out)
{
    const struct special_ids *special = tokenizer_specials(t);
    bool is_call = m->role == ROLE_ASSISTANT && recipient_of(m) != NULL;
    enum osp_status st;

    TRY(append_control(special->start, out));
    TRY(append_author(m, t, out));
    TRY(append_format(m, t, out));
    TRY(append_control(special->message, out));
    if (m->content.n_bytes > 0)
        TRY(tokenizer_encode(t, m->content.data, m->content.n_bytes, out));
    TRY(append_control(is_call ? special->call : special->end, out));
out:
    return st;
}

static enum osp_status append_composed(enum harmony_role role, const struct buf *text,
                                       const struct tokenizer *t, struct ids *out)
{
    struct harmony_message m = {
        .role = role,
        .content = {.data = buf_text(text), .n_bytes = text->size_bytes},
    };

    if (text->overflow)
        return fail_prefix(buf_failure(text, role_names[role]), "a message");
    return append_message(&m, t, out);
}

/* True if functions are offered; the system message then names the channel for calls. */
static bool has_functions(const struct harmony_conversation *c)
{
    for (size_t i = 0; c->has_developer && i < c->n_namespaces; i++) {
        if (strcmp(c->namespaces[i].name, "functions") == 0 && c->namespaces[i].n_tools > 0)
            return true;
    }
    return false;
}

static enum osp_status compose_system(const struct harmony_system *s, bool with_functions,
                                      struct buf *out)
{
    struct harmony_namespace builtin[2];
    size_t n_builtin = harmony_builtin_tools(s, builtin);
    enum osp_status st = OSP_OK;

    buf_puts(out, s->identity ? s->identity
                              : "You are ChatGPT, a large language model trained by OpenAI.");
    buf_printf(out, "\nKnowledge cutoff: %s",
               s->knowledge_cutoff ? s->knowledge_cutoff : "2024-06");
    if (s->date != NULL)
        buf_printf(out, "\nCurrent date: %s", s->date);
    if (s->effort != EFFORT_NONE)
        buf_printf(out, "\n\nReasoning: %s", effort_names[s->effort]);
    if (n_builtin > 0) {
        buf_puts(out, "\n\n");
        TRY(harmony_render_tools(builtin, n_builtin, out));
    }
    buf_printf(out,
               "\n\n# Valid channels: analysis, %sfinal. "
               "Channel must be included for every message.",
               s->no_commentary ? "" : "commentary, ");
    if (with_functions)
        buf_puts(out, "\nCalls to these tools must go to the commentary channel: 'functions'.");
out:
    return st;
}

static enum osp_status append_system(const struct harmony_conversation *c,
                                     const struct tokenizer *t, struct ids *out)
{
    struct buf text;
    enum osp_status st = OSP_OK;

    buf_init(&text, HARMONY_TEXT_BYTES_MAX);
    if (c->system != NULL) {
        TRY(compose_system(c->system, has_functions(c), &text));
        TRY(append_composed(ROLE_SYSTEM, &text, t, out));
    }
out:
    buf_release(&text);
    return st;
}

static enum osp_status append_developer(const struct harmony_conversation *c,
                                        const struct tokenizer *t, struct ids *out)
{
    struct buf text;
    enum osp_status st = OSP_OK;

    buf_init(&text, HARMONY_TEXT_BYTES_MAX);
    if (c->instructions.data != NULL) {
        buf_puts(&text, "# Instructions\n\n");
        buf_append(&text, c->instructions.data, c->instructions.n_bytes);
    }
    if (c->n_namespaces > 0) {
        buf_puts(&text, text.size_bytes > 0 ? "\n\n" : "");
        TRY(harmony_render_tools(c->namespaces, c->n_namespaces, &text));
    }
    if (c->response_format.n_bytes > 0) {
        buf_puts(&text, text.size_bytes > 0 ? "\n\n" : "");
        buf_puts(&text, "# Response Formats\n\n");
        buf_append(&text, c->response_format.data, c->response_format.n_bytes);
    }
    if (text.size_bytes > 0 || text.overflow)
        TRY(append_composed(ROLE_DEVELOPER, &text, t, out));
out:
    buf_release(&text);
    return st;
}

static bool is_on(const struct harmony_message *m, const char *channel)
{
    return m->channel != NULL && strcmp(m->channel, channel) == 0;
}

/* HISTORY_LIBRARY: the index of the first message that keeps its analysis. */
static size_t library_limit(const struct harmony_conversation *c)
{
    size_t last = c->n_messages, first_final = 0;

    while (last > 0 && c->messages[last - 1].role != ROLE_ASSISTANT)
        last--;
    if (last == 0 || !is_on(&c->messages[last - 1], "final"))
        return 0;
    while (!is_on(&c->messages[first_final], "final"))
        first_final++;
    return first_final;
}

/* HISTORY_COMPLETED: true if the turn that message `begin` belongs to ends before a user message
 * and contains a final answer. */
static bool turn_is_completed(const struct harmony_conversation *c, size_t begin)
{
    bool has_final = false;

    for (size_t i = begin; i < c->n_messages; i++) {
        if (i > begin && c->messages[i].role == ROLE_USER)
            return has_final;
        has_final = has_final || is_on(&c->messages[i], "final");
    }
    return false;
}

/* True if message i begins an answer that was appended from the cache; *n is its number of
 * messages. */
static bool append_cached(const struct harmony_conversation *c, size_t i, bool without_analysis,
                          struct ids *out, size_t *n)
{
    const struct harmony_message *m = c->messages;

    *n = 0;
    if (c->replay == NULL || m[i].role != ROLE_ASSISTANT ||
        (i > 0 && m[i - 1].role == ROLE_ASSISTANT))
        return false;
    while (i + *n < c->n_messages && m[i + *n].role == ROLE_ASSISTANT)
        (*n)++;
    return c->replay->answer(c->replay->ctx, m + i, *n, without_analysis, out);
}

static enum osp_status append_messages(const struct harmony_conversation *c,
                                       enum harmony_history history, const struct tokenizer *t,
                                       struct ids *out)
{
    size_t limit = history == HISTORY_LIBRARY ? library_limit(c) : 0;
    bool completed = false;
    enum osp_status st = OSP_OK;

    for (size_t i = 0, n; i < c->n_messages; i++) {
        const struct harmony_message *m = &c->messages[i];

        if (history == HISTORY_COMPLETED && (i == 0 || m->role == ROLE_USER))
            completed = turn_is_completed(c, i);
        if (append_cached(c, i, completed || i < limit, out, &n)) {
            i += n - 1;
            continue;
        }
        if ((completed || i < limit) && is_on(m, "analysis"))
            continue;
        st = append_message(m, t, out);
        if (st != OSP_OK)
            return fail_prefix(st, "message %zu", i);
    }
    return st;
}

enum osp_status harmony_render(const struct harmony_conversation *c, enum harmony_history history,
                               bool add_generation_prompt, const struct tokenizer *t,
                               struct ids *out)
{
    enum osp_status st;

    TRY(append_system(c, t, out));
    if (c->has_developer)
        TRY(append_developer(c, t, out));
    TRY(append_messages(c, history, t, out));
    if (add_generation_prompt) {
        TRY(append_control(tokenizer_specials(t)->start, out));
        TRY(tokenizer_encode(t, "assistant", strlen("assistant"), out));
    }
out:
    return st;
}
