/* Fuzzing entry for libFuzzer: what a server can send to `osprey chat --url` and `osprey status`.
 * The first byte selects the reader: 0 mod 2 a stream of a chat completion, which is pushed whole
 * and in two pieces and must give the same texts, otherwise metrics. */
#include <stdlib.h>
#include <string.h>

#include "cli/client/chat_stream.h"
#include "cli/client/prometheus.h"

enum { TEXT_BYTES_MAX = 1 << 24 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

static void on_text(void *ctx, bool is_reasoning, const char *text, size_t n_bytes)
{
    buf_putc(ctx, is_reasoning ? 'r' : 'c');
    buf_append(ctx, text, n_bytes);
}

static enum osp_status read_stream(struct buf *out, const char *text, size_t cut, size_t n_bytes)
{
    struct chat_stream s;
    enum osp_status st;

    buf_init(out, TEXT_BYTES_MAX);
    chat_stream_init(&s, on_text, out);
    chat_stream_push(&s, text, cut);
    chat_stream_push(&s, text + cut, n_bytes - cut);
    st = chat_stream_end(&s, "url");
    chat_stream_release(&s);
    return st;
}

static void check_stream(const char *text, size_t n_bytes)
{
    struct buf whole, pieces;
    const enum osp_status st = read_stream(&whole, text, n_bytes, n_bytes);

    if (read_stream(&pieces, text, n_bytes / 2, n_bytes) != st ||
        whole.size_bytes != pieces.size_bytes ||
        memcmp(buf_text(&whole), buf_text(&pieces), whole.size_bytes) != 0)
        abort();
    buf_release(&whole);
    buf_release(&pieces);
}

static void check_metrics(const char *text, size_t n_bytes)
{
    struct metric metrics[] = {{.name = "a"}, {.name = "vllm:num_requests_running"}};

    prometheus_read(metrics, 2, text, n_bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    if (n_bytes == 0)
        return 0;
    (data[0] % 2 == 0 ? check_stream : check_metrics)((const char *)data + 1, n_bytes - 1);
    return 0;
}
