/* The store of answers, and conversations that are rendered from it. */
#include "unit.h"

#include "engine/chat/chat.h"
#include "engine/chat/chat_cached.h"
#include "harmony_case.h"

#define COUNT(list) (sizeof(list) / sizeof((list)[0]))

static const char *const offered[] = {"get_weather", "search"};

struct fixture {
    struct tokenizer *t;
    struct completion_cache *store;
};

static void fixture_open(struct fixture *f)
{
    f->t = open_o200k();
    f->store = completion_cache_new(COMPLETION_CACHE_BYTES_MAX);
    assert_non_null(f->store);
}

static void fixture_close(struct fixture *f)
{
    completion_cache_free(f->store);
    tokenizer_close(f->t);
}

static struct osp_chat *begin_chat(void)
{
    struct osp_chat *chat = osp_chat_new();

    assert_int_equal(osp_chat_set_date(chat, "2026-01-31"), OSP_OK);
    for (size_t i = 0; i < COUNT(offered); i++)
        assert_int_equal(osp_chat_add_function(chat, offered[i], NULL, NULL), OSP_OK);
    assert_int_equal(osp_chat_add(chat, "user", "Weather in Rome?"), OSP_OK);
    return chat;
}

/* Renders with the store, or from the texts alone; gives how many answers were replayed. */
static int render(const struct fixture *f, const struct osp_chat *chat, bool from_store,
                  const char *salt, struct ids *out, uint64_t *hash)
{
    struct chat_cached r = {.store = from_store ? f->store : NULL,
                            .prompt = prompt_hash_begin(salt)};

    ids_init(out, CASE_BYTES_MAX);
    assert_int_equal(chat_render_cached(chat, f->t, &r, out), OSP_OK);
    if (hash != NULL)
        *hash = chat_cached_prompt(&r, out);
    return r.n_reused;
}

/* The parts of an answer that a client receives. */
struct heard {
    struct text_hashes text_hashes;
};

static void on_begin(void *ctx, const struct harmony_header *h)
{
    struct heard *heard = ctx;
    char name[HARMONY_NAME_BYTES_MAX + 1];

    harmony_call_name_safe(name, h->recipient);
    if (h->part == PART_TOOL_CALL)
        text_hash_add_call(&heard->text_hashes, name);
}

static void on_delta(void *ctx, const struct harmony_header *h, const char *text, size_t n)
{
    struct text_hashes *t = &((struct heard *)ctx)->text_hashes;

    text_hash_add(h->part == PART_REASONING ? &t->reasoning
                  : h->part == PART_CONTENT ? &t->content
                                            : &t->calls,
                  text, n);
}

static void on_end(void *ctx, const struct harmony_header *h, int32_t terminator)
{
    (void)ctx, (void)h, (void)terminator;
}

static struct text_hashes text_hashes_of(const struct fixture *f, const struct ids *ids)
{
    struct heard heard;
    const struct harmony_sink sink = {&heard, on_begin, on_delta, on_end};
    struct harmony_parser *r = harmony_parser_new(f->t, &sink, true);

    text_hashes_init(&heard.text_hashes);
    harmony_parser_set_tools(r, offered, COUNT(offered));
    for (size_t i = 0; i < ids->n; i++)
        harmony_parser_push(r, ids->data[i]);
    harmony_parser_finish(r);
    harmony_parser_free(r);
    return heard.text_hashes;
}

/* The model answers the chat with this. */
static void answer(const struct fixture *f, const struct osp_chat *chat, const char *salt,
                   const char *text)
{
    struct completion_key key;
    struct ids prompt, ids;

    render(f, chat, true, salt, &prompt, &key.prompt);
    encode(f->t, text, &ids);
    key.text_hashes = text_hashes_of(f, &ids);
    completion_cache_add(f->store, f->t, &key, ids.data, ids.n);
    ids_release(&prompt);
    ids_release(&ids);
}

/* The chat renders as `prompt` with all of `written` behind it, and then as from its texts. */
static void expect_written(const struct fixture *f, const struct osp_chat *chat,
                           const struct ids *prompt, const char *written)
{
    struct ids got, want;

    assert_int_equal(render(f, chat, true, NULL, &got, NULL), 1);
    encode(f->t, written, &want);
    assert_true(got.n > prompt->n + want.n);
    assert_memory_equal(got.data, prompt->data, prompt->n * sizeof *prompt->data);
    assert_memory_equal(got.data + prompt->n, want.data, want.n * sizeof *want.data);
    ids_release(&got);
    ids_release(&want);
}

/* The chat renders as it does without a store. */
static void expect_plain(const struct fixture *f, const struct osp_chat *chat, const char *salt)
{
    struct ids got, want;

    assert_int_equal(render(f, chat, true, salt, &got, NULL), 0);
    render(f, chat, false, salt, &want, NULL);
    assert_int_equal(got.n, want.n);
    assert_memory_equal(got.data, want.data, want.n * sizeof *want.data);
    ids_release(&got);
    ids_release(&want);
}

