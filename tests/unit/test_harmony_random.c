/* The reader on 240,000 random and mutated token streams. Whatever the model writes: the reader
 * ends, messages begin and end in pairs, every byte of content arrives in order, header fields stay
 * bounded, deltas are whole characters (harmony_case.h checks those), and a completion is read the
 * same with the role preset as with <|start|>assistant in front. */
#include "unit.h"

#include "base/rng.h"
#include "harmony_case.h"
#include "text/detok.h"

#define COUNT(list) (sizeof(list) / sizeof((list)[0]))

enum { STREAMS = 240000, STREAM_TOKENS_MAX = 48, SEED = 2025 };

static const char *const tools[] = {"get_weather"};

/* Texts that streams are made of, beside random ordinary tokens. */
static const char *const fragments[] = {
    "<|start|>",
    "<|end|>",
    "<|message|>",
    "<|channel|>",
    "<|constrain|>",
    "<|return|>",
    "<|call|>",
    "<|endoftext|>",
    "<|startoftext|>",
    "<|reserved_200013|>",
    "assistant",
    "user",
    "analysis",
    "commentary",
    "final",
    " to=",
    "functions.",
    "get_weather",
    " json",
    " code",
    "{\"a\": 1}",
    " ",
    "\n",
    "Hello there",
    "é",
    "\xf0\x9f\x92\x96",
    "functions.get_weather to=assistant",
    "to",
    "<|start|>assistant<|channel|>analysis<|message|>",
    "<|start|>assistant<|channel|>final<|message|>",
    "<|start|>assistant to=functions.get_weather<|channel|>commentary <|constrain|>json<|message|>",
    "<|channel|>commentary to=functions.get_weather json<|message|>",
};

/* A well-formed completion, for mutation. */
static const char well_formed[] =
    "<|channel|>analysis<|message|>The user asks for the weather. 💖<|end|><|start|>assistant"
    "<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>{\"city\": "
    "\"Łódź\"}<|call|><|start|>functions.get_weather to=assistant<|channel|>commentary<|message|>"
    "12 °C<|end|><|start|>assistant<|channel|>final<|message|>It is 12 °C.<|return|>";

struct dice {
    uint64_t stream;
    uint32_t draw;
};

static size_t roll(struct dice *d, size_t n)
{
    return (size_t)(rng_bits(SEED, d->stream, d->draw++) % n);
}

struct stock {
    const struct tokenizer *t;
    struct ids fragment[COUNT(fragments)];
    struct ids model;
};

static int32_t random_token(struct dice *d, const struct stock *s)
{
    static const int32_t odd[] = {-1, INT32_MIN, INT32_MAX, 201088, 201087, 9552, 31446, 244};

    switch (roll(d, 4)) {
    case 0:
        return (int32_t)(200000 + roll(d, 16)); /* mostly control tokens */
    case 1:
        return odd[roll(d, COUNT(odd))];
    default:
        return (int32_t)roll(d, (size_t)tokenizer_size(s->t));
    }
}

/* A stream of random fragments and tokens. */
static void random_stream(struct dice *d, const struct stock *s, struct ids *out)
{
    size_t n = roll(d, STREAM_TOKENS_MAX);

    while (out->n < n) {
        const struct ids *fragment = &s->fragment[roll(d, COUNT(fragments))];

        if (roll(d, 4) == 0)
            ids_push(out, random_token(d, s));
        else
            ids_append(out, fragment->data, fragment->n);
    }
}

/* The well-formed stream with a few tokens dropped, doubled, swapped or replaced, and cut. */
static void mutated_stream(struct dice *d, const struct stock *s, struct ids *out)
{
    size_t n_edits = 1 + roll(d, 4);

    ids_append(out, s->model.data, s->model.n);
    for (size_t i = 0; i < n_edits; i++) {
        size_t a = roll(d, out->n), b = roll(d, out->n);
        int32_t token = out->data[a];

        switch (roll(d, 4)) {
        case 0:
            memmove(out->data + a, out->data + a + 1, (out->n - a - 1) * sizeof token);
            out->n--;
            break;
        case 1:
            out->data[a] = out->data[b];
            out->data[b] = token;
            break;
        case 2:
            out->data[a] = random_token(d, s);
            break;
        default:
            ids_push(out, token);
            memmove(out->data + a + 1, out->data + a, (out->n - a - 1) * sizeof token);
        }
    }
    if (roll(d, 2) == 0)
        out->n = 1 + roll(d, out->n);
}

/* The content that must come out of tokens pushed while the reader is inside of a message, and what
 * did come out then. Text of broken headers is content too, but is not counted here. */
struct expected {
    struct detok detok;
    struct buf text;
};
struct observed {
    struct recorder rec;
    struct buf text;
    bool in_content; /* before the token at hand */
};

static void expect_token(struct expected *e, const struct tokenizer *t, int32_t token)
{
    char scratch[32];
    const char *bytes;
    size_t n;

    if (tokenizer_is_special(t, token))
        detok_finish(&e->detok, &e->text);
    if (tokenizer_bytes(t, token, scratch, &bytes, &n) == OSP_OK) {
        detok_push(&e->detok, bytes, n, &e->text);
        return;
    }
    detok_finish(&e->detok, &e->text);
    buf_puts(&e->text, "\xef\xbf\xbd");
}

static bool ends_content(const struct special_ids *s, int32_t token)
{
    return token >= 0 && (token == s->start || token == s->end || token == s->channel ||
                          token == s->ret || token == s->call || token == s->endoftext);
}

