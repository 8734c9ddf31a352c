/* Messages of /v1/messages to the messages of a chat, and whose place an error names. */
#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "serve/anthropic/message_input.h"
#include "serve/anthropic/message_tools.h"

struct reading {
    struct request_params params;
    struct call_texts *calls;
    struct message_input in;
    json_t *system, *messages;
};

/* ' stands for ". */
static json_t *parse(const char *text)
{
    char copy[2048];
    json_t *v;

    snprintf(copy, sizeof copy, "%s", text);
    for (char *c = copy; *c; c++)
        *c = *c == '\'' ? '"' : *c;
    v = json_loads(copy, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
    if (!v)
        fail_msg("no JSON: %s", copy);
    return v;
}

static void begin(struct reading *r)
{
    *r = (struct reading){.calls = call_texts_new(1 << 16)};
    buf_init(&r->params.ignored, IGNORED_BYTES_MAX);
    message_input_init(&r->in, &r->params, r->calls);
}

static void end(struct reading *r)
{
    message_input_release(&r->in);
    request_params_release(&r->params);
    call_texts_free(r->calls);
    json_decref(r->system);
    json_decref(r->messages);
}

static enum osp_status read(struct reading *r, const char *system, const char *messages)
{
    enum osp_status st;

    r->system = parse(system);
    r->messages = parse(messages);
    st = message_input_system(&r->in, r->system);
    return st == OSP_OK ? message_input_messages(&r->in, r->messages) : st;
}

static void expect_chat(const struct reading *r, const char *chat)
{
    json_t *wanted = parse(chat);

    if (!json_equal(wanted, r->in.chat))
        fail_msg("%s\nis not\n%s", json_dumps(r->in.chat, 0), chat);
    assert_int_equal(r->in.n_origins, json_array_size(r->in.chat));
    json_decref(wanted);
}

static void expect(const char *system, const char *messages, const char *chat)
{
    struct reading r;

    begin(&r);
    if (read(&r, system, messages) != OSP_OK)
        fail_msg("%s: %s", messages, fail_message());
    expect_chat(&r, chat);
    end(&r);
}

#define HI "{'role':'user','content':'Hi'}"

static void test_system(void **state)
{
#define BILLING "x-anthropic-billing-header: cc_version=2; cch=12abc;"

    (void)state;
    expect("null", "[" HI "]", "[" HI "]");
    expect("''", "[" HI "]", "[" HI "]");
    expect("'Be brief.'", "[" HI "]", "[{'role':'system','content':'Be brief.'}," HI "]");
    expect("[{'type':'text','text':'" BILLING "'},{'type':'text','text':'a','cache_control':{}},"
           "{'type':'text','text':''},{'type':'text','text':'b\\u0000'}]",
           "[" HI "]",
           "[{'role':'system','content':'a'},{'role':'system','content':'b\\u0000'}," HI "]");
    expect("'" BILLING "\\na\\nb'", "[" HI "]", "[{'role':'system','content':'a\\nb'}," HI "]");
    expect("'a " BILLING "'", "[" HI "]", "[{'role':'system','content':'a " BILLING "'}," HI "]");
}

/* A system message stays at its place once the conversation has begun, for the prefix cache. */
static void test_system_messages(void **state)
{
    (void)state;
    expect("null",
           "[{'role':'system','content':'a'},{'role':'system','content':[{'type':'text','text':'b'}"
           "]}," HI ",{'role':'system','content':'c'},{'role':'system','content':[{'type':'text',"
           "'text':'d'}]}]",
           "[{'role':'system','content':'a'},{'role':'system','content':'b'}," HI
           ",{'role':'user','content':'<system-reminder>\\nc\\n</system-reminder>'},{'role':'user',"
           "'content':'<system-reminder>\\nd\\n</system-reminder>'}]");
}

#define REMINDER(text)                                                                             \
    "{'role':'user','content':'<system-reminder>\\n" text "\\n</system-reminder>'}"

/* The effort and tools from there on; a text that is shown until the user's next message. */
static void test_changes_within_a_conversation(void **state)
{
    struct reading r;

    (void)state;
    begin(&r);
    assert_int_equal(
        read(&r, "null",
             "[" HI
             ",{'role':'system','output_config':{'effort':'low'}},{'role':'system','content':"
             "'old','clear_at':'next_user_message'},{'role':'system','content':'kept','clear_at':"
             "'never'}," HI ",{'role':'system','content':[{'type':'text','text':'new'}],'clear_at':"
             "'next_user_message','output_config':{'effort':'high'}},{'role':'system','content':["
             "{'type':'tool_addition','tool':{'type':'tool_reference','name':'f'}},{'type':"
             "'tool_removal','tool':{'type':'tool_reference','name':'g'}}]}]"),
        OSP_OK);
    expect_chat(
        &r,
        "[" HI "," REMINDER("kept") "," HI "," REMINDER("new") "," REMINDER(
            "This tool is available from here on:\\nf") "," REMINDER("The tool g is not available "
                                                                     "any more.") "]");
    assert_string_equal(r.in.effort, "high");
    end(&r);
}

/* The definition of a deferred tool is where the conversation refers to it. */
static void test_deferred_tools(void **state)
{
    static const char definition[] =
        "<functions>\\n<function>{\\'description\\':\\'d\\',\\'name\\':\\'f\\',"
        "\\'parameters\\':{}}</function>\\n</functions>";
    json_t *tools = parse("[{'name':'f','description':'d','input_schema':{},'defer_loading':true},"
                          "{'name':'g','input_schema':{}}]");
    char *chat = mem_printf("[{'role':'tool','tool_call_id':'1','content':'%s\\n\\ng'},"
                            "{'role':'user','content':'<system-reminder>\\nThis tool is available "
                            "from here on:\\n%s\\n</system-reminder>'}]",
                            definition, definition);
    struct request_params params = {0};
    struct message_tools t;
    struct reading r;

    (void)state;
    begin(&r);
    r.in.tools = tools;
    assert_int_equal(
        read(
            &r, "null",
            "[{'role':'user','content':[{'type':'tool_result','tool_use_id':'1','content':["
            "{'type':'tool_reference','tool_name':'f'},{'type':'tool_reference','tool_name':'g'}]}"
            "]},{'role':'system','content':[{'type':'tool_addition','tool':{'type':"
            "'tool_definition','definition':{'name':'f','description':'d','input_schema':{}}}}]}]"),
        OSP_OK);
    expect_chat(&r, chat);
    assert_int_equal(message_tools_read(&t, &params, tools), OSP_OK);
    assert_int_equal(t.n, 1);
    assert_int_equal(t.source_index[0], 1);
    message_tools_release(&t);
    json_decref(tools);
    free(chat);
    end(&r);
}

static void test_user_messages(void **state)
{
    (void)state;
    expect("null",
           "[{'role':'user','content':[{'type':'text','text':'a'},{'type':'text','text':''},"
           "{'type':'text','text':'b'}]}]",
           "[{'role':'user','content':'a\\n\\nb'}]");
    expect("null", "[{'role':'user','content':[]}]", "[{'role':'user','content':''}]");
    expect("null",
           "[" HI ",{'role':'assistant','content':[{'type':'tool_use','id':'1','name':'f','input':"
           "{}}]},{'role':'user','content':[{'type':'tool_result','tool_use_id':'1','content':'x'},"
           "{'type':'tool_result','tool_use_id':'1','content':[{'type':'text','text':'x'},{'type':"
           "'text','text':'y'},{'type':'tool_reference','tool_name':'g'}]},{'type':'tool_result',"
           "'tool_use_id':'1'},{'type':'text','text':'z'}]}]",
           "[" HI ",{'role':'assistant','tool_calls':[{'id':'1','type':'function','function':"
           "{'name':'f','arguments':'{}'}}]},{'role':'tool','tool_call_id':'1','content':'x'},"
           "{'role':'tool','tool_call_id':'1','content':'x\\n\\ny\\n\\ng'},{'role':'tool',"
           "'tool_call_id':'1','content':''},{'role':'user','content':'z'}]");
}

static void expect_result(const char *content, const char *is_error, const char *wanted)
{
    char *messages = mem_printf("[{'role':'user','content':[{'type':'tool_result','tool_use_id':"
                                "'1','content':'%s','is_error':%s}]}]",
                                content, is_error);
    char *chat = mem_printf("[{'role':'tool','tool_call_id':'1','content':'%s'}]", wanted);

    expect("null", messages, chat);
    free(messages);
    free(chat);
}

static void test_failed_calls_say_so(void **state)
{
    (void)state;
    expect_result("no file", "false", "no file");
    expect_result("no file", "null", "no file");
    expect_result("no file", "true", "Error: no file");
    expect_result("", "true", "Error: ");
    expect_result("Error: no file", "true", "Error: no file");
    expect_result("<tool_use_error>x</tool_use_error>", "true",
                  "<tool_use_error>x</tool_use_error>");
}

/* Text before more text or a call is a preamble. */
static void test_answers(void **state)
{
    (void)state;
    expect("null", "[{'role':'assistant','content':'a'}," HI "]",
           "[{'role':'assistant','content':'a'}," HI "]");
    expect("null", "[{'role':'assistant','content':[]}," HI "]", "[" HI "]");
    expect("null",
           "[{'role':'assistant','content':[{'type':'thinking','thinking':'t','signature':'s'},"
           "{'type':'text','text':'a'},{'type':'thinking','thinking':''},{'type':'tool_use','id':"
           "'1','name':'f','input':{'x':0.1,'y':[1]}}]}," HI "]",
           "[{'role':'assistant','reasoning':'t'},{'role':'assistant','content':'a','phase':"
           "'commentary'},{'role':'assistant','tool_calls':[{'id':'1','type':'function','function':"
           "{'name':'f','arguments':'{\\'x\\':0.1,\\'y\\':[1]}'}}]}," HI "]");
    expect("null",
           "[{'role':'assistant','content':[{'type':'text','text':'a'},{'type':'text','text':'b'},"
           "{'type':'redacted_thinking','data':'osprey1.dA=='}]}," HI "]",
           "[{'role':'assistant','content':'a','phase':'commentary'},{'role':'assistant','content':"
           "'b','phase':'final_answer'},{'role':'assistant','reasoning':'t'}," HI "]");
}

/* The text of a call is used only if it has the value that the client sent. */
static void test_arguments_as_they_were_written(void **state)
{
    static const char written[] = "{ \"x\": 1 }";
    static const struct {
        const char *id, *input, *arguments;
    } cases[] = {
        {"1", "{'x':1}", "{ \\'x\\': 1 }"},
        {"1", "{'x':2}", "{\\'x\\':2}"},
        {"2", "{'x':1}", "{\\'x\\':1}"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char *messages = mem_printf("[{'role':'assistant','content':[{'type':'tool_use','id':'%s',"
                                    "'name':'f','input':%s}]}," HI "]",
                                    cases[i].id, cases[i].input);
        char *chat = mem_printf("[{'role':'assistant','tool_calls':[{'id':'%s','type':'function',"
                                "'function':{'name':'f','arguments':'%s'}}]}," HI "]",
                                cases[i].id, cases[i].arguments);
        struct reading r;

        begin(&r);
        call_texts_put(r.calls, CALL_ARGUMENTS, "1", written, sizeof written - 1);
        assert_int_equal(read(&r, "null", messages), OSP_OK);
        expect_chat(&r, chat);
        end(&r);
        free(messages);
        free(chat);
    }
}

/* A client that gets no thinking sends none; one that sends some has all of it. */
static void test_hidden_thinking(void **state)
{
#define CALL(id) "{'type':'tool_use','id':'" id "','name':'f','input':{}}"
#define CHAT_CALL(id)                                                                              \
    "{'role':'assistant','tool_calls':[{'id':'" id "','type':'function',"                          \
    "'function':{'name':'f','arguments':'{}'}}]}"
#define ANSWER "{'role':'assistant','content':'a','phase':'commentary'}"
    static const struct {
        const char *content, *chat;
    } cases[] = {
        {"{'type':'text','text':'a'}," CALL("1") "," CALL("3") "," CALL("2"),
         "{'role':'assistant','reasoning':'t1'}," ANSWER "," CHAT_CALL("1") "," CHAT_CALL(
             "3") ",{'role':'assistant','reasoning':'t2'}," CHAT_CALL("2")},
        {CALL("2"), "{'role':'assistant','reasoning':'t2'}," CHAT_CALL("2")},
        {"{'type':'thinking','thinking':'x'}," CALL("1"),
         "{'role':'assistant','reasoning':'x'}," CHAT_CALL("1")},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char *messages =
            mem_printf("[{'role':'assistant','content':[%s]}," HI "]", cases[i].content);
        char *chat = mem_printf("[%s," HI "]", cases[i].chat);
        struct reading r;

        begin(&r);
        call_texts_put(r.calls, CALL_THINKING, "1", "t1", 2);
        call_texts_put(r.calls, CALL_THINKING, "2", "t2", 2);
        assert_int_equal(read(&r, "null", messages), OSP_OK);
        expect_chat(&r, chat);
        end(&r);
        free(messages);
        free(chat);
    }
}

static void test_ignored_blocks(void **state)
{
    struct reading r;

    (void)state;
    begin(&r);
    assert_int_equal(read(&r, "null",
                          "[{'role':'assistant','content':[{'type':'server_tool_use'},{'type':"
                          "'web_search_tool_result'},{'type':'redacted_thinking','data':'x'}]}," HI
                          "]"),
                     OSP_OK);
    expect_chat(&r, "[" HI "]");
    assert_string_equal(buf_text(&r.params.ignored),
                        "messages.server_tool_use, messages.web_search_tool_result, "
                        "messages.redacted_thinking");
    end(&r);
}

/* ---- errors of the chat, as errors about the request ---- */

static void expect_place(const struct reading *r, const char *of_chat, const char *wanted)
{
    static const int tools[] = {3, 7};

    assert_int_equal(message_input_explain(&r->in, tools, 2, fail(OSP_EINVAL, "%s", of_chat)),
                     OSP_EINVAL);
    assert_string_equal(fail_message(), wanted);
}

static void test_places(void **state)
{
    struct reading r;

    (void)state;
    begin(&r);
    assert_int_equal(read(&r, "[{'type':'text','text':'a'}]",
                          "[" HI ",{'role':'assistant','content':[{'type':'text','text':'a'},"
                          "{'type':'tool_use','id':'1','name':'f','input':{}}]},{'role':'user',"
                          "'content':[{'type':'tool_result','tool_use_id':'1'}]}]"),
                     OSP_OK);
    expect_place(&r, "messages[0]: x", "system[0]: x");
    expect_place(&r, "messages[1].content: x", "messages[0].content: x");
    expect_place(&r, "messages[3].tool_calls[0].function.name: x",
                 "messages[1].content[1].name: x");
    expect_place(&r, "messages[3].tool_calls[0].id: x", "messages[1].content[1].id: x");
    expect_place(&r, "messages[3].tool_calls[0].function.arguments: x",
                 "messages[1].content[1].input: x");
    expect_place(&r, "messages[4].tool_call_id: x", "messages[2].content[0].tool_use_id: x");
    expect_place(&r, "messages[5]: x", "messages[5]: x");
    expect_place(&r, "tools[1].function.parameters.type: x", "tools[7].input_schema.type: x");
    expect_place(&r, "tools[0].function.name: x", "tools[3].name: x");
    expect_place(&r, "tools[2].function.name: x", "tools[2].function.name: x");
    expect_place(&r, "response_format.json_schema.schema: x", "output_config.format.schema: x");
    expect_place(&r, "something else", "something else");
    assert_int_equal(message_input_explain(&r.in, NULL, 0, OSP_OK), OSP_OK);
    end(&r);
}

/* ---- tools ---- */

static void test_tools(void **state)
{
    struct request_params params = {0};
    struct message_tools t;
    json_t *tools = parse("[{'type':'web_search_20250305','name':'w'},{'name':'f','description':"
                          "'d','input_schema':{'type':'object'},'cache_control':{}},{'type':"
                          "'custom','name':'g','input_schema':{},'strict':true,'input_examples':[]}"
                          ",{'type':'bash_code_execution','name':'x'}]");
    json_t *wanted = parse("[{'type':'function','function':{'name':'f','description':'d',"
                           "'parameters':{'type':'object'},'strict':false}},{'type':'function',"
                           "'function':{'name':'g','parameters':{},'strict':true}}]");

    (void)state;
    buf_init(&params.ignored, IGNORED_BYTES_MAX);
    assert_int_equal(message_tools_read(&t, &params, tools), OSP_OK);
    if (!json_equal(t.chat, wanted))
        fail_msg("%s", json_dumps(t.chat, 0));
    assert_int_equal(t.n, 2);
    assert_int_equal(t.source_index[0], 1);
    assert_int_equal(t.source_index[1], 2);
    assert_string_equal(buf_text(&params.ignored),
                        "tools.web_search_20250305, tools.input_examples, "
                        "tools.bash_code_execution");
    message_tools_release(&t);
    request_params_release(&params);
    json_decref(tools);
    json_decref(wanted);
}

UNIT_MAIN(cmocka_unit_test(test_system), cmocka_unit_test(test_system_messages),
          cmocka_unit_test(test_changes_within_a_conversation),
          cmocka_unit_test(test_deferred_tools), cmocka_unit_test(test_user_messages),
          cmocka_unit_test(test_failed_calls_say_so), cmocka_unit_test(test_answers),
          cmocka_unit_test(test_arguments_as_they_were_written),
          cmocka_unit_test(test_hidden_thinking), cmocka_unit_test(test_ignored_blocks),
          cmocka_unit_test(test_places), cmocka_unit_test(test_tools))
