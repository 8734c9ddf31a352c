/* Answers held to a form, token by token: whatever is drawn from the masks, the reader of Harmony finds reasoning and one
 * final message that fits, and nothing else. */
#include "unit.h"

#include "base/memory.h"
#include "base/rng.h"
#include "engine/answer_form.h"
#include "text/harmony_read.h"

#define TOKENIZER "models/osprey-nano/tokenizer.json"

enum { WALKS = 300, TOKENS_MAX = 400 };

static struct form_kit *kit;
static struct tokenizer *tokenizer;
static const struct form_tools *tools;

static int set_up(void **state)
{
    (void)state;
    kit = form_kit_new();
    return tokenizer_open(&tokenizer, TOKENIZER) == OSP_OK &&
                   form_kit_prepare(kit, tokenizer, NULL, &tools) == OSP_OK
               ? 0
               : -1;
}

static int tear_down(void **state)
{
    (void)state;
    form_kit_free(kit);
    tokenizer_close(tokenizer);
    return 0;
}

/* What the reader made of an answer. */
struct heard {
    struct buf final, other;
    int n_final, n_reasoning;
    int32_t terminator;
};

static void on_begin(void *ctx, const struct harmony_header *h)
{
    struct heard *heard = ctx;

    heard->n_final += strcmp(h->channel, "final") == 0;
    heard->n_reasoning += strcmp(h->channel, "analysis") == 0;
    assert_string_equal(h->role, "assistant");
    assert_string_equal(h->recipient, "");
}

static void on_delta(void *ctx, const struct harmony_header *h, const char *text, size_t n)
{
    struct heard *heard = ctx;

    buf_append(h->part == PART_CONTENT ? &heard->final : &heard->other, text, n);
}

static void on_end(void *ctx, const struct harmony_header *h, int32_t terminator)
{
    struct heard *heard = ctx;

    (void)h;
    heard->terminator = terminator;
}

static struct answer_form *new_form(enum osp_form kind, const char *text, const int32_t *prompt,
                                    int n_prompt, uint32_t *mask)
{
    int stop_ids[] = {tools->specials.ret, tools->specials.call};
    struct answer_form_wish wish = {.tools = tools,
                                    .prompt = prompt,
                                    .n_prompt = n_prompt,
                                    .stop_ids = stop_ids,
                                    .n_stop_ids = 2,
                                    .mask = mask,
                                    .n_mask_words = (int)tools->index->n_words};
    struct answer_form *f;

    assert_int_equal(form_kit_grammar(kit, kind, text, &wish.grammar), OSP_OK);
    assert_int_equal(answer_form_new(&f, &wish), OSP_OK);
    grammar_drop(wish.grammar);
    return f;
}

static uint32_t count(const uint32_t *mask)
{
    uint32_t n = 0;

    for (size_t w = 0; w < tools->index->n_words; w++)
        n += (uint32_t)__builtin_popcount(mask[w]);
    return n;
}

/* Any allowed token; a control token half of the time that one is allowed, so that messages end. */
static int32_t pick(const uint32_t *mask, uint64_t seed, uint32_t at)
{
    uint32_t n = (uint32_t)(rng_uniform(seed, at, 0) * count(mask));
    int32_t last = -1;

    assert_true(count(mask) > 0);
    for (int32_t id = 0; id < tools->index->n_tokens; id++) {
        if (!mask_has(mask, id))
            continue;
        if (n-- == 0 || last < 0)
            last = id;
        if (tokenizer_is_special(tokenizer, id) && rng_uniform(seed, at, 1) < 0.5)
            return id;
    }
    return last;
}

/* Draws an answer from the masks; gives how many tokens it has. */
static int walk(struct answer_form *f, const uint32_t *mask, uint64_t seed, int32_t *out)
{
    int n = 0;

    while (n < TOKENS_MAX) {
        out[n] = pick(mask, seed, (uint32_t)n);
        assert_int_equal(answer_form_hear(f, out[n]), OSP_OK);
        n++;
        if (out[n - 1] == tools->specials.ret || out[n - 1] == tools->specials.call)
            break;
    }
    assert_int_equal(answer_form_heard(f), n);
    return n;
}

