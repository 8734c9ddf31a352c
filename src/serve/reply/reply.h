/* The JSON of a chat completion, whole or in chunks, written by template from the engine's
 * events. */
#ifndef SERVE_REPLY_REPLY_H
#define SERVE_REPLY_REPLY_H

#include "base/buf.h"
#include "serve/reply/custom_input.h"
#include "osprey.h"

enum {
    /* Of a whole answer as JSON, over all its choices: what is kept of it until it is sent, and
     * what is sent. 131,072 tokens of text are about 0.6 MB, each token with 20 top_logprobs is 2
     * KB. */
    REPLY_BYTES_MAX = 64 << 20,
    REPLY_OVERHEAD_BYTES =
        1 << 20, /* of that: heads, usage, and what each choice has besides the model's output */
    REPLY_TEXT_BYTES_MAX =
        REPLY_BYTES_MAX, /* of each part of a choice; the answer's own limit comes first */
    REPLY_LOGPROBS_BYTES_MAX = REPLY_BYTES_MAX
};

/* By how much the JSON of an answer may still grow. Shared by its choices. */
struct answer_budget {
    size_t free_bytes;
    bool is_exhausted; /* something did not fit */
};

/* False: there are not so many bytes left. room NULL: there is no limit. */
CHECKED bool answer_budget_reserve(struct answer_budget *budget, size_t n_bytes);
/* For what an answer has of its prompt, text and ids: room->is_exhausted where it does not fit. */
void reply_reserve_prompt(struct answer_budget *budget, const char *text, size_t n_bytes,
                          size_t n_ids);

/* What every answer, and every chunk of one, begins with. */
struct reply_head {
    char id[48]; /* "chatcmpl-..." */
    int64_t created_unix_s;
    const char *object, *model; /* borrowed */
};

void reply_head_init(struct reply_head *h, const char *id_prefix, const char *object,
                     const char *model);

/* What chunks say besides their choice. */
struct reply_extras {
    bool include_usage; /* null, until the last chunk */
    bool usage_now;     /* in every chunk: `usage`, which is to be set before each */
    bool timings_now;   /* of `usage` likewise; else in the last chunk of a choice */
    struct osp_usage usage;
};

/* What ended an answer, where it was something that the request named: vLLM's stop_reason. */
struct stop_reason {
    const char *string; /* borrowed from the request; NULL: no stop string */
    int32_t token;      /* of stop_token_ids; -1: none */
};

struct reply_call {
    char *id, *name;
    bool is_custom;
    struct buf arguments; /* a custom tool's input */
};

struct reply {
    struct reply_head head;
    int index; /* of the choice; set after reply_init() */
    bool streams;
    struct reply_extras extras;
    struct answer_budget
        *budget; /* of a whole answer, set after reply_init(); borrowed; NULL: no limit */
    bool began;  /* the first chunk, which names the role, is out */
    struct buf reasoning, content; /* of a whole answer */
    /* What is told besides, if it is asked for: set after reply_init(), borrowed. */
    const struct osp_tokenizer *tokenizer; /* of log-probabilities; NULL: they are not */
    bool return_ids;
    const int32_t *prompt; /* (n_prompt) with return_ids */
    size_t n_prompt;
    struct buf logprobs_json, ids;             /* of a whole answer, as JSON without brackets */
    enum osp_finish finish;                    /* of a whole answer, once it is done */
    struct stop_reason stop;                   /* likewise */
    const struct osp_request_options *options; /* of the request; borrowed; NULL: the usual ones */
    const struct osp_request
        *prompt_request; /* whose prompt's scores are told; borrowed; NULL: they are not */
    const struct osp_tokenizer *tokens; /* with `scored` */
    int n_prompt_logprobs;              /* with so many of the likeliest */
    struct reply_call *calls;           /* (n_calls) of a whole answer; owned */
    size_t n_calls_max;                 /* that there is room for */
    int n_calls;
    const struct custom_names *custom; /* tools of free text; borrowed; NULL: none */
    bool in_custom;                    /* the call under way is of one of them: */
    struct custom_input input;
};

void reply_init(struct reply *r, const char *model, bool streams);
void reply_release(struct reply *r); /* accepts a zeroed reply */

/* An event becomes server-sent events in `out`. */
void reply_stream(struct reply *r, const struct osp_event *event, struct buf *out);
/* A chunk with the role alone. */
void reply_stream_role(struct reply *r, struct buf *out);
/* All choices are done: what ends the events. */
void reply_stream_end(const struct reply_head *head, const struct reply_extras *extras,
                      const struct osp_usage *usage, struct buf *out);
/* An error in the middle of a stream, which ends it. error_json: {"error":...}. */
void reply_stream_error(struct buf *out, const char *error_json);

/* Keeps an event for reply_full(). False: there is no room for it (room->is_exhausted) or no
 * memory, and nothing of it is kept. DONE always is kept; where its tokens do not fit, the
 * answer has ended by its length. */
CHECKED bool reply_append(struct reply *r, const struct osp_event *event);
/* Of n choices that have kept all their events. */
void reply_full(const struct reply *r, int n, const struct osp_usage *usage, struct buf *out);

#endif
