/* Finds the tokens that the model wrote for the messages of one answer. */
#include "engine/chat/chat_cached.h"

#include <string.h>

#include "text/harmony/harmony_parser.h"
#include "text/harmony/harmony_tools.h"

static const char assistant[] = "assistant";

enum { ROLE_TOKENS_MAX = 16 }; /* of <|start|>assistant */

static enum harmony_part part_of(const struct harmony_message *m)
{
    if (m->recipient != NULL)
        return PART_TOOL_CALL;
    return m->channel != NULL && strcmp(m->channel, "analysis") == 0 ? PART_REASONING
                                                                     : PART_CONTENT;
}

/* The messages of an answer. */
struct run {
    const struct harmony_message *messages;
    size_t n;
    bool without_analysis; /* analysis messages are left out */
};

static bool is_left_out(const struct run *run, const struct harmony_message *m)
{
    return run->without_analysis && part_of(m) == PART_REASONING;
}

/* The hashes that a client's texts had when this answer was delivered. */
static struct text_hashes text_hashes_of(const struct run *run)
{
    struct text_hashes t;

    text_hashes_init(&t);
    for (const struct harmony_message *m = run->messages; m < run->messages + run->n; m++) {
        uint64_t *const hashes[] = {[PART_REASONING] = &t.reasoning,
                                    [PART_CONTENT] = &t.content,
                                    [PART_TOOL_CALL] = &t.calls};

        if (is_left_out(run, m))
            continue;
        if (part_of(m) == PART_TOOL_CALL)
            text_hash_add_call(&t, harmony_call_name(m->recipient));
        text_hash_add(hashes[part_of(m)], m->content.data, m->content.n_bytes);
    }
    return t;
}

/* ---- comparison: do the tokens read as the same text? ---- */

/* The text of tokens by kind, in the format of text_hash_add_call(). */
struct reading {
    struct buf text[3];
    enum harmony_part last;
};

static void on_begin(void *ctx, const struct harmony_header *h)
{
    struct reading *r = ctx;
    char name[HARMONY_NAME_BYTES_MAX + 1];

    r->last = h->part;
    if (h->part != PART_TOOL_CALL)
        return;
    harmony_call_name_safe(name, h->recipient);
    buf_printf(&r->text[PART_TOOL_CALL], HASH_CALL_MARK "%s" HASH_CALL_MARK, name);
}

static void on_delta(void *ctx, const struct harmony_header *h, const char *text, size_t n_bytes)
{
    struct reading *r = ctx;

    buf_append(&r->text[h->part], text, n_bytes);
}

static void on_end(void *ctx, const struct harmony_header *h, int32_t terminator)
{
    (void)ctx, (void)h, (void)terminator;
}

static bool read_ids(const struct chat_cached *r, const struct ids *ids, struct reading *out)
{
    const struct harmony_sink sink = {out, on_begin, on_delta, on_end};
    struct harmony_parser *reader = harmony_parser_new(r->tokenizer, &sink, true);

    if (reader == NULL)
        return false;
    harmony_parser_set_tools(reader, r->functions, r->n_functions);
    for (size_t i = 0; i < ids->n; i++)
        harmony_parser_push(reader, ids->data[i]);
    harmony_parser_finish(reader);
    harmony_parser_free(reader);
    for (size_t i = 0; i < 3; i++)
        if (out->text[i].overflow)
            return false;
    return true;
}

/* True when `text` follows at *at, which is then moved behind it. */
static bool take(const struct buf *from, size_t *at, const char *text, size_t n_bytes)
{
    if (from->size_bytes - *at < n_bytes ||
        (n_bytes > 0 && memcmp(from->data + *at, text, n_bytes) != 0))
        return false;
    *at += n_bytes;
    return true;
}

static bool take_call_head(const struct buf *from, size_t *at, const char *recipient)
{
    const char *name = harmony_call_name(recipient);

    return take(from, at, HASH_CALL_MARK, 1) && take(from, at, name, strlen(name)) &&
           take(from, at, HASH_CALL_MARK, 1);
}

