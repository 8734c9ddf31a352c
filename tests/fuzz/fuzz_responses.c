/* Fuzzing entry for libFuzzer: a body of /v1/responses, with a stored response that it may refer
 * to as resp_1, and its item msg_1. The body is rejected, or becomes a conversation that is
 * rejected or renders. What is stored and returned of it must be JSON. The first byte selects
 * whether resp_1 is its previous response. */
#include <stdlib.h>
#include <string.h>

#include "engine/chat/chat_json.h"
#include "serve/fields/request_params.h"
#include "serve/responses/response_fields.h"
#include "serve/responses/response_input.h"
#include "serve/responses/response_tools.h"

enum { STORE_BYTES = 1 << 16 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

static void check(bool holds)
{
    if (!holds)
        abort();
}

static struct response_store *store_of_one(void)
{
    static const char text[] =
        "{\"type\":\"message\",\"role\":\"user\",\"content\":\"x\",\"id\":\"msg_1\"}"
        "{\"type\":\"function_call\",\"call_id\":\"c\",\"name\":\"f\",\"arguments\":\"{}\",\"id\":"
        "\"fc_1\"}";
    const size_t n_first = (size_t)(strchr(text, '}') - text) + 1;
    const struct response_item items[] = {{"msg_1", 0, n_first, false},
                                          {"fc_1", n_first, sizeof text - 1 - n_first, true}};
    struct response_store *s = response_store_new(&(struct response_limits){2, STORE_BYTES, 3600});

    check(response_store_put(s,
                             &(struct response_entry){.id = "resp_1",
                                                      .owner = "",
                                                      .json = "{}",
                                                      .n_json_bytes = 2,
                                                      .text = text,
                                                      .n_text_bytes = sizeof text - 1,
                                                      .items = items,
                                                      .n_items = 2},
                             0));
    return s;
}

static void check_json(const char *text, size_t n_bytes)
{
    json_t *v = json_loadb(text, n_bytes, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL);

    check(json_is_object(v));
    json_decref(v);
}

static void check_kept(const struct response_input *in)
{
    for (size_t i = 0; i < in->n_items; i++)
        check_json(in->text.data + in->items[i].begin, in->items[i].n_bytes);
}

static void render(const struct response_input *in, const struct response_tools *tools)
{
    json_t *body = json_pack("{s:O,s:O}", "messages", in->messages, "tools", tools->chat);
    struct osp_chat *chat = osp_chat_new();

    check(body != NULL);
    (void)!response_input_explain(in, tools->source_index, tools->n,
                                  chat_read_document(chat, body));
    osp_chat_free(chat);
    json_decref(body);
}

static void check_echo(const json_t *body, const struct request_params *p, const json_t *tools)
{
    char *echo = response_echo(body, p, tools, true, "low");

    check(echo != NULL && echo[0] == ',');
    echo[0] = '{';
    echo = realloc(echo, strlen(echo) + 2);
    check(echo != NULL);
    strcat(echo, "}");
    check_json(echo, strlen(echo));
    free(echo);
}

static enum osp_status read_all(struct response_input *in, struct request_params *p,
                                struct response_tools *tools, json_t *body,
                                const struct stored_response *before)
{
    static const struct field_set fields = {
        .endpoint = FOR_RESPONSES, .own = RESPONSE_FIELDS, .n_own = N_RESPONSE_FIELDS};
    enum osp_status st;

    TRY(fields_read(p, &fields, body));
    TRY(response_tools_read(tools, p, json_object_get(body, "tools")));
    TRY(response_input_instructions(in, json_object_get(body, "instructions")));
    TRY(response_input_previous(in, before));
    TRY(response_input_add(in, json_object_get(body, "input")));
    check_echo(body, p, tools->echoed);
    render(in, tools);
out:
    return st;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    struct response_store *store = store_of_one();
    const struct stored_response *before = NULL;
    struct response_tools tools = {0};
    struct request_params params = {0};
    struct response_input in;
    json_t *body = NULL;

    if (n_bytes > 0 && data[0] % 2 == 0)
        before = response_store_find(store, "", "resp_1", 0);
    response_input_init(&in, &params, store, "");
    if (n_bytes > 0 && json_body_read(&body, (const char *)data + 1, n_bytes - 1) == OSP_OK)
        (void)!read_all(&in, &params, &tools, body, before);
    check_kept(&in);
    response_tools_release(&tools);
    response_input_release(&in);
    request_params_release(&params);
    response_store_drop(store, before);
    response_store_free(store);
    json_decref(body);
    return 0;
}