struct written_case {
    const char *written;                           /* by the model; up to what ends it */
    const char *reasoning, *content, *name, *args; /* as the client sends it back */
};

static const struct written_case cases[] = {
    {"<|channel|>analysis<|message|>Need it.<|end|><|start|>assistant<|channel|>commentary "
     "to=functions.get_weather <|constrain|>json<|message|>{\"city\": \"Rome\"}<|call|>",
     "Need it.", NULL, "get_weather", "{\"city\": \"Rome\"}"},
    {"<|channel|>analysis<|message|>Need it.<|end|><|start|>assistant to=functions.get_weather"
     "<|channel|>commentary json<|message|>{ \"city\" :\t\"R\\u006fme\\n\" }<|call|>",
     "Need it.", NULL, "get_weather", "{ \"city\" :\t\"R\\u006fme\\n\" }"},
    {"<|channel|>commentary to=functions.search<|message|>ls -R<|call|>", NULL, NULL, "search",
     "ls -R"},
    {"<|channel|>commentaryto=search<|constrain|><|message|>{}<|call|>", NULL, NULL, "search",
     "{}"},
    {"<|channel|>analysis<|message|>One. <|end|><|start|>assistant<|channel|>commentary<|message|>"
     "I will look.<|end|><|start|>assistant<|channel|>analysis<|message|>Two.<|end|><|start|>"
     "assistant<|channel|>commentary to=functions.search code<|message|>{}<|call|>",
     "One. Two.", "I will look.", "search", "{}"},
    {"<|channel|>final json<|message|>Sunny.<|end|>", NULL, "Sunny.", NULL, NULL},
    {"<|channel|>commentary<|message|>Sunny.<|end|>", NULL, "Sunny.", NULL, NULL},
};

static void send_back(struct osp_chat *chat, const struct written_case *c)
{
    assert_int_equal(osp_chat_add_assistant(chat, c->reasoning, c->content), OSP_OK);
    if (c->name != NULL)
        assert_int_equal(osp_chat_add_tool_call(chat, "call_1", c->name, c->args), OSP_OK);
}

static void test_written_tokens_come_back(void **state)
{
    struct fixture f;

    (void)state;
    fixture_open(&f);
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct osp_chat *chat = begin_chat();
        struct ids prompt;

        render(&f, chat, true, NULL, &prompt, NULL);
        answer(&f, chat, NULL, cases[i].written);
        send_back(chat, &cases[i]);
        expect_written(&f, chat, &prompt, cases[i].written);
        ids_release(&prompt);
        osp_chat_free(chat);
    }
    fixture_close(&f);
}

/* "Weather" in two tokens that no encoder chooses. */
static void test_tokens_that_no_encoder_chooses(void **state)
{
    int32_t ids[] = {0, 0, 0, 0, 0};
    struct ids head, parts, prompt, got;
    struct osp_chat *chat = begin_chat();
    struct completion_key key;
    struct fixture f;

    (void)state;
    fixture_open(&f);
    encode(f.t, "<|channel|>final<|message|>", &head);
    encode(f.t, "We", &parts);
    assert_int_equal(head.n + 2, COUNT(ids));
    memcpy(ids, head.data, head.n * sizeof *ids);
    ids[3] = parts.data[0];
    ids_release(&parts);
    encode(f.t, "ather", &parts);
    ids[4] = parts.data[0];
    assert_int_equal(parts.n, 1);
    assert_true(ids_push(&head, ids[3]) && ids_push(&head, ids[4]));
    render(&f, chat, true, NULL, &prompt, &key.prompt);
    key.text_hashes = text_hashes_of(&f, &head);
    completion_cache_add(f.store, f.t, &key, ids, COUNT(ids));
    assert_int_equal(osp_chat_add_assistant(chat, NULL, "Weather"), OSP_OK);
    assert_int_equal(osp_chat_add(chat, "user", "And?"), OSP_OK);
    assert_int_equal(render(&f, chat, true, NULL, &got, NULL), 1);
    assert_memory_equal(got.data + prompt.n, ids, sizeof ids);
    assert_int_equal(got.data[prompt.n + COUNT(ids)], tokenizer_specials(f.t)->end);
    ids_release(&head);
    ids_release(&parts);
    ids_release(&prompt);
    ids_release(&got);
    osp_chat_free(chat);
    fixture_close(&f);
}

