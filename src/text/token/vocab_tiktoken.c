/* The .tiktoken format: one line per token, with its bytes in base64, a space, and its rank, which
 * is its id. */
#include "text/token/vocab_files.h"

#include <stdbool.h>
#include <string.h>

#include "base/base64.h"

enum { RANK_DIGITS_MAX = 9 };

static const struct {
    int32_t id;
    const char *text;
} o200k_specials[] = {
    {199998, "<|startoftext|>"}, {199999, "<|endoftext|>"},
    {200002, "<|return|>"},      {200003, "<|constrain|>"},
    {200005, "<|channel|>"},     {200006, "<|start|>"},
    {200007, "<|end|>"},         {200008, "<|message|>"},
    {200012, "<|call|>"},        {O200K_ENDOFPROMPT, "<|endofprompt|>"},
};

struct line {
    const char *data;
    size_t n_bytes;
    size_t number; /* from 1 */
};

/* Removes the next line from *data; false at the end. */
static bool next_line(struct line *out, const char **data, size_t *n_bytes)
{
    const char *newline;

    if (!*n_bytes)
        return false;
    newline = memchr(*data, '\n', *n_bytes);
    out->data = *data;
    out->n_bytes = newline ? (size_t)(newline - *data) : *n_bytes;
    out->number++;
    *data += out->n_bytes + (newline != NULL);
    *n_bytes -= out->n_bytes + (newline != NULL);
    return true;
}

static size_t count_lines(const char *data, size_t n_bytes)
{
    struct line line = {0};

    while (next_line(&line, &data, &n_bytes))
        ;
    return line.number;
}

/* Decimal digits only; -1 for an invalid rank. */
static int64_t parse_rank(const char *text, size_t n)
{
    int64_t rank = 0;

    if (n < 1 || n > RANK_DIGITS_MAX)
        return -1;
    for (size_t i = 0; i < n; i++) {
        if (text[i] < '0' || text[i] > '9')
            return -1;
        rank = 10 * rank + (text[i] - '0');
    }
    return rank;
}

static enum osp_status define_line(struct vocab *v, struct line line)
{
    const char *space = memchr(line.data, ' ', line.n_bytes);
    size_t n_base64 = space ? (size_t)(space - line.data) : 0;
    char bytes[VOCAB_TOKEN_BYTES_MAX];
    enum osp_status st;
    int64_t rank;
    size_t n;

    if (!space || !base64_decode(line.data, n_base64, bytes, sizeof bytes, &n))
        return fail(OSP_EFORMAT, "line %zu: expected base64, a space and a rank", line.number);
    rank = parse_rank(space + 1, line.n_bytes - n_base64 - 1);
    if (rank < 0 || rank >= v->n_ordinary)
        return fail(OSP_EFORMAT, "line %zu: rank is not a number from 0 to %d", line.number,
                    (int)v->n_ordinary - 1);
    st = vocab_define(v, rank, bytes, n);
    return st == OSP_OK ? st : fail_prefix(st, "line %zu", line.number);
}

enum osp_status vocab_read_tiktoken(struct vocab *v, struct specials *s, const char *data,
                                    size_t n_bytes)
{
    size_t n_lines = count_lines(data, n_bytes);
    struct line line = {0};
    enum osp_status st;

    if (n_lines != O200K_N_ORDINARY)
        return fail(OSP_EUNSUPPORTED,
                    "file has %zu tokens; a .tiktoken file does not contain control tokens, which "
                    "are known only for the %d tokens of o200k: use a tokenizer.json",
                    n_lines, O200K_N_ORDINARY);
    TRY(vocab_init(v, O200K_N_ORDINARY, O200K_SIZE, n_bytes));
    while (next_line(&line, &data, &n_bytes))
        TRY(define_line(v, line));
    TRY(vocab_index(v));
    for (size_t i = 0; i < sizeof o200k_specials / sizeof o200k_specials[0]; i++) {
        const char *text = o200k_specials[i].text;

        TRY(vocab_define(v, o200k_specials[i].id, text, strlen(text)));
        TRY(specials_add(s, text, strlen(text), o200k_specials[i].id));
    }
out:
    return st;
}