static void check_header(const struct harmony_header *h)
{
    assert_true(memchr(h->role, '\0', sizeof h->role) != NULL);
    assert_true(memchr(h->channel, '\0', sizeof h->channel) != NULL);
    assert_true(memchr(h->recipient, '\0', sizeof h->recipient) != NULL);
    assert_true(memchr(h->content_type, '\0', sizeof h->content_type) != NULL);
    assert_true(utf8_is_valid(h->role, strlen(h->role)));
    assert_true(utf8_is_valid(h->channel, strlen(h->channel)));
    assert_true(utf8_is_valid(h->recipient, strlen(h->recipient)));
    assert_true(utf8_is_valid(h->content_type, strlen(h->content_type)));
    assert_true(h->part != PART_TOOL_CALL || h->recipient[0] != '\0');
}

static void checked_begin(void *ctx, const struct harmony_header *h)
{
    struct observed *o = ctx;

    check_header(h);
    record_begin(&o->rec, h);
}

static void checked_delta(void *ctx, const struct harmony_header *h, const char *text, size_t n)
{
    struct observed *o = ctx;

    record_delta(&o->rec, h, text, n);
    if (o->in_content)
        buf_append(&o->text, text, n);
}

static void checked_end(void *ctx, const struct harmony_header *h, int32_t terminator)
{
    struct observed *o = ctx;

    record_end(&o->rec, h, terminator);
}

static void observed_init(struct observed *o, const struct tokenizer *t)
{
    recorder_init(&o->rec, t);
    buf_init(&o->text, CASE_BYTES_MAX);
}

static void observed_release(struct observed *o)
{
    recorder_release(&o->rec);
    buf_release(&o->text);
}

/* Reads the ids; `e` follows what they say inside of content. */
static void read_stream(struct observed *o, const struct ids *ids, bool with_start,
                        struct expected *e)
{
    const struct special_ids *special = tokenizer_specials(o->rec.t);
    struct harmony_sink sink = {o, checked_begin, checked_delta, checked_end};
    struct harmony_reader *r = harmony_reader_new(o->rec.t, &sink, !with_start);

    detok_init(&e->detok);
    buf_clear(&e->text);
    buf_clear(&o->text);
    buf_clear(&o->rec.lines);
    o->in_content = false;
    harmony_reader_set_tools(r, tools, COUNT(tools));
    if (with_start) {
        harmony_reader_push(r, special->start);
        harmony_reader_push(r, 173781); /* assistant */
    }
    for (size_t i = 0; i < ids->n; i++) {
        if (o->in_content && !ends_content(special, ids->data[i]))
            expect_token(e, o->rec.t, ids->data[i]);
        else if (o->in_content)
            detok_finish(&e->detok, &e->text);
        harmony_reader_push(r, ids->data[i]);
        o->in_content = harmony_reader_in_content(r);
    }
    if (o->in_content)
        detok_finish(&e->detok, &e->text);
    harmony_reader_finish(r);
    assert_int_equal(o->rec.n_open, 0);
    harmony_reader_free(r);
}

static void assert_same(const struct buf *a, const struct buf *b)
{
    if (a->size_bytes != b->size_bytes || memcmp(buf_text(a), buf_text(b), a->size_bytes) != 0)
        fail_msg("these differ:\n%s\n%s", buf_text(a), buf_text(b));
}

/* Reads the ids with the role preset and without; both deliver all content and say the same. */
static void check_stream(struct observed *o, struct observed *other, struct expected *e,
                         const struct ids *ids)
{
    read_stream(o, ids, false, e);
    assert_same(&o->text, &e->text);
    read_stream(other, ids, true, e);
    assert_same(&other->text, &e->text);
    assert_same(&o->rec.lines, &other->rec.lines);
}

static void stock_init(struct stock *s, const struct tokenizer *t)
{
    s->t = t;
    for (size_t i = 0; i < COUNT(fragments); i++)
        encode(t, fragments[i], &s->fragment[i]);
    encode(t, well_formed, &s->model);
}

static void stock_release(struct stock *s)
{
    for (size_t i = 0; i < COUNT(fragments); i++)
        ids_release(&s->fragment[i]);
    ids_release(&s->model);
}

static void check_streams(void (*make)(struct dice *, const struct stock *, struct ids *))
{
    struct tokenizer *t = open_o200k();
    struct observed o, other;
    struct expected e;
    struct stock stock;
    struct ids ids;

    stock_init(&stock, t);
    observed_init(&o, t);
    observed_init(&other, t);
    buf_init(&e.text, CASE_BYTES_MAX);
    ids_init(&ids, CASE_BYTES_MAX);
    for (uint64_t i = 0; i < STREAMS / 2; i++) {
        struct dice dice = {.stream = i};

        ids_clear(&ids);
        make(&dice, &stock, &ids);
        check_stream(&o, &other, &e, &ids);
    }
    assert_true(o.rec.n_messages > STREAMS / 4);
    ids_release(&ids);
    buf_release(&e.text);
    observed_release(&o);
    observed_release(&other);
    stock_release(&stock);
    tokenizer_close(t);
}

static void test_random_streams(void **state)
{
    (void)state;
    check_streams(random_stream);
}

static void test_mutated_streams(void **state)
{
    (void)state;
    check_streams(mutated_stream);
}

UNIT_MAIN(cmocka_unit_test(test_random_streams), cmocka_unit_test(test_mutated_streams))