static bool says(const struct reading *reading, const struct run *run)
{
    size_t at[3] = {0, 0, 0};

    for (const struct harmony_message *m = run->messages; m < run->messages + run->n; m++) {
        enum harmony_part part = part_of(m);

        if (is_left_out(run, m))
            continue;
        if (part == PART_TOOL_CALL &&
            !take_call_head(&reading->text[part], &at[part], m->recipient))
            return false;
        if (!take(&reading->text[part], &at[part], m->content.data, m->content.n_bytes))
            return false;
    }
    return at[0] == reading->text[0].size_bytes && at[1] == reading->text[1].size_bytes &&
           at[2] == reading->text[2].size_bytes;
}

/* True when the ids read as the text of the run; *last is then the kind of their last message. */
static bool is_same(const struct chat_cached *r, const struct ids *ids, const struct run *run,
                    enum harmony_part *last)
{
    struct reading reading = {.last = PART_CONTENT};
    bool same;

    for (size_t i = 0; i < 3; i++)
        buf_init(&reading.text[i], HARMONY_TEXT_BYTES_MAX);
    same = read_ids(r, ids, &reading) && says(&reading, run);
    *last = reading.last;
    for (size_t i = 0; i < 3; i++)
        buf_release(&reading.text[i]);
    return same;
}

/* ---- the hook ---- */

static void hash_up_to_now(struct chat_cached *r, const struct ids *ids)
{
    r->prompt = prompt_hash_add(r->prompt, ids->data + r->n_hashed, ids->n - r->n_hashed);
    r->n_hashed = ids->n;
}

static bool role_ids(const struct tokenizer *t, struct ids *out)
{
    ids_init(out, ROLE_TOKENS_MAX);
    return ids_push(out, tokenizer_specials(t)->start) &&
           tokenizer_encode(t, assistant, strlen(assistant), out) == OSP_OK;
}

/* Appends role, answer and its closing token; false: not all of it fits. */
static bool append(const struct chat_cached *r, const struct ids *role, const struct ids *answer,
                   enum harmony_part last, struct ids *out)
{
    const struct special_ids *s = tokenizer_specials(r->tokenizer);
    size_t n = out->n;

    if (ids_append(out, role->data, role->n) && ids_append(out, answer->data, answer->n) &&
        ids_push(out, last == PART_TOOL_CALL ? s->call : s->end))
        return true;
    out->n = n;
    out->overflow = out->no_memory = false; /* its text may still fit, or fails by itself */
    return false;
}

static bool replay_run(struct chat_cached *r, const struct run *run, struct ids *out)
{
    struct completion_key key = {.text_hashes = text_hashes_of(run)};
    struct ids role, answer;
    enum harmony_part last;
    bool done = false;

    ids_init(&answer, COMPLETION_TOKENS_MAX);
    hash_up_to_now(r, out);
    if (role_ids(r->tokenizer, &role)) {
        key.prompt = prompt_hash_add(r->prompt, role.data, role.n);
        done = completion_cache_find(r->store, &key, &answer) && is_same(r, &answer, run, &last) &&
               append(r, &role, &answer, last, out);
    }
    ids_release(&role);
    ids_release(&answer);
    r->n_reused += done;
    completion_cache_count(r->store, done);
    return done;
}

static bool on_answer(void *ctx, const struct harmony_message *messages, size_t n,
                      bool without_analysis, struct ids *out)
{
    struct chat_cached *r = ctx;
    const struct run run = {messages, n, without_analysis};

    return r->store != NULL && replay_run(r, &run, out);
}

struct harmony_cache chat_cached_hook(struct chat_cached *r)
{
    return (struct harmony_cache){.ctx = r, .answer = on_answer};
}

uint64_t chat_cached_prompt(struct chat_cached *r, const struct ids *prompt)
{
    hash_up_to_now(r, prompt);
    return r->prompt;
}
