/* Converts items to messages. Several items of an assistant (reasoning, text and calls) form one
 * message of a chat. */
#include "serve/responses/response_input.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/str.h"
#include "serve/fields/json_budget.h"
#include "serve/responses/response_input_parts.h"
#include "serve/responses/response_tools.h"
#include "serve/stored/response_store.h"

enum { IGNORED_NAME_BYTES = 48 }; /* longer names are truncated */

void response_input_init(struct response_input *in, struct request_params *params,
                         struct response_store *store, const char *owner)
{
    *in = (struct response_input){.params = params, .store = store, .owner = owner};
    in->messages = json_array();
    buf_init(&in->text, INPUT_TEXT_BYTES_MAX);
}

void response_input_release(struct response_input *in)
{
    json_decref(in->messages);
    buf_release(&in->text);
    free(in->origins);
    free(in->items);
    *in = (struct response_input){0};
}

/* ---- messages ---- */

void input_note_origin(struct response_input *in, int call)
{
    mem_grow(&in->origins, in->n_origins, &in->n_origins_max, sizeof *in->origins);
    in->origins[in->n_origins++] =
        (struct input_origin){(int)json_array_size(in->messages) - 1, call, in->item};
}

enum osp_status input_add_message(struct response_input *in, json_t *message)
{
    if (!message || json_array_append_new(in->messages, message) != 0)
        return input_no_memory();
    in->open = NULL;
    input_note_origin(in, -1);
    return OSP_OK;
}

/* Takes ownership of `content`. */
static enum osp_status add_text(struct response_input *in, const char *role, json_t *content)
{
    return input_add_message(in, json_pack("{s:s,s:o}", "role", role, "content", content));
}

enum osp_status input_open_message(struct response_input *in, const char *member_a,
                                   const char *member_b, const char *member_c)
{
    const char *const members[] = {member_a, member_b, member_c};
    bool is_taken = in->open == NULL;
    json_t *message;
    enum osp_status st = OSP_OK;

    for (size_t i = 0; i < sizeof members / sizeof members[0]; i++)
        is_taken = is_taken || (members[i] && json_object_get(in->open, members[i]));
    if (!is_taken)
        return OSP_OK;
    message = json_pack("{s:s}", "role", "assistant");
    TRY(input_add_message(in, message));
    in->open = message;
out:
    return st;
}

enum osp_status input_set_open(struct response_input *in, const char *name, json_t *value)
{
    return value && json_object_set_new(in->open, name, value) == 0 ? OSP_OK : input_no_memory();
}

static enum osp_status read_message(struct response_input *in, const json_t *item)
{
    const json_t *role;
    json_t *content = NULL, *phase = json_object_get(item, "phase");
    const char *name;
    enum osp_status st;

    TRY(input_string(in, item, "role", &role));
    name = json_string_value(role);
    if (!str_in_list("user,assistant,system,developer", name))
        return input_error(in, ".role", "must be one of user, assistant, system, developer");
    if (!input_is_phase(phase))
        return input_error(in, ".phase", "must be commentary or final_answer, or absent");
    TRY(input_text(in, item, "content", &content));
    if (strcmp(name, "assistant") != 0)
        return add_text(in, name, content);
    st = input_open_message(in, "content", "tool_calls", NULL);
    if (st != OSP_OK) {
        json_decref(content);
        return st;
    }
    TRY(input_set_open(in, "content", content));
    if (json_is_string(phase))
        TRY(input_set_open(in, "phase", json_incref(phase)));
out:
    return st;
}

/* ---- reasoning ---- */

/* The text of a list of parts; *out is NULL if the list has no text. */
static enum osp_status read_list(const struct response_input *in, const json_t *item,
                                 const char *name, json_t **out)
{
    enum osp_status st = OSP_OK;

    *out = NULL;
    if (json_array_size(json_object_get(item, name)) == 0)
        return OSP_OK;
    TRY(input_text(in, item, name, out));
    if (json_string_length(*out) == 0) {
        json_decref(*out);
        *out = NULL;
    }
out:
    return st;
}

/* The text of a reasoning item: its content, else its encrypted_content, else its summary. An
 * item without text is ignored. */
static enum osp_status read_reasoning(struct response_input *in, const json_t *item)
{
    json_t *text = NULL;
    enum osp_status st;

    TRY(read_list(in, item, "content", &text));
    if (!text && json_array_size(json_object_get(item, "summary")) == 0)
        TRY(input_reasoning(in, item, &text));
    if (!text)
        TRY(read_list(in, item, "summary", &text));
    if (!text)
        return OSP_OK;
    st = input_open_message(in, "reasoning", "content", "tool_calls");
    if (st == OSP_OK)
        return input_set_open(in, "reasoning", text);
    json_decref(text);
out:
    return st;
}

