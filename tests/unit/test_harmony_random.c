/* The parser on 240,000 random and mutated token streams. For every stream, the parser ends,
 * messages begin and end in pairs, every byte of content is delivered in order, header fields stay
 * bounded, and deltas are whole characters (checked by harmony_case.h). A completion has the same
 * messages with the role preset as with <|start|>assistant in front.
 *
 * CHECK_QUICK in the environment, for builds with sanitizers: 60,000 streams. */
#include "unit.h"

#include "harmony_case.h"
#include "harmony_streams.h"
#include "text/token/detok.h"

enum { STREAMS = 240000, STREAMS_QUICK = 60000 };

static const char *const tools[] = {"get_weather"};

/* The expected content of the tokens pushed while the parser is inside of a message, and the
 * delivered content. Text of malformed headers is content, too, but is not counted here. */
struct expected {
    struct detok detok;
    struct buf text;
};
struct observed {
    struct recorder rec;
    struct buf text;
    bool in_content; /* before the current token */
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

/* Parses the ids; `e` records the content of the tokens inside of messages. */
static void read_stream(struct observed *o, const struct ids *ids, bool with_start,
                        struct expected *e)
{
    const struct special_ids *special = tokenizer_specials(o->rec.t);
    struct harmony_sink sink = {o, checked_begin, checked_delta, checked_end};
    struct harmony_parser *r = harmony_parser_new(o->rec.t, &sink, !with_start);

    detok_init(&e->detok);
    buf_clear(&e->text);
    buf_clear(&o->text);
    buf_clear(&o->rec.lines);
    o->in_content = false;
    harmony_parser_set_tools(r, tools, COUNT(tools));
    if (with_start) {
        harmony_parser_push(r, special->start);
        harmony_parser_push(r, 173781); /* assistant */
    }
    for (size_t i = 0; i < ids->n; i++) {
        if (o->in_content && !ends_content(special, ids->data[i]))
            expect_token(e, o->rec.t, ids->data[i]);
        else if (o->in_content)
            detok_finish(&e->detok, &e->text);
        harmony_parser_push(r, ids->data[i]);
        o->in_content = harmony_parser_in_content(r);
    }
    if (o->in_content)
        detok_finish(&e->detok, &e->text);
    harmony_parser_finish(r);
    assert_int_equal(o->rec.n_open, 0);
    harmony_parser_free(r);
}

static void assert_same(const struct buf *a, const struct buf *b)
{
    if (a->size_bytes != b->size_bytes || memcmp(buf_text(a), buf_text(b), a->size_bytes) != 0)
        fail_msg("these differ:\n%s\n%s", buf_text(a), buf_text(b));
}

/* Parses the ids with the role preset and without; both deliver all content and the same
 * messages. */
static void check_stream(struct observed *o, struct observed *other, struct expected *e,
                         const struct ids *ids)
{
    read_stream(o, ids, false, e);
    assert_same(&o->text, &e->text);
    read_stream(other, ids, true, e);
    assert_same(&other->text, &e->text);
    assert_same(&o->rec.lines, &other->rec.lines);
}

static void check_streams(void (*make)(struct dice *, const struct stock *, struct ids *))
{
    const int n = (getenv("CHECK_QUICK") != NULL ? STREAMS_QUICK : STREAMS) / 2;
    struct tokenizer *t = open_o200k();
    struct observed o, other;
    struct expected e;
    struct stock stock;
    struct ids ids;

    assert_true(stock_init(&stock, t));
    observed_init(&o, t);
    observed_init(&other, t);
    buf_init(&e.text, CASE_BYTES_MAX);
    ids_init(&ids, CASE_BYTES_MAX);
    for (uint64_t i = 0; i < (uint64_t)n; i++) {
        struct dice dice = {.stream = i};

        ids_clear(&ids);
        make(&dice, &stock, &ids);
        check_stream(&o, &other, &e, &ids);
    }
    assert_true(o.rec.n_messages > n / 2);
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