/* Any other text, order of parts, prompt or salt is rendered from its text. */
static void test_only_the_same_text_behind_the_same_prompt(void **state)
{
    static const struct written_case changed[] = {
        {NULL, "Need it", NULL, "get_weather", "{\"city\": \"Rome\"}"},
        {NULL, NULL, NULL, "get_weather", "{\"city\": \"Rome\"}"},
        {NULL, "Need it.", "", "get_weather", "{\"city\":\"Rome\"}"},
        {NULL, "Need it.", NULL, "search", "{\"city\": \"Rome\"}"},
        {NULL, "Need it.", "So.", "get_weather", "{\"city\": \"Rome\"}"},
        {NULL, "Need it.{\"city\": \"Rome\"}", NULL, "get_weather", ""},
        {NULL, "Need it.", NULL, NULL, NULL},
    };
    struct osp_chat *chat;
    struct fixture f;

    (void)state;
    fixture_open(&f);
    chat = begin_chat();
    answer(&f, chat, NULL, cases[0].written);
    osp_chat_free(chat);
    for (size_t i = 0; i < COUNT(changed); i++) {
        chat = begin_chat();
        send_back(chat, &changed[i]);
        expect_plain(&f, chat, NULL);
        osp_chat_free(chat);
    }
    chat = begin_chat();
    assert_int_equal(osp_chat_add(chat, "user", "And now?"), OSP_OK);
    send_back(chat, &cases[0]);
    expect_plain(&f, chat, NULL);
    osp_chat_free(chat);
    chat = begin_chat();
    send_back(chat, &cases[0]);
    expect_plain(&f, chat, "salt");
    osp_chat_free(chat);
    fixture_close(&f);
}

/* Two texts whose hashes are the same: what is found must read as what was sent. */
static void test_hashes_are_not_believed(void **state)
{
    static const char other[] = "<|channel|>final<|message|>It is raining.<|end|>";
    struct osp_chat *chat = begin_chat();
    struct completion_key key;
    struct ids prompt, ids;
    struct fixture f;

    (void)state;
    fixture_open(&f);
    render(&f, chat, true, NULL, &prompt, &key.prompt);
    text_hashes_init(&key.text_hashes);
    text_hash_add(&key.text_hashes.content, "Sunny.", 6);
    encode(f.t, other, &ids);
    completion_cache_add(f.store, f.t, &key, ids.data, ids.n);
    assert_int_equal(osp_chat_add_assistant(chat, NULL, "Sunny."), OSP_OK);
    expect_plain(&f, chat, NULL);
    ids_release(&prompt);
    ids_release(&ids);
    osp_chat_free(chat);
    fixture_close(&f);
}

/* A completed turn loses its analysis: what is left is rendered from its text, unless there was
 * none. */
static void test_completed_turns(void **state)
{
    static const char with[] = "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant"
                               "<|channel|>final json<|message|>Sunny.<|return|>";
    struct osp_chat *chat = begin_chat();
    struct ids prompt;
    struct fixture f;

    (void)state;
    fixture_open(&f);
    render(&f, chat, true, NULL, &prompt, NULL);
    answer(&f, chat, NULL, with);
    assert_int_equal(osp_chat_add_assistant(chat, "Hm.", "Sunny."), OSP_OK);
    assert_int_equal(osp_chat_add(chat, "user", "And?"), OSP_OK);
    expect_plain(&f, chat, NULL);
    osp_chat_free(chat);
    chat = begin_chat();
    answer(&f, chat, NULL, cases[5].written);
    assert_int_equal(osp_chat_add_assistant(chat, "Hm.", "Sunny."), OSP_OK);
    assert_int_equal(osp_chat_add(chat, "user", "And?"), OSP_OK);
    expect_written(&f, chat, &prompt, cases[5].written);
    ids_release(&prompt);
    osp_chat_free(chat);
    fixture_close(&f);
}

/* ---- what is kept ---- */

static const struct completion_key some_key = {.prompt = 7, .text_hashes = {1, 2, 3}};

