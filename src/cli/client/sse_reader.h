/* Splits a stream of server-sent events into the values of its data fields. */
#ifndef CLI_CLIENT_SSE_READER_H
#define CLI_CLIENT_SSE_READER_H

#include "base/buf.h"

enum { SSE_LINE_BYTES_MAX = 4 << 20 };

/* Called with each value of a data field except [DONE]. The APIs that are read here send an event's
 * data on one line. */
typedef void sse_data_fn(void *ctx, const char *data);

struct sse_reader {
    struct buf line; /* an incomplete line */
    bool is_done;    /* [DONE] was received */
    bool too_long;   /* a line was longer than SSE_LINE_BYTES_MAX */
    sse_data_fn *on_data;
    void *ctx;
};

void sse_reader_init(struct sse_reader *r, sse_data_fn *on_data, void *ctx);
void sse_reader_release(struct sse_reader *r);
void sse_reader_push(struct sse_reader *r, const char *bytes, size_t n_bytes);

#endif
