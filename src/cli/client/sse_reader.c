#include "cli/client/sse_reader.h"

#include <string.h>

static const char DATA[] = "data:";

void sse_reader_init(struct sse_reader *r, sse_data_fn *on_data, void *ctx)
{
    *r = (struct sse_reader){.on_data = on_data, .ctx = ctx};
    buf_init(&r->line, SSE_LINE_BYTES_MAX);
}

void sse_reader_release(struct sse_reader *r)
{
    buf_release(&r->line);
}

static void read_line(struct sse_reader *r)
{
    const char *data = buf_text(&r->line);

    if (strncmp(data, DATA, strlen(DATA)) != 0)
        return; /* a comment or an event name */
    data += strlen(DATA);
    data += strspn(data, " ");
    if (strcmp(data, "[DONE]") == 0)
        r->is_done = true;
    else
        r->on_data(r->ctx, data);
}

void sse_reader_push(struct sse_reader *r, const char *bytes, size_t n_bytes)
{
    for (size_t i = 0; i < n_bytes; i++) {
        if (bytes[i] != '\n') {
            if (bytes[i] != '\r' && !buf_putc(&r->line, bytes[i]))
                r->too_long = true;
            continue;
        }
        read_line(r);
        buf_clear(&r->line);
    }
}
