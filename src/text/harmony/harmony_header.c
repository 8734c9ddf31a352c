/* Parses headers. Each word is interpreted as the first field that it can be, in the order of
 * take_word, and is otherwise skipped. docs/harmony.md lists the malformed headers seen in practice
 * and how they are parsed. */
#include "text/harmony/harmony_header.h"

#include <string.h>

#include "base/utf8.h"

#define ASSISTANT "assistant"
#define CONSTRAIN "<|constrain|>"
#define FUNCTIONS "functions."

static const char *const roles[] = {"system", "developer", "user", ASSISTANT, "tool", NULL};
static const char *const channels[] = {"analysis", "commentary", "final", NULL};
static const char *const content_types[] = {"json", "code", "text", NULL};
static const char *const opening_words[] = {"analysis", "commentary", "final", ASSISTANT, NULL};

static bool equals(const char *s, size_t n, const char *text)
{
    return n == strlen(text) && memcmp(s, text, n) == 0;
}

static const char *find_equal(const char *const *list, const char *s, size_t n)
{
    for (; *list != NULL; list++)
        if (equals(s, n, *list))
            return *list;
    return NULL;
}

/* Copies as many whole characters as fit. */
static void set_field(char *field, size_t size_bytes, const char *s, size_t n)
{
    if (n >= size_bytes) {
        n = size_bytes - 1;
        n -= utf8_incomplete_tail(s, n);
    }
    memcpy(field, s, n);
    field[n] = '\0';
}

#define SET_FIELD(field, s, n) set_field(field, sizeof(field), s, n)

static void set_constrain(struct harmony_header *out, const char *s, size_t n)
{
    memcpy(out->content_type, CONSTRAIN, sizeof CONSTRAIN);
    set_field(out->content_type + strlen(CONSTRAIN), sizeof out->content_type - strlen(CONSTRAIN),
              s, n);
}

/* The channel named anywhere in a word: "commentary?commentary?" means commentary. */
static const char *channel_within(const char *s, size_t n)
{
    for (const char *const *name = channels; *name != NULL; name++)
        if (memmem(s, n, *name, strlen(*name)) != NULL)
            return *name;
    return NULL;
}

/* A known channel replaces an earlier one; an unknown channel is kept only if it is the first. */
static void take_channel(struct harmony_header *out, const char *s, size_t n)
{
    const char *known = channel_within(s, n);

    if (known != NULL)
        SET_FIELD(out->channel, known, strlen(known));
    else if (out->channel[0] == '\0')
        SET_FIELD(out->channel, s, n);
}

static void take_recipient(struct harmony_header *out, const char *s, size_t n)
{
    const char *cut = memchr(s, '<', n);

    SET_FIELD(out->recipient, s, cut != NULL ? (size_t)(cut - s) : n);
}

static bool is_offered(const struct header_tools *tools, const char *s, size_t n)
{
    for (size_t i = 0; i < tools->n; i++)
        if (equals(s, n, tools->names[i]))
            return true;
    return false;
}

/* A word without "to=" or a control token before it. */
static void take_bare_word(struct harmony_header *out, const struct header_tools *tools,
                           const char *s, size_t n)
{
    if (strcmp(out->content_type, CONSTRAIN) == 0)
        set_constrain(out, s, n);
    else if (find_equal(content_types, s, n) != NULL)
        SET_FIELD(out->content_type, s, n);
    else if (out->channel[0] == '\0' && find_equal(channels, s, n) != NULL)
        SET_FIELD(out->channel, s, n);
    else if (text_begins_with(s, n, FUNCTIONS) || is_offered(tools, s, n))
        take_recipient(out, s, n);
    else if (out->recipient[0] == '\0')
        take_recipient(out, s, n);
    else if (out->content_type[0] == '\0')
        SET_FIELD(out->content_type, s, n);
}

static void take_word(struct harmony_header *out, const struct header_tools *tools,
                      const struct header_word *w)
{
    if (w->marker == MARKER_CHANNEL)
        take_channel(out, w->s, w->n);
    else if (w->marker == MARKER_CONSTRAIN)
        set_constrain(out, w->s, w->n);
    else if (text_begins_with(w->s, w->n, RECIPIENT_PREFIX))
        take_recipient(out, w->s + strlen(RECIPIENT_PREFIX), w->n - strlen(RECIPIENT_PREFIX));
    else
        take_bare_word(out, tools, w->s, w->n);
}

/* Removes a role from the beginning of the header's first word, with a name after a colon. */
static void strip_known_role(struct harmony_header *out, struct header_word *w)
{
    size_t n_role = w->n;
    const char *colon = memchr(w->s, ':', w->n);
    const char *role;

    while (text_begins_with(w->s, w->n, ASSISTANT)) {
        w->s += strlen(ASSISTANT);
        w->n -= strlen(ASSISTANT);
    }
    if (w->n < n_role) {
        w->n = w->n > 0 && *w->s == ':' ? 0 : w->n;
        return;
    }
    n_role = colon != NULL ? (size_t)(colon - w->s) : w->n;
    role = find_equal(roles, w->s, n_role);
    if (role == NULL)
        return;
    SET_FIELD(out->role, role, strlen(role));
    w->n = 0;
}

/* The header's first word: a role, else a tool's name, else an ordinary word without a role. */
static void take_first_word(struct harmony_header *out, const struct header_tools *tools,
                            struct header_word *w)
{
    size_t n = w->n;

