/* `osprey eval`: reading prompts, judging answers, scoring. */
#include "unit.h"

#include <stdlib.h>
#include <unistd.h>

#include "cli/eval/eval.h"

/* ---- judging ---- */

static bool judge(const char *expect, const char *text, const char *name, const char *args)
{
    struct eval_task task = {.expect = json_loads(expect, 0, NULL)};
    struct eval_answer a = {.n_calls = name != NULL};
    bool right;

    assert_non_null(task.expect);
    buf_init(&a.text, 1000);
    buf_init(&a.args, 1000);
    buf_puts(&a.text, text);
    buf_puts(&a.args, args);
    snprintf(a.name, sizeof a.name, "%s", name != NULL ? name : "");
    right = eval_judge(&task, &a);
    buf_release(&a.text);
    buf_release(&a.args);
    json_decref(task.expect);
    return right;
}

static void test_final_answers(void **state)
{
    static const struct {
        const char *expect, *text;
        bool right;
    } cases[] = {
        {"{\"kind\":\"final\",\"equals\":\"Paris\"}", " Paris\n", true},
        {"{\"kind\":\"final\",\"equals\":\"Paris\"}", "Paris.", false},
        {"{\"kind\":\"final\",\"equals\":\"Paris\"}", "", false},
        {"{\"kind\":\"final\",\"contains\":[\"a\",\"b\"]}", "xb a", true},
        {"{\"kind\":\"final\",\"contains\":[\"a\",\"b\"]}", "xa", false},
        {"{\"kind\":\"final\",\"style\":\"upper\"}", "BRAS\xc3\x8dLIA 12", true},
        {"{\"kind\":\"final\",\"style\":\"upper\"}", "BRAS\xc3\xadLIA", false},
        {"{\"kind\":\"final\",\"style\":\"upper\"}", "123", false},
        {"{\"kind\":\"final\",\"style\":\"one_word\"}", " Oslo ", true},
        {"{\"kind\":\"final\",\"style\":\"one_word\"}", "San Marino", false},
        {"{\"kind\":\"final\",\"style\":\"one_word\"}", " ", false},
        {"{\"kind\":\"final\",\"style\":\"pirate\",\"any_of\":[\"Arr\",\"matey\"]}", "Aye matey",
         true},
        {"{\"kind\":\"final\",\"style\":\"pirate\",\"any_of\":[\"Arr\",\"matey\"]}", "Hello",
         false},
        {"{\"kind\":\"final\",\"style\":\"unheard of\"}", "Hello", false},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        if (judge(cases[i].expect, cases[i].text, NULL, "") != cases[i].right)
            fail_msg("%s judged wrongly by %s", cases[i].text, cases[i].expect);
    assert_false(judge(cases[0].expect, "Paris", "f", "{}")); /* a call is no answer */
}

static void test_calls(void **state)
{
    static const char expect[] = "{\"kind\":\"tool_call\",\"name\":\"f\","
                                 "\"arguments\":{\"a\":1,\"b\":[true,\"x\"],\"c\":{\"d\":2.5}}}";

    (void)state;
    assert_true(judge(expect, "", "f", "{\"c\":{\"d\":2.5},\"b\":[true,\"x\"],\"a\":1.0}"));
    assert_false(judge(expect, "", "g", "{\"a\":1,\"b\":[true,\"x\"],\"c\":{\"d\":2.5}}"));
    assert_false(judge(expect, "", "f", "{\"a\":2,\"b\":[true,\"x\"],\"c\":{\"d\":2.5}}"));
    assert_false(judge(expect, "", "f", "{\"a\":1,\"b\":[true],\"c\":{\"d\":2.5}}"));
    assert_false(judge(expect, "", "f", "{\"a\":1,\"b\":[true,\"x\"]}"));
    assert_false(judge(expect, "", "f", "{\"a\":1"));
    assert_false(judge(expect, "", "f", "{\"a\":\"1\",\"b\":[true,\"x\"],\"c\":{\"d\":2.5}}"));
    assert_false(judge(expect, "f", NULL, ""));
}

/* ---- reading ---- */

#define LINE(id, ability, effort)                                                                  \
    "{\"id\":\"" id "\",\"ability\":\"" ability "\",\"effort\":\"" effort "\",\"date\":null,"      \
    "\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}],\"max_tokens\":9,"                      \
    "\"expect\":{\"kind\":\"final\",\"equals\":\"x\"}}\n"

static enum osp_status read_text(struct eval_tasks *out, const char *text,
                                 const struct eval_filter *filter)
{
    char path[] = "/tmp/osprey-eval-XXXXXX";
    int fd = mkstemp(path);
    enum osp_status st;

    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    assert_int_equal(close(fd), 0);
    st = eval_tasks_read(out, path, filter);
    assert_int_equal(remove(path), 0);
    return st;
}

static void test_reading_and_filters(void **state)
{
    static const char text[] = LINE("c1", "copy", "low") LINE("c2", "copy", "high")
        LINE("a1", "arithmetic", "low") "\n" LINE("c3", "copy", "low");
    struct eval_tasks t;

    (void)state;
    assert_int_equal(read_text(&t, text, &(struct eval_filter){0}), OSP_OK);
    assert_int_equal(t.n, 4);
    assert_string_equal(t.tasks[2].id, "a1");
    assert_int_equal(t.tasks[2].tokens_max, 9);
    eval_tasks_release(&t);
    assert_int_equal(read_text(&t, text, &(struct eval_filter){.n_max = 2}), OSP_OK);
    assert_int_equal(t.n, 3);
    eval_tasks_release(&t);
    assert_int_equal(read_text(&t, text, &(struct eval_filter){.ability = "arithmetic"}), OSP_OK);
    assert_int_equal(t.n, 1);
    eval_tasks_release(&t);
}

static void test_bad_files(void **state)
{
    struct eval_tasks t;

    (void)state;
    assert_int_equal(read_text(&t, "", &(struct eval_filter){0}), OSP_EFORMAT);
    assert_int_equal(read_text(&t, LINE("c1", "copy", "low") "{", &(struct eval_filter){0}),
                     OSP_EFORMAT);
    assert_non_null(strstr(osp_error(), "line 2"));
    assert_int_equal(read_text(&t, LINE("x", "juggling", "low"), &(struct eval_filter){0}),
                     OSP_EFORMAT);
    assert_non_null(strstr(osp_error(), "juggling"));
    assert_int_equal(
        read_text(&t, LINE("c1", "copy", "low"), &(struct eval_filter){.ability = "juggling"}),
        OSP_EFORMAT);
    assert_int_equal(eval_tasks_read(&t, "/nowhere/eval.jsonl", &(struct eval_filter){0}),
                     OSP_ENOTFOUND);
}

/* ---- scoring ---- */

static void test_scores(void **state)
{
    static const char text[] =
        LINE("c1", "copy", "low") LINE("c2", "copy", "low") LINE("a1", "arithmetic", "low")
            LINE("a2", "arithmetic", "low") LINE("a3", "arithmetic", "high");
    static const struct eval_result results[] = {
        {.right = true, .ended_right = true},
        {.right = false, .ended_right = true},
        {.right = true, .ended_right = true, .n_reasoning_tokens = 10},
        {.right = true, .ended_right = false, .n_reasoning_tokens = 20},
        {.right = true, .ended_right = true, .n_reasoning_tokens = 60},
    };
    struct eval_tasks t;
    struct eval_score s;

    (void)state;
    assert_int_equal(read_text(&t, text, &(struct eval_filter){0}), OSP_OK);
    s = eval_score_of(&t, results);
    assert_int_equal(s.n[ABILITY_copy], 2);
    assert_int_equal(s.n_right[ABILITY_copy], 1);
    assert_int_equal(s.n_ended_right, 4);
    assert_true(s.mean_percent > 74.9 && s.mean_percent < 75.1);
    assert_true(s.median_low > 14.9 && s.median_low < 15.1);
    assert_true(s.median_high > 59.9 && s.median_high < 60.1);
    eval_tasks_release(&t);
}

UNIT_MAIN(cmocka_unit_test(test_final_answers), cmocka_unit_test(test_calls),
          cmocka_unit_test(test_reading_and_filters), cmocka_unit_test(test_bad_files),
          cmocka_unit_test(test_scores))
