/* The body of a request that generates: what its fields ask for, but for the prompt or
 * conversation. Runs off the event loop. */
#ifndef SERVE_FIELDS_REQUEST_PARAMS_H
#define SERVE_FIELDS_REQUEST_PARAMS_H

#include <jansson.h>

#include "base/buf.h"
#include "serve/reply/reply.h"

enum { CHOICES_MAX = 16 /* of a prompt */, IGNORED_BYTES_MAX = 256 /* of names in a warning */ };

struct request_params {
    struct osp_request_options options; /* borrows the lists below */
    char *stops[OSP_STOP_STRINGS_MAX];
    char *model;                   /* NULL: none named */
    struct osp_logit_bias *biases; /* owned, as is `allowed`; NULL: none */
    int32_t *allowed;
    char *form_text; /* owned: options.form_text; so is options.user's and .cache_salt's text: */
    char *user, *salt;
    char **tools;  /* owned: options.tools */
    int n_choices; /* 0: not said, 1 */
    bool stream, return_token_ids;
    bool
        wants_prompt_logprobs; /* prompt_logprobs was given: they are told with n_prompt_logprobs of the likeliest */
    int n_prompt_logprobs;
    struct reply_extras extras; /* stream_options, timings_per_token */
    void *own;                  /* the endpoint's state, for readers of its own fields; borrowed */
    struct buf ignored;         /* names of fields that nothing reads, "a, b" */
};

void request_params_release(struct request_params *p); /* accepts zeroed params */

/* Gives the caller the body as an object to json_decref(). Errors say where it is wrong. */
CHECKED enum osp_status json_body_read(json_t **out, const char *json, size_t n_bytes);

#endif
