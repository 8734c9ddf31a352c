/* What whole answers (reply.c) and streamed ones (sse.c) are both made of. */
#ifndef SERVE_REPLY_PARTS_H
#define SERVE_REPLY_PARTS_H

#include "serve/reply.h"

void reply_put_string(struct buf *out, const char *s);
void reply_put_head(struct buf *out, const struct reply *r); /* up to the first choice */
void reply_put_reasoning(struct buf *out, const char *text, size_t n_bytes);
void reply_put_usage(struct buf *out, const struct osp_usage *u);

#endif
