/* The JSON of a chat completion, whole or in chunks, written from the engine's events. */
#ifndef SERVE_REPLY_REPLY_H
#define SERVE_REPLY_REPLY_H

#include "base/buf.h"
#include "serve/reply/custom_input.h"
#include "osprey.h"

enum {
    /* Limit of a whole answer as JSON, all choices together, both while it is buffered and when
     * it is sent. 131,072 tokens of text are about 0.6 MB; each token with 20 top_logprobs is 2
     * KB. */
    REPLY_BYTES_MAX = 64 << 20,
    /* The part of it for heads, usage, and everything of a choice besides the model's output. */
    REPLY_OVERHEAD_BYTES = 1 << 20,
    /* Of each buffer of a choice; the limit of the answer is reached first. */
    REPLY_TEXT_BYTES_MAX = REPLY_BYTES_MAX,
    REPLY_LOGPROBS_BYTES_MAX = REPLY_BYTES_MAX
};

/* The bytes by which the JSON of an answer may still grow; shared by its choices. */
struct answer_budget {
    size_t free_bytes;
    bool is_exhausted; /* a reservation has failed */
};

/* False: fewer than n_bytes are left, and budget->is_exhausted is set. budget NULL: no limit. */
CHECKED bool answer_budget_reserve(struct answer_budget *budget, size_t n_bytes);
/* Reserves the prompt's text and ids in the answer; sets budget->is_exhausted if they do not
 * fit. */
void reply_reserve_prompt(struct answer_budget *budget, const char *text, size_t n_bytes,
                          size_t n_ids);

/* The members at the beginning of every answer and every chunk. */
struct reply_head {
    char id[48]; /* "chatcmpl-..." */
    int64_t created_unix_s;
    const char *object, *model; /* borrowed */
};

void reply_head_init(struct reply_head *h, const char *id_prefix, const char *object,
                     const char *model);

/* The members of chunks besides their choice. */
struct reply_extras {
    bool include_usage; /* usage in the last chunk; null in the others */
    bool usage_now;     /* usage in every chunk; the caller sets `usage` before each */
    /* timings (from `usage`) in every chunk; else in the last chunk of a choice */
    bool timings_now;
    bool progress; /* prompt_progress (from `usage`) in the first chunk of a choice */
    struct osp_usage usage;
};

/* The stop string or stop token of the request that ended the answer: vLLM's stop_reason. */
struct stop_reason {
    const char *string; /* borrowed from the request; NULL: not ended by a stop string */
    int32_t token;      /* of stop_token_ids; -1: not ended by one of them */
};

struct reply_call {
    char *id, *name;
    bool is_custom;
    struct buf arguments; /* for custom tools, the input */
};

struct reply {
    struct reply_head head;
    int index; /* index of the choice; set after reply_init() */
    bool streams;
    struct reply_extras extras;
    /* of a whole answer; set after reply_init(); borrowed; NULL: no limit */
    struct answer_budget *budget;
    bool began;                    /* the first chunk, which has the role, was written */
    struct buf reasoning, content; /* of a whole answer */
    /* Optional parts of the answer; set after reply_init(), borrowed. */
    const struct osp_tokenizer *tokenizer; /* for logprobs; NULL: no logprobs */
    bool return_ids;
    bool hides_reasoning;  /* the answer does not include it */
    const int32_t *prompt; /* (n_prompt) with return_ids */
    size_t n_prompt;
    struct buf logprobs_json, ids;             /* of a whole answer, as JSON without brackets */
    enum osp_finish finish;                    /* of a whole answer; valid after DONE */
    struct stop_reason stop;                   /* of a whole answer; valid after DONE */
    const struct osp_request_options *options; /* of the request; borrowed; NULL: defaults */
    /* request for prompt_logprobs; borrowed; NULL: no prompt_logprobs */
    const struct osp_request *prompt_request;
    const struct osp_tokenizer *tokens; /* used with prompt_request */
    int n_prompt_logprobs;              /* alternatives at each position of the prompt */
    struct reply_call *calls;           /* (n_calls) of a whole answer; owned */
    size_t n_calls_max;                 /* capacity of `calls` */
    int n_calls;
    const struct custom_names *custom; /* names of custom tools; borrowed; NULL: none */
    bool in_custom; /* the open call is of a custom tool, with this parser state: */
    struct custom_input input;
};

void reply_init(struct reply *r, const char *model, bool streams);
void reply_release(struct reply *r); /* accepts a zeroed reply */

/* Writes the server-sent events for an event of the engine. */
void reply_stream(struct reply *r, const struct osp_event *event, struct buf *out);
/* Writes a chunk that has only the role. */
void reply_stream_role(struct reply *r, struct buf *out);
/* All choices are done: writes the end of the stream. */
void reply_stream_end(const struct reply_head *head, const struct reply_extras *extras,
                      const struct osp_usage *usage, struct buf *out);
/* Writes the error event that ends a stream. error_json: {"error":...}. */
void reply_stream_error(struct buf *out, const char *error_json);

/* Keeps an event for reply_full(). False: no budget (budget->is_exhausted) or out of memory;
 * nothing of the event is kept. DONE is always kept; if its tokens do not fit, the answer has
 * ended by its length. */
CHECKED bool reply_append(struct reply *r, const struct osp_event *event);
/* Writes the answer of n choices, which have kept all their events. */
void reply_full(const struct reply *r, int n, const struct osp_usage *usage, struct buf *out);

#endif
