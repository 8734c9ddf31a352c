/* The Harmony reader as a filter, for comparisons with other implementations (tests/text):
 * records on standard input are a little-endian 32-bit count, then so many 32-bit ids of a
 * completion. For each record a line of JSON: a list of messages, each [part, role, channel,
 * recipient, content type, content, terminator].
 *
 *   read_messages VOCABULARY [FUNCTION...]   functions that are on offer */
#include <jansson.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"
#include "text/harmony/harmony_parser.h"

enum { STREAM_TOKENS_MAX = 1 << 20, CONTENT_BYTES_MAX = 1 << 26 };

struct messages {
    json_t *list;
    struct buf content;
};

static void begin(void *ctx, const struct harmony_header *header)
{
    struct messages *m = ctx;

    (void)header;
    buf_clear(&m->content);
}

static void delta(void *ctx, const struct harmony_header *header, const char *text, size_t n_bytes)
{
    struct messages *m = ctx;

    (void)header;
    buf_append(&m->content, text, n_bytes);
}

static void end(void *ctx, const struct harmony_header *h, int32_t terminator)
{
    static const char *const parts[] = {"reasoning", "content", "call"};
    struct messages *m = ctx;

    json_array_append_new(m->list, json_pack("[ssssss%i]", parts[h->part], h->role, h->channel,
                                             h->recipient, h->content_type, buf_text(&m->content),
                                             m->content.size_bytes, (int)terminator));
}

/* False at the end of input. */
static bool read_stream(struct ids *ids)
{
    uint32_t n;
    int32_t id;

    ids_clear(ids);
    if (fread(&n, sizeof n, 1, stdin) != 1)
        return false;
    for (uint32_t i = 0; i < n; i++) {
        if (fread(&id, sizeof id, 1, stdin) != 1)
            return false;
        ids_push(ids, id);
    }
    return true;
}

static int answer(const struct tokenizer *t, const char *const *functions, size_t n_functions,
                  const struct ids *ids)
{
    struct messages m = {.list = json_array()};
    const struct harmony_sink sink = {&m, begin, delta, end};
    struct harmony_parser *r = harmony_parser_new(t, &sink, true);
    char *line;

    buf_init(&m.content, CONTENT_BYTES_MAX);
    if (r == NULL)
        return 1;
    harmony_parser_set_tools(r, functions, n_functions);
    for (size_t i = 0; i < ids->n; i++)
        harmony_parser_push(r, ids->data[i]);
    harmony_parser_finish(r);
    harmony_parser_free(r);
    line = json_dumps(m.list, JSON_COMPACT);
    if (line == NULL)
        return 1;
    puts(line);
    free(line);
    buf_release(&m.content);
    json_decref(m.list);
    return 0;
}

int main(int argc, char **argv)
{
    struct tokenizer *t;
    struct ids ids;
    int code = 0;

    if (argc < 2 || tokenizer_open(&t, argv[1]) != OSP_OK) {
        fprintf(stderr, "read_messages: %s\n", argc < 2 ? "VOCABULARY is missing" : fail_message());
        return 2;
    }
    ids_init(&ids, STREAM_TOKENS_MAX);
    while (code == 0 && read_stream(&ids))
        code = answer(t, (const char *const *)argv + 2, (size_t)argc - 2, &ids);
    ids_release(&ids);
    tokenizer_close(t);
    return code;
}