/* ---- items ---- */

static enum osp_status read_item(struct response_input *in, json_t *item);

/* Counts an item of the store against HISTORY_BYTES_MAX and raises the JSON budget for it. */
static enum osp_status reserve_history(struct response_input *in, size_t n_bytes)
{
    char place[INPUT_PATH_BYTES];

    in->n_history_bytes += n_bytes;
    if (in->n_history_bytes > HISTORY_BYTES_MAX)
        return fail(OSP_EINVAL,
                    "%s: the stored items of the conversation have more than %d MiB, the limit; "
                    "start a new conversation",
                    input_path(in->item, place), HISTORY_BYTES_MAX >> 20);
    json_budget_more(n_bytes * HISTORY_FACTOR);
    return OSP_OK;
}

static enum osp_status read_reference(struct response_input *in, json_t *item)
{
    json_t *kept = NULL;
    const json_t *id;
    struct buf text;
    bool is_there;
    enum osp_status st;

    buf_init(&text, INPUT_TEXT_BYTES_MAX);
    TRY(input_string(in, item, "id", &id));
    is_there = response_store_item(in->store, in->owner, json_string_value(id), clock_ns(), &text);
    TRY(reserve_history(in, text.size_bytes));
    if (is_there)
        kept = json_loadb(buf_text(&text), text.size_bytes, JSON_ALLOW_NUL, NULL);
    if (!is_there || text.overflow)
        TRY(fail(OSP_EINVAL,
                 "input[%d].id: item '%.80s' not found: it was not stored, has expired, or belongs "
                 "to another client; send the item itself",
                 in->item, json_string_value(id)));
    st = kept ? read_item(in, kept) : input_no_memory();
    if (st == OSP_OK)
        /* the response stores the item itself and not the reference */
        json_object_update(item, kept);
out:
    json_decref(kept);
    buf_release(&text);
    return st;
}

bool response_is_foreign_item(const char *type)
{
    return str_ends_with(type, "_call") || str_ends_with(type, "_output") ||
           strncmp(type, "mcp_", 4) == 0 || strncmp(type, "compaction", 10) == 0 ||
           strcmp(type, "additional_tools") == 0 || strcmp(type, "program") == 0 ||
           strcmp(type, "ghost_snapshot") == 0;
}

static enum osp_status ignore_item(struct response_input *in, const char *type)
{
    char name[IGNORED_NAME_BYTES];

    if (!response_is_foreign_item(type))
        return input_error(in, ".type",
                           "\"%.40s\" is not one of message, function_call, function_call_output, "
                           "custom_tool_call, custom_tool_call_output, shell_call, "
                           "shell_call_output, local_shell_call, local_shell_call_output, "
                           "apply_patch_call, apply_patch_call_output, reasoning, item_reference",
                           type);
    snprintf(name, sizeof name, "input.%s", type);
    fields_warn_ignored(in->params, name);
    return OSP_OK;
}

static enum osp_status read_item(struct response_input *in, json_t *item)
{
    const json_t *type = json_object_get(item, "type");
    const char *name = json_string_value(type);
    enum osp_status st;

    if (!json_is_object(item))
        return input_error(in, "", "must be an object");
    if (!type || json_is_null(type))
        name = "message";
    if (!name)
        return input_error(in, ".type", "must be a string");
    if (strcmp(name, "message") == 0)
        return read_message(in, item);
    if (input_tool_item(in, item, name, &st))
        return st;
    if (strcmp(name, "reasoning") == 0)
        return read_reasoning(in, item);
    if (strcmp(name, "item_reference") == 0 && in->item >= 0)
        return read_reference(in, item);
    return ignore_item(in, name);
}

/* ---- the stored items of this request ---- */

static const char *id_kind(const char *type)
{
    const struct response_builtin *call = response_builtin_call(type);

    if (call)
        return call->id;
    if (response_builtin_output(type))
        return "out";
    if (strcmp(type, "function_call") == 0)
        return "fc";
    if (strcmp(type, "function_call_output") == 0)
        return "fco";
    if (strcmp(type, "custom_tool_call") == 0)
        return "ctc";
    if (strcmp(type, "custom_tool_call_output") == 0)
        return "ctco";
    return strcmp(type, "reasoning") == 0 ? "rs" : "msg";
}

/* Converts the text of a message to the list of parts that OpenAI's clients read. */
static void list_content(json_t *item)
{
    const char *role = json_string_value(json_object_get(item, "role"));
    json_t *content = json_object_get(item, "content");

    if (!role || !json_is_string(content))
        return;
    json_object_set_new(item, "content",
                        json_pack("[{s:s,s:O}]", "type",
                                  strcmp(role, "assistant") == 0 ? "output_text" : "input_text",
                                  "text", content));
}

