/* The body of a chat completion request: everything but the conversation, which
 * osp_chat_from_json() reads. Runs off the event loop. */
#ifndef SERVE_JSON_IN_H
#define SERVE_JSON_IN_H

#include "base/buf.h"
#include "osprey.h"

enum { CHOICES_MAX = 16 }; /* of a request */

struct chat_params {
    struct osp_request_options options; /* borrows the lists below */
    char *stops[OSP_STOP_STRINGS_MAX];
    char *model;                   /* NULL: none named */
    struct osp_logit_bias *biases; /* owned, as is `allowed`; NULL: none */
    int32_t *allowed;
    char *form_text; /* owned: options.form_text; so is options.client's and .cache_salt's text: */
    char *client, *salt;
    int n_choices; /* 0: not said, 1 */
    bool stream, include_usage, return_token_ids;
    bool no_tools;      /* tool_choice: "none" */
    struct buf ignored; /* names of fields that nothing reads, "a, b" */
};

/* Into zeroed params, but that `options` may have defaults for what the body does not say. Errors begin
 * with the field: "temperature: must be from 0 to 2". Release in either case. */
CHECKED enum osp_status chat_params_read(struct chat_params *out, const char *json, size_t n_bytes);
void chat_params_release(struct chat_params *p); /* accepts zeroed params */

/* The same body without its tools. Gives the caller a string to free(). */
CHECKED enum osp_status chat_body_without_tools(char **out, const char *json, size_t n_bytes);

#endif
