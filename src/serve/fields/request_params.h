/* The parameters of a generation request, read from its body, except for the prompt or the
 * conversation. Used off the event loop. */
#ifndef SERVE_FIELDS_REQUEST_PARAMS_H
#define SERVE_FIELDS_REQUEST_PARAMS_H

#include <jansson.h>

#include "base/buf.h"
#include "serve/reply/reply.h"

enum {
    CHOICES_MAX = 16,        /* of a prompt */
    IGNORED_BYTES_MAX = 256, /* of the names of ignored fields */
    WARNINGS_BYTES_MAX = 700 /* of other warnings */
};

struct request_params {
    struct osp_request_options options; /* borrows the lists and texts below */
    char *stops[OSP_STOP_STRINGS_MAX];
    char *model;                   /* NULL: the request names no model */
    struct osp_logit_bias *biases; /* owned, as is `allowed`; NULL: absent */
    int32_t *allowed;
    char *form_text;        /* owned texts of options.form_text, .user and .cache_salt */
    const char *form_field; /* the field that set options.form, static; NULL: none */
    char *user, *salt;
    char *prediction;     /* owned text of options.prediction_text */
    bool hides_reasoning; /* include_reasoning is false */
    char **tools;         /* owned texts of options.tools */
    int n_choices;        /* 0: not set, which means 1 */
    bool stream, return_token_ids;
    /* prompt_logprobs is set: the answer has them, with n_prompt_logprobs alternatives */
    bool wants_prompt_logprobs;
    int n_prompt_logprobs;
    struct reply_extras extras; /* stream_options, timings_per_token, return_progress */
    bool has_repeat_last_n;     /* the field is set, to: */
    int repeat_last_n;
    void *own;           /* state of the endpoint, for readers of its own fields; borrowed */
    struct buf ignored;  /* names of ignored fields, "a, b" */
    struct buf warnings; /* other warnings, "a; b" */
};

void request_params_release(struct request_params *p); /* accepts zeroed params */

/* Parses a body, which must be an object; the caller must json_decref() it. Errors name the line
 * and column. */
CHECKED enum osp_status json_body_read(json_t **out, const char *json, size_t n_bytes);

#endif