    strip_known_role(out, w);
    if (w->n == 0)
        return;
    if (w->n < n || text_begins_with(w->s, n, RECIPIENT_PREFIX) ||
        find_equal(channels, w->s, n) != NULL)
        take_word(out, tools, w);
    else
        SET_FIELD(out->role, w->s, n);
}

const char *harmony_call_name(const char *recipient)
{
    while (strncmp(recipient, FUNCTIONS, strlen(FUNCTIONS)) == 0)
        recipient += strlen(FUNCTIONS);
    return recipient;
}

void harmony_call_name_safe(char out[HARMONY_NAME_BYTES_MAX + 1], const char *recipient)
{
    const char *name = harmony_call_name(recipient);
    size_t n_bytes = strnlen(name, HARMONY_NAME_BYTES_MAX);

    memcpy(out, name, n_bytes);
    out[n_bytes] = '\0';
    harmony_name_sanitize(out);
}

static void clear(struct harmony_header *out)
{
    *out = (struct harmony_header){.role = ASSISTANT};
}

static void classify(struct harmony_header *out, const struct header_tools *tools)
{
    const char *name = harmony_call_name(out->recipient);
    bool is_function =
        *name != '\0' && (name > out->recipient || is_offered(tools, name, strlen(name)));

    if (strcmp(out->recipient, "all") == 0)
        out->recipient[0] = '\0';
    if (is_function && strcmp(out->role, ASSISTANT) == 0)
        out->part = PART_TOOL_CALL;
    else
        out->part = strcmp(out->channel, "analysis") == 0 ? PART_REASONING : PART_CONTENT;
}

void header_read(const struct header_text *h, const struct header_tools *tools,
                 struct harmony_header *out)
{
    struct header_lexer c = {.h = h};
    bool is_first = true;
    struct header_word w;

    clear(out);
    while (header_lexer_next(&c, &w)) {
        if (is_first && w.part == 0)
            take_first_word(out, tools, &w);
        else
            take_word(out, tools, &w);
        is_first = false;
    }
    classify(out, tools);
}

/* Removes a known channel from the front of the word after <|channel|>. */
static void recover_channel(struct harmony_header *out, struct header_word *w)
{
    for (const char *const *name = channels; *name != NULL; name++) {
        if (!text_begins_with(w->s, w->n, *name))
            continue;
        SET_FIELD(out->channel, *name, strlen(*name));
        w->s += strlen(*name);
        w->n -= strlen(*name);
        return;
    }
}

/* Removes a field from the front of the word; the remainder of the word is content. */
static void recover_word(struct harmony_header *out, struct header_word *w)
{
    bool may_have_type = out->recipient[0] != '\0' || out->content_type[0] != '\0';
    bool is_type = may_have_type && find_equal(content_types, w->s, w->n) != NULL;

    if (w->marker == MARKER_CHANNEL) {
        recover_channel(out, w);
    } else if (w->marker == MARKER_CONSTRAIN || is_type ||
               (text_begins_with(w->s, w->n, RECIPIENT_PREFIX) &&
                w->n > strlen(RECIPIENT_PREFIX))) {
        take_word(out, &(struct header_tools){0}, w);
        w->n = 0;
    }
}

/* The same for the header's first word: removes the role, and a repeated role if a control token or
 * the end follows directly. */
static void recover_first_word(struct harmony_header *out, const struct header_text *h,
                               struct header_word *w)
{
    const char *role = find_equal(roles, w->s, w->n);
    bool is_whole_part = (size_t)(w->s - h->text) + w->n == header_text_end(h, 0);

    if (text_begins_with(w->s, w->n, ASSISTANT)) {
        w->s += strlen(ASSISTANT);
        w->n -= strlen(ASSISTANT);
        if (is_whole_part && h->n_parts > 1 && equals(w->s, w->n, ASSISTANT))
            w->n = 0;
    } else if (role != NULL) {
        SET_FIELD(out->role, role, strlen(role));
        w->n = 0;
    } else {
        recover_word(out, w);
    }
}

struct header_rest header_recover(const struct header_text *h, const struct header_tools *tools,
                                  struct harmony_header *out)
{
    struct header_rest rest = {.offset = h->n_bytes, .part = h->n_parts - 1};
    struct header_lexer c = {.h = h};
    bool is_first = true;
    struct header_word w;

    clear(out);
    while (rest.offset == h->n_bytes && header_lexer_next(&c, &w)) {
        if (is_first && w.part == 0)
            recover_first_word(out, h, &w);
        else
            recover_word(out, &w);
        is_first = false;
        if (w.n > 0)
            rest = (struct header_rest){(size_t)(w.s - h->text), w.part};
    }
    classify(out, tools);
    return rest;
}

bool header_is_truncated(const struct harmony_header *h, const char *text, size_t n_bytes)
{
    if (text_begins(RECIPIENT_PREFIX FUNCTIONS, strlen(RECIPIENT_PREFIX FUNCTIONS), text, n_bytes))
        return true;
    for (const char *const *header_word = opening_words;
         h->channel[0] == '\0' && *header_word != NULL; header_word++)
        if (text_begins(*header_word, strlen(*header_word), text, n_bytes))
            return true;
    return false;
}

bool header_is_prose(const char *text, size_t n_bytes)
{
    bool has_second = false;

    for (size_t i = 1; i < n_bytes; i++)
        has_second = has_second || (text_is_space(text[i - 1]) && !text_is_space(text[i]));
    return has_second && memmem(text, n_bytes, RECIPIENT_PREFIX, strlen(RECIPIENT_PREFIX)) == NULL;
}
