/* A conversation through the whole engine, with a sampler that draws what a script says: finishes,
 * control tokens, usage. */
#include "engine_fixture.h"

#include <stdatomic.h>

#include "engine/core/model_api.h"
#include "stage_hook.h"

enum { SCRIPT_TOKENS_MAX = 200 };

static int32_t script[SCRIPT_TOKENS_MAX];
static size_t n_script;
static atomic_size_t n_drawn;

static void sample_script(enum stage stage, const union stage_args *a, const struct batch *b)
{
    size_t i;

    (void)b;
    if (stage != STAGE_sample)
        return;
    i = atomic_fetch_add(&n_drawn, 1);
    if (i < n_script) /* tokens sampled after a stop string are not read */
        ((int32_t *)a->sample.tokens.data)[0] = script[i];
}

struct fixture {
    struct osp_model *model;
    struct osp_engine *engine;
    struct osp_chat *chat;
};

static void write_script(const struct osp_model *model, const char *text)
{
    int32_t *ids;

    assert_int_equal(
        osp_tokenize(osp_model_tokenizer(model), text, strlen(text), true, &ids, &n_script),
        OSP_OK);
    assert_in_range(n_script, 1, SCRIPT_TOKENS_MAX);
    memcpy(script, ids, n_script * sizeof *ids);
    osp_free(ids);
    atomic_store(&n_drawn, 0);
}

static void fixture_open(struct fixture *f, const char *text)
{
    f->model = fixture_model((struct osp_model_options){.context_tokens_max = 1024});
    stage_hook_set(f->model->model, sample_script);
    write_script(f->model, text);
    f->engine = fixture_engine(f->model);
    f->chat = osp_chat_new();
    assert_int_equal(osp_chat_set_date(f->chat, "2026-01-31"), OSP_OK);
    assert_int_equal(osp_chat_add(f->chat, "user", "What is the weather in Rome?"), OSP_OK);
}

static void fixture_close(struct fixture *f)
{
    osp_chat_free(f->chat);
    osp_engine_close(f->engine);
    osp_model_close(f->model);
}

static void answer(struct fixture *f, struct heard *h, struct osp_request_options opt)
{
    struct osp_request *r;

    if (osp_submit_chat(&r, f->engine, f->chat, &opt) != OSP_OK)
        fail_msg("%s", osp_error());
    hear_all(h, r);
}

static const char spoken[] = "<|channel|>analysis<|message|>They ask for the weather.<|end|>"
                             "<|start|>assistant<|channel|>final<|message|>It is sunny.<|return|>";

static void test_answer(void **state)
{
    struct fixture f;
    struct heard h;
    int32_t *prompt;
    size_t n_prompt;

    (void)state;
    fixture_open(&f, spoken);
    answer(&f, &h, (struct osp_request_options){0});
    assert_string_equal(buf_text(&h.reasoning), "They ask for the weather.");
    assert_string_equal(buf_text(&h.text), "It is sunny.");
    assert_int_equal(h.last.finish, OSP_FINISH_STOP);
    assert_int_equal(h.last.stop_token, script[n_script - 1]);
    assert_int_equal(h.last.usage.n_generated_tokens, n_script);
    assert_in_range(h.last.usage.n_reasoning_tokens, 2, n_script - 10);
    assert_int_equal(osp_chat_render(f.chat, osp_model_tokenizer(f.model), &prompt, &n_prompt),
                     OSP_OK);
    assert_int_equal(h.last.usage.n_prompt_tokens, n_prompt);
    osp_free(prompt);
    heard_release(&h);
    fixture_close(&f);
}

static void test_call(void **state)
{
    struct fixture f;
    struct heard h;

    (void)state;
    fixture_open(&f, "<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>"
                     "{\"city\": \"Rome\"}<|call|>");
    assert_int_equal(osp_chat_add_function(f.chat, "get_weather", NULL, NULL), OSP_OK);
    answer(&f, &h, (struct osp_request_options){0});
    assert_int_equal(h.n_calls, 1);
    assert_string_equal(h.name, "get_weather");
    assert_string_equal(buf_text(&h.args), "{\"city\": \"Rome\"}");
    assert_int_equal(h.last.finish, OSP_FINISH_TOOL_CALLS);
    assert_int_equal(h.last.stop_token, script[n_script - 1]);
    heard_release(&h);
    fixture_close(&f);
}

#define CALL(name, arguments) "<|channel|>commentary to=functions." name "<|message|>" arguments

