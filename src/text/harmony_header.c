/* Reading headers. Words are told apart by spaces, control tokens, "to=" and opening brackets; each
 * word is taken for what it can be, in the order of take_word, and what it cannot be is passed over.
 * docs/harmony.md lists the malformed headers seen in practice and what becomes of them. */
#include "text/harmony_header.h"

#include <string.h>

#include "base/utf8.h"

#define ASSISTANT "assistant"
#define CONSTRAIN "<|constrain|>"
#define FUNCTIONS "functions."
#define TO        "to="

static const char *const roles[] = {"system", "developer", "user", ASSISTANT, "tool", NULL};
static const char *const channels[] = {"analysis", "commentary", "final", NULL};
static const char *const content_types[] = {"json", "code", "text", NULL};
static const char *const opening_words[] = {"analysis", "commentary", "final", ASSISTANT, NULL};

struct word {
    const char *s;
    size_t n;
    enum header_marker marker; /* the control token right before it */
    size_t part;
};

struct cursor {
    const struct header_text *h;
    size_t at, part;
    bool is_fresh; /* the part's marker has not been given with a word */
};

void header_text_init(struct header_text *h, bool with_assistant)
{
    *h = (struct header_text){.n_parts = 1};
    if (with_assistant)
        header_text_append(h, ASSISTANT, strlen(ASSISTANT));
}

bool header_text_append(struct header_text *h, const char *text, size_t n_bytes)
{
    if (n_bytes > HEADER_BYTES_MAX || h->n_bytes + n_bytes > HEADER_BYTES_MAX)
        return false;
    memcpy(h->text + h->n_bytes, text, n_bytes);
    h->n_bytes += n_bytes;
    return true;
}

void header_text_mark(struct header_text *h, enum header_marker marker)
{
    if (h->n_parts < HEADER_PARTS_MAX)
        h->parts[h->n_parts++] = (struct header_part){marker, h->n_bytes};
    else
        header_text_append(h, " ", 1);
}

void header_text_drop(struct header_text *h, size_t part)
{
    size_t from = h->parts[part].begin, to = strlen(ASSISTANT);

    memmove(h->text + to, h->text + from, h->n_bytes - from);
    memcpy(h->text, ASSISTANT, to);
    h->n_bytes = h->n_bytes - from + to;
    for (size_t i = part; i < h->n_parts; i++) {
        h->parts[i - part + 1] = h->parts[i];
        h->parts[i - part + 1].begin += to - from;
    }
    h->n_parts = h->n_parts - part + 1;
}

size_t header_text_end(const struct header_text *h, size_t part)
{
    return part + 1 < h->n_parts ? h->parts[part + 1].begin : h->n_bytes;
}

static bool is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

static bool begins(const char *s, size_t n, const char *prefix, size_t n_prefix)
{
    return n >= n_prefix && memcmp(s, prefix, n_prefix) == 0;
}

static bool begins_with(const char *s, size_t n, const char *prefix)
{
    return begins(s, n, prefix, strlen(prefix));
}

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

/* Length of the word at s. A glued "to=" or an opening bracket begins a new one. */
static size_t word_length(const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (is_space(s[i]))
            return i;
        if (i > 0 && (s[i] == '{' || s[i] == '[' || begins_with(s + i, n - i, TO)))
            return i;
    }
    return n;
}

/* The next word. The first after a marker carries it; after <|constrain|> that word may be empty. */
static bool next_word(struct cursor *c, struct word *w)
{
    const struct header_text *h = c->h;

    for (;;) {
        size_t end = header_text_end(h, c->part);
        enum header_marker marker = c->is_fresh ? h->parts[c->part].marker : MARKER_NONE;

        while (marker != MARKER_CONSTRAIN && c->at < end && is_space(h->text[c->at]))
            c->at++;
        if (c->at < end || marker == MARKER_CONSTRAIN) {
            const char *s = h->text + c->at;
            size_t n = word_length(s, end - c->at);
            bool is_recipient = begins_with(s, n, TO);

            if (marker == MARKER_CONSTRAIN && is_recipient)
                n = 0;
            *w = (struct word){s, n, marker, c->part};
            if (marker == MARKER_CHANNEL && is_recipient)
                w->marker = MARKER_NONE;
            c->at += n;
            c->is_fresh = false;
            return true;
        }
        if (c->part + 1 == h->n_parts)
            return false;
        c->part++;
        c->is_fresh = true;
    }
}

/* Copies what fits, cut between characters. */
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

/* A known channel replaces what stood there; an unknown one is kept only while there is none. */
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