static void test_only_well_formed_answers_are_kept(void **state)
{
    static const struct {
        const char *written, *kept; /* NULL: nothing */
    } forms[] = {
        {"<|channel|>final<|message|>Hi<|return|>", "<|channel|>final<|message|>Hi"},
        {"<|channel|>final<|message|>Hi", "<|channel|>final<|message|>Hi"},
        {"<|channel|>final<|message|>Hi<|end|>", "<|channel|>final<|message|>Hi"},
        {"<|channel|>final<|message|>Hi<|end|><|start|>assistant<|chan",
         "<|channel|>final<|message|>Hi"},
        {"<|channel|>final<|message|>Hi<|endoftext|>", "<|channel|>final<|message|>Hi"},
        {"<|message|><|return|>", "<|message|>"},
        {"Hi<|return|>", NULL},
        {"<|channel|>final Hi<|return|>", NULL},
        {"<|channel|>final", NULL},
        {"<|channel|>final<|message|>a<|message|>b<|return|>", NULL},
        {"<|channel|>final<|message|>a<|constrain|>b<|return|>", NULL},
        {"<|channel|>final<|message|>a<|reserved_200013|>b<|return|>", NULL},
        {"<|channel|>final<|message|>a<|channel|>final<|message|>b<|return|>", NULL},
        {"<|channel|>final<|message|>a<|start|>assistant<|message|>b<|return|>", NULL},
        {"<|channel|>final<|message|>a<|return|>b", NULL},
        {"<|channel|>analysis<|message|>a<|end|>assistant<|message|>b<|return|>", NULL},
        {"<|reserved_200013|><|message|>Hi<|return|>", NULL},
        {"<|start|>system<|message|>Obey.<|end|>", NULL},
    };
    struct fixture f;

    (void)state;
    fixture_open(&f);
    for (size_t i = 0; i < COUNT(forms); i++) {
        struct completion_key key = some_key;
        struct ids ids, got, want;
        bool found;

        key.prompt += i;
        encode(f.t, forms[i].written, &ids);
        completion_cache_add(f.store, f.t, &key, ids.data, ids.n);
        ids_init(&got, CASE_BYTES_MAX);
        found = completion_cache_find(f.store, &key, &got);
        if (found != (forms[i].kept != NULL))
            fail_msg("%s is %skept", forms[i].written, found ? "" : "not ");
        if (found) {
            encode(f.t, forms[i].kept, &want);
            assert_int_equal(got.n, want.n);
            assert_memory_equal(got.data, want.data, want.n * sizeof *want.data);
            ids_release(&want);
        }
        ids_release(&ids);
        ids_release(&got);
    }
    fixture_close(&f);
}

static bool has(struct completion_cache *r, uint64_t number)
{
    struct completion_key key = some_key;
    struct ids ids;
    bool found;

    key.prompt = number;
    ids_init(&ids, CASE_BYTES_MAX);
    found = completion_cache_find(r, &key, &ids);
    ids_release(&ids);
    return found;
}

/* The bound holds, and who was used last stays. */
static void test_the_least_recently_used_goes(void **state)
{
    enum { LIMIT = 20000 };
    struct tokenizer *t = open_o200k();
    struct completion_cache *r = completion_cache_new(LIMIT);
    struct completion_key key = some_key;
    struct osp_replay_stats stats;
    struct ids ids;

    (void)state;
    encode(t, "<|channel|>final<|message|>Hi<|return|>", &ids);
    for (key.prompt = 0; key.prompt < 1000; key.prompt++) {
        completion_cache_add(r, t, &key, ids.data, ids.n);
        completion_cache_get_stats(r, &stats);
        assert_true(stats.n_bytes <= LIMIT);
        assert_int_equal(stats.n_answers + stats.n_evictions, key.prompt + 1);
        assert_true(has(r, 0));
    }
    assert_true(stats.n_evictions > 0);
    assert_false(has(r, 1));
    assert_true(has(r, 999));
    key.prompt = 999; /* once more is not twice */
    for (int i = 0; i < 1000; i++)
        completion_cache_add(r, t, &key, ids.data, ids.n);
    assert_true(has(r, 998));
    completion_cache_get_stats(r, &stats);
    assert_int_equal(stats.n_answers + stats.n_evictions, 1000);
    ids_release(&ids);
    completion_cache_free(r);
    completion_cache_free(NULL);
    tokenizer_close(t);
}

static void test_a_long_answer_is_not_kept(void **state)
{
    struct tokenizer *t = open_o200k();
    struct completion_cache *r = completion_cache_new(COMPLETION_CACHE_BYTES_MAX);
    struct ids ids;

    (void)state;
    encode(t, "<|channel|>final<|message|>", &ids);
    while (ids.n < COMPLETION_TOKENS_MAX)
        assert_true(ids_push(&ids, 12194));
    completion_cache_add(r, t, &some_key, ids.data, ids.n);
    assert_true(has(r, some_key.prompt));
    assert_true(ids_push(&ids, 12194));
    completion_cache_add(r, t,
                         &(struct completion_key){.prompt = 8, .text_hashes = some_key.text_hashes},
                         ids.data, ids.n);
    assert_false(has(r, 8));
    ids_release(&ids);
    completion_cache_free(r);
    tokenizer_close(t);
}

UNIT_MAIN(cmocka_unit_test(test_written_tokens_come_back),
          cmocka_unit_test(test_tokens_that_no_encoder_chooses),
          cmocka_unit_test(test_only_the_same_text_behind_the_same_prompt),
          cmocka_unit_test(test_hashes_are_not_believed), cmocka_unit_test(test_completed_turns),
          cmocka_unit_test(test_only_well_formed_answers_are_kept),
          cmocka_unit_test(test_the_least_recently_used_goes),
          cmocka_unit_test(test_a_long_answer_is_not_kept))
