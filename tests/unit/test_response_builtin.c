/* The tools that the client executes: arguments of the model to the members of items, and back. */
#include "unit.h"

#include "serve/responses/response_builtin.h"

static void expect_put(const char *tool, const char *arguments, const char *wanted)
{
    const struct response_builtin *b = response_builtin_tool(tool);
    struct buf out;

    buf_init(&out, 1 << 16);
    assert_non_null(b);
    assert_int_equal(response_builtin_put(b, arguments, strlen(arguments), &out), wanted != NULL);
    assert_string_equal(buf_text(&out), wanted ? wanted : "");
    buf_release(&out);
}

static void test_members(void **state)
{
    (void)state;
    expect_put("shell", "{\"commands\":[\"ls\",\"a\\u0000b\"],\"timeout_ms\":5}",
               ",\"action\":{\"commands\":[\"ls\",\"a\\u0000b\"],\"timeout_ms\":5}");
    expect_put("shell", "{\"commands\":[],\"max_output_length\":null}",
               ",\"action\":{\"commands\":[]}");
    expect_put("local_shell", "{\"command\":[\"ls\"]}",
               ",\"action\":{\"command\":[\"ls\"],\"type\":\"exec\",\"env\":{}}");
    expect_put("apply_patch", "{\"type\":\"create_file\",\"path\":\"a\",\"diff\":\"+x\"}",
               ",\"operation\":{\"type\":\"create_file\",\"path\":\"a\",\"diff\":\"+x\"}");
    expect_put("apply_patch", "{\"type\":\"delete_file\",\"path\":\"a\",\"diff\":\"\"}",
               ",\"operation\":{\"type\":\"delete_file\",\"path\":\"a\"}");
}

static void test_other_arguments(void **state)
{
    static const char *const shell[] = {"",
                                        "{",
                                        "[]",
                                        "3",
                                        "{}",
                                        "{\"commands\":\"ls\"}",
                                        "{\"commands\":[\"ls\",1]}",
                                        "{\"commands\":[\"l"};
    static const char *const patch[] = {
        "{}", "{\"type\":\"update_file\",\"path\":\"a\"}", "{\"type\":\"delete_file\"}",
        "{\"type\":\"rename\",\"path\":\"a\",\"diff\":\"\"}", "{\"type\":3,\"path\":\"a\"}"};

    (void)state;
    for (size_t i = 0; i < sizeof shell / sizeof shell[0]; i++)
        expect_put("shell", shell[i], NULL);
    for (size_t i = 0; i < sizeof patch / sizeof patch[0]; i++)
        expect_put("apply_patch", patch[i], NULL);
    assert_null(response_builtin_tool("web_search"));
    assert_null(response_builtin_call("shell"));
    assert_null(response_builtin_output("shell_call"));
}

/* The arguments of an item are those that made it. */
static void expect_back(const char *tool, const char *arguments)
{
    const struct response_builtin *b = response_builtin_tool(tool);
    const char *expected = NULL;
    struct buf out;
    json_t *item, *back;

    buf_init(&out, 1 << 16);
    buf_printf(&out, "{\"type\":\"%s\"", b->call_type);
    assert_true(response_builtin_put(b, arguments, strlen(arguments), &out));
    buf_puts(&out, "}");
    item = json_loads(buf_text(&out), 0, NULL);
    assert_ptr_equal(response_builtin_call(b->call_type), b);
    assert_ptr_equal(response_builtin_output(b->output_type), b);
    back = response_builtin_arguments(b, item, &expected);
    assert_string_equal(json_string_value(back), arguments);
    json_decref(back);
    json_decref(item);
    buf_release(&out);
}

static void test_there_and_back(void **state)
{
    json_t *f = response_builtin_function(response_builtin_tool("shell"));

    (void)state;
    expect_back("shell", "{\"commands\":[\"ls\"],\"timeout_ms\":5,\"max_output_length\":9}");
    expect_back("local_shell", "{\"command\":[\"ls\"],\"working_directory\":\"/\"}");
    expect_back("apply_patch", "{\"type\":\"update_file\",\"path\":\"a\",\"diff\":\"@@\"}");
    expect_back("apply_patch", "{\"type\":\"delete_file\",\"path\":\"a\",\"diff\":\"\"}");
    assert_true(json_is_object(json_object_get(json_object_get(f, "function"), "parameters")));
    json_decref(f);
}

static void expect_result(const char *tool, const char *item, const char *wanted)
{
    const char *expected = NULL;
    json_t *v = json_loads(item, JSON_ALLOW_NUL, NULL);
    json_t *text = response_builtin_result(response_builtin_tool(tool), v, &expected);

    assert_non_null(v);
    assert_non_null(expected);
    if (wanted)
        assert_string_equal(json_string_value(text), wanted);
    else
        assert_null(text);
    json_decref(text);
    json_decref(v);
}

static void test_results(void **state)
{
    (void)state;
    expect_result("shell", "{\"output\":[{\"stdout\":\"a\"}]}", "[{\"stdout\":\"a\"}]");
    expect_result("shell", "{\"output\":\"a\"}", "a");
    expect_result("shell", "{\"output\":[1]}", NULL);
    expect_result("shell", "{}", NULL);
    expect_result("local_shell", "{\"output\":\"a\"}", "a");
    expect_result("local_shell", "{\"output\":[]}", NULL);
    expect_result("apply_patch", "{\"status\":\"completed\"}", "completed");
    expect_result("apply_patch", "{\"status\":\"failed\",\"output\":\"b\"}", "failed\nb");
    expect_result("apply_patch", "{\"status\":\"perhaps\"}", NULL);
    expect_result("apply_patch", "{\"status\":\"failed\",\"output\":[]}", NULL);
}

UNIT_MAIN(cmocka_unit_test(test_members), cmocka_unit_test(test_other_arguments),
          cmocka_unit_test(test_there_and_back), cmocka_unit_test(test_results))