/* A word without a mark of its own. */
static void take_bare_word(struct harmony_header *out, const struct header_tools *tools,
                           const char *s, size_t n)
{
    if (strcmp(out->content_type, CONSTRAIN) == 0)
        set_constrain(out, s, n);
    else if (find_equal(content_types, s, n) != NULL)
        SET_FIELD(out->content_type, s, n);
    else if (out->channel[0] == '\0' && find_equal(channels, s, n) != NULL)
        SET_FIELD(out->channel, s, n);
    else if (begins_with(s, n, FUNCTIONS) || is_offered(tools, s, n))
        take_recipient(out, s, n);
    else if (out->recipient[0] == '\0')
        take_recipient(out, s, n);
    else if (out->content_type[0] == '\0')
        SET_FIELD(out->content_type, s, n);
}

static void take_word(struct harmony_header *out, const struct header_tools *tools,
                      const struct word *w)
{
    if (w->marker == MARKER_CHANNEL)
        take_channel(out, w->s, w->n);
    else if (w->marker == MARKER_CONSTRAIN)
        set_constrain(out, w->s, w->n);
    else if (begins_with(w->s, w->n, TO))
        take_recipient(out, w->s + strlen(TO), w->n - strlen(TO));
    else
        take_bare_word(out, tools, w->s, w->n);
}

/* Takes a role off the beginning of the header's first word; a name behind a colon goes with it. */
static void strip_known_role(struct harmony_header *out, struct word *w)
{
    size_t n_role = w->n;
    const char *colon = memchr(w->s, ':', w->n);
    const char *role;

    while (begins_with(w->s, w->n, ASSISTANT)) {
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
                            struct word *w)
{
    size_t n = w->n;

    strip_known_role(out, w);
    if (w->n == 0)
        return;
    if (w->n < n || begins_with(w->s, n, TO) || find_equal(channels, w->s, n) != NULL)
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
    struct cursor c = {.h = h};
    bool is_first = true;
    struct word w;

    clear(out);
    while (next_word(&c, &w)) {
        if (is_first && w.part == 0)
            take_first_word(out, tools, &w);
        else
            take_word(out, tools, &w);
        is_first = false;
    }
    classify(out, tools);
}

/* Takes a known channel off the front of the word behind <|channel|>. */
static void recover_channel(struct harmony_header *out, struct word *w)
{
    for (const char *const *name = channels; *name != NULL; name++) {
        if (!begins_with(w->s, w->n, *name))
            continue;
        SET_FIELD(out->channel, *name, strlen(*name));
        w->s += strlen(*name);
        w->n -= strlen(*name);
        return;
    }
}

/* Takes a field off the front of the word; what is left of it is content. */
static void recover_word(struct harmony_header *out, struct word *w)
{
    bool may_have_type = out->recipient[0] != '\0' || out->content_type[0] != '\0';
    bool is_type = may_have_type && find_equal(content_types, w->s, w->n) != NULL;

    if (w->marker == MARKER_CHANNEL) {
        recover_channel(out, w);
    } else if (w->marker == MARKER_CONSTRAIN || is_type ||
               (begins_with(w->s, w->n, TO) && w->n > strlen(TO))) {
        take_word(out, &(struct header_tools){0}, w);
        w->n = 0;
    }
}

/* The same for the header's first word: the role, once, and once more where it was said twice right
 * before a control token or the end. */
static void recover_first_word(struct harmony_header *out, const struct header_text *h,
                               struct word *w)
{
    const char *role = find_equal(roles, w->s, w->n);
    bool is_whole_part = (size_t)(w->s - h->text) + w->n == header_text_end(h, 0);

    if (begins_with(w->s, w->n, ASSISTANT)) {
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
    struct cursor c = {.h = h};
    bool is_first = true;
    struct word w;

    clear(out);
    while (rest.offset == h->n_bytes && next_word(&c, &w)) {
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

bool header_is_debris(const struct harmony_header *h, const char *text, size_t n_bytes)
{
    if (begins(TO FUNCTIONS, strlen(TO FUNCTIONS), text, n_bytes))
        return true;
    for (const char *const *word = opening_words; h->channel[0] == '\0' && *word != NULL; word++)
        if (begins(*word, strlen(*word), text, n_bytes))
            return true;
    return false;
}

bool header_is_prose(const char *text, size_t n_bytes)
{
    bool has_second = false;

    for (size_t i = 1; i < n_bytes; i++)
        has_second = has_second || (is_space(text[i - 1]) && !is_space(text[i]));
    return has_second && memmem(text, n_bytes, TO, strlen(TO)) == NULL;
}
