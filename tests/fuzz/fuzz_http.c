/* Fuzzes the reading of HTTP requests: the same bytes, whole and in pieces, must give the same
 * requests, and every request that is accepted keeps the rules that keep smuggling out.
 *
 *     clang -g -O1 -fsanitize=fuzzer,address,undefined -D_GNU_SOURCE -std=c11 -Iinclude -Isrc \
 *         -isystem /usr/share/include/llhttp -DLLHTTP_STRICT_MODE=1 tests/fuzz/fuzz_http.c \
 *         src/serve/http/http_parse.c src/serve/http/http_head.c src/serve/http/http_lines.c \
 *         src/serve/http/http_request.c src/base/x.c \
 *         /usr/share/llhttp/x.c -lm -pthread
 *
 * (x stands for all files of a folder.) The first byte says how large the pieces are. */
#include <stdlib.h>
#include <string.h>

#include "serve/http/http_parse.h"

enum { BODY_BYTES_MAX = 4096 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct outcome {
    int n_requests, status;
    size_t n_body_bytes, n_used;
};

static void check(const struct http_request *r)
{
    const char *length = r->fields[HTTP_CONTENT_LENGTH];

    if (!r->method || !r->path || (*r->path != '/' && *r->path != '*'))
        abort();
    if (!r->http_1_0 && !r->fields[HTTP_HOST])
        abort();
    if (length && r->fields[HTTP_TRANSFER_ENCODING])
        abort();
    if (length && r->body.size_bytes != strtoull(length, NULL, 10))
        abort();
    if (r->body.size_bytes > BODY_BYTES_MAX)
        abort();
}

static struct outcome read_all(const char *data, size_t size, size_t step)
{
    struct outcome out = {0};
    struct http_parser p;

    http_parse_init(&p, BODY_BYTES_MAX, NULL);
    while (out.n_used < size && !out.status) {
        size_t n = size - out.n_used < step ? size - out.n_used : step, used = 0;
        enum http_parse_result result = http_parse_feed(&p, data + out.n_used, n, &used);

        if (used > n)
            abort();
        out.n_used += used;
        if (result == HTTP_PARSE_BAD) {
            out.status = p.error_status;
            if (!p.error || out.status < 400)
                abort();
        } else if (result == HTTP_PARSE_DONE) {
            check(&p.request);
            out.n_requests++;
            out.n_body_bytes += p.request.body.size_bytes;
            http_parse_reset(&p);
        } else if (result == HTTP_PARSE_MORE && used != n) {
            abort();
        }
    }
    http_parse_release(&p);
    return out;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct outcome whole, pieces;

    if (size < 1)
        return 0;
    whole = read_all((const char *)data + 1, size - 1, size);
    pieces = read_all((const char *)data + 1, size - 1, (size_t)data[0] % 16 + 1);
    if (whole.n_requests != pieces.n_requests || (whole.status != 0) != (pieces.status != 0) ||
        whole.n_body_bytes != pieces.n_body_bytes)
        abort();
    return 0;
}