static void test_messages(void **state)
{
    int32_t prompt[] = {tools->specials.start, -1}, tokens[TOKENS_MAX];
    uint32_t *mask = mem_new(tools->index->n_words * sizeof *mask);
    int n_ended = 0, n_reasoning = 0;
    struct ids role;

    (void)state;
    ids_init(&role, 4);
    assert_int_equal(tokenizer_encode(tokenizer, "assistant", 9, &role), OSP_OK);
    prompt[1] = role.data[0];
    for (uint64_t seed = 0; seed < WALKS; seed++) {
        struct heard heard = {.terminator = -1};
        const struct harmony_sink sink = {&heard, on_begin, on_delta, on_end};
        struct harmony_reader *reader = harmony_reader_new(tokenizer, &sink, true);
        struct answer_form *f;
        int n;

        memset(mask, 0, tools->index->n_words * sizeof *mask);
        f = new_form(OSP_FORM_CHOICE, "[\"yes\", \"no\", \"not sure\"]", prompt, 2, mask);
        buf_init(&heard.final, 1 << 20);
        buf_init(&heard.other, 1 << 20);
        n = walk(f, mask, seed, tokens);
        for (int i = 0; i < n; i++)
            harmony_reader_push(reader, tokens[i]);
        harmony_reader_finish(reader);
        if (tokens[n - 1] == tools->specials.ret) {
            const char *said = buf_text(&heard.final);

            n_ended++;
            assert_int_equal(heard.n_final, 1);
            assert_int_equal(heard.terminator, tools->specials.ret);
            assert_true(strcmp(said, "yes") == 0 || strcmp(said, "no") == 0 ||
                        strcmp(said, "not sure") == 0);
        }
        n_reasoning += heard.n_reasoning > 0;
        buf_release(&heard.final);
        buf_release(&heard.other);
        harmony_reader_free(reader);
        answer_form_free(f);
    }
    assert_true(n_ended > WALKS / 2);
    assert_true(n_reasoning > WALKS / 10);
    ids_release(&role);
    free(mask);
}

/* Behind any other prompt all of the answer is held, up to a stop token of the engine. */
static void test_whole_answer(void **state)
{
    int32_t prompt[] = {tools->specials.start, 5, tools->specials.message, 7}, tokens[TOKENS_MAX];
    uint32_t *mask = mem_new(tools->index->n_words * sizeof *mask);
    struct answer_form *f = new_form(OSP_FORM_REGEX, "[0-9]{3}", prompt, 4, mask);
    struct buf text;
    int n;

    (void)state;
    assert_false(mask_has(mask, tools->specials.channel));
    n = walk(f, mask, 1, tokens);
    buf_init(&text, 64);
    assert_int_equal(tokenizer_decode(tokenizer, tokens, (size_t)n - 1, &text), OSP_OK);
    assert_int_equal(strlen(buf_text(&text)), 3);
    assert_int_equal(strspn(buf_text(&text), "0123456789"), 3);
    buf_release(&text);
    answer_form_free(f);
    free(mask);
}

/* A mask that is there already limits all that follow. */
static void test_limit(void **state)
{
    int32_t prompt[] = {7}, digit = -1;
    uint32_t *mask = mem_new(tools->index->n_words * sizeof *mask);
    struct answer_form *f;

    (void)state;
    for (int32_t id = 0; id < tools->index->n_tokens && digit < 0; id++) {
        size_t n;
        const char *bytes = token_index_bytes(tools->index, id, &n);

        digit = n == 1 && *bytes == '7' ? id : -1;
    }
    mask_set(mask, digit);
    f = new_form(OSP_FORM_REGEX, "[0-9]*", prompt, 1, mask);
    assert_int_equal(count(mask), 1);
    assert_true(mask_has(mask, digit));
    assert_int_equal(answer_form_hear(f, digit), OSP_OK);
    assert_int_equal(count(mask), 1);
    answer_form_free(f);
    free(mask);
}

/* The same text is the same grammar as long as it is kept; a wrong one is refused each time. */
static void test_kit_keeps_grammars(void **state)
{
    struct grammar *first, *again, *other;
    char regex[32];

    (void)state;
    assert_int_equal(form_kit_grammar(kit, OSP_FORM_REGEX, "a+", &first), OSP_OK);
    assert_int_equal(form_kit_grammar(kit, OSP_FORM_REGEX, "a+", &again), OSP_OK);
    assert_ptr_equal(first, again);
    grammar_drop(again);
    for (int i = 0; i < FORM_GRAMMARS_MAX; i++) {
        snprintf(regex, sizeof regex, "b{%d}", i + 1);
        assert_int_equal(form_kit_grammar(kit, OSP_FORM_REGEX, regex, &other), OSP_OK);
        grammar_drop(other);
    }
    assert_int_equal(form_kit_grammar(kit, OSP_FORM_REGEX, "a+", &again), OSP_OK);
    assert_ptr_not_equal(first, again);
    grammar_drop(first);
    grammar_drop(again);
    for (int i = 0; i < 2; i++)
        assert_int_equal(form_kit_grammar(kit, OSP_FORM_SCHEMA, "{\"not\":{}}", &other),
                         OSP_EINVAL);
    assert_int_equal(form_kit_grammar(kit, OSP_FORM_CHOICE, "[1]", &other), OSP_EINVAL);
    assert_int_equal(form_kit_grammar(kit, OSP_FORM_CHOICE, "{}", &other), OSP_EINVAL);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
UNIT_MAIN(TEST(test_messages), TEST(test_whole_answer), TEST(test_limit),
          TEST(test_kit_keeps_grammars))
