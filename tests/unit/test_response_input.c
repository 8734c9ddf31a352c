/* Items of /v1/responses to the messages of a chat, and what is wrong with them. */
#include "unit.h"

#include "base/clock.h"
#include "serve/responses/response_input.h"

struct reading {
    struct response_store *store;
    struct request_params params;
    struct response_input in;
    json_t *input;
};

static void begin(struct reading *r)
{
    *r = (struct reading){.store = response_store_new(&(struct response_limits){9, 1 << 20, 9})};
    buf_init(&r->params.ignored, IGNORED_BYTES_MAX);
    response_input_init(&r->in, &r->params, r->store, "me");
}

static void end(struct reading *r)
{
    response_input_release(&r->in);
    request_params_release(&r->params);
    response_store_free(r->store);
    json_decref(r->input);
}

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

static enum osp_status add(struct reading *r, const char *input)
{
    json_decref(r->input);
    r->input = parse(input);
    return response_input_add(&r->in, r->input);
}

static void expect(const char *input, const char *messages)
{
    json_t *wanted = parse(messages);
    struct reading r;

    begin(&r);
    if (add(&r, input) != OSP_OK)
        fail_msg("%s: %s", input, fail_message());
    if (!json_equal(wanted, r.in.messages))
        fail_msg("%s\ngives %s", input, json_dumps(r.in.messages, 0));
    json_decref(wanted);
    end(&r);
}

static void test_messages(void **state)
{
    (void)state;
    expect("'Hi'", "[{'role':'user','content':'Hi'}]");
    expect("''", "[]");
    expect("[]", "[]");
    expect("[{'role':'user','content':'Hi'}]", "[{'role':'user','content':'Hi'}]");
    expect("[{'type':'message','role':'developer','content':[{'type':'input_text','text':'a'},"
           "{'type':'text','text':'b\\u0000c'}],'id':'msg_1','status':'completed'}]",
           "[{'role':'developer','content':'ab\\u0000c'}]");
    expect("[{'type':'message','role':'assistant','id':'msg_1','content':[{'type':'output_text',"
           "'text':'x','annotations':[]},{'type':'refusal','refusal':'No.'}]}]",
           "[{'role':'assistant','content':'xNo.'}]");
}

/* Reasoning, text and calls of one answer are one message; what comes in another order is two. */
static void test_answers_in_several_items(void **state)
{
    (void)state;
    expect("[{'type':'reasoning','id':'rs_1','summary':[],'content':[{'type':'reasoning_text',"
           "'text':'hm'}]},{'type':'message','role':'assistant','content':'Let me look.'},"
           "{'type':'function_call','call_id':'c1','name':'f','arguments':'{}'},"
           "{'type':'function_call','call_id':'c2','name':'g','arguments':'1'},"
           "{'type':'function_call_output','call_id':'c1','output':'one'},"
           "{'type':'function_call_output','call_id':'c2','output':[{'type':'input_text',"
           "'text':'two'}]}]",
           "[{'role':'assistant','reasoning':'hm','content':'Let me look.','tool_calls':[{'id':'c1'"
           ",'type':'function','function':{'name':'f','arguments':'{}'}},{'id':'c2','type':"
           "'function','function':{'name':'g','arguments':'1'}}]},"
           "{'role':'tool','tool_call_id':'c1','content':'one'},"
           "{'role':'tool','tool_call_id':'c2','content':'two'}]");
    expect("[{'type':'message','role':'assistant','content':'a'},{'type':'reasoning','summary':[{"
           "'type':'summary_text','text':'s'}],'encrypted_content':'whose?'},{'type':'message',"
           "'role':'assistant','content':'b'},{'type':'message','role':'assistant','content':'c'}]",
           "[{'role':'assistant','content':'a'},{'role':'assistant','reasoning':'s','content':'b'},"
           "{'role':'assistant','content':'c'}]");
    expect("[{'type':'message','role':'assistant','phase':'commentary','content':'a'},{'type':"
           "'function_call','call_id':'c1','name':'f','arguments':'{}'},{'role':'assistant',"
           "'phase':null,'content':'b'}]",
           "[{'role':'assistant','content':'a','phase':'commentary','tool_calls':[{'id':'c1','type'"
           ":'function','function':{'name':'f','arguments':'{}'}}]},{'role':'assistant','content':"
           "'b'}]");
    expect("[{'type':'reasoning','summary':[]},{'role':'user','content':'x'}]",
           "[{'role':'user','content':'x'}]");
}

static void test_sealed_reasoning(void **state)
{
    (void)state;
    expect("[{'type':'reasoning','summary':[],'encrypted_content':'osprey1.aG0='}]",
           "[{'role':'assistant','reasoning':'hm'}]");
    expect("[{'type':'reasoning','summary':[],'content':[{'type':'reasoning_text','text':'open'}],"
           "'encrypted_content':'gAAAA'}]",
           "[{'role':'assistant','reasoning':'open'}]");
}

