/* The conversation of a /v1/responses request: the items of the previous responses, then the
 * items of `input`, converted to the messages of a chat completion request, which
 * chat_read_document() reads. One thread at a time. */
#ifndef SERVE_RESPONSES_RESPONSE_INPUT_H
#define SERVE_RESPONSES_RESPONSE_INPUT_H

#include "serve/fields/json_fields.h"
#include "serve/stored/response_store.h"

/* The origin of a message, so that errors name the item that the client sent. */
struct input_origin {
    int message, call; /* messages[message].tool_calls[call]; call -1: the message itself */
    int item;          /* input[item]; INPUT_... if the message is not from an item of `input` */
};
enum {
    /* Of stored items (JSON) that a request may read; a context of 131,072 tokens is about 1 MB. */
    HISTORY_BYTES_MAX = 16 << 20,
    HISTORY_FACTOR = 8 /* parsed items may take so many times the memory of their text */
};
enum {
    INPUT_IS_STRING = -1,
    INPUT_PREVIOUS = -2,
    INPUT_INSTRUCTIONS = -3,
    INPUT_CONVERSATION = -4
};

struct response_input {
    struct request_params *params; /* borrowed, as are `store` and `owner` */
    struct response_store *store;
    const char *owner;

    json_t *messages;
    /* the assistant message, in `messages`, to which further items are added; NULL: none */
    json_t *open;
    int item;               /* index of the item that is being read: input[item] */
    bool is_unstored;       /* "store": false: the items are counted and not copied as text */
    size_t n_history_bytes; /* of stored items that were read */
    struct input_origin *origins;
    size_t n_origins, n_origins_max;
    /* The items of `input` as they are stored, each with an id. */
    struct buf text;
    struct response_item *items;
    size_t n_items, n_items_max;
};

/* Types of ignored items are added to params->ignored. */
void response_input_init(struct response_input *in, struct request_params *params,
                         struct response_store *store, const char *owner);
void response_input_release(struct response_input *in); /* accepts a zeroed one */

/* Call these in this order. Errors begin with the place: "input[2].content[0].type: ...". */
CHECKED enum osp_status response_input_instructions(struct response_input *in, const json_t *text);
CHECKED enum osp_status response_input_previous(struct response_input *in,
                                                const struct stored_response *previous);
/* Instead of the previous response: the items of a conversation. */
CHECKED enum osp_status response_input_conversation(struct response_input *in,
                                                    const struct response_item *items, int n,
                                                    const char *text);
/* Changes `input`: items get ids. */
CHECKED enum osp_status response_input_add(struct response_input *in, json_t *input);

/* Converts an error of chat_read_document() about messages[i] to an error about the request.
 * tools: for each tool of the chat, its index in the request. Returns `st`. */
CHECKED enum osp_status response_input_explain(const struct response_input *in, const int *tools,
                                               size_t n_tools, enum osp_status st);

/* The same for errors about the format of the answer. */
CHECKED enum osp_status response_format_explain(enum osp_status st);

/* Whether it is an item type of the OpenAI API that this server ignores. */
bool response_is_foreign_item(const char *type);

#endif
