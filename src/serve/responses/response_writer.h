/* Writes a response as JSON, whole or as the events of its stream, from the engine's events.
 * Items (reasoning, messages, function calls) follow one another; each is begun, extended and
 * ended. Ended items are also kept, for the last event, for GET and for later responses. One
 * thread at a time. */
#ifndef SERVE_RESPONSES_RESPONSE_WRITER_H
#define SERVE_RESPONSES_RESPONSE_WRITER_H

#include "osprey.h"
#include "serve/reply/reply.h"
#include "serve/stored/response_store.h"
#include "serve/responses/response_tools.h"

/* upper bound of an item's JSON besides its text and names */
enum { RESPONSE_ITEM_JSON_BYTES = 512 };

enum response_item_kind {
    ITEM_NONE,
    ITEM_REASONING,
    ITEM_MESSAGE,
    ITEM_CALL,
    ITEM_CUSTOM,
    ITEM_BUILTIN /* its events are written when it ends: its members are made of all arguments */
};

struct response_writer {
    /* Set by the caller after response_writer_init(); all are borrowed. */
    const char *model;
    const char *echo;                   /* ,"name":value of the repeated request fields */
    const struct response_tools *tools; /* tools of the request, for their names; NULL: unknown */
    const struct osp_tokenizer *tokenizer; /* for logprobs; NULL: logprobs are not sent */
    struct answer_budget *budget;          /* for all items, streamed or not; NULL: no limit */
    bool streams;
    bool include_encrypted; /* also send reasoning as encrypted_content */
    bool include_summary;   /* also send reasoning as summary */
    bool is_background;

    char id[RESPONSE_ID_BYTES]; /* "resp_..." */
    int64_t created_unix_s, completed_unix_s;
    int64_t n_events;       /* events of the stream so far */
    enum osp_finish finish; /* valid after DONE */
    struct osp_usage usage;
    bool has_begun; /* the engine has sent an event: the request has left the queue */
    bool is_done, is_cancelled;
    char *failure; /* JSON of "error" of a failed response; NULL: it has not failed; owned */

    enum response_item_kind open;
    bool is_preamble; /* the open message is a preamble */
    char item_id[RESPONSE_ID_BYTES];
    char *call_id, *name;
    /* the called function if it has a namespace, else NULL */
    const struct namespaced_tool *namespaced;
    const struct response_builtin *builtin; /* of ITEM_BUILTIN */
    struct custom_input input;              /* parser state of the arguments of ITEM_CUSTOM */
    struct buf text, logprobs_json;         /* of the open item */
    struct buf output;                      /* JSON of the ended items, separated by commas */
    struct response_item *items;            /* (n_items) places in `output` */
    size_t n_items, n_items_max;
};

void response_writer_init(struct response_writer *w);
void response_writer_release(struct response_writer *w); /* accepts a zeroed writer */

/* Writes the first events of a stream. */
void response_begin(struct response_writer *w, struct buf *out);
/* Handles an event of the engine, DONE included; `out` gets the events of the stream. False: no
 * budget (budget->is_exhausted) or out of memory; DONE with OSP_FINISH_LENGTH can still end the
 * response. */
CHECKED bool response_on_event(struct response_writer *w, const struct osp_event *event,
                               struct buf *out);
/* After DONE: writes the last event of a stream, or the whole response. */
void response_end(struct response_writer *w, struct buf *out);
/* The response has failed, or its client has canceled it. Writes the last events of a stream. */
void response_fail(struct response_writer *w, const char *message, struct buf *out);
void response_cancel(struct response_writer *w, struct buf *out);
/* "queued", "in_progress", "completed", "incomplete", "failed" or "cancelled" */
const char *response_status(const struct response_writer *w);
/* Writes the current response object. */
void response_put(const struct response_writer *w, struct buf *out);

#endif