static void complete_item(json_t *item, char id[RESPONSE_ID_BYTES])
{
    const json_t *given = json_object_get(item, "id");
    const char *type = json_string_value(json_object_get(item, "type"));

    if (!type)
        json_object_set_new(item, "type", json_string(type = "message"));
    if (json_string_length(given) > 0 && json_string_length(given) < RESPONSE_ID_BYTES) {
        snprintf(id, RESPONSE_ID_BYTES, "%s", json_string_value(given));
    } else {
        response_new_id(id, id_kind(type));
        json_object_set_new(item, "id", json_string(id));
    }
    list_content(item);
    if (!json_is_string(json_object_get(item, "status")))
        json_object_set_new(item, "status", json_string("completed"));
}

static enum osp_status store_item(struct response_input *in, json_t *item)
{
    struct response_item *kept;
    enum osp_status st = OSP_OK;
    char *text;

    mem_grow(&in->items, in->n_items, &in->n_items_max, sizeof *in->items);
    kept = &in->items[in->n_items];
    *kept = (struct response_item){.begin = in->text.size_bytes};
    complete_item(item, kept->id);
    text = json_dumps(item, JSON_COMPACT);
    if (!text)
        return input_no_memory();
    kept->n_bytes = strlen(text);
    in->n_items++;
    if (!buf_append(&in->text, text, kept->n_bytes))
        st = buf_failure(&in->text, "the items of a request");
    free(text);
    return st;
}

/* ---- the whole conversation ---- */

enum osp_status response_input_instructions(struct response_input *in, const json_t *text)
{
    in->item = INPUT_INSTRUCTIONS;
    if (!text || json_is_null(text))
        return OSP_OK;
    if (!json_is_string(text))
        return input_error(in, "", "must be a string");
    return add_text(in, "developer", json_incref((json_t *)text));
}

static enum osp_status add_stored(struct response_input *in, const struct response_item *items,
                                  int n, const char *text)
{
    enum osp_status st = OSP_OK;

    for (int i = 0; i < n; i++) {
        json_t *item;

        TRY(reserve_history(in, items[i].n_bytes));
        item = json_loadb(text + items[i].begin, items[i].n_bytes, JSON_ALLOW_NUL, NULL);
        st = item ? read_item(in, item) : input_no_memory();
        json_decref(item);
        TRY(st);
    }
out:
    return st;
}

enum osp_status response_input_conversation(struct response_input *in,
                                            const struct response_item *items, int n,
                                            const char *text)
{
    in->item = INPUT_CONVERSATION;
    return add_stored(in, items, n, text);
}

/* Adds the oldest response first. */
enum osp_status response_input_previous(struct response_input *in,
                                        const struct stored_response *previous)
{
    const struct stored_response **all = NULL;
    size_t n = 0, n_max = 0;
    enum osp_status st = OSP_OK;

    in->item = INPUT_PREVIOUS;
    for (; previous; previous = stored_previous(previous)) {
        mem_grow(&all, n, &n_max, sizeof *all);
        all[n++] = previous;
    }
    while (n > 0) {
        const struct stored_response *r = all[--n];
        int n_items;
        const struct response_item *items = stored_items(r, &n_items);

        TRY(add_stored(in, items, n_items, stored_text(r)));
    }
out:
    free(all);
    return st;
}

static enum osp_status add_one(struct response_input *in, json_t *item)
{
    enum osp_status st;

    if (in->n_items == RESPONSE_ITEMS_MAX)
        return fail(OSP_EINVAL, "input: has more than %d items, the limit", RESPONSE_ITEMS_MAX);
    TRY(read_item(in, item));
    if (in->is_unstored)
        in->n_items++;
    else
        TRY(store_item(in, item));
out:
    return st;
}

static enum osp_status add_string(struct response_input *in, json_t *text)
{
    json_t *item;
    enum osp_status st;

    in->item = INPUT_IS_STRING;
    if (json_string_length(text) == 0)
        return OSP_OK;
    item = json_pack("{s:s,s:s,s:O}", "type", "message", "role", "user", "content", text);
    st = item ? add_one(in, item) : input_no_memory();
    json_decref(item);
    return st;
}

enum osp_status response_input_add(struct response_input *in, json_t *input)
{
    enum osp_status st = OSP_OK;

    if (!input || json_is_null(input))
        return OSP_OK;
    if (json_is_string(input))
        return add_string(in, input);
    if (!json_is_array(input))
        return fail(OSP_EINVAL, "input: must be a string or a list of items");
    for (in->item = 0; in->item < (int)json_array_size(input); in->item++)
        TRY(add_one(in, json_array_get(input, (size_t)in->item)));
out:
    return st;
}
