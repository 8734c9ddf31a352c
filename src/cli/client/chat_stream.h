/* Reads a streamed chat completion: its texts as they arrive, and how it ended. The address must
 * stay the same from init to release. */
#ifndef CLI_CLIENT_CHAT_STREAM_H
#define CLI_CLIENT_CHAT_STREAM_H

#include "cli/client/sse_reader.h"

enum { CHAT_STREAM_ERROR_BYTES_MAX = 1024, FINISH_REASON_BYTES_MAX = 32 };

/* The text is valid during the call only. */
typedef void chat_text_fn(void *ctx, bool is_reasoning, const char *text, size_t n_bytes);

struct chat_stream {
    struct sse_reader lines;
    chat_text_fn *on_text;
    void *ctx;
    bool has_chunk; /* at least one chunk of a chat completion was received */
    bool failed;    /* an error event, or data that cannot be read; nothing is read after it */
    char error[CHAT_STREAM_ERROR_BYTES_MAX];
    char finish_reason[FINISH_REASON_BYTES_MAX]; /* "": not received */
    int n_prompt_tokens, n_completion_tokens;    /* 0: the server sent no usage */
};

void chat_stream_init(struct chat_stream *s, chat_text_fn *on_text, void *ctx);
void chat_stream_release(struct chat_stream *s);
void chat_stream_push(struct chat_stream *s, const char *bytes, size_t n_bytes);
/* After the response has ended: OSP_EIO with the server's error, or if the answer is incomplete;
 * `url` is for the message. */
CHECKED enum osp_status chat_stream_end(const struct chat_stream *s, const char *url);

#endif
