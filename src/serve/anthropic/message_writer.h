/* Writes the answer of /v1/messages as JSON, whole or as the events of its stream, from the
 * engine's events. Content blocks (thinking, text, tool_use) follow one another; one is open at a
 * time. One thread at a time. */
#ifndef SERVE_ANTHROPIC_MESSAGE_WRITER_H
#define SERVE_ANTHROPIC_MESSAGE_WRITER_H

#include "osprey.h"
#include "serve/anthropic/call_input.h"
#include "serve/anthropic/call_texts.h"
#include "serve/reply/reply.h"

/* The signature of a thinking block whose text the client does not get is this and the text in
 * Base64; the signature of any other is SIGNATURE_PREFIX and a hash. */
#define SIGNATURE_TEXT_PREFIX "osprey1."
#define SIGNATURE_PREFIX      "osprey1-"

enum message_thinking {
    THINKING_HIDDEN,  /* no blocks */
    THINKING_OMITTED, /* blocks with a signature and without text */
    THINKING_SHOWN
};

enum message_block { BLOCK_NONE, BLOCK_THINKING, BLOCK_TEXT, BLOCK_CALL };

enum {
    MESSAGE_ID_BYTES = 40,
    MESSAGE_BLOCK_JSON_BYTES = 256 /* upper bound of a block's JSON besides its text and names */
};

struct message_writer {
    /* Set by the caller after message_writer_init(); all are borrowed. */
    const char *model;
    enum message_thinking thinking;
    struct answer_budget *budget; /* of a whole answer; NULL: no limit */
    struct call_texts *calls;     /* gets texts of calls; NULL: they are not kept */
    bool streams;
    int tokens_max, context_tokens_max; /* to name the limit that ended the answer */

    char id[MESSAGE_ID_BYTES]; /* "msg_..." */
    bool has_begun;            /* message_start was written */
    enum message_block open;
    bool is_preamble;        /* the open text block is a preamble */
    int n_blocks;            /* that have ended */
    uint64_t hash;           /* of the open thinking block */
    struct buf text;         /* of the open block, where it is needed at its end */
    struct buf hidden;       /* thinking that is not sent, since the last call */
    char *call_id;           /* of the open call */
    struct call_input input; /* of the open call */
    struct buf content;      /* of a whole answer: JSON of the ended blocks, with commas */
    enum osp_finish finish;  /* valid after DONE */
    const char *stop_string; /* the stop sequence that ended the answer; NULL: none; borrowed */
    struct osp_usage usage;  /* of the whole answer, valid after DONE */
};

void message_writer_init(struct message_writer *w);
void message_writer_release(struct message_writer *w); /* accepts a zeroed writer */

/* Handles an event of the engine, DONE included; `out` gets the events of the stream. usage: up to
 * now. False: no budget (budget->is_exhausted) or out of memory; DONE with OSP_FINISH_LENGTH can
 * still end the message. */
CHECKED bool message_on_event(struct message_writer *w, const struct osp_event *event,
                              const struct osp_usage *usage, struct buf *out);
/* After DONE: writes the last events of a stream, or the whole message. */
void message_end(const struct message_writer *w, struct buf *out);
/* Writes the event that ends a failed stream. error_json: {"type":"error",...}. */
void message_fail(struct buf *out, const char *error_json);

#endif