static void test_ignored_items(void **state)
{
    struct reading r;

    (void)state;
    begin(&r);
    assert_int_equal(add(&r,
                         "[{'type':'web_search_call','id':'ws_1'},{'role':'user','content':'x'},"
                         "{'type':'web_search_call'},{'type':'mcp_list_tools'}]"),
                     OSP_OK);
    assert_int_equal(json_array_size(r.in.messages), 1);
    assert_string_equal(buf_text(&r.params.ignored), "input.web_search_call, input.mcp_list_tools");
    end(&r);
}

static void test_errors(void **state)
{
    static const struct {
        const char *input, *message;
    } cases[] = {
        {"7", "input: must be a string or a list of items"},
        {"[7]", "input[0]: must be an object"},
        {"[{'type':7}]", "input[0].type: must be a string"},
        {"[{'type':'mesage'}]", "input[0].type: \"mesage\" is not one of"},
        {"[{'role':'user'}]", "input[0].content: must be a string or a list of parts"},
        {"[{'content':'x'}]", "input[0].role: must be a string"},
        {"[{'role':'assistant','phase':'preamble','content':'x'}]",
         "input[0].phase: must be commentary or final_answer"},
        {"[{'role':'assistant','phase':1,'content':'x'}]",
         "input[0].phase: must be commentary or final_answer"},
        {"[{'role':'tool','content':'x'}]", "input[0].role: must be one of user, assistant"},
        {"[{'role':'user','content':'x'},{'role':'user','content':[{'type':'input_image'}]}]",
         "input[1].content[0].type: \"input_image\" is not supported"},
        {"[{'role':'user','content':['x']}]", "input[0].content[0].type: must be a string"},
        {"[{'role':'user','content':[{'type':'input_text'}]}]",
         "input[0].content[0].text: must be a string"},
        {"[{'type':'function_call','name':'f','arguments':'{}'}]",
         "input[0].call_id: must be a string"},
        {"[{'type':'function_call','call_id':'c','arguments':'{}'}]",
         "input[0].name: must be a string"},
        {"[{'type':'function_call','call_id':'c','name':'f','arguments':{}}]",
         "input[0].arguments: must be a string"},
        {"[{'type':'function_call_output','call_id':'c'}]",
         "input[0].output: must be a string or a list"},
        {"[{'type':'reasoning','encrypted_content':'gAAAA'}]",
         "input[0].encrypted_content: was not created by this server"},
        {"[{'type':'reasoning','encrypted_content':'osprey1./w=='}]",
         "input[0].encrypted_content: was not created by this server"},
        {"[{'type':'item_reference','id':'msg_9'}]", "input[0].id: item 'msg_9' not found"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct reading r;

        begin(&r);
        assert_int_equal(add(&r, cases[i].input), OSP_EINVAL);
        if (strncmp(fail_message(), cases[i].message, strlen(cases[i].message)) != 0)
            fail_msg("%s\ngives %s", cases[i].input, fail_message());
        end(&r);
    }
}

/* Errors of the engine about messages and tools become errors about items and the request's
 * tools. */
static void test_places(void **state)
{
    static const int tools[] = {0, 3};
    static const struct {
        const char *chat, *wanted;
    } cases[] = {
        {"messages[2].content: bad", "instructions.content: bad"},
        {"messages[0].tool_calls[1].function.name: bad", "input[1].name: bad"},
        {"messages[0].tool_calls[0].id: bad", "input[0].call_id: bad"},
        {"messages[0].tool_calls[0]: bad", "input[0]: bad"},
        {"messages[1].tool_call_id: no call", "input[2].call_id: no call"},
        {"tools[1].function.parameters.properties: bad", "tools[3].parameters.properties: bad"},
        {"tools[2].function: bad", "tools[2].function: bad"},
        {"response_format.json_schema.schema: bad", "text.format.schema: bad"},
        {"something: else", "something: else"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct reading r;
        json_t *instructions = json_string("be brief");

        begin(&r);
        assert_int_equal(add(&r,
                             "[{'type':'function_call','call_id':'c1','name':'f','arguments':'{}'},"
                             "{'type':'function_call','call_id':'c2','name':'g','arguments':'1'},"
                             "{'type':'function_call_output','call_id':'c1','output':''}]"),
                         OSP_OK);
        assert_int_equal(response_input_instructions(&r.in, instructions), OSP_OK);
        assert_int_equal(
            response_input_explain(&r.in, tools, 2, fail(OSP_EINVAL, "%s", cases[i].chat)),
            OSP_EINVAL);
        assert_string_equal(fail_message(), cases[i].wanted);
        json_decref(instructions);
        end(&r);
    }
}

/* What is kept has types, ids and lists of parts, and can be referred to and gone on from. */
static void test_kept_items(void **state)
{
    const struct stored_response *previous;
    struct reading r, next;
    json_t *kept, *wanted;

    (void)state;
    begin(&r);
    assert_int_equal(add(&r, "[{'role':'user','content':'Hi'},{'type':'function_call','id':'fc_1',"
                             "'call_id':'c','name':'f','arguments':'{}'}]"),
                     OSP_OK);
    assert_int_equal(r.in.n_items, 2);
    assert_memory_equal(r.in.items[0].id, "msg_", 4);
    assert_string_equal(r.in.items[1].id, "fc_1");
    kept = json_loadb(r.in.text.data, r.in.items[0].n_bytes, 0, NULL);
    json_object_del(kept, "id");
    wanted = parse("{'role':'user','content':[{'type':'input_text','text':'Hi'}],'type':'message',"
                   "'status':'completed'}");
    assert_true(json_equal(kept, wanted));
    json_decref(kept);
    json_decref(wanted);
    assert_true(response_store_put(r.store,
                                   &(struct response_entry){.id = "resp_1",
                                                            .owner = "me",
                                                            .json = "",
                                                            .text = r.in.text.data,
                                                            .n_text_bytes = r.in.text.size_bytes,
                                                            .items = r.in.items,
                                                            .n_items = (int)r.in.n_items},
                                   clock_ns()));
    next = (struct reading){0};
    buf_init(&next.params.ignored, IGNORED_BYTES_MAX);
    response_input_init(&next.in, &next.params, r.store, "me");
    previous = response_store_find(r.store, "me", "resp_1", clock_ns());
    assert_int_equal(response_input_previous(&next.in, previous), OSP_OK);
    assert_int_equal(add(&next, "[{'type':'item_reference','id':'fc_1'}]"), OSP_OK);
    wanted = parse("[{'role':'user','content':'Hi'},{'role':'assistant','tool_calls':[{'id':'c',"
                   "'type':'function','function':{'name':'f','arguments':'{}'}},{'id':'c','type':"
                   "'function','function':{'name':'f','arguments':'{}'}}]}]");
    assert_true(json_equal(next.in.messages, wanted));
    assert_string_equal(next.in.items[0].id, "fc_1"); /* kept as what it refers to */
    json_decref(wanted);
    response_store_drop(r.store, previous);
    response_input_release(&next.in);
    request_params_release(&next.params);
    json_decref(next.input);
    end(&r);
}

/* A small request cannot make large ones of what is kept. */
static void test_limit_of_references(void **state)
{
    enum { LARGE = HISTORY_BYTES_MAX / 2 };
    static const char head[] = "{\"role\":\"user\",\"content\":\"", tail[] = "\"}";
    struct response_item item = {.id = "msg_1", .n_bytes = LARGE};
    char *text = malloc(LARGE + 1);
    struct reading r;

    (void)state;
    assert_non_null(text);
    memset(text, 'x', LARGE);
    memcpy(text, head, sizeof head - 1);
    memcpy(text + LARGE - (sizeof tail - 1), tail, sizeof tail);
    begin(&r);
    response_store_free(r.store);
    r.in.store = r.store = response_store_new(&(struct response_limits){9, HISTORY_BYTES_MAX, 9});
    assert_true(response_store_put(r.store,
                                   &(struct response_entry){.id = "resp_1",
                                                            .owner = "me",
                                                            .json = "",
                                                            .text = text,
                                                            .n_text_bytes = LARGE,
                                                            .items = &item,
                                                            .n_items = 1},
                                   clock_ns()));
    assert_int_equal(add(&r, "[{'type':'item_reference','id':'msg_1'},{'type':'item_reference',"
                             "'id':'msg_1'}]"),
                     OSP_OK);
    assert_int_equal(add(&r, "[{'type':'item_reference','id':'msg_1'}]"), OSP_EINVAL);
    assert_string_equal(fail_message(),
                        "input[0]: the stored items of the conversation have more than 16 MiB, the "
                        "limit; start a new conversation");
    free(text);
    end(&r);
}

/* "store": false */
static void test_unstored_items(void **state)
{
    struct reading r;

    (void)state;
    begin(&r);
    r.in.is_unstored = true;
    assert_int_equal(add(&r, "[{'role':'user','content':'a'},{'role':'user','content':'b'}]"),
                     OSP_OK);
    assert_int_equal(r.in.n_items, 2);
    assert_int_equal(json_array_size(r.in.messages), 2);
    assert_int_equal(r.in.text.size_bytes, 0);
    end(&r);
}

UNIT_MAIN(cmocka_unit_test(test_limit_of_references), cmocka_unit_test(test_messages),
          cmocka_unit_test(test_answers_in_several_items), cmocka_unit_test(test_sealed_reasoning),
          cmocka_unit_test(test_ignored_items), cmocka_unit_test(test_errors),
          cmocka_unit_test(test_places), cmocka_unit_test(test_kept_items),
          cmocka_unit_test(test_unstored_items))
