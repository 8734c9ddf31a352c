/* What an answer must say: its messages, read by the reader alone. */
#include <stdio.h>
#include <string.h>

#include "answers.h"
#include "base/utf8.h"

static void oracle_begin(void *ctx, const struct harmony_header *h)
{
    struct answer *a = ctx;
    char name[HARMONY_NAME_BYTES_MAX + 1];

    CHECK(a, !a->is_open);
    a->is_open = true;
    atomic_fetch_add(&a->results->n_messages, 1);
    buf_clear(&a->message);
    if (h->part != PART_TOOL_CALL || a->is_cut)
        return;
    atomic_fetch_add(&a->results->n_calls, 1);
    harmony_call_name_safe(name, h->recipient);
    CHECK(a, harmony_name_check(name) == OSP_OK);
    says_add_call(&a->oracle, name);
}

static void oracle_delta(void *ctx, const struct harmony_header *h, const char *text, size_t n)
{
    struct answer *a = ctx;

    CHECK(a, a->is_open && n > 0 && utf8_is_valid(text, n));
    if (a->in_content)
        buf_append(&a->brought, text, n);
    if (h->part == PART_CONTENT)
        buf_append(&a->message, text, n);
    else if (!a->is_cut)
        buf_append(h->part == PART_REASONING ? &a->oracle.reasoning : &a->oracle.calls, text, n);
}

/* Where a message's content is cut: before the stop string that ends first; its length: nowhere. */
static size_t cut_of(const struct answer *a)
{
    const char *text = buf_text(&a->message);
    size_t n = a->message.size_bytes;

    for (size_t end = 1; end <= n; end++)
        for (size_t begin = 0; begin < end; begin++)
            for (int i = 0; i < a->n_stops; i++)
                if (strlen(a->stops[i]) == end - begin &&
                    memcmp(text + begin, a->stops[i], end - begin) == 0)
                    return begin;
    return n;
}

static void oracle_end(void *ctx, const struct harmony_header *h, int32_t terminator)
{
    struct answer *a = ctx;
    size_t n = a->message.size_bytes, cut = a->n_stops > 0 ? cut_of(a) : n;

    (void)terminator;
    CHECK(a, a->is_open);
    a->is_open = false;
    if (h->part != PART_CONTENT || a->is_cut)
        return;
    buf_append(&a->oracle.content, buf_text(&a->message), cut);
    a->is_cut = cut < n;
}

bool ends_answer(const struct answer *a, int32_t token)
{
    const struct special_ids *s = tokenizer_specials(a->t);

    return token == s->ret || token == s->call || token == s->endoftext;
}

static bool ends_content(const struct answer *a, int32_t token)
{
    const struct special_ids *s = tokenizer_specials(a->t);

    return ends_answer(a, token) || token == s->start || token == s->end || token == s->channel;
}

/* What a token inside of content must bring. */
static void expect_token(struct answer *a, int32_t token)
{
    char scratch[32];
    const char *bytes;
    size_t n;

    if (tokenizer_is_special(a->t, token))
        detok_finish(&a->detok, &a->pushed);
    if (tokenizer_bytes(a->t, token, scratch, &bytes, &n) == OSP_OK) {
        detok_push(&a->detok, bytes, n, &a->pushed);
        return;
    }
    detok_finish(&a->detok, &a->pushed);
    buf_puts(&a->pushed, "\xef\xbf\xbd");
}

static void push_token(struct answer *a, struct harmony_parser *r, int32_t token)
{
    a->in_content = harmony_parser_in_content(r);
    CHECK(a, a->in_content == a->is_open);
    if (a->in_content && ends_content(a, token))
        detok_finish(&a->detok, &a->pushed);
    else if (a->in_content)
        expect_token(a, token);
    harmony_parser_push(r, token);
}

static enum osp_finish finish_of(const struct answer *a, int32_t last)
{
    if (a->is_cut)
        return OSP_FINISH_STOP;
    if (a->ignores_stop_tokens || !ends_answer(a, last))
        return OSP_FINISH_LENGTH;
    return a->oracle.calls.size_bytes > 0 ? OSP_FINISH_TOOL_CALLS : OSP_FINISH_STOP;
}

/* The stream ends where an engine would end it. */
void answer_ask_oracle(struct answer *a)
{
    const struct harmony_sink sink = {a, oracle_begin, oracle_delta, oracle_end};
    struct harmony_parser *r = harmony_parser_new(a->t, &sink, true);
    size_t i = 0;

    CHECK(a, r != NULL);
    says_clear(&a->oracle);
    buf_clear(&a->pushed);
    buf_clear(&a->brought);
    detok_init(&a->detok);
    a->is_open = a->is_cut = false;
    harmony_parser_set_tools(r, answer_functions, N_FUNCTIONS);
    do
        push_token(a, r, a->ids.data[i]);
    while (++i < a->ids.n && (a->ignores_stop_tokens || !ends_answer(a, a->ids.data[i - 1])));
    a->ids.n = i;
    a->in_content = harmony_parser_in_content(r);
    if (a->in_content)
        detok_finish(&a->detok, &a->pushed);
    harmony_parser_finish(r);
    CHECK(a, !a->is_open && !harmony_parser_in_content(r));
    harmony_parser_free(r);
    a->oracle.finish = finish_of(a, a->ids.data[i - 1]);
    CHECK(a, a->pushed.size_bytes == a->brought.size_bytes &&
                 memcmp(buf_text(&a->pushed), buf_text(&a->brought), a->pushed.size_bytes) == 0);
}