/* Two calls in one answer, and what is no JSON, as the model writes them. */
static void test_two_calls(void **state)
{
    struct fixture f;
    struct heard h;

    (void)state;
    fixture_open(&f,
                 CALL("f", "{\"a\": 1}") "<|end|><|start|>assistant" CALL("g", "oops") "<|call|>");
    assert_int_equal(osp_chat_add_function(f.chat, "f", NULL, NULL), OSP_OK);
    assert_int_equal(osp_chat_add_function(f.chat, "g", NULL, NULL), OSP_OK);
    answer(&f, &h, (struct osp_request_options){0});
    assert_int_equal(h.n_calls, 2);
    assert_string_equal(h.name, "g");
    assert_string_equal(buf_text(&h.args), "{\"a\": 1}oops");
    assert_int_equal(h.last.finish, OSP_FINISH_TOOL_CALLS);
    heard_release(&h);
    fixture_close(&f);
}

/* Where one is wanted the first ends the answer, however the model closes it. */
static void test_one_call(void **state)
{
    static const char *const behind[] = {
        "<|end|><|start|>assistant" CALL("f", "{}") "<|call|>",
        "<|end|><|start|>assistant<|channel|>final<|message|>Done.<|return|>",
        "<|start|>assistant<|channel|>final<|message|>Done.<|return|>",
        "<|channel|>final<|message|>Done.<|return|>",
        "<|call|>",
        "<|return|>",
    };

    (void)state;
    for (size_t i = 0; i < sizeof behind / sizeof behind[0]; i++) {
        char spoken_text[512];
        struct fixture f;
        struct heard h;

        snprintf(spoken_text, sizeof spoken_text, "%s%s", CALL("f", "{\"a\": 1}"), behind[i]);
        fixture_open(&f, spoken_text);
        assert_int_equal(osp_chat_add_function(f.chat, "f", NULL, NULL), OSP_OK);
        answer(&f, &h, (struct osp_request_options){.one_tool_call = true});
        assert_int_equal(h.n_calls, 1);
        assert_string_equal(buf_text(&h.args), "{\"a\": 1}");
        assert_string_equal(buf_text(&h.text), "");
        assert_int_equal(h.last.finish, OSP_FINISH_TOOL_CALLS);
        heard_release(&h);
        fixture_close(&f);
    }
}

static void test_length(void **state)
{
    struct fixture f;
    struct heard h;

    (void)state;
    fixture_open(&f, spoken);
    answer(&f, &h, (struct osp_request_options){.tokens_max = (int)n_script - 1});
    assert_string_equal(buf_text(&h.text), "It is sunny.");
    assert_int_equal(h.last.finish, OSP_FINISH_LENGTH);
    assert_int_equal(h.last.stop_token, -1);
    heard_release(&h);
    fixture_close(&f);
}

static void test_stop_string(void **state)
{
    struct fixture f;
    struct heard h;

    (void)state;
    fixture_open(&f, spoken);
    answer(&f, &h, (struct osp_request_options){.stop = {"the", " sun"}, .n_stop = 2});
    assert_string_equal(buf_text(&h.reasoning), "They ask for the weather.");
    assert_string_equal(buf_text(&h.text), "It is");
    assert_int_equal(h.last.finish, OSP_FINISH_STOP);
    assert_int_equal(h.last.stop_token, -1);
    heard_release(&h);
    fixture_close(&f);
}

static void test_too_long_a_conversation(void **state)
{
    struct osp_request *r;
    struct fixture f;
    char *text = malloc(20000);

    (void)state;
    for (size_t i = 0; i < 20000; i++)
        text[i] = i % 2 ? 'q' : '7';
    text[19999] = '\0';
    fixture_open(&f, spoken);
    assert_int_equal(osp_chat_add(f.chat, "user", text), OSP_OK);
    assert_int_equal(osp_submit_chat(&r, f.engine, f.chat, NULL), OSP_ELIMIT);
    assert_null(r);
    assert_non_null(strstr(osp_error(), "1024"));
    free(text);
    fixture_close(&f);
}

static void test_stage_costs(void **state)
{
    struct osp_stage_cost costs[16];
    struct fixture f;
    struct heard h;
    int n;

    (void)state;
    fixture_open(&f, spoken);
    answer(&f, &h, (struct osp_request_options){0});
    n = osp_model_stage_costs(f.model, costs, 16);
    assert_in_range(n, 5, 16);
    for (int i = 0; i < n; i++)
        assert_true(costs[i].n_calls > 0 && costs[i].stage != NULL);
    assert_int_equal(osp_model_stage_costs(f.model, costs, 2), 2);
    heard_release(&h);
    fixture_close(&f);
}

UNIT_MAIN(cmocka_unit_test(test_answer), cmocka_unit_test(test_call),
          cmocka_unit_test(test_two_calls), cmocka_unit_test(test_one_call),
          cmocka_unit_test(test_length), cmocka_unit_test(test_stop_string),
          cmocka_unit_test(test_too_long_a_conversation), cmocka_unit_test(test_stage_costs))
