/* Fuzzing entry for libFuzzer. The first byte chooses between three inputs: tokens for the Harmony
 * parser, derived from the bytes, parsed with the role preset and with <|start|>assistant in front;
 * a chat completion request, which must be refused or render to well-formed messages; or a
 * function's schema. Run from the root of the repository. */
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "engine/chat/chat.h"
#include "text/harmony/harmony_parser.h"
#include "text/harmony/harmony_types.h"

enum {
    OUT_BYTES_MAX = 1 << 24,
    OUT_TOKENS_MAX = 1 << 22,
    FIRST_CONTROL = 200000,
    ASSISTANT = 173781
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

static void check(bool holds)
{
    if (!holds)
        abort();
}

static const struct tokenizer *published(void)
{
    static struct tokenizer *t;

    if (t == NULL)
        check(tokenizer_open(&t, "tests/golden/tokenizer/o200k_base.tiktoken") == OSP_OK);
    return t;
}

/* ---- the reader ---- */

/* Everything that a parser delivered, in one text. */
struct said {
    struct buf text;
    int n_open;
};

static void on_begin(void *ctx, const struct harmony_header *h)
{
    struct said *s = ctx;

    check(s->n_open++ == 0);
    check(memchr(h->role, 0, sizeof h->role) != NULL);
    check(memchr(h->channel, 0, sizeof h->channel) != NULL);
    check(memchr(h->recipient, 0, sizeof h->recipient) != NULL);
    check(memchr(h->content_type, 0, sizeof h->content_type) != NULL);
    check(utf8_is_valid(h->recipient, strlen(h->recipient)));
    check(h->part != PART_TOOL_CALL || *harmony_call_name(h->recipient) != '\0');
    buf_printf(&s->text, "<%d %s %s %s %s>", (int)h->part, h->role, h->channel, h->recipient,
               h->content_type);
}

static void on_delta(void *ctx, const struct harmony_header *h, const char *text, size_t n_bytes)
{
    struct said *s = ctx;

    (void)h;
    check(s->n_open == 1 && n_bytes > 0 && utf8_is_valid(text, n_bytes));
    buf_append(&s->text, text, n_bytes);
}

static void on_end(void *ctx, const struct harmony_header *h, int32_t terminator)
{
    struct said *s = ctx;

    (void)h;
    check(--s->n_open == 0);
    buf_printf(&s->text, "</%d>", (int)terminator);
}

/* Two bytes are a token: a control token, a word of headers, or any id. */
static int32_t token_of(const uint8_t *two)
{
    static const int32_t words[] = {35644, 12606,  815,  17196, ASSISTANT, 316,   28,   44580,
                                    775,   170154, 5701, 4108,  3490,      29010, 1428, 17952,
                                    9552,  31446,  244,  220,   198,       10848, 13,   -1};

    if (two[0] < 64)
        return FIRST_CONTROL + two[1] % 16;
    if (two[0] < 160)
        return words[two[1] % (sizeof words / sizeof words[0])];
    return (two[0] - 160) * 256 * 9 + two[1] * 9;
}

static void read_all(const uint8_t *data, size_t n_bytes, bool with_start, struct said *s)
{
    static const char *const tools[] = {"get_weather"};
    const struct harmony_sink sink = {s, on_begin, on_delta, on_end};
    struct harmony_parser *r = harmony_parser_new(published(), &sink, !with_start);

    s->n_open = 0;
    buf_init(&s->text, OUT_BYTES_MAX);
    harmony_parser_set_tools(r, tools, 1);
    if (with_start) {
        harmony_parser_push(r, tokenizer_specials(published())->start);
        harmony_parser_push(r, ASSISTANT);
    }
    for (size_t i = 0; i + 1 < n_bytes; i += 2) {
        harmony_parser_push(r, token_of(data + i));
        check(harmony_parser_in_content(r) == (s->n_open == 1));
    }
    harmony_parser_finish(r);
    check(s->n_open == 0);
    harmony_parser_free(r);
}

static void fuzz_reader(const uint8_t *data, size_t n_bytes)
{
    struct said preset, started;

    read_all(data, n_bytes, false, &preset);
    read_all(data, n_bytes, true, &started);
    check(preset.text.size_bytes == started.text.size_bytes);
    check(memcmp(buf_text(&preset.text), buf_text(&started.text), preset.text.size_bytes) == 0);
    buf_release(&preset.text);
    buf_release(&started.text);
}

/* ---- requests ---- */

/* Messages are sequences of start, message, end; content added none of these tokens. */
static void check_prompt(const struct ids *ids)
{
    const struct special_ids *s = tokenizer_specials(published());
    int n_start = 0, n_message = 0, n_end = 0;

    for (size_t i = 0; i < ids->n; i++) {
        int32_t id = ids->data[i];

        n_start += id == s->start;
        n_message += id == s->message;
        n_end += id == s->end || id == s->call;
        check(n_start >= n_message && n_message >= n_end && n_start <= n_end + 1);
        check(!tokenizer_is_special(published(), id) || id == s->start || id == s->message ||
              id == s->end || id == s->call || id == s->channel || id == s->constrain);
    }
    check(n_start == n_end + 1 && n_message == n_end && n_start >= 2);
}

static void fuzz_request(const uint8_t *data, size_t n_bytes)
{
    struct osp_chat *chat;
    struct ids ids;

    if (osp_chat_from_json(&chat, (const char *)data, n_bytes) != OSP_OK) {
        check(chat == NULL && *fail_message() != '\0');
        return;
    }
    ids_init(&ids, OUT_TOKENS_MAX);
    if (chat_render_ids(chat, published(), &ids) == OSP_OK)
        check_prompt(&ids);
    ids_release(&ids);
    osp_chat_free(chat);
}

static void fuzz_schema(const uint8_t *data, size_t n_bytes)
{
    char *json = malloc(n_bytes + 1);
    bool absent;
    struct buf out;

    check(json != NULL);
    memcpy(json, data, n_bytes);
    json[n_bytes] = '\0';
    buf_init(&out, OUT_BYTES_MAX);
    if (harmony_type_append(json, &out, &absent) == OSP_OK)
        check(utf8_is_valid(buf_text(&out), out.size_bytes));
    buf_release(&out);
    free(json);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    if (n_bytes == 0)
        return 0;
    if (data[0] < 'A')
        fuzz_reader(data + 1, n_bytes - 1);
    else if (data[0] < 'a')
        fuzz_schema(data + 1, n_bytes - 1);
    else
        fuzz_request(data + 1, n_bytes - 1);
    return 0;
}
