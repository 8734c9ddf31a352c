/* Answers constrained by a grammar, token by token. Whatever tokens the masks allow to be sampled,
 * the Harmony parser finds only reasoning, valid calls of the offered functions, and one final
 * message that matches the grammar. */
#include "unit.h"

#include <jansson.h>

#include "base/memory.h"
#include "base/rng.h"
#include "engine/grammar/answer_grammar.h"
#include "text/harmony/harmony_parser.h"

#define TOKENIZER "models/osprey-nano/tokenizer.json"

enum { WALKS = 300, TOKENS_MAX = 400 };

static struct grammar_cache *kit;
static struct tokenizer *tokenizer;
static const struct grammar_vocab *tools;
static int32_t role_token; /* "assistant" */

static int set_up(void **state)
{
    struct ids role;
    bool ready;

    (void)state;
    kit = grammar_cache_new();
    ids_init(&role, 4);
    ready = tokenizer_open(&tokenizer, TOKENIZER) == OSP_OK &&
            grammar_cache_prepare(kit, tokenizer, NULL, &tools) == OSP_OK &&
            tokenizer_encode(tokenizer, "assistant", 9, &role) == OSP_OK && role.n == 1;
    if (ready)
        role_token = role.data[0];
    ids_release(&role);
    return ready ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    grammar_cache_free(kit);
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

static struct answer_grammar *new_form(enum osp_form kind, const char *text, const int32_t *prompt,
                                       int n_prompt, uint32_t *mask)
{
    int stop_ids[] = {tools->specials.ret, tools->specials.call};
    struct answer_grammar_config config = {.tools = tools,
                                           .prompt = prompt,
                                           .n_prompt = n_prompt,
                                           .stop_ids = stop_ids,
                                           .n_stop_ids = 2,
                                           .mask = mask,
                                           .n_mask_words = (int)tools->index->n_words};
    struct answer_grammar *f;

    assert_int_equal(grammar_cache_get(kit, kind, text, &config.grammar), OSP_OK);
    assert_int_equal(answer_grammar_new(&f, &config), OSP_OK);
    grammar_unref(config.grammar);
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
static int walk(struct answer_grammar *f, const uint32_t *mask, uint64_t seed, int32_t *out)
{
    int n = 0;

    while (n < TOKENS_MAX) {
        out[n] = pick(mask, seed, (uint32_t)n);
        assert_int_equal(answer_grammar_advance(f, out[n]), OSP_OK);
        n++;
        if (out[n - 1] == tools->specials.ret || out[n - 1] == tools->specials.call)
            break;
    }
    assert_int_equal(answer_grammar_n_tokens(f), n);
    return n;
}

static void test_messages(void **state)
{
    int32_t prompt[] = {tools->specials.start, role_token}, tokens[TOKENS_MAX];
    uint32_t *mask = mem_new(tools->index->n_words * sizeof *mask);
    int n_ended = 0, n_reasoning = 0;

    (void)state;
    for (uint64_t seed = 0; seed < WALKS; seed++) {
        struct heard heard = {.terminator = -1};
        const struct harmony_sink sink = {&heard, on_begin, on_delta, on_end};
        struct harmony_parser *reader = harmony_parser_new(tokenizer, &sink, true);
        struct answer_grammar *f;
        int n;

        memset(mask, 0, tools->index->n_words * sizeof *mask);
        f = new_form(OSP_FORM_CHOICE, "[\"yes\", \"no\", \"not sure\"]", prompt, 2, mask);
        buf_init(&heard.final, 1 << 20);
        buf_init(&heard.other, 1 << 20);
        n = walk(f, mask, seed, tokens);
        for (int i = 0; i < n; i++)
            harmony_parser_push(reader, tokens[i]);
        harmony_parser_finish(reader);
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
        harmony_parser_free(reader);
        answer_grammar_free(f);
    }
    assert_true(n_ended > WALKS / 2);
    assert_true(n_reasoning > WALKS / 10);
    free(mask);
}

/* ---- calls ---- */

/* Names that begin alike; two strict ones and one that takes any object. */
#define FUNCTIONS                                                                                  \
    "\"functions\":[{\"name\":\"get\",\"schema\":{\"type\":\"object\",\"properties\":{\"n\":{"     \
    "\"type\":\"integer\",\"minimum\":3,\"maximum\":5}},\"required\":[\"n\"]}},"                   \
    "{\"name\":\"get_more\",\"schema\":{\"type\":\"object\",\"properties\":{\"a\":{\"enum\":["     \
    "\"x\","                                                                                       \
    "\"y\"]},\"b\":{\"type\":\"boolean\"}},\"required\":[\"a\"]}},{\"name\":\"any-thing\"}]"

/* What the reader makes of an answer with calls. */
struct calling {
    struct buf content; /* of the message under way */
    int n_final, n_preambles, n_reasoning, n_calls;
    int n_messages; /* before the first call or final message */
    int n_calls_of[3];
    bool is_cut; /* the answer was given up: its last message may be anything */
};

static const char *const NAMES[] = {"get", "get_more", "any-thing"};

static void calling_begin(void *ctx, const struct harmony_header *h)
{
    struct calling *c = ctx;

    buf_clear(&c->content);
    c->n_messages += c->n_calls + c->n_final == 0;
    assert_string_equal(h->role, "assistant");
}

static void calling_delta(void *ctx, const struct harmony_header *h, const char *text, size_t n)
{
    (void)h;
    buf_append(&((struct calling *)ctx)->content, text, n);
}

/* The arguments as the schemas above have them. */
static void check_arguments(int function, const char *text)
{
    json_t *v = json_loads(text, 0, NULL), *n = json_object_get(v, "n");
    const char *a = json_string_value(json_object_get(v, "a"));

    assert_true(json_is_object(v));
    if (function == 0)
        assert_true(json_object_size(v) == 1 && json_integer_value(n) >= 3 &&
                    json_integer_value(n) <= 5);
    if (function == 1)
        assert_true(a != NULL && (strcmp(a, "x") == 0 || strcmp(a, "y") == 0) &&
                    json_object_size(v) == 1U + (size_t)json_is_boolean(json_object_get(v, "b")));
    json_decref(v);
}

static void calling_end(void *ctx, const struct harmony_header *h, int32_t terminator)
{
    struct calling *c = ctx;
    int function = 0;

    if (c->is_cut && terminator < 0)
        return;
    if (h->part == PART_TOOL_CALL) {
        while (strcmp(harmony_call_name(h->recipient), NAMES[function]) != 0)
            assert_true(++function < 3);
        check_arguments(function, buf_text(&c->content));
        assert_string_equal(h->channel, "commentary");
        assert_true(terminator == tools->specials.call || terminator == tools->specials.end);
        c->n_calls_of[function]++;
        c->n_calls++;
        return;
    }
    assert_string_equal(h->recipient, "");
    c->n_final += strcmp(h->channel, "final") == 0;
    c->n_preambles += strcmp(h->channel, "commentary") == 0;
    c->n_reasoning += strcmp(h->channel, "analysis") == 0;
    assert_int_equal(terminator,
                     strcmp(h->channel, "final") == 0 ? tools->specials.ret : tools->specials.end);
}

/* Draws one answer and reads it. */
static struct calling call_walk(const char *rules, const char *choices, uint64_t seed,
                                int32_t *last)
{
    const int32_t prompt[] = {tools->specials.start, role_token};
    uint32_t *mask = mem_new(tools->index->n_words * sizeof *mask);
    struct calling c = {.n_final = 0};
    const struct harmony_sink sink = {&c, calling_begin, calling_delta, calling_end};
    struct harmony_parser *reader = harmony_parser_new(tokenizer, &sink, true);
    struct answer_grammar_config config = {.tools = tools,
                                           .prompt = prompt,
                                           .n_prompt = 2,
                                           .mask = mask,
                                           .n_mask_words = (int)tools->index->n_words};
    int32_t tokens[TOKENS_MAX];
    struct answer_grammar *f;
    int n;

    if (choices != NULL)
        assert_int_equal(grammar_cache_get(kit, OSP_FORM_CHOICE, choices, &config.grammar), OSP_OK);
    assert_int_equal(call_rules_open(&config.calls, kit, rules), OSP_OK);
    assert_int_equal(answer_grammar_new(&f, &config), OSP_OK);
    grammar_unref(config.grammar);
    n = walk(f, mask, seed, tokens);
    *last = tokens[n - 1];
    c.is_cut = *last != tools->specials.ret && *last != tools->specials.call;
    buf_init(&c.content, 1 << 20);
    for (int i = 0; i < n; i++)
        harmony_parser_push(reader, tokens[i]);
    harmony_parser_finish(reader);
    buf_release(&c.content);
    harmony_parser_free(reader);
    answer_grammar_free(f);
    free(mask);
    return c;
}

struct calling_sum {
    int n_ended, n_called, n_final, n_preambles, n_many, n_of[3];
};

/* Many walks, of which each keeps to the rules; `check` looks at each that ended. */
static struct calling_sum call_walks(const char *rules, const char *choices,
                                     void (*check)(const struct calling *c, int32_t last))
{
    struct calling_sum sum = {.n_ended = 0};

    for (uint64_t seed = 0; seed < WALKS; seed++) {
        int32_t last;
        struct calling c = call_walk(rules, choices, seed, &last);

        if (c.is_cut)
            continue;
        check(&c, last);
        sum.n_ended++;
        sum.n_called += c.n_calls > 0;
        sum.n_many += c.n_calls > 1;
        sum.n_final += c.n_final;
        sum.n_preambles += c.n_preambles;
        for (int i = 0; i < 3; i++)
            sum.n_of[i] += c.n_calls_of[i];
    }
    assert_true(sum.n_ended > WALKS / 2);
    return sum;
}

static void check_any(const struct calling *c, int32_t last)
{
    assert_int_equal(c->n_final, last == tools->specials.ret);
    assert_true(c->n_calls > 0 || last == tools->specials.ret);
}

/* One thought at most, then the call. */
static void check_must(const struct calling *c, int32_t last)
{
    check_any(c, last);
    assert_true(c->n_calls > 0 && c->n_messages <= 2);
}

static void check_one(const struct calling *c, int32_t last)
{
    check_any(c, last);
    assert_int_equal(c->n_calls, last == tools->specials.call);
}

static void check_none(const struct calling *c, int32_t last)
{
    assert_int_equal(last, tools->specials.ret);
    assert_true(c->n_calls == 0 && c->n_preambles == 0 && c->n_final == 1);
}

static void test_calls(void **state)
{
    struct calling_sum sum;

    (void)state;
    sum = call_walks("{\"must\":false,\"one\":false," FUNCTIONS "}", NULL, check_any);
    assert_true(sum.n_called > 0 && sum.n_final > 0 && sum.n_preambles > 0 && sum.n_many > 0);
    assert_true(sum.n_of[0] > 0 && sum.n_of[1] > 0 && sum.n_of[2] > 0);
    sum = call_walks("{\"must\":true,\"one\":false," FUNCTIONS "}", NULL, check_must);
    assert_true(sum.n_called == sum.n_ended && sum.n_many > 0);
    sum = call_walks("{\"must\":false,\"one\":true," FUNCTIONS "}", NULL, check_one);
    assert_true(sum.n_called > 0 && sum.n_final > 0);
    sum = call_walks("{\"functions\":[]}", NULL, check_none);
    sum = call_walks("{\"must\":true,\"one\":true," FUNCTIONS "}", NULL, check_must);
    assert_int_equal(sum.n_final, 0);
    sum = call_walks("{" FUNCTIONS "}", "[\"yes\"]", check_any);
    assert_true(sum.n_called > 0 && sum.n_final > 0 && sum.n_preambles == 0);
}

static void test_calls_that_cannot_be(void **state)
{
    static const struct {
        const char *text, *says;
    } rows[] = {
        {"", "not valid JSON"},
        {"{}", "a list"},
        {"{\"must\":true,\"functions\":[]}", "no functions"},
        {"{\"functions\":[{}]}", "needs a name"},
        {"{\"functions\":[{\"name\":\"a b\"}]}", "is not a valid name"},
        {"{\"functions\":[{\"name\":\"f\",\"schema\":{\"properties\":{\"x\":{\"not\":{}}}}}]}",
         "tools: f: parameters: /properties/x/not"},
    };
    struct call_rules *rules;

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_int_equal(call_rules_open(&rules, kit, rows[i].text), OSP_EINVAL);
        assert_non_null(strstr(fail_message(), rows[i].says));
        assert_null(rules);
    }
}

/* Schemas that are large together are refused, whether or not they are kept. */
static void test_work_of_all_functions(void **state)
{
    struct call_rules *rules;
    struct buf text;

    (void)state;
    for (int round = 0; round < 2; round++) {
        buf_init(&text, 1 << 20);
        buf_puts(&text, "{\"functions\":[");
        for (int i = 0; i < 100; i++)
            buf_printf(&text,
                       "%s{\"name\":\"f%d\",\"schema\":{\"properties\":{\"p%d\":{\"type\":"
                       "\"string\",\"pattern\":\"^(?:[a-z]{1,9}[0-9]){1,300}$\"}}}}",
                       i > 0 ? "," : "", i, i);
        buf_puts(&text, "]}");
        assert_int_equal(call_rules_open(&rules, kit, buf_text(&text)), OSP_EINVAL);
        assert_non_null(strstr(fail_message(), "too large together"));
        buf_release(&text);
    }
}

static void add_functions(struct osp_chat *chat)
{
    assert_int_equal(osp_chat_add(chat, "user", "Hi"), OSP_OK);
    assert_int_equal(osp_chat_add_function(chat, "f", NULL, "{\"properties\":{}}"), OSP_OK);
    assert_int_equal(osp_chat_add_function(chat, "g", NULL, "{\"type\":\"object\"}"), OSP_OK);
}

/* What a chat and a request's options become. */
static void test_text_of_calls(void **state)
{
    static const char *const g[] = {"g"}, *const h[] = {"h"};
    struct osp_chat *chat = osp_chat_new();
    struct osp_request_options opt = {.tool_choice = OSP_TOOLS_NONE};
    char *text;

    (void)state;
    assert_int_equal(calls_text(&text, chat, &opt), OSP_OK);
    assert_null(text); /* there are no functions */
    opt.tool_choice = OSP_TOOLS_REQUIRED;
    assert_int_equal(calls_text(&text, chat, &opt), OSP_EINVAL);
    add_functions(chat);
    assert_int_equal(calls_text(&text, chat, &opt), OSP_OK);
    assert_string_equal(text, "{\"must\":true,\"one\":false,\"functions\":[{\"name\":\"f\","
                              "\"loose\":\"{\\\"properties\\\":{}}\"},{\"name\":\"g\","
                              "\"loose\":\"{\\\"type\\\":\\\"object\\\"}\"}]}");
    free(text);
    opt = (struct osp_request_options){.one_tool_call = true};
    assert_int_equal(calls_text(&text, chat, &opt), OSP_OK);
    assert_null(text); /* nothing to hold */
    opt.tools = g;
    opt.n_tools = 1;
    assert_int_equal(calls_text(&text, chat, &opt), OSP_OK);
    assert_string_equal(text, "{\"must\":false,\"one\":true,\"functions\":[{\"name\":\"g\"}]}");
    free(text);
    assert_int_equal(osp_chat_set_strict(chat, "h"), OSP_EINVAL);
    assert_int_equal(osp_chat_set_strict(chat, "f"), OSP_OK);
    opt = (struct osp_request_options){.tool_choice = OSP_TOOLS_AUTO};
    assert_int_equal(calls_text(&text, chat, &opt), OSP_OK);
    assert_string_equal(text,
                        "{\"must\":false,\"one\":false,\"functions\":[{\"name\":\"f\","
                        "\"schema\":{\"properties\":{},\"type\":\"object\"}},{\"name\":\"g\"}]}");
    free(text);
    opt.tools = h;
    opt.n_tools = 1;
    assert_int_equal(calls_text(&text, chat, &opt), OSP_EINVAL);
    assert_non_null(strstr(fail_message(), "\"h\""));
    osp_chat_free(chat);
}

/* Behind any other prompt all of the answer is held, up to a stop token of the engine. */
static void test_whole_answer(void **state)
{
    int32_t prompt[] = {tools->specials.start, 5, tools->specials.message, 7}, tokens[TOKENS_MAX];
    uint32_t *mask = mem_new(tools->index->n_words * sizeof *mask);
    struct answer_grammar *f = new_form(OSP_FORM_REGEX, "[0-9]{3}", prompt, 4, mask);
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
    answer_grammar_free(f);
    free(mask);
}

/* A mask that is there already limits all that follow. */
static void test_limit(void **state)
{
    int32_t prompt[] = {7}, digit = -1;
    uint32_t *mask = mem_new(tools->index->n_words * sizeof *mask);
    struct answer_grammar *f;

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
    assert_int_equal(answer_grammar_advance(f, digit), OSP_OK);
    assert_int_equal(count(mask), 1);
    answer_grammar_free(f);
    free(mask);
}

/* The same text is the same grammar as long as it is kept; a wrong one is refused each time. */
static void test_kit_keeps_grammars(void **state)
{
    struct grammar *first, *again, *other;
    char regex[32];

    (void)state;
    assert_int_equal(grammar_cache_get(kit, OSP_FORM_REGEX, "a+", &first), OSP_OK);
    assert_int_equal(grammar_cache_get(kit, OSP_FORM_REGEX, "a+", &again), OSP_OK);
    assert_ptr_equal(first, again);
    grammar_unref(again);
    for (int i = 0; i < CACHED_GRAMMARS_MAX; i++) {
        snprintf(regex, sizeof regex, "b{%d}", i + 1);
        assert_int_equal(grammar_cache_get(kit, OSP_FORM_REGEX, regex, &other), OSP_OK);
        grammar_unref(other);
    }
    assert_int_equal(grammar_cache_get(kit, OSP_FORM_REGEX, "a+", &again), OSP_OK);
    assert_ptr_not_equal(first, again);
    grammar_unref(first);
    grammar_unref(again);
    for (int i = 0; i < 2; i++)
        assert_int_equal(grammar_cache_get(kit, OSP_FORM_SCHEMA, "{\"not\":{}}", &other),
                         OSP_EINVAL);
    assert_int_equal(grammar_cache_get(kit, OSP_FORM_CHOICE, "[1]", &other), OSP_EINVAL);
    assert_int_equal(grammar_cache_get(kit, OSP_FORM_CHOICE, "{}", &other), OSP_EINVAL);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
UNIT_MAIN(TEST(test_messages), TEST(test_calls), TEST(test_calls_that_cannot_be),
          TEST(test_work_of_all_functions), TEST(test_text_of_calls), TEST(test_whole_answer),
          TEST(test_limit), TEST(test_kit_keeps_grammars))
