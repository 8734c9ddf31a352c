/* The fields of /v1/messages and /v1/messages/count_tokens that no other endpoint has, or that
 * have another form there. */
#ifndef SERVE_ANTHROPIC_MESSAGE_FIELDS_H
#define SERVE_ANTHROPIC_MESSAGE_FIELDS_H

#include "serve/fields/json_fields.h"

/* What `thinking` and `output_config` request; request_params.own of both endpoints. */
struct message_style {
    enum { THINKING_UNSET, THINKING_DISABLED, THINKING_ENABLED } thinking;
    int budget_tokens;   /* 0: not set */
    bool omits_thinking; /* thinking.display is "omitted" */
    const char *effort;  /* output_config.effort; NULL: not set; borrowed from the body */
    /* the JSON schema that the answer must fit; NULL: none; borrowed from the body */
    const json_t *schema;
};

/* Whether it is the name of an effort. */
bool message_is_effort(const json_t *v);
/* The reasoning effort, for chat_read_document(); NULL: the default of the server. */
const char *message_effort(const struct message_style *s);

extern const struct field_set messages_fields, count_tokens_fields;

#endif
