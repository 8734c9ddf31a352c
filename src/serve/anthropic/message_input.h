/* The conversation of a /v1/messages request, converted to the messages of a chat completion
 * request, which chat_read_document() reads. Every block of an assistant's message becomes a
 * message of its own; the texts of a user's message become one. One thread at a time. */
#ifndef SERVE_ANTHROPIC_MESSAGE_INPUT_H
#define SERVE_ANTHROPIC_MESSAGE_INPUT_H

#include "serve/anthropic/call_texts.h"
#include "serve/fields/json_fields.h"

/* What a message of the chat was made from, so that errors name the place that the client sent. */
struct message_origin {
    int message; /* messages[message]; INPUT_SYSTEM: system[block] */
    int block;   /* content[block]; -1: the content as a whole */
};
enum { INPUT_SYSTEM = -1 };

struct message_input {
    struct request_params *params;  /* borrowed; gets names of ignored blocks */
    struct call_texts *calls;       /* borrowed; NULL: no texts of calls are known */
    const json_t *tools;            /* of the request, for references to them; borrowed or NULL */
    const char *effort;             /* of the last system message that sets one; NULL: none */
    json_t *chat;                   /* messages of the chat; owned */
    struct message_origin at;       /* what is being read */
    bool has_turns;                 /* a message of user or assistant was read */
    struct message_origin *origins; /* (n_origins) of each message of the chat; owned */
    size_t n_origins, n_origins_max;
};

void message_input_init(struct message_input *in, struct request_params *params,
                        struct call_texts *calls);
void message_input_release(struct message_input *in); /* accepts a zeroed one */

/* Call these in this order, with the values of the fields; NULL: absent. Errors begin with the
 * place: "messages[2].content[0].type: ...". */
CHECKED enum osp_status message_input_system(struct message_input *in, const json_t *system);
CHECKED enum osp_status message_input_messages(struct message_input *in, const json_t *messages);

/* Converts an error of chat_read_document() about a message, a tool or the format to an error
 * about the request. tools: for each tool of the chat, its index in the request. Returns `st`. */
CHECKED enum osp_status message_input_explain(const struct message_input *in, const int *tools,
                                              size_t n_tools, enum osp_status st);
/* The same for errors about the format of the answer. */
CHECKED enum osp_status message_format_explain(enum osp_status st);

#endif
