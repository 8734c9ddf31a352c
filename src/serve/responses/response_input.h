/* The conversation of a /v1/responses request: what was kept of the responses before, then the
 * items of `input`, as the messages of a chat completion request, which osp_chat_from_json()
 * reads. One thread at a time. */
#ifndef SERVE_RESPONSES_RESPONSE_INPUT_H
#define SERVE_RESPONSES_RESPONSE_INPUT_H

#include "serve/fields/json_fields.h"
#include "serve/responses/response_store.h"

/* Where a message came from, so that errors name that place. */
struct input_origin {
    int message, call; /* messages[message].tool_calls[call]; call -1: the message itself */
    int item;          /* input[item]; INPUT_... for others */
};
enum {
    HISTORY_BYTES_MAX =
        16 << 20,      /* of items as JSON that a request takes from the store; a context of 131,072
                                     tokens is about 1 MB */
    HISTORY_FACTOR = 8 /* more memory that reading them may take */
};
enum { INPUT_IS_STRING = -1, INPUT_PREVIOUS = -2, INPUT_INSTRUCTIONS = -3 };

struct response_input {
    struct request_params *params; /* borrowed, as are: */
    struct response_store *store;
    const char *owner;

    json_t *messages;
    json_t *open;     /* the assistant's message that further items may belong to; of `messages` */
    int item;         /* that is being read: input[item] */
    bool is_unstored; /* "store": false: items are counted, and no text is made of them */
    size_t n_history_bytes; /* of items from the store */
    struct input_origin *origins;
    size_t n_origins, n_origins_max;
    /* The items of `input` as they are kept, each with an id. */
    struct buf text;
    struct response_item *items;
    size_t n_items, n_items_max;
};

/* Kinds of items that are ignored are noted in params. */
void response_input_init(struct response_input *in, struct request_params *params,
                         struct response_store *store, const char *owner);
void response_input_release(struct response_input *in); /* accepts a zeroed one */

/* In this order. Errors begin with the place: "input[2].content[0].type: ...". */
CHECKED enum osp_status response_input_instructions(struct response_input *in, const json_t *text);
CHECKED enum osp_status response_input_previous(struct response_input *in,
                                                const struct stored_response *previous);
/* `input` is changed: items get ids. */
CHECKED enum osp_status response_input_add(struct response_input *in, json_t *input);

/* Turns a failure of osp_chat_from_json() about messages[i] into one about the request. tools:
 * which of the request's tools each of the chat's was. Gives `st` back. */
CHECKED enum osp_status response_input_explain(const struct response_input *in, const int *tools,
                                               size_t n_tools, enum osp_status st);

/* Likewise, of failures about the form of an answer. */
CHECKED enum osp_status response_format_explain(enum osp_status st);

/* Whether clients of OpenAI's send such items, which mean nothing to this server. */
bool response_is_foreign_item(const char *type);

#endif
