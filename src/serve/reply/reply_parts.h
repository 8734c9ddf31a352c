/* What whole answers (reply.c) and streamed ones (sse.c) are both made of. */
#ifndef SERVE_REPLY_REPLY_PARTS_H
#define SERVE_REPLY_REPLY_PARTS_H

#include "serve/reply/reply.h"

void reply_put_string(struct buf *out, const char *s);
void reply_put_head(struct buf *out, const struct reply_head *h); /* up to the first choice */
void reply_put_reasoning(struct buf *out, const char *text, size_t n_bytes);
/* Behind the choices, up to the usage: "prompt_token_ids", where ids are told. */
void reply_put_prompt(struct buf *out, const struct reply *r);
/* ,"logprobs":... of a choice; the entries as reply_add_logprobs() makes them. */
void reply_put_logprobs(struct buf *out, const struct reply *r, const struct buf *entries);
/* ,"token_ids":[...] of a choice, where ids are told. */
void reply_put_ids(struct buf *out, const struct reply *r, const struct buf *ids);
/* Adds an event's, with commas; false when they outgrow the buffers. */
CHECKED bool reply_put_tokens(struct buf *entries, const struct osp_tokenizer *t,
                              const struct osp_event *event);
CHECKED bool reply_add_logprobs(struct buf *entries, const struct reply *r,
                                const struct osp_event *event);
CHECKED bool reply_add_ids(struct buf *ids, const struct reply *r, const struct osp_event *event);
void reply_put_usage(struct buf *out, const struct osp_usage *u);
void reply_put_timings(struct buf *out, const struct osp_usage *u); /* ,"timings":{...} */
/* What a chunk with this event ends with. */
void reply_put_extras(struct buf *out, const struct reply_extras *e, const struct osp_event *event);
void reply_put_logprob(struct buf *out, float logprob);
/* opt may be NULL. */
struct stop_reason reply_stop_reason(const struct osp_event *done,
                                     const struct osp_request_options *opt);
void reply_put_stop_reason(struct buf *out,
                           const struct stop_reason *stop); /* ,"stop_reason":... */
/* ,"prompt_logprobs":[...] as vLLM has them, of a request that has told all of them. A rank is
 * null where it is beyond the n_top that are told. */
void reply_put_prompt_logprobs(struct buf *out, const struct osp_tokenizer *t,
                               const struct osp_request *request, int n_top);

#endif
