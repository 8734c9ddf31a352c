/* A response as JSON, whole or as the events of its stream, from the engine's events: items one
 * after the other, reasoning, messages and calls of functions, each begun, filled and ended. The
 * items are also kept, as the last event, GET and what goes on from this response need them. One
 * thread at a time. */
#ifndef SERVE_RESPONSES_RESPONSE_WRITER_H
#define SERVE_RESPONSES_RESPONSE_WRITER_H

#include "osprey.h"
#include "serve/reply/reply.h"
#include "serve/responses/response_store.h"
#include "serve/responses/response_tools.h"

enum { RESPONSE_ITEM_JSON_BYTES = 512 /* what an item has besides its text and names, at most */ };

/* What the reasoning's text is put into before it is sent as "encrypted_content". */
#define ENCRYPTED_PREFIX "osprey1."

enum response_item_kind { ITEM_NONE, ITEM_REASONING, ITEM_MESSAGE, ITEM_CALL, ITEM_CUSTOM };

struct response_writer {
    /* Set by the caller after response_writer_init(), all borrowed. */
    const char *model;
    const char *echo;                   /* ,"name":value of what the request said */
    const struct response_tools *tools; /* that may be called; NULL: no names of theirs are known */
    const struct osp_tokenizer *tokenizer; /* of log-probabilities; NULL: they are not told */
    struct answer_budget *budget;          /* of all items, streamed or not; NULL: no limit */
    bool streams;
    bool include_encrypted; /* reasoning comes as encrypted_content, too */
    bool include_summary;   /* and as its own summary */

    char id[RESPONSE_ID_BYTES]; /* "resp_..." */
    int64_t created_unix_s, completed_unix_s;
    int64_t n_events;       /* of the stream, so far */
    enum osp_finish finish; /* once it is done */
    struct osp_usage usage;
    bool is_done;

    enum response_item_kind open;
    bool is_preamble; /* the open message */
    char item_id[RESPONSE_ID_BYTES];
    char *call_id, *name;
    const struct namespaced_tool
        *namespaced;                /* the function that is called, if it is of a namespace */
    struct custom_input input;      /* of ITEM_CUSTOM: how far its arguments are read */
    struct buf text, logprobs_json; /* of the open item */
    struct buf output;              /* the items that have ended, with commas */
    struct response_item *items;    /* (n_items) in `output` */
    size_t n_items, n_items_max;
};

void response_writer_init(struct response_writer *w);
void response_writer_release(struct response_writer *w); /* accepts a zeroed one */

/* An id of that kind that nobody can guess: "msg" gives "msg_68...". */
void response_new_id(char out[RESPONSE_ID_BYTES], const char *kind);

/* What a stream begins with. */
void response_begin(struct response_writer *w, struct buf *out);
/* An event of the engine, DONE too; `out` gets the stream's. False: there is no room for it
 * (room->is_exhausted) or no memory; DONE with OSP_FINISH_LENGTH can still end the response. */
CHECKED bool response_on_event(struct response_writer *w, const struct osp_event *event,
                               struct buf *out);
/* After DONE: the last event of a stream, or the whole response. */
void response_end(struct response_writer *w, struct buf *out);
/* What ends a stream that fails. */
void response_fail(struct response_writer *w, const char *message, struct buf *out);
/* The response object as it is now. */
void response_put(const struct response_writer *w, struct buf *out);

#endif
