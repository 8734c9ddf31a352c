/* The common parts of whole answers (reply.c) and streamed answers (sse.c). */
#ifndef SERVE_REPLY_REPLY_PARTS_H
#define SERVE_REPLY_REPLY_PARTS_H

#include "serve/reply/reply.h"

void reply_put_string(struct buf *out, const char *s);
/* writes the answer up to the first choice */
void reply_put_head(struct buf *out, const struct reply_head *h);
void reply_put_reasoning(struct buf *out, const char *text, size_t n_bytes);
/* Writes "prompt_token_ids" after the choices, if ids are requested. */
void reply_put_prompt(struct buf *out, const struct reply *r);
/* Writes ,"logprobs":... of a choice; entries: JSON from reply_put_tokens(). */
void reply_put_logprobs(struct buf *out, const struct reply *r, const struct buf *entries);
/* Writes ,"token_ids":[...] of a choice, if ids are requested. */
void reply_put_ids(struct buf *out, const struct reply *r, const struct buf *ids);
/* Appends the entries of an event, separated by commas. False: they exceed the buffer. */
CHECKED bool reply_put_tokens(struct buf *entries, const struct osp_tokenizer *t,
                              const struct osp_event *event);
CHECKED bool reply_add_logprobs(struct buf *entries, const struct reply *r,
                                const struct osp_event *event);
CHECKED bool reply_add_ids(struct buf *ids, const struct reply *r, const struct osp_event *event);
void reply_put_usage(struct buf *out, const struct osp_usage *u);
void reply_put_timings(struct buf *out, const struct osp_usage *u); /* ,"timings":{...} */
/* ,"prompt_progress":{...} of a prompt that has been computed, in the form of llama-server */
void reply_put_progress(struct buf *out, const struct osp_usage *u);
/* Writes the last members of a chunk with this event. */
void reply_put_extras(struct buf *out, const struct reply_extras *e, const struct osp_event *event);
void reply_put_logprob(struct buf *out, float logprob);
/* opt may be NULL. */
struct stop_reason reply_stop_reason(const struct osp_event *done,
                                     const struct osp_request_options *opt);
void reply_put_stop_reason(struct buf *out,
                           const struct stop_reason *stop); /* ,"stop_reason":... */
/* Writes ,"prompt_logprobs":[...] in the form of vLLM, for a request that has published all of
 * them. A rank beyond the n_top alternatives is null. */
void reply_put_prompt_logprobs(struct buf *out, const struct osp_tokenizer *t,
                               const struct osp_request *request, int n_top);

#endif
